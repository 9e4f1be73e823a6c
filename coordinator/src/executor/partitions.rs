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
        on_disk(&table, 0);
        table.release(JOB, &[id(0)]);
        assert_eq!(table.on_disk(), 0);
        let folder = on_disk(&table, 0);
        drop(release);
        runtime.block_on(async {
            gone(&table.root.join("deleted-0")).await;
        });
        assert!(folder.exists(), "the delete hits only what was released");
    }

    fn on_disk(table: &PartitionTable, subtask: u32) -> PathBuf {
        let folder = table.folder(JOB, id(subtask));
        std::fs::create_dir_all(&folder).unwrap();
        table.register(JOB, id(subtask), Partition::Files(Arc::new(FilePartition::new(folder.clone(), 1))));
        folder
    }

    fn promoted(subtask: u32, data_set: u8) -> ClusterPartition {
        let data_set = DataSetId([data_set; 16]);
        ClusterPartition { data_set, total: 2, job: JOB, partition: id(subtask), subpartitions: 1 }
    }

    // P182, P187
    #[tokio::test]
    async fn promoted_partitions_outlive_their_job_until_their_data_set_is_released() {
        let work = tempfile::tempdir().unwrap();
        let table = PartitionTable::open(work.path(), tokio::runtime::Handle::current()).unwrap();
        let folders = [0, 1, 2].map(|subtask| on_disk(&table, subtask));
        table.register(JOB, id(3), memory());
        assert_eq!(table.cluster_partitions(), []);
        table.promote(JOB, vec![promoted(0, 1), promoted(1, 2), promoted(3, 2), promoted(9, 2)]);
        table.promote(JobId([8; 16]), vec![promoted(2, 1)]);
        let reported = [promoted(0, 1), promoted(1, 2)];
        assert_eq!(table.cluster_partitions(), reported, "unknown ones and those in memory are ignored");

        table.release(JOB, &[id(0)]);
        table.release_job(JOB);
        gone(&folders[2]).await;
        assert!(folders[0].exists() && folders[1].exists());
        assert!(matches!(table.find(JOB, id(0)), Lookup::Found(_)), "it can be read");
        assert_eq!((table.on_disk(), table.cluster_partitions()), (2, reported.to_vec()));

        table.release_data_sets(&[]);
        table.release_data_sets(&[promoted(0, 1).data_set, DataSetId([9; 16])]);
        gone(&folders[0]).await;
        assert!(matches!(table.find(JOB, id(0)), Lookup::Missing));
        assert_eq!(table.cluster_partitions(), [promoted(1, 2)]);
        table.release_data_sets(&[promoted(1, 2).data_set]);
        gone(folders[1].parent().unwrap()).await;
        assert!(lock(&table.jobs).is_empty(), "no empty entry stays");
    }

    // Reference 4.4: with the leader's connection all of it is gone.
    #[tokio::test]
    async fn a_lost_coordinator_costs_the_data_sets() {
        let work = tempfile::tempdir().unwrap();
        let table = PartitionTable::open(work.path(), tokio::runtime::Handle::current()).unwrap();
        let folder = on_disk(&table, 0);
        table.promote(JOB, vec![promoted(0, 1)]);
        table.release_all();
        gone(folder.parent().unwrap()).await;
        assert_eq!((table.on_disk(), table.cluster_partitions()), (0, vec![]));
    }

    #[tokio::test]
    async fn earlier_runs_are_swept_and_releases_delete() {
        let work = tempfile::tempdir().unwrap();
        let work_dir = work.path().join("executor-1");
        std::fs::create_dir_all(work_dir.join("partitions/old/rest")).unwrap();
        let table = PartitionTable::open(&work_dir, tokio::runtime::Handle::current()).unwrap();
        assert_eq!(std::fs::read_dir(work_dir.join("partitions")).unwrap().count(), 0);

        let folders: Vec<_> = (0..3).map(|subtask| on_disk(&table, subtask)).collect();
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
