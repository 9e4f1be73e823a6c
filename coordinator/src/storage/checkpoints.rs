//! Whole checkpoints: metadata in the object store, pointers in the HA store (Flink's `CompletedCheckpointStore`).
//!
//! Nothing here keeps a list: the job's state machine does. So a task failover reads nothing, and recovery
//! ([`CheckpointStorage::recover`]) happens once per leader session (FLINK-22483).

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::blob::{BlobError, BlobErrorKind, BlobStore, put_once};
use super::layout;
use super::metadata;
use super::snapshots::SnapshotStorage;
use crate::core::checkpoint::{CompletedCheckpoint, TaskSnapshot, TaskSnapshotHandle};
use crate::core::event::{StoreFailure, StoredCheckpoint};
use crate::graph::{AttemptId, JobId};
use crate::leadership::{CheckpointPointer, HaError, HaStore};

/// Calls to the object store that one recovery or one clean-up has open at a time.
const PARALLEL_CALLS: usize = 8;

/// The checkpoints of all jobs. Cheap to clone.
#[derive(Clone)]
pub struct CheckpointStorage {
    blobs: Arc<dyn BlobStore>,
    ha: Arc<dyn HaStore>,
    snapshots: SnapshotStorage,
}

/// The retained checkpoints of a job could not be read. None is ever skipped (FLINK-22502).
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The store does not answer. Trying again makes sense.
    #[error("checkpoint {checkpoint} of job {job} cannot be read now")]
    Unreachable {
        /// The job.
        job: JobId,
        /// The checkpoint.
        checkpoint: u64,
        /// Which call failed, on which key.
        #[source]
        source: BlobError,
    },
    /// The store answers, and does not give the object (access, bucket). Trying again does not help.
    #[error("checkpoint {checkpoint} of job {job} cannot be read")]
    Refused {
        /// The job.
        job: JobId,
        /// The checkpoint.
        checkpoint: u64,
        /// Which call failed, on which key.
        #[source]
        source: BlobError,
    },
    /// The metadata is missing or damaged. Trying again does not help.
    #[error("checkpoint {checkpoint} of job {job} is damaged: `{key}`: {problem}")]
    Corrupt {
        /// The job.
        job: JobId,
        /// The checkpoint.
        checkpoint: u64,
        /// Key of its metadata.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The pointers cannot be read.
    #[error("the checkpoint pointers of job {job} cannot be read")]
    Pointers {
        /// The job.
        job: JobId,
        /// Why.
        #[source]
        source: HaError,
    },
}

impl RecoverError {
    /// True if trying again makes sense.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { .. } | Self::Corrupt { .. } => false,
            Self::Pointers { source, .. } => source.is_transient(),
        }
    }
}

/// Something of a checkpoint could not be deleted. What is left lies under the job's prefix, and goes with it.
#[derive(Debug, thiserror::Error)]
pub enum DiscardError {
    /// A pointer stayed, and with it the files it leads to.
    #[error("a checkpoint pointer cannot be removed")]
    Pointer(#[from] HaError),
    /// Files stayed.
    #[error("{failed} of {total} objects cannot be deleted")]
    Objects {
        /// How many stayed.
        failed: usize,
        /// How many were to go.
        total: usize,
        /// The first failure.
        #[source]
        first: BlobError,
    },
    /// It is not known what there is to delete.
    #[error("the objects to delete cannot be listed")]
    Listing(#[source] BlobError),
}

impl CheckpointStorage {
    /// On an object store and an HA store.
    pub fn new(blobs: Arc<dyn BlobStore>, ha: Arc<dyn HaStore>) -> Self {
        Self { snapshots: SnapshotStorage::new(Arc::clone(&blobs)), blobs, ha }
    }

    /// See [`SnapshotStorage::write_snapshot`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn write_snapshot(
        &self,
        attempt: AttemptId,
        checkpoint: u64,
        snapshot: &TaskSnapshot,
    ) -> Result<TaskSnapshotHandle, BlobError> {
        self.snapshots.write_snapshot(attempt, checkpoint, snapshot).await
    }

    /// See [`SnapshotStorage::read_snapshot`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn read_snapshot(&self, handle: &TaskSnapshotHandle) -> Result<TaskSnapshot, BlobError> {
        self.snapshots.read_snapshot(handle).await
    }

    /// Makes a checkpoint count: its metadata is durable first, then its pointer. Never replaces what another writer
    /// put there; storing the same checkpoint again is fine.
    ///
    /// # Errors
    ///
    /// [`StoreFailure::maybe_written`] says whether the checkpoint may count all the same (FLINK-22494).
    pub async fn store(&self, checkpoint: &CompletedCheckpoint) -> Result<StoredCheckpoint, StoreFailure> {
        let (job, id) = (checkpoint.job, checkpoint.id);
        let key = layout::metadata_key(job, id);
        let failure = |reason: String, maybe_written| StoreFailure { reason, maybe_written };
        let bytes = metadata::encode(checkpoint).map_err(|error| failure(error.to_string(), false))?;
        put_once(&*self.blobs, &key, bytes).await.map_err(|error| {
            // Another writer's checkpoint of this number may use the same state files: leave them alone, too.
            let kept = matches!(error.kind, BlobErrorKind::Ambiguous | BlobErrorKind::PreconditionFailed);
            failure(chain(&error), kept)
        })?;
        if let Err(error) = self.ha.add_checkpoint(job, &CheckpointPointer { id, key: key.clone() }).await {
            let maybe_written = error.maybe_written() || matches!(error, HaError::Exists { .. });
            if !maybe_written && let Err(left) = self.blobs.delete(&key).await {
                tracing::warn!(%job, checkpoint = id, error = %chain(&left), "metadata without a pointer stays behind");
            }
            return Err(failure(chain(&error), maybe_written));
        }
        Ok(self.stored(job, id))
    }

    /// All retained checkpoints of a job, oldest first. Every one of them or an error.
    ///
    /// # Errors
    ///
    /// See [`RecoverError`].
    pub async fn recover(&self, job: JobId) -> Result<Vec<(CompletedCheckpoint, StoredCheckpoint)>, RecoverError> {
        let pointers = self.ha.checkpoints(job).await.map_err(|source| RecoverError::Pointers { job, source })?;
        stream::iter(pointers).map(|pointer| self.load(job, pointer)).buffered(PARALLEL_CALLS).try_collect().await
    }

    async fn load(
        &self,
        job: JobId,
        pointer: CheckpointPointer,
    ) -> Result<(CompletedCheckpoint, StoredCheckpoint), RecoverError> {
        let CheckpointPointer { id: checkpoint, key } = pointer;
        let corrupt = |problem: String| RecoverError::Corrupt { job, checkpoint, key: key.clone(), problem };
        let bytes = self.blobs.get(&key).await.map_err(|source| match source.kind {
            BlobErrorKind::NotFound => corrupt("the object does not exist".into()),
            kind if kind.is_transient() => RecoverError::Unreachable { job, checkpoint, source },
            _ => RecoverError::Refused { job, checkpoint, source },
        })?;
        let completed = metadata::decode(&bytes).map_err(|error| corrupt(error.to_string()))?;
        if (completed.job, completed.id) != (job, checkpoint) {
            return Err(corrupt(format!("it holds checkpoint {} of job {}", completed.id, completed.job)));
        }
        Ok((completed, self.stored(job, checkpoint)))
    }

    /// Deletes a checkpoint: its pointer first, so that nothing ever points to what is gone.
    ///
    /// # Errors
    ///
    /// See [`DiscardError`]. If the pointer stays, everything does.
    pub async fn discard(&self, checkpoint: &CompletedCheckpoint) -> Result<(), DiscardError> {
        self.ha.remove_checkpoint(checkpoint.job, checkpoint.id).await?;
        let mut keys: Vec<String> = checkpoint.tasks.iter().filter_map(|(_, handle)| file_key(handle)).collect();
        keys.push(layout::metadata_key(checkpoint.job, checkpoint.id));
        self.delete_all(keys).await
    }

    /// Deletes the state files of a checkpoint that did not complete.
    ///
    /// # Errors
    ///
    /// [`DiscardError::Objects`] if some stay.
    pub async fn discard_state(&self, handles: &[TaskSnapshotHandle]) -> Result<(), DiscardError> {
        self.delete_all(handles.iter().filter_map(file_key).collect()).await
    }

    /// Deletes everything of a job: pointers, counter, and all objects under its prefix.
    ///
    /// # Errors
    ///
    /// See [`DiscardError`]. Calling it again goes on where it stopped.
    pub async fn discard_job(&self, job: JobId) -> Result<(), DiscardError> {
        self.ha.remove_checkpoints(job).await?;
        let objects = self.blobs.list(&layout::job_prefix(job)).await.map_err(DiscardError::Listing)?;
        self.delete_all(objects.into_iter().map(|object| object.key).collect()).await
    }

    async fn delete_all(&self, keys: Vec<String>) -> Result<(), DiscardError> {
        let total = keys.len();
        let mut failures: Vec<BlobError> = stream::iter(keys)
            .map(|key| async move { self.blobs.delete(&key).await.err() })
            .buffered(PARALLEL_CALLS)
            .filter_map(|failure| async { failure })
            .collect()
            .await;
        let failed = failures.len();
        if failed == 0 { Ok(()) } else { Err(DiscardError::Objects { failed, total, first: failures.swap_remove(0) }) }
    }

    fn stored(&self, job: JobId, checkpoint: u64) -> StoredCheckpoint {
        StoredCheckpoint { external_path: self.blobs.url(&layout::checkpoint_folder(job, checkpoint)) }
    }
}

fn file_key(handle: &TaskSnapshotHandle) -> Option<String> {
    match handle {
        TaskSnapshotHandle::Inline(_) => None,
        TaskSnapshotHandle::File { key, .. } => Some(key.clone()),
    }
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests;
