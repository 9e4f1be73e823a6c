//! State of single tasks.

use std::sync::Arc;

use bytes::Bytes;

use super::blob::{BlobError, BlobErrorKind, BlobOp, BlobStore, put_once};
use super::layout;
use crate::core::checkpoint::{TaskSnapshot, TaskSnapshotHandle};
use crate::graph::AttemptId;

/// Encoded snapshots below this size travel inside the acknowledgement and the checkpoint's metadata: Flink's
/// `data-inline-threshold`, 20 KiB.
pub const INLINE_LIMIT_BYTES: usize = 20 * 1024;

/// Writes and reads snapshots of tasks. Cheap to clone; needs no HA store, so that an executor can have one.
#[derive(Clone)]
pub struct SnapshotStorage {
    blobs: Option<Arc<dyn BlobStore>>,
}

impl SnapshotStorage {
    /// With a store.
    pub fn new(blobs: Arc<dyn BlobStore>) -> Self {
        Self { blobs: Some(blobs) }
    }

    /// Without a store: only inline snapshots can be written and read.
    #[must_use]
    pub fn inline_only() -> Self {
        Self { blobs: None }
    }

    /// Makes a snapshot durable: inline if it is small, else as an object of its own.
    ///
    /// # Errors
    ///
    /// As [`BlobStore::put`]; [`BlobErrorKind::Fatal`] if it is too large for inline and there is no store.
    pub async fn write_snapshot(
        &self,
        attempt: AttemptId,
        checkpoint: u64,
        snapshot: &TaskSnapshot,
    ) -> Result<TaskSnapshotHandle, BlobError> {
        let key = layout::snapshot_key(attempt, checkpoint);
        let bytes = postcard::to_stdvec(snapshot).map_err(|error| {
            BlobError::new(BlobErrorKind::Fatal, BlobOp::Put, &key, format!("the snapshot cannot be encoded: {error}"))
        })?;
        if bytes.len() < INLINE_LIMIT_BYTES {
            return Ok(TaskSnapshotHandle::Inline(bytes));
        }
        let size = bytes.len() as u64;
        put_once(self.blobs(BlobOp::Put, &key)?, &key, Bytes::from(bytes)).await?;
        Ok(TaskSnapshotHandle::File { key, size })
    }

    /// Reads a snapshot. An inline one needs no store.
    ///
    /// # Errors
    ///
    /// As [`BlobStore::get`]; [`BlobErrorKind::Fatal`] if the bytes are not a snapshot of the recorded size.
    pub async fn read_snapshot(&self, handle: &TaskSnapshotHandle) -> Result<TaskSnapshot, BlobError> {
        match handle {
            TaskSnapshotHandle::Inline(bytes) => decode("inline state", bytes),
            TaskSnapshotHandle::File { key, size } => {
                let bytes = self.blobs(BlobOp::Get, key)?.get(key).await?;
                if bytes.len() as u64 != *size {
                    let detail = format!("it has {} bytes where the checkpoint says {size}", bytes.len());
                    return Err(BlobError::new(BlobErrorKind::Fatal, BlobOp::Get, key, detail));
                }
                decode(key, &bytes)
            }
        }
    }

    fn blobs(&self, op: BlobOp, key: &str) -> Result<&dyn BlobStore, BlobError> {
        self.blobs.as_deref().ok_or_else(|| {
            BlobError::new(BlobErrorKind::Fatal, op, key, "no checkpoint store is configured; large state needs one")
        })
    }
}

fn decode(key: &str, bytes: &[u8]) -> Result<TaskSnapshot, BlobError> {
    match postcard::take_from_bytes(bytes) {
        Ok((snapshot, [])) => Ok(snapshot),
        Ok((_, rest)) => {
            let detail = format!("it is not a snapshot: {} bytes too many", rest.len());
            Err(BlobError::new(BlobErrorKind::Fatal, BlobOp::Get, key, detail))
        }
        Err(error) => {
            let detail = format!("it is not a snapshot: {error}");
            Err(BlobError::new(BlobErrorKind::Fatal, BlobOp::Get, key, detail))
        }
    }
}
