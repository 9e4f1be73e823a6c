//! What coordinator and executor say to each other: postcard in length-delimited frames, one connection per
//! executor, dialled by the executor.
//!
//! The first frame each way is a handshake ([`Hello`], [`Welcome`]): postcard does not describe itself, so two
//! versions must never talk past each other. Every message after it belongs to the leader session of the handshake;
//! a connection never outlives its session, which is the fencing.

use serde::{Deserialize, Serialize};

use crate::core::checkpoint::TaskSnapshotHandle;
use crate::core::data_sets::ClusterPartition;
use crate::graph::{
    AttemptId, DataSetId, ExecutorId, JobId, Params, ResultPartitionId, ResultPartitionType, ShipStrategy, Split,
    TaskError,
};

/// Raised with every change of any type below.
pub const PROTOCOL_VERSION: u32 = 3;

/// Largest frame, bytes. A larger one is a protocol error.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// First frame of an executor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// `b"SPRF"`.
    pub magic: [u8; 4],
    /// [`PROTOCOL_VERSION`].
    pub version: u32,
    /// The executor's name.
    pub executor: ExecutorId,
    /// Number of slots it offers.
    pub slots: u32,
    /// Where its partitions can be read, `host:port`.
    pub data_address: String,
    /// Its process id, for people and reports.
    pub pid: u32,
}

/// The coordinator's answer to [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Welcome {
    /// Registered.
    Accepted {
        /// The leader session that all messages on this connection belong to.
        session: u64,
        /// How often to send [`ToCoordinator::Heartbeat`], milliseconds.
        heartbeat_interval_ms: u64,
        /// Silence after which the other side counts as dead, milliseconds.
        heartbeat_timeout_ms: u64,
    },
    /// Refused: another version, a name in use, not the leader.
    Refused {
        /// Why, for people.
        reason: String,
    },
}

/// What an executor tells of a task (Flink's execution states that a TaskManager may report).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskUpdate {
    /// State is being restored.
    Initializing,
    /// The user code runs.
    Running,
    /// All input is handled and all output is complete.
    Finished,
    /// Ended because it was asked to, or because a neighbour died.
    Canceled,
    /// Ended by a failure.
    Failed(TaskFailure),
}

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFailure {
    /// The cause chain.
    pub error: TaskError,
    /// What kind of failure: decides what the coordinator reads from it.
    pub kind: FailureKind,
}

/// Kinds of failure that the coordinator treats differently (reference 4.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// User code or the machinery around it.
    Task,
    /// The producer's executor has no such partition: names the producer (FLINK-6227).
    PartitionNotFound(ResultPartitionId),
    /// The producer's executor cannot be reached: names the producer (FLINK-12458).
    PartitionConnection(ResultPartitionId),
    /// A part of this data set, which another job has left, is not there any more. No producer of this job could
    /// make it again (Flink's `ClusterDatasetCorruptedException`).
    DataSetLost(DataSetId),
    /// An established data connection broke; does not name the producer.
    RemoteTransport,
    /// The executor or the connection to it was lost.
    ExecutorLost,
    /// Must not be retried: [`TaskError::non_recoverable`].
    NonRecoverable,
}

/// Counters of one attempt, cumulative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskMetrics {
    /// Records read from all inputs.
    pub read_records: u64,
    /// Records written to all outputs.
    pub write_records: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
}

/// Executor to coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToCoordinator {
    /// I am alive; with the counters of tasks that changed.
    Heartbeat {
        /// Counters by attempt.
        metrics: Vec<(AttemptId, TaskMetrics)>,
        /// Number of result partitions on this executor's disk.
        partitions: u32,
        /// Those of them that belong to the cluster.
        cluster_partitions: Vec<ClusterPartition>,
    },
    /// Partitions were promoted or released as told: all that belong to the cluster now.
    ClusterPartitions {
        /// The job whose partitions were promoted, if that is the reason.
        promoted: Option<JobId>,
        /// All of them.
        partitions: Vec<ClusterPartition>,
    },
    /// A task changed state.
    TaskUpdate {
        /// The attempt.
        attempt: AttemptId,
        /// Its new state.
        update: TaskUpdate,
        /// Its counters so far.
        metrics: TaskMetrics,
    },
    /// The task has handled all its input and waits for the final checkpoint (streaming with checkpoints only).
    EndOfData {
        /// The attempt.
        attempt: AttemptId,
    },
    /// The task's part of a checkpoint is durable.
    CheckpointAck {
        /// The attempt.
        attempt: AttemptId,
        /// The checkpoint.
        checkpoint: u64,
        /// Its state.
        state: TaskSnapshotHandle,
    },
    /// The task cannot take part in a checkpoint.
    CheckpointDecline {
        /// The attempt.
        attempt: AttemptId,
        /// The checkpoint.
        checkpoint: u64,
        /// Why.
        reason: String,
    },
    /// A source wants its next split.
    RequestSplit {
        /// The attempt.
        attempt: AttemptId,
        /// Number of the request within the attempt, from 0; repeated in the answer.
        request: u32,
    },
}

/// Coordinator to executor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToExecutor {
    /// I am alive.
    Heartbeat,
    /// Start a task.
    Deploy(Box<TaskDeployment>),
    /// Stop a task; answered by a [`TaskUpdate::Canceled`] (or `Finished`, or `Failed`).
    Cancel(AttemptId),
    /// Delete result partitions. Unknown ones are ignored.
    ReleasePartitions {
        /// The job.
        job: JobId,
        /// Which.
        partitions: Vec<ResultPartitionId>,
    },
    /// From now on these result partitions belong to the cluster; answered by
    /// [`ToCoordinator::ClusterPartitions`]. Unknown ones are ignored.
    PromotePartitions {
        /// The job that produced them.
        job: JobId,
        /// Which.
        partitions: Vec<ClusterPartition>,
    },
    /// Delete data sets that belong to the cluster; answered by [`ToCoordinator::ClusterPartitions`].
    ReleaseDataSets(Vec<DataSetId>),
    /// The job is over: cancel what runs, delete everything of it that does not belong to the cluster.
    ReleaseJob(JobId),
    /// Start a checkpoint: sent to sources, which put a barrier into their output.
    TriggerCheckpoint {
        /// The source's attempt.
        attempt: AttemptId,
        /// The checkpoint.
        checkpoint: u64,
    },
    /// A checkpoint is durable: tell the user code.
    CheckpointCompleted {
        /// The attempt.
        attempt: AttemptId,
        /// The checkpoint.
        checkpoint: u64,
        /// True for the final checkpoint after end of data: the task may finish now.
        is_final: bool,
    },
    /// A checkpoint will not complete.
    CheckpointAborted {
        /// The attempt.
        attempt: AttemptId,
        /// The checkpoint.
        checkpoint: u64,
    },
    /// The answer to [`ToCoordinator::RequestSplit`].
    Split {
        /// The attempt.
        attempt: AttemptId,
        /// Number of the request.
        request: u32,
        /// The split, or none when all are given out.
        split: Option<Split>,
    },
}

/// Everything an executor needs to run one attempt (Flink's `TaskDeploymentDescriptor`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskDeployment {
    /// The attempt.
    pub attempt: AttemptId,
    /// Registered name of the job: the executor builds the graph again from it.
    pub job_name: String,
    /// The job's parameters.
    pub params: Params,
    /// Name of the vertex.
    pub vertex: String,
    /// Number of subtasks of the vertex.
    pub parallelism: u32,
    /// True if the job takes checkpoints: the task then waits for the final one before it finishes.
    pub checkpointing: bool,
    /// Inputs in edge order, then data sets of the cluster.
    pub inputs: Vec<InputGate>,
    /// Outputs by data set.
    pub outputs: Vec<OutputDescriptor>,
    /// State to start from.
    pub restore: Option<TaskRestore>,
}

/// One incoming edge of one subtask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputGate {
    /// How the data is kept.
    pub partition_type: ResultPartitionType,
    /// One channel per producer partition that this subtask reads.
    pub channels: Vec<InputChannel>,
}

/// One producer partition as a consumer reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputChannel {
    /// The job that produced it: another one for a data set of the cluster.
    pub job: JobId,
    /// Which partition, of which attempt.
    pub partition: ResultPartitionId,
    /// Which of its subpartitions, from 0.
    pub subpartition: u32,
    /// The executor that has it.
    pub executor: ExecutorId,
    /// That executor's data address.
    pub address: String,
}

/// One outgoing edge of one subtask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputDescriptor {
    /// Which partition, of this attempt.
    pub partition: ResultPartitionId,
    /// How it is kept.
    pub partition_type: ResultPartitionType,
    /// How records are spread over subpartitions.
    pub ship: ShipStrategy,
    /// One per consuming subtask of this partition.
    pub subpartitions: u32,
}

/// State for a restored attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRestore {
    /// The checkpoint it comes from.
    pub checkpoint: u64,
    /// Where the state is.
    pub state: TaskSnapshotHandle,
}
