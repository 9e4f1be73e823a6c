//! The S3 client: the `minio` SDK, with the deadlines and retries that it does not have.
//!
//! Quirks of the SDK that matter here: a response arrives before its body, so the body has a deadline of its own; a
//! put that ran into its deadline may have happened; objects above the part size would become multipart uploads
//! whose abandoned parts nobody deletes, so every put is one request.

mod classify;
mod retry;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use minio::s3::builders::{MAX_PART_SIZE, MIN_PART_SIZE};
use minio::s3::client::{MinioClient, MinioClientBuilder};
use minio::s3::creds::StaticProvider;
use minio::s3::http::BaseUrl;
use minio::s3::multimap_ext::{Multimap, MultimapExt};
use minio::s3::types::{BucketName, S3Api, ToStream};
use tokio::time::{Instant, timeout_at};

use self::classify::Failure;
use self::retry::Call;
use super::blob::{BlobError, BlobErrorKind, BlobInfo, BlobOp, BlobStore, PutMode};
use super::deadlines::Deadlines;
use crate::config::StoreConfig;

/// First allocation for a body, at most: what the server says of its length is not taken on trust.
const FIRST_BUFFER_BYTES: usize = 1 << 20;

/// A bucket of an S3 server. The client is built by the first call, so that an idle process pays nothing for it.
pub struct S3BlobStore {
    url: BaseUrl,
    config: StoreConfig,
    bucket: BucketName,
    deadlines: Deadlines,
    client: OnceLock<MinioClient>,
}

impl fmt::Debug for S3BlobStore {
    /// Without the client: it would print its credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3BlobStore").field("config", &self.config).field("deadlines", &self.deadlines).finish()
    }
}

impl S3BlobStore {
    /// Checks endpoint and bucket name; talks to nobody yet.
    ///
    /// # Errors
    ///
    /// [`BlobErrorKind::Fatal`] if the endpoint is no URL or the bucket's name is not allowed.
    pub fn new(config: &StoreConfig, deadlines: Deadlines) -> Result<Self, BlobError> {
        let refused = |what: &str, name: &str, why: minio::s3::error::ValidationErr| {
            BlobError::new(BlobErrorKind::Fatal, BlobOp::List, name, format!("this {what} cannot be used: {why}"))
        };
        let url = config.endpoint.parse().map_err(|error| refused("endpoint", &config.endpoint, error))?;
        let bucket = BucketName::new(&config.bucket).map_err(|error| refused("bucket", &config.bucket, error))?;
        Ok(Self { url, config: config.clone(), bucket, deadlines, client: OnceLock::new() })
    }

    fn client(&self) -> Result<MinioClient, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let credentials = StaticProvider::new(&self.config.access_key, &self.config.secret_key, None);
        let client = MinioClientBuilder::new(self.url.clone())
            .provider(Some(credentials))
            // It would cost one more request per bucket, and MinIO has no regions.
            .skip_region_lookup(true)
            .build()
            .map_err(|error| classify::failure(BlobOp::Get, error))?;
        Ok(self.client.get_or_init(|| client).clone())
    }

    /// The moment by which one request must have been answered.
    fn attempt_end(&self, call_end: Instant, allowance: Duration) -> Instant {
        call_end.min(Instant::now() + self.deadlines.attempt + allowance)
    }

    async fn get_once(&self, key: &str, end: Instant) -> Result<Bytes, Failure> {
        let failed = |error| classify::failure(BlobOp::Get, error);
        let request = self.client()?.get_object(&self.bucket, key).map_err(|error| failed(error.into()))?.build();
        let headers_end = self.attempt_end(end, Duration::ZERO);
        let response = timeout_at(headers_end, request.send())
            .await
            .map_err(|_| Failure::timeout(BlobOp::Get, "no answer came"))?
            .map_err(failed)?;
        let (mut chunks, length) = response.into_boxed_stream().map_err(failed)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // A large body may take longer than a call does, as long as it moves.
        let body_end = end + self.deadlines.upload_allowance(length);
        let mut body = BytesMut::with_capacity(length.min(FIRST_BUFFER_BYTES));
        loop {
            let idle_end = body_end.min(Instant::now() + self.deadlines.body_idle);
            let chunk = timeout_at(idle_end, chunks.next()).await.map_err(|_| {
                let detail = format!("the body stalled after {} of {length} bytes", body.len());
                Failure::timeout(BlobOp::Get, &detail)
            })?;
            match chunk {
                Some(chunk) => body.extend_from_slice(&chunk.map_err(|error| {
                    let detail = format!("the body broke off after {} of {length} bytes", body.len());
                    Failure::new(BlobErrorKind::Unreachable, detail).because(error)
                })?),
                None if body.len() == length => return Ok(body.freeze()),
                None => {
                    let detail = format!("the body ended after {} of {length} bytes", body.len());
                    return Err(Failure::new(BlobErrorKind::Unreachable, detail));
                }
            }
        }
    }

    async fn put_attempt(&self, key: &str, bytes: Bytes, mode: PutMode, end: Instant) -> Result<(), Failure> {
        let failed = |error| classify::failure(BlobOp::Put, error);
        let attempt_end = self.attempt_end(end, self.deadlines.upload_allowance(bytes.len()));
        let headers = (mode == PutMode::CreateOnly).then(|| {
            let mut headers = Multimap::new();
            headers.add("If-None-Match", "*");
            headers
        });
        // One part, whatever the size: see the module's comment. The SDK refuses a part size for an empty object.
        let size = bytes.len() as u64;
        let part = (size > 0).then(|| size.clamp(MIN_PART_SIZE, MAX_PART_SIZE));
        let request = self
            .client()?
            .put_object_content(&self.bucket, key, bytes)
            .map_err(|error| failed(error.into()))?
            .extra_headers(headers)
            .part_size(part)
            .build();
        timeout_at(attempt_end, request.send())
            .await
            .map_err(|_| Failure::timeout(BlobOp::Put, "no answer came"))?
            .map_err(failed)?;
        Ok(())
    }

    async fn delete_once(&self, key: &str, end: Instant) -> Result<(), Failure> {
        let failed = |error| classify::failure(BlobOp::Delete, error);
        let request = self.client()?.delete_object(&self.bucket, key).map_err(|error| failed(error.into()))?.build();
        let answer = timeout_at(self.attempt_end(end, Duration::ZERO), request.send())
            .await
            .map_err(|_| Failure::timeout(BlobOp::Delete, "no answer came"))?;
        match answer.map_err(failed) {
            Err(absent) if absent.kind == BlobErrorKind::NotFound => Ok(()),
            other => other.map(drop),
        }
    }

    async fn list_once(&self, prefix: &str, end: Instant) -> Result<Vec<BlobInfo>, Failure> {
        let failed = |error| classify::failure(BlobOp::List, error);
        let request = self
            .client()?
            .list_objects(&self.bucket)
            .map_err(|error| failed(error.into()))?
            .prefix(Some(prefix.to_owned()))
            .recursive(true)
            .build();
        let mut pages = request.to_stream().await;
        let mut found = Vec::new();
        loop {
            let page = timeout_at(self.attempt_end(end, Duration::ZERO), pages.next())
                .await
                .map_err(|_| Failure::timeout(BlobOp::List, "no answer came"))?;
            let Some(page) = page else { break };
            let entries = page.map_err(failed)?.contents.into_iter();
            found.extend(entries.map(|entry| BlobInfo { key: entry.name, size: entry.size.unwrap_or(0) }));
        }
        found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(found)
    }
}

#[async_trait]
impl BlobStore for S3BlobStore {
    async fn get(&self, key: &str) -> Result<Bytes, BlobError> {
        let mut call = Call::begin(&self.deadlines, BlobOp::Get, key, 0);
        loop {
            match self.get_once(key, call.end()).await {
                Ok(done) => return Ok(done),
                Err(failure) => call.failed(failure).await?,
            }
        }
    }

    async fn put(&self, key: &str, bytes: Bytes, mode: PutMode) -> Result<(), BlobError> {
        let mut call = Call::begin(&self.deadlines, BlobOp::Put, key, bytes.len());
        loop {
            match self.put_attempt(key, bytes.clone(), mode, call.end()).await {
                Ok(done) => return Ok(done),
                Err(failure) => call.failed(failure).await?,
            }
        }
    }

    async fn delete(&self, key: &str) -> Result<(), BlobError> {
        let mut call = Call::begin(&self.deadlines, BlobOp::Delete, key, 0);
        loop {
            match self.delete_once(key, call.end()).await {
                Ok(done) => return Ok(done),
                Err(failure) => call.failed(failure).await?,
            }
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<BlobInfo>, BlobError> {
        let mut call = Call::begin(&self.deadlines, BlobOp::List, prefix, 0);
        loop {
            match self.list_once(prefix, call.end()).await {
                Ok(done) => return Ok(done),
                Err(failure) => call.failed(failure).await?,
            }
        }
    }

    fn url(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.bucket.as_str())
    }
}
