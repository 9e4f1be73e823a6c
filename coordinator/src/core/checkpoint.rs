//! What a checkpoint consists of.

use serde::{Deserialize, Serialize};

use crate::graph::{JobId, TaskId};

/// Where one task's snapshot is.
///
/// Small snapshots travel inline, in the acknowledgement and in the checkpoint's metadata: a task failover then
/// reads nothing from the store at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskSnapshotHandle {
    /// The encoded [`TaskSnapshot`] itself.
    Inline(Vec<u8>),
    /// An object of the checkpoint store.
    File {
        /// Key within the bucket.
        key: String,
        /// Size, bytes.
        size: u64,
    },
}

impl TaskSnapshotHandle {
    /// Size of the snapshot, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::File { size, .. } => *size,
        }
    }
}

/// The state of one task, encoded with postcard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSnapshot {
    /// What the user code's `snapshot` gave.
    pub operator: Vec<u8>,
    /// Keyed state, ordered by key.
    pub keyed: std::collections::BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A checkpoint that every task has acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedCheckpoint {
    /// The job.
    pub job: JobId,
    /// Its number, rising within the job, across leaders.
    pub id: u64,
    /// When it was triggered, milliseconds since the epoch.
    pub trigger_ms: u64,
    /// When its last acknowledgement came, milliseconds since the epoch.
    pub completed_ms: u64,
    /// State of every task, ordered by task.
    pub tasks: Vec<(TaskId, TaskSnapshotHandle)>,
    /// True for the checkpoint taken after all sources ended.
    pub is_final: bool,
}

impl CompletedCheckpoint {
    /// State of all tasks together, bytes.
    #[must_use]
    pub fn state_size(&self) -> u64 {
        self.tasks.iter().map(|(_, handle)| handle.size()).sum()
    }
}
