//! What goes into a job's state machine and what comes out.

use std::time::Duration;

use super::checkpoint::{CompletedCheckpoint, TaskSnapshotHandle};
use super::data_sets::ClusterPartition;
use super::status::JobStatus;
use crate::graph::{AttemptId, ExecutorId, FailureReport, ResultPartitionId, Split, TaskError, VertexId};
use crate::runtime::protocol::{TaskDeployment, TaskMetrics, TaskUpdate};

/// A point in time, milliseconds since the epoch. Always handed in, never asked for.
pub type Millis = u64;

/// A request for slots, numbered within the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotRequestId(pub u64);

/// A slot of an executor that was granted to this job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId {
    /// The executor.
    pub executor: ExecutorId,
    /// Index of the slot on that executor, from 0.
    pub index: u32,
}

/// A granted slot and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocatedSlot {
    /// The slot.
    pub slot: SlotId,
    /// Data address of the executor.
    pub data_address: String,
}

/// A timer, numbered within the job. An old number that fires changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u64);

/// A failure that was handled, numbered within the job: where its labels belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FailureId(pub u64);

/// Why a checkpoint could not be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFailure {
    /// For people.
    pub reason: String,
    /// The write may have happened (FLINK-22494): nothing of the checkpoint may be deleted.
    pub maybe_written: bool,
}

/// Into the state machine. Everything that happens to a job is one of these, handled one at a time.
#[derive(Debug, Clone, PartialEq)]
pub enum JobEvent {
    /// The JobMaster exists, its checkpoints are recovered: start scheduling. Sent once, first.
    Start,
    /// The answer to [`JobCommand::RequestSlots`]: all slots of the request, in order.
    SlotsAllocated {
        /// The request.
        request: SlotRequestId,
        /// As many as were asked for.
        slots: Vec<AllocatedSlot>,
    },
    /// A slot request ran into `slot.request.timeout` (an ordinary, restartable failure). Of a batch job none does
    /// while slots enough are free or held by batch jobs.
    SlotRequestFailed {
        /// The request.
        request: SlotRequestId,
        /// Why.
        reason: String,
    },
    /// An executor reports a task.
    TaskUpdate {
        /// The attempt.
        attempt: AttemptId,
        /// Its new state.
        update: TaskUpdate,
        /// Its counters.
        metrics: TaskMetrics,
    },
    /// An executor reports counters only.
    Metrics(Vec<(AttemptId, TaskMetrics)>),
    /// A task has handled all its input and waits for the final checkpoint.
    EndOfData {
        /// The attempt.
        attempt: AttemptId,
    },
    /// An executor is gone, with its slots and its partitions.
    ExecutorLost {
        /// Which.
        executor: ExecutorId,
        /// How that was noticed.
        reason: String,
    },
    /// A timer fired.
    Timer(TimerId),
    /// The user cancels the job.
    Cancel,
    /// Leadership is lost or the coordinator stops.
    Suspend,
    /// The answer to [`JobCommand::AllocateCheckpointId`].
    CheckpointIdAllocated(Result<u64, String>),
    /// A task's part of a checkpoint.
    CheckpointAck {
        /// The attempt.
        attempt: AttemptId,
        /// The checkpoint.
        checkpoint: u64,
        /// Its state.
        state: TaskSnapshotHandle,
    },
    /// A task refuses a checkpoint.
    CheckpointDecline {
        /// The attempt.
        attempt: AttemptId,
        /// The checkpoint.
        checkpoint: u64,
        /// Why.
        reason: String,
    },
    /// The answer to [`JobCommand::StoreCheckpoint`].
    CheckpointStored {
        /// The checkpoint.
        checkpoint: u64,
        /// Metadata and pointer are durable, or why not.
        result: Result<StoredCheckpoint, StoreFailure>,
    },
    /// The answer to [`JobCommand::EnumerateSplits`].
    SplitsEnumerated {
        /// The source.
        vertex: VertexId,
        /// All its splits.
        result: Result<Vec<Split>, TaskError>,
    },
    /// A source asks for its next split.
    SplitRequested {
        /// The attempt.
        attempt: AttemptId,
        /// Number of the request within the attempt.
        request: u32,
    },
}

/// Where a completed checkpoint lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// For people and REST (`external_path`), e.g. `s3://checkpoints/<job>/chk-3`.
    pub external_path: String,
}

/// Out of the state machine. The runtime executes them in order; what is slow runs outside the job's serial thread
/// and answers with a [`JobEvent`].
#[derive(Debug, Clone, PartialEq)]
pub enum JobCommand {
    /// Ask the resource manager for `slots` slots, all or nothing, in queue order.
    RequestSlots {
        /// Number of the request.
        request: SlotRequestId,
        /// For each slot wanted: executors to avoid if others can serve (a task that is to use it last failed there).
        slots: Vec<SlotWish>,
    },
    /// Forget a request that was not granted yet; return its slots if it just was.
    CancelSlotRequest(SlotRequestId),
    /// Return a slot.
    FreeSlot(SlotId),
    /// Start an attempt.
    Deploy {
        /// Where.
        executor: ExecutorId,
        /// What.
        deployment: Box<TaskDeployment>,
    },
    /// Ask an attempt to stop.
    CancelTask {
        /// Where it runs.
        executor: ExecutorId,
        /// Which.
        attempt: AttemptId,
    },
    /// Delete result partitions.
    ReleasePartitions {
        /// Where they are.
        executor: ExecutorId,
        /// Which.
        partitions: Vec<ResultPartitionId>,
    },
    /// Give result partitions to the cluster, before the job's end is known to anybody.
    PromotePartitions {
        /// Where they are.
        executor: ExecutorId,
        /// Which.
        partitions: Vec<ClusterPartition>,
    },
    /// Send [`JobEvent::Timer`] after this long.
    SetTimer {
        /// Number of the timer.
        timer: TimerId,
        /// From now.
        delay: Duration,
    },
    /// Draw the next checkpoint number from the counter in the HA store.
    AllocateCheckpointId,
    /// Have a source put a barrier into its output.
    TriggerCheckpoint {
        /// Where it runs.
        executor: ExecutorId,
        /// Which source.
        attempt: AttemptId,
        /// The checkpoint.
        checkpoint: u64,
    },
    /// Write metadata, then the pointer; answer with [`JobEvent::CheckpointStored`].
    StoreCheckpoint(Box<CompletedCheckpoint>),
    /// Remove the pointer, then the files. Failures are logged, never reported back.
    DiscardCheckpoint(Box<CompletedCheckpoint>),
    /// Delete the state files of a checkpoint that did not complete.
    DiscardState(Vec<TaskSnapshotHandle>),
    /// Tell a task that a checkpoint is durable.
    NotifyCheckpointCompleted {
        /// Where it runs.
        executor: ExecutorId,
        /// Which.
        attempt: AttemptId,
        /// The checkpoint.
        checkpoint: u64,
        /// The task may finish now.
        is_final: bool,
    },
    /// Tell a task that a checkpoint will not complete.
    NotifyCheckpointAborted {
        /// Where it runs.
        executor: ExecutorId,
        /// Which.
        attempt: AttemptId,
        /// The checkpoint.
        checkpoint: u64,
    },
    /// List a source's splits, off the serial thread; answer with [`JobEvent::SplitsEnumerated`].
    EnumerateSplits(VertexId),
    /// Answer a source's request.
    AssignSplit {
        /// Where it runs.
        executor: ExecutorId,
        /// Which.
        attempt: AttemptId,
        /// Number of its request.
        request: u32,
        /// The split, or none when all are given out.
        split: Option<Split>,
    },
    /// Ask the failure enrichers about a failure, off the serial thread. Nothing comes back: labels are put on the
    /// published [`ExceptionEntry`](super::snapshot::ExceptionEntry), since they decide nothing.
    LabelFailure(FailureId, Box<FailureReport>),
    /// The job's status changed (for the timeline and for waiting clients).
    StatusChanged(JobStatus),
    /// The job is globally terminal: record the result, then delete pointers, checkpoints (as retention says) and
    /// the job's graph, and release everything of it on the executors.
    JobTerminated {
        /// FINISHED, CANCELED or FAILED.
        status: JobStatus,
        /// Checkpoints to delete.
        discard: Vec<CompletedCheckpoint>,
    },
}

/// One wanted slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotWish {
    /// Executors to avoid if others can serve.
    pub avoid: Vec<ExecutorId>,
}
