//! What must survive a killed coordinator, and who may write it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::core::status::JobStatus;
use crate::graph::{JobId, Params};

/// A submitted job that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job.
    pub id: JobId,
    /// Registered name: with the parameters it builds the graph again.
    pub job: String,
    /// Its parameters.
    pub params: Params,
    /// Configuration given at submission.
    pub config: BTreeMap<String, String>,
    /// When it was submitted, milliseconds since the epoch.
    pub submitted_ms: u64,
    /// The user asked to cancel it. Kept here so that a cancellation survives a leader change (Flink loses it).
    pub cancel_requested: bool,
}

/// How a job ended (an entry of Flink's `JobResultStore`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResult {
    /// The job.
    pub id: JobId,
    /// For people.
    pub name: String,
    /// FINISHED, CANCELED or FAILED.
    pub status: JobStatus,
    /// When it was submitted, milliseconds since the epoch.
    pub start_ms: u64,
    /// When it ended, milliseconds since the epoch.
    pub end_ms: u64,
    /// Why it failed: the cause chain, one cause a line.
    pub failure: Option<String>,
    /// Its clean-up is not complete: the next leader cleans up, and never runs the job again.
    pub dirty: bool,
}

/// Where a completed checkpoint's metadata lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointPointer {
    /// Number of the checkpoint.
    pub id: u64,
    /// Key of its metadata in the checkpoint store.
    pub key: String,
}

/// Who leads and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderInfo {
    /// Number of the leader session; rises with every change of leader.
    pub session: u64,
    /// Name of the coordinator.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// REST address, `host:port`.
    pub rest: String,
    /// Where executors register, `host:port`.
    pub rpc: String,
}

/// The HA store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum HaError {
    /// The leader has resigned, or a newer one exists: nothing was written.
    #[error("{op} was refused: leader session {ours} is over{}", current.map_or_else(String::new, |now| format!(", session {now} leads")))]
    Fenced {
        /// What was tried.
        op: String,
        /// The session of this handle.
        ours: u64,
        /// The session that leads now, if known.
        current: Option<u64>,
    },
    /// This handle was opened for reading only: nothing was written.
    #[error("{op} needs a leader session, and this handle has none; win a `LeaderElection` first")]
    ReadOnly {
        /// What was tried.
        op: String,
    },
    /// The entry exists with other content: nothing was written.
    #[error("{op}: {} exists already", path.display())]
    Exists {
        /// What was tried.
        op: String,
        /// The entry.
        path: PathBuf,
    },
    /// There is no such entry.
    #[error("{op}: there is no {}", path.display())]
    NotFound {
        /// What was tried.
        op: String,
        /// The entry.
        path: PathBuf,
    },
    /// An entry cannot be read; it is never skipped.
    #[error("{op}: {} is damaged ({problem}); restore it or remove it by hand", path.display())]
    Corrupt {
        /// What was tried.
        op: String,
        /// The entry.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Another process holds the store's write lock for too long: nothing was written.
    #[error("{op}: another process has held {} for {waited_ms} ms; is it stopped?", path.display())]
    Busy {
        /// What was tried.
        op: String,
        /// The lock.
        path: PathBuf,
        /// How long was waited, milliseconds.
        waited_ms: u64,
    },
    /// The file system failed.
    #[error("{op}: {}", path.display())]
    Io {
        /// What was tried.
        op: String,
        /// The file or folder.
        path: PathBuf,
        /// The write may have taken effect all the same.
        maybe_written: bool,
        /// The failure.
        #[source]
        source: std::io::Error,
    },
}

impl HaError {
    /// True if a failed write may have taken effect all the same (FLINK-22494): what it points to must be kept.
    #[must_use]
    pub fn maybe_written(&self) -> bool {
        matches!(self, Self::Io { maybe_written: true, .. })
    }

    /// True if a later try may succeed without anybody's help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Busy { .. })
    }
}

/// What must survive a killed coordinator.
///
/// A handle belongs to one leader session (or to none, then it only reads). Every write is atomic, and is refused
/// with [`HaError::Fenced`] once another session has begun. Reads see complete entries only.
///
/// All calls fail with [`HaError::Io`], readers with [`HaError::Corrupt`], writers with [`HaError::Fenced`],
/// [`HaError::ReadOnly`] and [`HaError::Busy`]; what else can happen stands at each.
#[async_trait]
pub trait HaStore: Send + Sync + 'static {
    /// The leader session this handle writes for.
    fn session(&self) -> Option<u64>;

    /// Records a job. [`HaError::Exists`] if one of this identifier is recorded or has a result.
    async fn add_job(&self, job: &JobRecord) -> Result<(), HaError>;
    /// All recorded jobs, by identifier.
    async fn jobs(&self) -> Result<Vec<JobRecord>, HaError>;
    /// Sets [`JobRecord::cancel_requested`]. [`HaError::NotFound`] if the job is not recorded.
    async fn request_cancel(&self, job: JobId) -> Result<(), HaError>;
    /// Removes a job's record, if there is one.
    async fn remove_job(&self, job: JobId) -> Result<(), HaError>;

    /// The next checkpoint number of a job: 1, 2, …, each given out once, whoever leads.
    async fn next_checkpoint_id(&self, job: JobId) -> Result<u64, HaError>;

    /// Records where a completed checkpoint lies; the same pointer again is fine. [`HaError::Exists`] if the number
    /// points elsewhere.
    async fn add_checkpoint(&self, job: JobId, pointer: &CheckpointPointer) -> Result<(), HaError>;
    /// All pointers of a job, by number.
    async fn checkpoints(&self, job: JobId) -> Result<Vec<CheckpointPointer>, HaError>;
    /// Removes one pointer, if it is there.
    async fn remove_checkpoint(&self, job: JobId, id: u64) -> Result<(), HaError>;
    /// Removes all pointers and the counter of a job.
    async fn remove_checkpoints(&self, job: JobId) -> Result<(), HaError>;

    /// Records how a job ended, replacing an earlier entry.
    async fn put_result(&self, result: &JobResult) -> Result<(), HaError>;
    /// Clears [`JobResult::dirty`]. [`HaError::NotFound`] if the job has no result.
    async fn mark_result_clean(&self, job: JobId) -> Result<(), HaError>;
    /// All results, by identifier.
    async fn results(&self) -> Result<Vec<JobResult>, HaError>;
    /// Removes a job's result, if there is one.
    async fn remove_result(&self, job: JobId) -> Result<(), HaError>;

    /// The published leader. Its process may have died since.
    async fn leader(&self) -> Result<Option<LeaderInfo>, HaError>;
}
