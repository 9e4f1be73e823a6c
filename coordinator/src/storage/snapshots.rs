//! State of single tasks.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};

use super::blob::{BlobError, BlobErrorKind, BlobOp, BlobStore, put_once};
use super::layout;
use crate::core::checkpoint::{TaskSnapshot, TaskSnapshotHandle};
use crate::graph::AttemptId;

/// Encoded snapshots below this size travel inside the acknowledgement and the checkpoint's metadata: Flink's
/// `data-inline-threshold`, 20 KiB.
pub const INLINE_LIMIT_BYTES: usize = 20 * 1024;

/// An object starts with the CRC-32 of the rest, big-endian. Inline state is covered by the metadata's checksum.
const CHECKSUM_BYTES: usize = 4;

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
        let mut object = BytesMut::with_capacity(CHECKSUM_BYTES + bytes.len());
        object.put_u32(crc32fast::hash(&bytes));
        object.put_slice(&bytes);
        let size = object.len() as u64;
        put_once(self.blobs(BlobOp::Put, &key)?, &key, object.freeze()).await?;
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
                let object = self.blobs(BlobOp::Get, key)?.get(key).await?;
                if object.len() as u64 != *size {
                    let problem = format!("it has {} bytes where the checkpoint says {size}", object.len());
                    return Err(damaged(key, problem));
                }
                match object.split_first_chunk::<CHECKSUM_BYTES>() {
                    Some((checksum, bytes)) if u32::from_be_bytes(*checksum) == crc32fast::hash(bytes) => {
                        decode(key, bytes)
                    }
                    _ => Err(damaged(key, "its checksum is wrong".to_owned())),
                }
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
        Ok((_, rest)) => Err(damaged(key, format!("it has {} bytes too many", rest.len()))),
        Err(error) => Err(damaged(key, error.to_string())),
    }
}

fn damaged(key: &str, problem: String) -> BlobError {
    BlobError::new(
        BlobErrorKind::Fatal,
        BlobOp::Get,
        key,
        format!("it is not the snapshot that was written: {problem}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{JobId, TaskId, VertexId};
    use crate::storage::memory::MemoryBlobStore;

    const ATTEMPT: AttemptId =
        AttemptId { job: JobId([1; 16]), task: TaskId { vertex: VertexId([2; 16]), subtask: 3 }, attempt: 4 };

    fn snapshot(bytes: usize) -> TaskSnapshot {
        TaskSnapshot { operator: vec![7; bytes], keyed: [(vec![1], vec![2])].into() }
    }

    #[tokio::test]
    async fn small_state_needs_no_store() {
        let storage = SnapshotStorage::inline_only();
        let handle = storage.write_snapshot(ATTEMPT, 1, &snapshot(100)).await.unwrap();
        assert!(matches!(handle, TaskSnapshotHandle::Inline(_)));
        assert_eq!(storage.read_snapshot(&handle).await.unwrap(), snapshot(100));
        let error = storage.write_snapshot(ATTEMPT, 1, &snapshot(INLINE_LIMIT_BYTES)).await.unwrap_err();
        assert!(error.to_string().contains("no checkpoint store is configured"), "{error}");
    }

    #[tokio::test]
    async fn large_state_is_an_object_and_writing_it_again_is_fine() {
        let blobs = Arc::new(MemoryBlobStore::new());
        let storage = SnapshotStorage::new(blobs.clone());
        let large = snapshot(INLINE_LIMIT_BYTES);
        let handle = storage.write_snapshot(ATTEMPT, 9, &large).await.unwrap();
        assert_eq!(blobs.keys(), [layout::snapshot_key(ATTEMPT, 9)]);
        assert_eq!(storage.write_snapshot(ATTEMPT, 9, &large).await.unwrap(), handle);
        assert_eq!(storage.read_snapshot(&handle).await.unwrap(), large);
        let error = storage.write_snapshot(ATTEMPT, 9, &snapshot(INLINE_LIMIT_BYTES + 1)).await.unwrap_err();
        assert_eq!(error.kind, BlobErrorKind::PreconditionFailed, "another writer's state must stay");
    }

    #[tokio::test]
    async fn damaged_state_is_never_given_to_user_code() {
        let blobs = Arc::new(MemoryBlobStore::new());
        let storage = SnapshotStorage::new(blobs.clone());
        let handle = storage.write_snapshot(ATTEMPT, 9, &snapshot(INLINE_LIMIT_BYTES)).await.unwrap();
        let key = layout::snapshot_key(ATTEMPT, 9);
        let whole = blobs.get(&key).await.unwrap();
        let mut flipped = whole.to_vec();
        flipped[1000] ^= 1;
        blobs.tamper(&key, flipped);
        assert!(storage.read_snapshot(&handle).await.unwrap_err().detail.contains("checksum"));
        blobs.tamper(&key, whole.slice(..whole.len() - 1));
        assert!(storage.read_snapshot(&handle).await.unwrap_err().detail.contains("the checkpoint says"));
        blobs.delete(&key).await.unwrap();
        assert_eq!(storage.read_snapshot(&handle).await.unwrap_err().kind, BlobErrorKind::NotFound);
    }
}
