//! What the REST server needs of a coordinator.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use crate::core::data_sets::ReleaseState;
use crate::core::snapshot::JobSnapshot;
use crate::graph::{DataSetId, ExecutorId, JobGraphError, JobId, Params};

/// An executor as REST shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorView {
    /// Its name.
    pub id: ExecutorId,
    /// Its process id.
    pub pid: u32,
    /// Remote address of its connection.
    pub path: String,
    /// Data address, `host:port`.
    pub data_address: String,
    /// When it was last heard of, milliseconds since the epoch.
    pub last_heartbeat_ms: u64,
    /// Slots it has.
    pub slots: u32,
    /// Slots that no job holds.
    pub free_slots: u32,
    /// Result partitions on its disk, as of its last heartbeat.
    pub partitions: u32,
}

/// A job to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Registered name.
    pub job: String,
    /// Its parameters.
    pub params: Params,
    /// Configuration that overrides the cluster's and the job's own.
    pub config: BTreeMap<String, String>,
    /// Identifier to use; drawn if absent.
    pub id: Option<JobId>,
}

/// A submission was refused; nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The job cannot be built.
    #[error(transparent)]
    Graph(#[from] JobGraphError),
    /// A configuration key or value is wrong.
    #[error("{0}")]
    Config(String),
    /// A job of this identifier exists.
    #[error("job {0} has already been submitted")]
    Duplicate(JobId),
    /// The HA store did not take the job.
    #[error("the job could not be recorded: {0}")]
    Store(String),
    /// Another coordinator leads.
    #[error("this coordinator does not lead")]
    NotLeader,
}

/// A job could not be cancelled.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CancelError {
    /// No such job.
    #[error("job {0} not found")]
    NotFound(JobId),
    /// It already ended otherwise (409 in Flink).
    #[error("job {0} is already {1}")]
    AlreadyTerminal(JobId, &'static str),
    /// The HA store did not take the cancellation; nothing was done.
    #[error("the cancellation of job {0} could not be recorded: {1}")]
    Store(JobId, String),
}

/// A coordinator, as its REST server sees it. The reading calls answer from published snapshots and never wait for a
/// job's thread or for a store.
#[async_trait]
pub trait Cluster: Send + Sync + 'static {
    /// True once this coordinator leads and has read the list of jobs.
    fn is_leader(&self) -> bool;
    /// All jobs, running and recently ended, by identifier.
    fn jobs(&self) -> Vec<Arc<JobSnapshot>>;
    /// One job.
    fn job(&self, id: JobId) -> Option<Arc<JobSnapshot>>;
    /// Registered executors, by name.
    fn executors(&self) -> Vec<ExecutorView>;
    /// Data sets that outlived their jobs, and whether all their partitions are there.
    fn data_sets(&self) -> BTreeMap<DataSetId, bool>;
    /// Begins to release a data set. An unknown one is released already.
    fn release_data_set(&self, id: DataSetId);
    /// How far the release of a data set is; nothing if there was none.
    fn data_set_release(&self, id: DataSetId) -> Option<ReleaseState>;
    /// Names of the jobs this binary can run.
    fn job_names(&self) -> Vec<String>;
    /// Effective configuration of the cluster, secrets left out.
    fn config(&self) -> BTreeMap<String, String>;
    /// Accepts a job; returns once it is recorded durably (it then reads INITIALIZING).
    async fn submit(&self, submission: Submission) -> Result<JobId, SubmitError>;
    /// Cancels a job; returns once the cancellation is recorded (it survives a leader change). Cancelling a job that
    /// is CANCELED already succeeds.
    async fn cancel(&self, id: JobId) -> Result<(), CancelError>;
}
