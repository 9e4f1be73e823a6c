//! `CopyObject`, and the source side that `UploadPartCopy` shares with it.

use std::sync::Arc;
use std::time::SystemTime;

use hyper::header::{HeaderMap, IF_MATCH, IF_NONE_MATCH};
use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopySource, ETagCondition, MetadataDirective, Timestamp,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::Gateway;
use super::access::check_version;
use super::convert::{etag, read_condition, user_metadata, write_condition};
use crate::backend::condition::{ReadCondition, ReadDecision};
use crate::backend::object::{Object, ObjectHeaders};
use crate::backend::objects::NewObject;

pub(super) fn copy(gateway: &Gateway, req: S3Request<CopyObjectInput>) -> S3Result<S3Response<CopyObjectOutput>> {
    let S3Request { input, headers, .. } = req;
    // The protocol crate does not read these two for copies.
    let condition = write_condition(etag_header(&headers, &IF_MATCH)?, etag_header(&headers, &IF_NONE_MATCH)?)?;
    let source_condition = read_condition(
        input.copy_source_if_match,
        input.copy_source_if_none_match,
        input.copy_source_if_modified_since.as_ref(),
        input.copy_source_if_unmodified_since.as_ref(),
    );
    let replaces_metadata =
        input.metadata_directive.as_ref().is_some_and(|directive| directive.as_str() == MetadataDirective::REPLACE);
    if let CopySource::Bucket { bucket, key, .. } = &input.copy_source
        && **bucket == *input.bucket
        && **key == *input.key
        && !replaces_metadata
    {
        return Err(s3_error!(InvalidRequest, "an object can be copied to itself only to replace its metadata"));
    }
    let source = source(gateway, &input.copy_source, &source_condition)?;
    let object_headers = if replaces_metadata {
        ObjectHeaders {
            content_type: input.content_type,
            cache_control: input.cache_control,
            content_disposition: input.content_disposition,
            content_encoding: input.content_encoding,
            content_language: input.content_language,
            expires: input.expires,
            user: user_metadata(input.metadata),
        }
    } else {
        source.headers.clone()
    };
    // The copy of a multipart object is a single put: its ETag is the MD5 of the whole.
    let mut new = NewObject::single(source.content.clone(), object_headers);
    if source.checksums.are_of_all_bytes() {
        new.checksums = source.checksums.clone();
    }
    let object = gateway.backend.put_object(&input.bucket, &input.key, new, &condition, None, SystemTime::now())?;
    Ok(S3Response::new(CopyObjectOutput {
        copy_object_result: Some(CopyObjectResult {
            e_tag: etag(&object.etag),
            last_modified: Some(Timestamp::from(object.last_modified)),
            ..Default::default()
        }),
        ..Default::default()
    }))
}

/// The object a copy reads. Any condition on it that does not hold is a 412, also where a read would answer 304.
pub(super) fn source(gateway: &Gateway, source: &CopySource, condition: &ReadCondition) -> S3Result<Arc<Object>> {
    let CopySource::Bucket { bucket, key, version_id } = source else {
        return Err(s3_error!(NotImplemented, "only bucket/key can be copied from"));
    };
    check_version(version_id.as_deref())?;
    let object = gateway.backend.object(bucket, key)?;
    match condition.decide(&object) {
        ReadDecision::Serve => Ok(object),
        ReadDecision::NotModified | ReadDecision::Failed(_) => {
            Err(s3_error!(PreconditionFailed, "a precondition on the copied object did not hold"))
        }
    }
}

fn etag_header(headers: &HeaderMap, name: &hyper::header::HeaderName) -> S3Result<Option<ETagCondition>> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let parsed = ETagCondition::parse_http_header(value.as_bytes());
    parsed.map(Some).map_err(|_| s3_error!(InvalidArgument, "header {name} is neither * nor an ETag"))
}
