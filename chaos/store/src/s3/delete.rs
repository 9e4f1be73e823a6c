//! `DeleteObject` and `DeleteObjects`.

use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, Error,
    ObjectIdentifier,
};
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use super::Gateway;
use super::access::check_version;
use super::convert::{timestamp_ms, write_condition};
use crate::backend::condition::{EtagMatch, WriteCondition};
use crate::backend::error::BackendError;
use crate::backend::object::epoch_ms;

/// Most keys of one `DeleteObjects`.
const MAX_DELETES: usize = 1_000;

pub(super) fn one(gateway: &Gateway, req: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
    let input = req.input;
    let condition = write_condition(input.if_match, None)?;
    let size = input.if_match_size;
    let time = input.if_match_last_modified_time;
    gateway.backend.delete_object(&input.bucket, &input.key, &condition, |object| {
        let size_differs = size.is_some_and(|size| u64::try_from(size).ok() != Some(object.content.len()));
        let stored = epoch_ms(object.last_modified);
        // Whole seconds: the header's date has no more.
        let time_differs = time.is_some_and(|time| time != timestamp_ms(stored / 1000 * 1000));
        match (size_differs, time_differs) {
            (true, _) => Err(BackendError::PreconditionFailed { condition: "x-amz-if-match-size" }),
            (_, true) => Err(BackendError::PreconditionFailed { condition: "x-amz-if-match-last-modified-time" }),
            _ => Ok(()),
        }
    })?;
    Ok(S3Response::new(DeleteObjectOutput::default()))
}

pub(super) fn many(gateway: &Gateway, req: S3Request<DeleteObjectsInput>) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let input = req.input;
    let quiet = input.delete.quiet.unwrap_or(false);
    let wanted = input.delete.objects;
    if wanted.is_empty() || wanted.len() > MAX_DELETES {
        return Err(s3_error!(MalformedXML, "{} keys to delete, 1 to {MAX_DELETES} are possible", wanted.len()));
    }
    if !gateway.backend.bucket_exists(&input.bucket) {
        return Err(BackendError::NoSuchBucket { bucket: input.bucket }.into());
    }
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    for object in wanted {
        match delete_listed(gateway, &input.bucket, &object) {
            Ok(()) if quiet => {}
            Ok(()) => deleted.push(DeletedObject { key: Some(object.key), ..Default::default() }),
            Err(error) => errors.push(Error {
                code: Some(error.code().as_str().to_owned()),
                message: error.message().map(str::to_owned),
                key: Some(object.key),
                ..Default::default()
            }),
        }
    }
    Ok(S3Response::new(DeleteObjectsOutput { deleted: Some(deleted), errors: Some(errors), ..Default::default() }))
}

fn delete_listed(gateway: &Gateway, bucket: &str, object: &ObjectIdentifier) -> Result<(), S3Error> {
    check_version(object.version_id.as_deref())?;
    let matches = object.e_tag.as_ref().map(|etag| EtagMatch::Value(etag.value().to_owned()));
    let condition = WriteCondition { absent: false, matches };
    gateway.backend.delete_object(bucket, &object.key, &condition, |_| Ok(()))?;
    Ok(())
}
