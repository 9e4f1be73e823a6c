//! What a job is started with.

use std::collections::BTreeMap;

use super::data_sets::CachedDataSets;
use super::settings::JobSettings;
use crate::core::checkpoint::CompletedCheckpoint;
use crate::core::event::Millis;
use crate::core::topology::TopologyError;
use crate::graph::{DataSetId, JobGraph, JobId, Params, TaskId};

/// A checkpoint that was recovered before the JobMaster came to be (FLINK-22483).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredCheckpoint {
    /// The checkpoint.
    pub checkpoint: CompletedCheckpoint,
    /// Where it lies, for people.
    pub external_path: String,
}

/// Everything that a [`JobCore`](super::JobCore) needs to begin.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// The job.
    pub id: JobId,
    /// Registered name: executors build the graph again from it.
    pub job_name: String,
    /// The job's parameters.
    pub params: Params,
    /// The graph.
    pub graph: JobGraph,
    /// How it recovers.
    pub settings: JobSettings,
    /// Effective configuration of the job, only shown.
    pub config: BTreeMap<String, String>,
    /// When it was submitted: the time it entered INITIALIZING.
    pub submitted_ms: Millis,
    /// Checkpoints to restore from, oldest first; empty for a new job.
    pub restored: Vec<RestoredCheckpoint>,
    /// The data sets of the cluster that the graph reads.
    pub data_sets: CachedDataSets,
    /// Seed of every random choice of this job (jitter, delay of the first checkpoint).
    pub seed: u64,
}

/// A job cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobInitError {
    /// The graph's edges do not fit together.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// Logical regions that wait for each other (reference 1.3): nothing could ever start.
    #[error("the pipelined regions of {} wait for each other: no task could ever start", .0.join(", "))]
    RegionDeadlock(Vec<String>),
    /// A checkpointed job with an edge that is read only once its producer has ended: barriers do not pass it.
    #[error(
        "a job with a {exchange} edge (`{from}` to `{to}`) cannot take checkpoints: its results are read once they are complete; make the edge pipelined, or leave out `execution.checkpointing.interval`"
    )]
    NoBarriers {
        /// Type of the edge, as in Flink's plan.
        exchange: &'static str,
        /// Producer.
        from: String,
        /// Consumer.
        to: String,
    },
    /// A data set that no executor has, or not all of it.
    #[error(
        "`{vertex}` reads data set {data_set}, which this cluster does not have (any more); run the job again that makes it"
    )]
    DataSetMissing {
        /// The vertex.
        vertex: String,
        /// The data set.
        data_set: DataSetId,
    },
    /// A data set that was made for another number of readers.
    #[error("`{vertex}` has parallelism {parallelism}, but data set {data_set} was made for {readers} readers")]
    DataSetReaders {
        /// The vertex.
        vertex: String,
        /// The data set.
        data_set: DataSetId,
        /// Subtasks of the vertex.
        parallelism: u32,
        /// Subtasks that it was made for.
        readers: u32,
    },
    /// The newest checkpoint was taken by another graph. Unmatched state is refused at start (reference 7.8).
    #[error(
        "checkpoint {checkpoint} does not fit this job: it {} subtask {} of vertex {}; start the job under a new identifier, or with the graph that took the checkpoint",
        if *.missing { "has no state for" } else { "has state for the unknown" }, .task.subtask, .task.vertex
    )]
    StateMismatch {
        /// The checkpoint.
        checkpoint: u64,
        /// The task in question.
        task: TaskId,
        /// True if the job has the task and the checkpoint does not; false for the reverse.
        missing: bool,
    },
}
