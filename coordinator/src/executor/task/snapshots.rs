//! Makes snapshots durable off the task's thread, in order.

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::core::checkpoint::TaskSnapshot;
use crate::graph::{AttemptId, TaskError};
use crate::runtime::protocol::ToCoordinator;
use crate::storage::SnapshotStorage;

/// Snapshots of one task that wait for the store; a checkpoint beyond is declined.
const MAX_WAITING: usize = 4;

/// The writer of one task; dropping it gives up what is not written.
pub(super) struct SnapshotWriter {
    queue: mpsc::Sender<(u64, TaskSnapshot)>,
    worker: JoinHandle<()>,
}

impl SnapshotWriter {
    pub(super) fn start(
        runtime: &tokio::runtime::Handle,
        storage: SnapshotStorage,
        attempt: AttemptId,
        reports: mpsc::Sender<ToCoordinator>,
    ) -> Self {
        let (queue, mut waiting) = mpsc::channel::<(u64, TaskSnapshot)>(MAX_WAITING);
        let worker = runtime.spawn(async move {
            while let Some((checkpoint, snapshot)) = waiting.recv().await {
                // The storage has a deadline for each call.
                let report = match storage.write_snapshot(attempt, checkpoint, &snapshot).await {
                    Ok(state) => ToCoordinator::CheckpointAck { attempt, checkpoint, state },
                    Err(error) => {
                        let reason = TaskError::from_error(&error).context("cannot write the snapshot").to_string();
                        ToCoordinator::CheckpointDecline { attempt, checkpoint, reason }
                    }
                };
                if reports.send(report).await.is_err() {
                    break;
                }
            }
        });
        Self { queue, worker }
    }

    /// Queues a snapshot; `false` if too many wait.
    pub(super) fn write(&self, checkpoint: u64, snapshot: TaskSnapshot) -> bool {
        self.queue.try_send((checkpoint, snapshot)).is_ok()
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        self.worker.abort();
    }
}
