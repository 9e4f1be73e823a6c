//! An object store, as small as checkpoints need it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

/// What a put does if the key is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutMode {
    /// Replace what is there.
    Overwrite,
    /// Fail with [`BlobErrorKind::PreconditionFailed`] (`If-None-Match: *`).
    CreateOnly,
}

/// One object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    /// Key within the bucket.
    pub key: String,
    /// Size, bytes.
    pub size: u64,
}

/// A call, for messages and counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlobOp {
    /// Read an object.
    Get,
    /// Write an object.
    Put,
    /// Delete an object.
    Delete,
    /// List keys by prefix.
    List,
}

impl fmt::Display for BlobOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "reading",
            Self::Put => "writing",
            Self::Delete => "deleting",
            Self::List => "listing",
        })
    }
}

/// What to make of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlobErrorKind {
    /// There is no such object.
    NotFound,
    /// [`PutMode::CreateOnly`], and the key is taken. Possibly by an earlier attempt of the same call.
    PreconditionFailed,
    /// The store asks for less (503 SlowDown, 429).
    Throttled,
    /// No connection; nothing was done.
    Unreachable,
    /// The deadline passed, of a call that changes nothing.
    Timeout,
    /// A write was sent and its answer never came: it may have happened, or may still happen (FLINK-22494).
    Ambiguous,
    /// Asking again makes no sense: access denied, no such bucket, a malformed answer.
    Fatal,
}

impl BlobErrorKind {
    /// True if the same call may succeed later without anybody's help.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Throttled | Self::Unreachable | Self::Timeout | Self::Ambiguous)
    }

    fn phrase(self) -> &'static str {
        match self {
            Self::NotFound => "there is no such object",
            Self::PreconditionFailed => "the key is taken",
            Self::Throttled => "the store asks for fewer requests",
            Self::Unreachable => "the store cannot be reached",
            Self::Timeout => "the store did not answer in time",
            Self::Ambiguous => "the outcome is unknown, it may have been written",
            Self::Fatal => "the store refused",
        }
    }
}

/// A call to the store failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{op} `{key}`: {} ({detail})", kind.phrase())]
pub struct BlobError {
    /// What to make of it.
    pub kind: BlobErrorKind,
    /// The call.
    pub op: BlobOp,
    /// Its key or prefix.
    pub key: String,
    /// What happened exactly, with the number of attempts if there were several.
    pub detail: String,
    /// The error of the client library, if there was one.
    #[source]
    pub source: Option<Arc<dyn Error + Send + Sync>>,
}

impl BlobError {
    /// An error without a cause of the client library.
    pub fn new(kind: BlobErrorKind, op: BlobOp, key: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind, op, key: key.into(), detail: detail.into(), source: None }
    }
}

/// An object store. Every call has a deadline of its own; implementations retry what is safe to retry.
#[async_trait]
pub trait BlobStore: Send + Sync + 'static {
    /// The whole object.
    ///
    /// # Errors
    ///
    /// [`BlobErrorKind::NotFound`] if there is none; see [`BlobErrorKind`].
    async fn get(&self, key: &str) -> Result<Bytes, BlobError>;

    /// Writes an object, all of it or nothing.
    ///
    /// # Errors
    ///
    /// [`BlobErrorKind::Ambiguous`] if it may have been written; see [`BlobErrorKind`].
    async fn put(&self, key: &str, bytes: Bytes, mode: PutMode) -> Result<(), BlobError>;

    /// Deletes an object; it is fine if there is none.
    ///
    /// # Errors
    ///
    /// See [`BlobErrorKind`].
    async fn delete(&self, key: &str) -> Result<(), BlobError>;

    /// All objects whose key starts with `prefix`, by key.
    ///
    /// # Errors
    ///
    /// See [`BlobErrorKind`].
    async fn list(&self, prefix: &str) -> Result<Vec<BlobInfo>, BlobError>;

    /// How people and REST name the object of `key`, e.g. `s3://checkpoints/<key>`.
    fn url(&self, key: &str) -> String;
}

/// Writes an object that nobody else may have written: create-only, and an object of the same bytes counts as ours
/// (an earlier attempt whose answer was lost).
///
/// # Errors
///
/// [`BlobErrorKind::PreconditionFailed`] if other bytes are there, else as [`BlobStore::put`].
pub async fn put_once(blobs: &dyn BlobStore, key: &str, bytes: Bytes) -> Result<(), BlobError> {
    match blobs.put(key, bytes.clone(), PutMode::CreateOnly).await {
        Err(taken) if taken.kind == BlobErrorKind::PreconditionFailed => {
            let there = blobs.get(key).await.map_err(|error| BlobError {
                // Whatever is there, we could not tell whether it is ours.
                kind: BlobErrorKind::Ambiguous,
                op: BlobOp::Put,
                detail: format!("the key is taken, and {}: {}", error.op, error.kind.phrase()),
                ..error
            })?;
            if there == bytes { Ok(()) } else { Err(BlobError { detail: "by other content".into(), ..taken }) }
        }
        other => other,
    }
}
