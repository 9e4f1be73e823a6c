//! Bucket operations.

use std::time::SystemTime;

use s3s::dto::{
    Bucket, CreateBucketInput, CreateBucketOutput, DeleteBucketInput, DeleteBucketOutput, GetBucketLocationInput,
    GetBucketLocationOutput, GetBucketVersioningInput, GetBucketVersioningOutput, HeadBucketInput, HeadBucketOutput,
    ListBucketsInput, ListBucketsOutput, Timestamp,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::Gateway;
use super::convert::owner;

/// The region of every bucket. Requests signed for another region are served too.
const REGION: &str = "us-east-1";

pub(super) fn create(gateway: &Gateway, req: S3Request<CreateBucketInput>) -> S3Result<S3Response<CreateBucketOutput>> {
    let bucket = req.input.bucket;
    gateway.backend.create_bucket_at(&bucket, SystemTime::now())?;
    Ok(S3Response::new(CreateBucketOutput { location: Some(format!("/{bucket}")) }))
}

pub(super) fn head(gateway: &Gateway, req: S3Request<HeadBucketInput>) -> S3Result<S3Response<HeadBucketOutput>> {
    known(gateway, &req.input.bucket)?;
    Ok(S3Response::new(HeadBucketOutput { bucket_region: Some(REGION.to_owned()), ..Default::default() }))
}

pub(super) fn delete(gateway: &Gateway, req: S3Request<DeleteBucketInput>) -> S3Result<S3Response<DeleteBucketOutput>> {
    gateway.backend.delete_bucket(&req.input.bucket)?;
    Ok(S3Response::new(DeleteBucketOutput {}))
}

pub(super) fn list(gateway: &Gateway, req: S3Request<ListBucketsInput>) -> S3Result<S3Response<ListBucketsOutput>> {
    let prefix = req.input.prefix.clone().unwrap_or_default();
    let buckets = gateway.backend.buckets().into_iter().filter(|(name, _)| name.starts_with(&prefix));
    let buckets = buckets
        .map(|(name, created)| Bucket {
            creation_date: Some(Timestamp::from(created)),
            name: Some(name),
            ..Default::default()
        })
        .collect();
    Ok(S3Response::new(ListBucketsOutput {
        buckets: Some(buckets),
        owner: Some(owner()),
        prefix: req.input.prefix,
        ..Default::default()
    }))
}

pub(super) fn location(
    gateway: &Gateway,
    req: S3Request<GetBucketLocationInput>,
) -> S3Result<S3Response<GetBucketLocationOutput>> {
    known(gateway, &req.input.bucket)?;
    // S3 says us-east-1 by saying nothing.
    Ok(S3Response::new(GetBucketLocationOutput::default()))
}

pub(super) fn versioning(
    gateway: &Gateway,
    req: S3Request<GetBucketVersioningInput>,
) -> S3Result<S3Response<GetBucketVersioningOutput>> {
    known(gateway, &req.input.bucket)?;
    // As S3 says of a bucket whose versioning was never turned on; nothing here can turn it on.
    Ok(S3Response::new(GetBucketVersioningOutput::default()))
}

fn known(gateway: &Gateway, bucket: &str) -> S3Result<()> {
    if gateway.backend.bucket_exists(bucket) {
        return Ok(());
    }
    Err(s3_error!(NoSuchBucket, "bucket {bucket} does not exist"))
}
