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
use crate::graph::{JobId, ResultPartitionId};

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

    /// Deletes partitions; unknown ones are ignored.
    pub(crate) fn release(&self, job: JobId, ids: &[ResultPartitionId]) {
        let mut jobs = lock(&self.jobs);
        let Some(of_job) = jobs.get_mut(&job) else { return };
        for id in ids {
            if let Some(partition) = of_job.registered.remove(id) {
                self.discard(partition);
            }
        }
        if of_job.registered.is_empty() && of_job.failed.is_empty() {
            jobs.remove(&job);
        }
    }

    /// Deletes all of a job.
    pub(crate) fn release_job(&self, job: JobId) {
        let removed = lock(&self.jobs).remove(&job);
        for partition in removed.into_iter().flat_map(|of_job| of_job.registered.into_values()) {
            self.discard(partition);
        }
        self.delete(self.root.join(job.to_string()));
    }

    /// Deletes everything.
    pub(crate) fn release_all(&self) {
        let jobs: Vec<JobId> = lock(&self.jobs).keys().copied().collect();
        jobs.into_iter().for_each(|job| self.release_job(job));
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
mod tests {
    use super::*;
    use crate::graph::{PartitionId, TaskId, VertexId};

    const JOB: JobId = JobId([7; 16]);

    fn id(subtask: u32) -> ResultPartitionId {
        let producer = TaskId { vertex: VertexId::of_name("map"), subtask };
        ResultPartitionId { partition: PartitionId { producer, data_set: 0 }, attempt: 0 }
    }

    fn memory() -> Partition {
        Partition::Memory(Arc::new(PipelinedPartition::new(1, false, Arc::default())))
    }

    async fn gone(path: &Path) {
        let wait = async {
            while path.exists() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.expect("the folder is deleted");
    }

    #[tokio::test]
    async fn requests_wait_for_registration_and_hear_of_failures() {
        let work = tempfile::tempdir().unwrap();
        let table = Arc::new(PartitionTable::open(work.path(), tokio::runtime::Handle::current()).unwrap());
        let waiting = {
            let table = table.clone();
            tokio::spawn(async move { table.wait_for(JOB, id(0), Duration::from_secs(20)).await })
        };
        table.register(JOB, id(0), memory());
        assert!(matches!(waiting.await.unwrap(), Lookup::Found(_)));
        assert!(matches!(table.wait_for(JOB, id(1), Duration::from_millis(5)).await, Lookup::Missing));
        table.producer_failed(JOB, [id(0)]);
        assert!(matches!(table.find(JOB, id(0)), Lookup::ProducerFailed));
        table.release_job(JOB);
        assert!(matches!(table.find(JOB, id(0)), Lookup::Missing));
    }

    // P190
    #[test]
    fn a_blocked_delete_blocks_nobody_and_frees_the_name_at_once() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
        let work = tempfile::tempdir().unwrap();
        let table = PartitionTable::open(work.path(), runtime.handle().clone()).unwrap();
        // The only thread for deletes hangs, as on a dead disk.
        let (release, hang) = std::sync::mpsc::channel::<()>();
        runtime.spawn_blocking(move || hang.recv());
        let register = || {
            let folder = table.folder(JOB, id(0));
            std::fs::create_dir_all(&folder).unwrap();
            table.register(JOB, id(0), Partition::Files(Arc::new(FilePartition::new(folder.clone(), 1))));
            folder
        };
        register();
        table.release(JOB, &[id(0)]);
        assert_eq!(table.on_disk(), 0);
        let folder = register();
        drop(release);
        runtime.block_on(async {
            gone(&table.root.join("deleted-0")).await;
        });
        assert!(folder.exists(), "the delete hits only what was released");
    }

    #[tokio::test]
    async fn earlier_runs_are_swept_and_releases_delete() {
        let work = tempfile::tempdir().unwrap();
        let work_dir = work.path().join("executor-1");
        std::fs::create_dir_all(work_dir.join("partitions/old/rest")).unwrap();
        let table = PartitionTable::open(&work_dir, tokio::runtime::Handle::current()).unwrap();
        assert_eq!(std::fs::read_dir(work_dir.join("partitions")).unwrap().count(), 0);

        let folders: Vec<_> = (0..3)
            .map(|subtask| {
                let folder = table.folder(JOB, id(subtask));
                std::fs::create_dir_all(&folder).unwrap();
                let files = Arc::new(FilePartition::new(folder.clone(), 1));
                table.register(JOB, id(subtask), Partition::Files(files));
                folder
            })
            .collect();
        table.register(JOB, id(3), memory());
        assert_eq!(table.on_disk(), 3);
        table.release(JOB, &[id(0), id(9)]);
        gone(&folders[0]).await;
        assert!(folders[1].exists());
        assert_eq!(table.on_disk(), 2);
        table.producer_failed(JOB, [id(1)]);
        gone(&folders[1]).await;
        table.release_all();
        gone(folders[2].parent().unwrap()).await;
        assert_eq!(table.on_disk(), 0);
        table.close().unwrap();
        assert!(!work_dir.exists());
    }
}
