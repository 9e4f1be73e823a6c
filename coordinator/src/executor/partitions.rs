//! Which result partitions are on this executor.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::warn;

use super::exchange::{FilePartition, FileState, PipelinedPartition};
use super::signal::lock;
use crate::core::data_sets::ClusterPartition;
use crate::graph::{DataSetId, JobId, ResultPartitionId};

/// Failed partitions of a job that are remembered, so that late consumers hear of the failure and not of a missing
/// partition.
const REMEMBERED_FAILURES: usize = 4096;

/// A result partition.
#[derive(Debug, Clone)]
pub(crate) enum Partition {
    Memory(Arc<PipelinedPartition>),
    Files(Arc<FilePartition>),
}

/// What a request finds.
#[derive(Debug, Clone)]
pub(crate) enum Lookup {
    Found(Partition),
    /// It was here; its producer failed or was cancelled.
    ProducerFailed,
    Missing,
}

#[derive(Debug, Default)]
struct JobPartitions {
    registered: BTreeMap<ResultPartitionId, Partition>,
    failed: BTreeSet<ResultPartitionId>,
    /// Those of the registered ones that belong to the cluster: the end of the job does not touch them.
    promoted: BTreeMap<ResultPartitionId, ClusterPartition>,
}

impl JobPartitions {
    fn is_empty(&self) -> bool {
        self.registered.is_empty() && self.failed.is_empty()
    }
}

/// The partition table. Deletes happen on the runtime's blocking threads: a large folder must not stop heartbeats
/// (FLINK-17558).
#[derive(Debug)]
pub(crate) struct PartitionTable {
    jobs: Mutex<BTreeMap<JobId, JobPartitions>>,
    registered: Notify,
    root: PathBuf,
    runtime: tokio::runtime::Handle,
    /// Numbers the folders that wait for their deletion.
    deleted: AtomicU64,
    /// The process is being torn down: nobody is told of anything any more, no file is touched.
    abandoned: AtomicBool,
}

impl PartitionTable {
    /// Empties what an earlier process left in `<work_dir>/partitions`. Blocks.
    pub(crate) fn open(work_dir: &Path, runtime: tokio::runtime::Handle) -> io::Result<Self> {
        let root = work_dir.join("partitions");
        match std::fs::remove_dir_all(&root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir_all(&root)?,
        }
        let (jobs, registered, deleted) = (Mutex::default(), Notify::new(), AtomicU64::new(0));
        Ok(Self { jobs, registered, root, runtime, deleted, abandoned: AtomicBool::new(false) })
    }

    /// From now on consumers are told nothing and files stay, as if the process were gone already.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// Removes the folder, and the work folder if nothing else is in it. Blocks.
    pub(crate) fn close(&self) -> io::Result<()> {
        std::fs::remove_dir_all(&self.root)?;
        if let Some(work_dir) = self.root.parent() {
            // Not empty (a log file, say): it stays.
            let _ = std::fs::remove_dir(work_dir);
        }
        Ok(())
    }

    /// Folder of a partition on disk.
    pub(crate) fn folder(&self, job: JobId, id: ResultPartitionId) -> PathBuf {
        let (producer, data_set) = (id.partition.producer, id.partition.data_set);
        let name = format!("{}-{data_set}-{}-{}", producer.vertex, producer.subtask, id.attempt);
        self.root.join(job.to_string()).join(name)
    }

    /// Makes a partition known, and wakes the requests that wait for it.
    pub(crate) fn register(&self, job: JobId, id: ResultPartitionId, partition: Partition) {
        lock(&self.jobs).entry(job).or_default().registered.insert(id, partition);
        self.registered.notify_waiters();
    }

    /// What is there now.
    pub(crate) fn find(&self, job: JobId, id: ResultPartitionId) -> Lookup {
        let jobs = lock(&self.jobs);
        let Some(of_job) = jobs.get(&job) else { return Lookup::Missing };
        match of_job.registered.get(&id) {
            Some(partition) => Lookup::Found(partition.clone()),
            None if of_job.failed.contains(&id) => Lookup::ProducerFailed,
            None => Lookup::Missing,
        }
    }

    /// What is there, waiting at most `timeout` for the producer to be deployed.
    pub(crate) async fn wait_for(&self, job: JobId, id: ResultPartitionId, timeout: Duration) -> Lookup {
        let wait = async {
            loop {
                let registered = self.registered.notified();
                tokio::pin!(registered);
                // Enabled before looking: a registration in between is not missed.
                registered.as_mut().enable();
                match self.find(job, id) {
                    Lookup::Missing => registered.await,
                    found => return found,
                }
            }
        };
        tokio::time::timeout(timeout, wait).await.unwrap_or(Lookup::Missing)
    }

    /// Number of partitions on disk.
    pub(crate) fn on_disk(&self) -> u32 {
        let jobs = lock(&self.jobs);
        let files = jobs.values().flat_map(|of_job| of_job.registered.values());
        files.filter(|partition| matches!(partition, Partition::Files(_))).count() as u32
    }

    /// The producer failed or was cancelled: its consumers are told, its partitions are gone.
    pub(crate) fn producer_failed(&self, job: JobId, ids: impl IntoIterator<Item = ResultPartitionId>) {
        if self.abandoned.load(Ordering::Acquire) {
            return;
        }
        let mut jobs = lock(&self.jobs);
        let of_job = jobs.entry(job).or_default();
        for id in ids {
            if let Some(partition) = of_job.registered.remove(&id) {
                if let Partition::Files(files) = &partition {
                    files.become_state(FileState::Failed);
                }
                self.discard(partition);
            }
            of_job.failed.insert(id);
            if of_job.failed.len() > REMEMBERED_FAILURES {
                of_job.failed.pop_first();
            }
        }
        drop(jobs);
        self.registered.notify_waiters();
    }

    /// Forgets a partition in memory that every consumer has read.
    pub(crate) fn consumed(&self, job: JobId, id: ResultPartitionId) {
        self.release(job, &[id]);
    }

    /// Deletes partitions; unknown ones, and those that belong to the cluster, are ignored.
    pub(crate) fn release(&self, job: JobId, ids: &[ResultPartitionId]) {
        let mut jobs = lock(&self.jobs);
        let Some(of_job) = jobs.get_mut(&job) else { return };
        for id in ids.iter().filter(|id| !of_job.promoted.contains_key(id)) {
            if let Some(partition) = of_job.registered.remove(id) {
                self.discard(partition);
            }
        }
        if of_job.is_empty() {
            jobs.remove(&job);
        }
    }

    /// Deletes all of a job but what belongs to the cluster.
    pub(crate) fn release_job(&self, job: JobId) {
        let mut jobs = lock(&self.jobs);
        let mut of_job = jobs.remove(&job).unwrap_or_default();
        let kept = of_job.registered.extract_if(.., |id, _| of_job.promoted.contains_key(id)).collect();
        let rest = std::mem::replace(&mut of_job.registered, kept);
        rest.into_values().for_each(|partition| self.discard(partition));
        if of_job.promoted.is_empty() {
            self.delete(self.root.join(job.to_string()));
        } else {
            of_job.failed.clear();
            jobs.insert(job, of_job);
        }
    }

    /// Deletes everything.
    pub(crate) fn release_all(&self) {
        let jobs = std::mem::take(&mut *lock(&self.jobs));
        for (job, of_job) in jobs {
            of_job.registered.into_values().for_each(|partition| self.discard(partition));
            self.delete(self.root.join(job.to_string()));
        }
    }

    /// Gives complete partitions of `job` to the cluster; unknown ones are ignored.
    pub(crate) fn promote(&self, job: JobId, partitions: Vec<ClusterPartition>) {
        let mut jobs = lock(&self.jobs);
        let Some(of_job) = jobs.get_mut(&job) else { return };
        for partition in partitions {
            if matches!(of_job.registered.get(&partition.partition), Some(Partition::Files(_))) {
                of_job.promoted.insert(partition.partition, partition);
            }
        }
    }

    /// Deletes data sets of the cluster.
    pub(crate) fn release_data_sets(&self, data_sets: &[DataSetId]) {
        let mut jobs = lock(&self.jobs);
        for (job, of_job) in jobs.iter_mut().filter(|(_, of_job)| !of_job.promoted.is_empty()) {
            let released = of_job.promoted.extract_if(.., |_, partition| data_sets.contains(&partition.data_set));
            for (id, _) in released {
                if let Some(partition) = of_job.registered.remove(&id) {
                    self.discard(partition);
                }
            }
            if of_job.promoted.is_empty() && of_job.is_empty() {
                self.delete(self.root.join(job.to_string()));
            }
        }
        jobs.retain(|_, of_job| !of_job.is_empty());
    }

    /// All partitions that belong to the cluster.
    pub(crate) fn cluster_partitions(&self) -> Vec<ClusterPartition> {
        lock(&self.jobs).values().flat_map(|of_job| of_job.promoted.values()).copied().collect()
    }

    fn discard(&self, partition: Partition) {
        if self.abandoned.load(Ordering::Acquire) {
            return;
        }
        match partition {
            Partition::Memory(memory) => memory.fail(),
            Partition::Files(files) => {
                files.become_state(FileState::Released);
                self.delete(files.folder().to_owned());
            }
        }
    }

    /// Takes the folder out of the way at once (a new attempt may want its name: after a change of leader attempts are
    /// numbered anew), and deletes it later.
    fn delete(&self, folder: PathBuf) {
        let aside = self.root.join(format!("deleted-{}", self.deleted.fetch_add(1, Ordering::Relaxed)));
        let failed = |error: io::Error, folder: &Path| {
            if error.kind() != io::ErrorKind::NotFound {
                warn!(folder = %folder.display(), %error, "cannot delete a released partition");
            }
        };
        match std::fs::rename(&folder, &aside) {
            Err(error) => failed(error, &folder),
            Ok(()) => drop(self.runtime.spawn_blocking(move || {
                if let Err(error) = std::fs::remove_dir_all(&aside) {
                    failed(error, &aside);
                }
            })),
        }
    }
}

#[cfg(test)]
mod tests;
