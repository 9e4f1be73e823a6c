//! Immutable pictures of a job, taken on its serial thread, for REST answers (FLINK-4256, sub-task 1: the live graph
//! is never shipped, snapshots are).

use std::collections::BTreeMap;

use super::event::{FailureId, Millis};
use super::status::{ExecutionState, JobStatus};
use crate::graph::{ExecutorId, FailureLabels, JobId, JobKind, ResultPartitionType, ShipStrategy, VertexId};
use crate::runtime::protocol::TaskMetrics;

/// A job as it stood after one event.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSnapshot {
    /// The job.
    pub id: JobId,
    /// For people.
    pub name: String,
    /// Batch or streaming.
    pub kind: JobKind,
    /// Its status.
    pub status: JobStatus,
    /// When it was submitted.
    pub start_ms: Millis,
    /// When it became globally terminal.
    pub end_ms: Option<Millis>,
    /// Time of the last entry into each status that was entered.
    pub timestamps: BTreeMap<JobStatus, Millis>,
    /// In topological order; empty while INITIALIZING.
    pub vertices: Vec<VertexSnapshot>,
    /// All edges; empty while INITIALIZING.
    pub edges: Vec<EdgeSnapshot>,
    /// Failures, newest first, bounded by `web.exception-history-size`.
    pub exceptions: Vec<ExceptionEntry>,
    /// Checkpoint counters and history; `None` if the job takes no checkpoints.
    pub checkpoints: Option<CheckpointStats>,
    /// How often the job was restarted, wholly or in part (`numRestarts`).
    pub restarts: u64,
    /// Effective configuration of the job.
    pub config: BTreeMap<String, String>,
}

/// A vertex.
#[derive(Debug, Clone, PartialEq)]
pub struct VertexSnapshot {
    /// The vertex.
    pub id: VertexId,
    /// Its name.
    pub name: String,
    /// By subtask.
    pub subtasks: Vec<SubtaskSnapshot>,
}

/// A subtask: its current attempt and the ones before it.
#[derive(Debug, Clone, PartialEq)]
pub struct SubtaskSnapshot {
    /// The current attempt.
    pub current: AttemptSnapshot,
    /// Earlier attempts, oldest first, bounded by `jobmanager.execution.attempts-history-size`.
    pub earlier: Vec<AttemptSnapshot>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptSnapshot {
    /// Attempt number, from 0.
    pub attempt: u32,
    /// Its state.
    pub state: ExecutionState,
    /// Where it runs or ran.
    pub executor: Option<ExecutorId>,
    /// Data address of that executor.
    pub endpoint: Option<String>,
    /// Time of entry into each state that was entered.
    pub timestamps: BTreeMap<ExecutionState, Millis>,
    /// Counters.
    pub metrics: TaskMetrics,
    /// Why it failed.
    pub failure: Option<String>,
}

/// An edge, by positions in [`JobSnapshot::vertices`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeSnapshot {
    /// Producer.
    pub from: usize,
    /// Consumer.
    pub to: usize,
    /// How the data is kept.
    pub partition_type: ResultPartitionType,
    /// How it is spread.
    pub ship: ShipStrategy,
}

/// A root entry of the exception history (reference 3.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExceptionEntry {
    /// Kind of failure as a name, e.g. `PartitionNotFoundException`.
    pub name: String,
    /// The cause chain, one cause a line.
    pub stacktrace: String,
    /// When.
    pub timestamp_ms: Millis,
    /// `vertex (2/3) - execution #1`; none for a global failure.
    pub task_name: Option<String>,
    /// Where the task ran.
    pub endpoint: Option<String>,
    /// The executor it ran on.
    pub executor: Option<ExecutorId>,
    /// Its number, if it was handled as a failure of its own.
    pub id: Option<FailureId>,
    /// What failure enrichers say of it; filled in when the snapshot is published.
    pub labels: FailureLabels,
    /// Failures that were handled as part of this one.
    pub concurrent: Vec<ExceptionEntry>,
}

impl ExceptionEntry {
    /// True if both tell of one failure of one attempt.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let key = |entry: &Self| (entry.timestamp_ms, entry.task_name.clone(), entry.stacktrace.clone());
        key(self) == key(other)
    }
}

/// Checkpoint counters and history.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckpointStats {
    /// How often state was restored.
    pub restored: u64,
    /// Triggered.
    pub total: u64,
    /// Not yet over.
    pub in_progress: u64,
    /// Completed.
    pub completed: u64,
    /// Failed or aborted.
    pub failed: u64,
    /// Newest first, bounded by `web.checkpoints.history`.
    pub history: Vec<CheckpointEntry>,
    /// The newest restore.
    pub latest_restored: Option<RestoredEntry>,
    /// Interval, milliseconds.
    pub interval_ms: u64,
}

/// One checkpoint of the history.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointEntry {
    /// Its number.
    pub id: u64,
    /// How it went.
    pub status: CheckpointEntryStatus,
    /// When it was triggered.
    pub trigger_ms: Millis,
    /// When its last acknowledgement came.
    pub latest_ack_ms: Option<Millis>,
    /// Bytes of state.
    pub state_size: u64,
    /// Tasks that must acknowledge.
    pub num_subtasks: u32,
    /// Tasks that did.
    pub num_acknowledged: u32,
    /// Where it lies.
    pub external_path: Option<String>,
    /// Subsumed and deleted.
    pub discarded: bool,
}

/// How a checkpoint went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointEntryStatus {
    /// Waits for acknowledgements or for the store.
    InProgress,
    /// Durable.
    Completed,
    /// Failed.
    Failed {
        /// When.
        at_ms: Millis,
        /// Flink's reason, e.g. `Checkpoint expired before completing.`
        message: String,
    },
}

/// A restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredEntry {
    /// The checkpoint.
    pub id: u64,
    /// When it was restored.
    pub restore_ms: Millis,
    /// Where it lies.
    pub external_path: String,
}
