//! Multipart uploads: create, add and copy parts, complete, abort.

use std::time::SystemTime;

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, Checksum, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CopyPartResult, CreateMultipartUploadInput, CreateMultipartUploadOutput, Range,
    Timestamp, UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::Gateway;
use super::body::read_body;
use super::convert::{etag, read_condition, user_metadata, write_condition};
use super::copy::source;
use super::integrity::{check_checksums, check_content_md5};
use crate::backend::object::{ObjectHeaders, md5_of};
use crate::backend::uploads::WantedPart;

/// Part numbers are 1 to 10 000.
const MAX_PART_NUMBER: i32 = 10_000;

pub(super) fn create(
    gateway: &Gateway,
    req: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let input = req.input;
    let headers = ObjectHeaders {
        content_type: input.content_type,
        cache_control: input.cache_control,
        content_disposition: input.content_disposition,
        content_encoding: input.content_encoding,
        content_language: input.content_language,
        expires: input.expires,
        user: user_metadata(input.metadata),
    };
    let upload = gateway.backend.create_upload(&input.bucket, &input.key, headers, SystemTime::now())?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(upload),
        checksum_algorithm: input.checksum_algorithm,
        ..Default::default()
    }))
}

pub(super) async fn upload_part(
    gateway: &Gateway,
    req: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let S3Request { input, trailing_headers, .. } = req;
    check_part_number(input.part_number)?;
    let backend = &gateway.backend;
    // An upload that is gone is refused before its bytes are read.
    backend.parts(&input.bucket, &input.key, &input.upload_id)?;
    let content = read_body(input.body, input.content_length, backend.limits()).await?;
    check_content_md5(input.content_md5.as_deref(), &md5_of(&content))?;
    let given = Checksum {
        checksum_crc32: input.checksum_crc32,
        checksum_crc32c: input.checksum_crc32c,
        checksum_crc64nvme: input.checksum_crc64nvme,
        checksum_sha1: input.checksum_sha1,
        checksum_sha256: input.checksum_sha256,
        ..Default::default()
    };
    let given = check_checksums(&content, given, trailing_headers.as_ref())?;
    let (bucket, key, upload) = (&input.bucket, &input.key, &input.upload_id);
    let part = backend.put_part(bucket, key, upload, input.part_number, content, SystemTime::now())?;
    Ok(S3Response::new(UploadPartOutput {
        e_tag: etag(&part.etag()),
        checksum_crc32: given.checksum_crc32,
        checksum_crc32c: given.checksum_crc32c,
        checksum_crc64nvme: given.checksum_crc64nvme,
        checksum_sha1: given.checksum_sha1,
        checksum_sha256: given.checksum_sha256,
        ..Default::default()
    }))
}

pub(super) fn upload_part_copy(
    gateway: &Gateway,
    req: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let input = req.input;
    check_part_number(input.part_number)?;
    let condition = read_condition(
        input.copy_source_if_match,
        input.copy_source_if_none_match,
        input.copy_source_if_modified_since.as_ref(),
        input.copy_source_if_unmodified_since.as_ref(),
    );
    let source = source(gateway, &input.copy_source, &condition)?;
    let content = match input.copy_source_range.as_deref() {
        None => source.content.clone(),
        Some(text) => source.content.slice(exact_range(text, source.content.len())?),
    };
    let (bucket, key, upload) = (&input.bucket, &input.key, &input.upload_id);
    let part = gateway.backend.put_part(bucket, key, upload, input.part_number, content, SystemTime::now())?;
    Ok(S3Response::new(UploadPartCopyOutput {
        copy_part_result: Some(CopyPartResult {
            e_tag: etag(&part.etag()),
            last_modified: Some(Timestamp::from(part.last_modified)),
            ..Default::default()
        }),
        ..Default::default()
    }))
}

pub(super) fn complete(
    gateway: &Gateway,
    req: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let input = req.input;
    let condition = write_condition(input.if_match, input.if_none_match)?;
    let listed = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
    let mut wanted: Vec<WantedPart> = Vec::with_capacity(listed.len());
    for part in listed {
        let number = part.part_number.ok_or_else(|| s3_error!(MalformedXML, "a part without a number"))?;
        wanted.push((number, part.e_tag.map(s3s::dto::ETag::into_value)));
    }
    let (bucket, key, upload) = (&input.bucket, &input.key, &input.upload_id);
    let now = SystemTime::now();
    let object = gateway.backend.complete_upload(bucket, key, upload, &wanted, &condition, now)?;
    Ok(S3Response::new(CompleteMultipartUploadOutput {
        location: Some(format!("/{bucket}/{key}")),
        bucket: Some(input.bucket),
        key: Some(input.key),
        e_tag: etag(&object.etag),
        ..Default::default()
    }))
}

pub(super) fn abort(
    gateway: &Gateway,
    req: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let input = req.input;
    gateway.backend.abort_upload(&input.bucket, &input.key, &input.upload_id)?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

fn check_part_number(number: i32) -> S3Result<()> {
    if (1..=MAX_PART_NUMBER).contains(&number) {
        return Ok(());
    }
    Err(s3_error!(InvalidArgument, "part number {number} is not 1 to {MAX_PART_NUMBER}"))
}

/// `x-amz-copy-source-range` names first and last byte, and both must exist.
fn exact_range(text: &str, length: u64) -> S3Result<std::ops::Range<u64>> {
    match Range::parse(text) {
        Ok(Range::Int { first, last: Some(last) }) if last < length => Ok(first..last + 1),
        Ok(_) => Err(s3_error!(InvalidRange, "range {text} of an object of {length} bytes")),
        Err(_) => Err(s3_error!(InvalidArgument, "{text:?} is not of the form bytes=first-last")),
    }
}
