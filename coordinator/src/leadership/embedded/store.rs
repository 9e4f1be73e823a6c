//! [`HaStore`] on a folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_util::task::TaskTracker;

use super::files::Folder;
use super::session::SessionToken;
use crate::graph::JobId;
use crate::leadership::ha::{CheckpointPointer, HaError, HaStore, JobRecord, JobResult, LeaderInfo};

/// The HA store as a folder, shared by the coordinators of one machine. See the module above for its files.
#[derive(Debug, Clone)]
pub struct EmbeddedHaStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: Folder,
    token: Option<SessionToken>,
    /// What is under way, whether anybody waits for it or not.
    work: TaskTracker,
}

/// Content of `checkpoints/<job>/counter`.
#[derive(Debug, Serialize, Deserialize)]
struct Counter {
    last: u64,
}

impl EmbeddedHaStore {
    /// Opens (or makes) the folder for reading. Writing needs a session: see [`super::super::LeaderElection`].
    ///
    /// # Errors
    ///
    /// [`HaError::Io`] if the folder cannot be made.
    pub async fn open(dir: impl Into<PathBuf>) -> Result<Self, HaError> {
        let dir = dir.into();
        let work = TaskTracker::new();
        let folder = blocking(&work, "opening the HA folder", &dir.clone(), move || Folder::open(dir)).await?;
        Ok(Self { inner: Arc::new(Inner { folder, token: None, work }) })
    }

    /// A handle that writes for a session.
    pub(in crate::leadership) fn for_session(folder: Folder, token: SessionToken) -> Self {
        Self { inner: Arc::new(Inner { folder, token: Some(token), work: TaskTracker::new() }) }
    }

    /// Publishes the leader's addresses.
    pub(in crate::leadership) async fn publish(&self, leader: LeaderInfo) -> Result<(), HaError> {
        self.write("publishing the leader", move |folder, op| folder.write(op, &folder.path("leader.json"), &leader))
            .await
    }

    /// Takes the leader's addresses back.
    pub(in crate::leadership) async fn withdraw(&self) -> Result<(), HaError> {
        self.write("withdrawing the leader", |folder, op| folder.remove(op, &folder.path("leader.json"))).await
    }

    /// Refuses all that begins from now on, and waits for what is under way, also if nobody else does.
    pub(in crate::leadership) async fn settle(&self) {
        self.inner.work.close();
        self.inner.work.wait().await;
    }

    async fn read<T: Send + 'static>(
        &self,
        op: &'static str,
        work: impl FnOnce(&Folder, &str) -> Result<T, HaError> + Send + 'static,
    ) -> Result<T, HaError> {
        let inner = Arc::clone(&self.inner);
        blocking(&self.inner.work, op, &self.inner.folder.path(""), move || work(&inner.folder, op)).await
    }

    async fn write<T: Send + 'static>(
        &self,
        op: &'static str,
        work: impl FnOnce(&Folder, &str) -> Result<T, HaError> + Send + 'static,
    ) -> Result<T, HaError> {
        // Taken before the look: either it is waited for, or it sees that the session is over.
        let _under_way = self.inner.work.token();
        if let Some(token) = self.inner.token.as_ref().filter(|_| self.inner.work.is_closed()) {
            return Err(token.is_over(op));
        }
        let inner = Arc::clone(&self.inner);
        blocking(&self.inner.work, op, &self.inner.folder.path(""), move || {
            let token = inner.token.as_ref().ok_or_else(|| HaError::ReadOnly { op: op.to_owned() })?;
            let _lock = token.lock(&inner.folder, op)?;
            work(&inner.folder, op)
        })
        .await
    }
}

/// Runs blocking work away from the runtime's threads. It goes on if the caller stops waiting.
async fn blocking<T: Send + 'static>(
    tracker: &TaskTracker,
    op: &str,
    path: &Path,
    work: impl FnOnce() -> Result<T, HaError> + Send + 'static,
) -> Result<T, HaError> {
    tracker.spawn_blocking(work).await.unwrap_or_else(|join| {
        // The runtime shuts down (or the work panicked): it may or may not have got to its write.
        Err(HaError::Io {
            op: op.to_owned(),
            path: path.to_owned(),
            maybe_written: true,
            source: std::io::Error::other(join),
        })
    })
}

fn job_path(folder: &Folder, job: JobId) -> PathBuf {
    folder.path(format!("jobs/{job}.json"))
}

fn result_path(folder: &Folder, job: JobId) -> PathBuf {
    folder.path(format!("results/{job}.json"))
}

fn checkpoint_folder(folder: &Folder, job: JobId) -> PathBuf {
    folder.path(format!("checkpoints/{job}"))
}

/// Nineteen digits, as Flink pads them.
fn pointer_path(folder: &Folder, job: JobId, id: u64) -> PathBuf {
    folder.path(format!("checkpoints/{job}/{id:019}.json"))
}

/// All entries of a folder. One that vanishes between listing and reading was removed, and is not there.
fn read_all<K, T: DeserializeOwned>(
    folder: &Folder,
    op: &str,
    path: &Path,
    parse: impl Fn(&str) -> Option<K>,
) -> Result<Vec<T>, HaError> {
    let entries = folder.entries(op, path, parse)?;
    entries.iter().filter_map(|(_, path)| folder.read(op, path).transpose()).collect()
}

fn require<T: DeserializeOwned>(folder: &Folder, op: &str, path: &Path) -> Result<T, HaError> {
    folder.read(op, path)?.ok_or_else(|| HaError::NotFound { op: op.to_owned(), path: path.to_owned() })
}

#[async_trait]
impl HaStore for EmbeddedHaStore {
    fn session(&self) -> Option<u64> {
        self.inner.token.as_ref().map(|token| token.session)
    }

    async fn add_job(&self, job: &JobRecord) -> Result<(), HaError> {
        let job = job.clone();
        self.write("recording a job", move |folder, op| {
            for path in [job_path(folder, job.id), result_path(folder, job.id)] {
                if path.exists() {
                    return Err(HaError::Exists { op: op.to_owned(), path });
                }
            }
            folder.write(op, &job_path(folder, job.id), &job)
        })
        .await
    }

    async fn jobs(&self) -> Result<Vec<JobRecord>, HaError> {
        self.read("reading the jobs", |folder, op| {
            read_all(folder, op, &folder.path("jobs"), |name| name.parse::<JobId>().ok())
        })
        .await
    }

    async fn request_cancel(&self, job: JobId) -> Result<(), HaError> {
        self.write("recording a cancellation", move |folder, op| {
            let path = job_path(folder, job);
            let record: JobRecord = require(folder, op, &path)?;
            folder.write(op, &path, &JobRecord { cancel_requested: true, ..record })
        })
        .await
    }

    async fn remove_job(&self, job: JobId) -> Result<(), HaError> {
        self.write("removing a job", move |folder, op| folder.remove(op, &job_path(folder, job))).await
    }

    async fn next_checkpoint_id(&self, job: JobId) -> Result<u64, HaError> {
        self.write("drawing a checkpoint number", move |folder, op| {
            let parent = checkpoint_folder(folder, job);
            folder.make(op, &parent)?;
            let path = parent.join("counter");
            let counter: Option<Counter> = folder.read(op, &path)?;
            let next = counter.map_or(0, |counter| counter.last) + 1;
            folder.write(op, &path, &Counter { last: next })?;
            Ok(next)
        })
        .await
    }

    async fn add_checkpoint(&self, job: JobId, pointer: &CheckpointPointer) -> Result<(), HaError> {
        let pointer = pointer.clone();
        self.write("recording a checkpoint", move |folder, op| {
            folder.make(op, &checkpoint_folder(folder, job))?;
            let path = pointer_path(folder, job, pointer.id);
            match folder.read::<CheckpointPointer>(op, &path)? {
                Some(there) if there == pointer => Ok(()),
                Some(_) => Err(HaError::Exists { op: op.to_owned(), path }),
                None => folder.write(op, &path, &pointer),
            }
        })
        .await
    }

    async fn checkpoints(&self, job: JobId) -> Result<Vec<CheckpointPointer>, HaError> {
        self.read("reading the checkpoint pointers", move |folder, op| {
            read_all(folder, op, &checkpoint_folder(folder, job), |name| name.parse::<u64>().ok())
        })
        .await
    }

    async fn remove_checkpoint(&self, job: JobId, id: u64) -> Result<(), HaError> {
        self.write("removing a checkpoint pointer", move |folder, op| folder.remove(op, &pointer_path(folder, job, id)))
            .await
    }

    async fn remove_checkpoints(&self, job: JobId) -> Result<(), HaError> {
        self.write("removing the checkpoint pointers", move |folder, op| {
            folder.remove_folder(op, &checkpoint_folder(folder, job))
        })
        .await
    }

    async fn put_result(&self, result: &JobResult) -> Result<(), HaError> {
        let result = result.clone();
        self.write("recording a result", move |folder, op| folder.write(op, &result_path(folder, result.id), &result))
            .await
    }

    async fn mark_result_clean(&self, job: JobId) -> Result<(), HaError> {
        self.write("marking a result clean", move |folder, op| {
            let path = result_path(folder, job);
            let result: JobResult = require(folder, op, &path)?;
            folder.write(op, &path, &JobResult { dirty: false, ..result })
        })
        .await
    }

    async fn results(&self) -> Result<Vec<JobResult>, HaError> {
        self.read("reading the results", |folder, op| {
            read_all(folder, op, &folder.path("results"), |name| name.parse::<JobId>().ok())
        })
        .await
    }

    async fn remove_result(&self, job: JobId) -> Result<(), HaError> {
        self.write("removing a result", move |folder, op| folder.remove(op, &result_path(folder, job))).await
    }

    async fn leader(&self) -> Result<Option<LeaderInfo>, HaError> {
        self.read("reading the leader", |folder, op| folder.read(op, &folder.path("leader.json"))).await
    }
}
