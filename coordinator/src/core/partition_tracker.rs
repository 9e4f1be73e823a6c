//! Which result partitions exist, and where: the JobMaster's partition tracker (reference 4.1).

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{ExecutorId, ResultPartitionId, ResultPartitionType};

/// Partitions of *attempts*, from the deployment of their producer until they are released or lost.
#[derive(Debug, Clone, Default)]
pub struct PartitionTracker {
    partitions: BTreeMap<ResultPartitionId, (ExecutorId, ResultPartitionType)>,
    by_executor: BTreeMap<ExecutorId, BTreeSet<ResultPartitionId>>,
}

impl PartitionTracker {
    /// A tracker that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds `partition`, which lies on `executor`. Types that the scheduler does not release (pipelined ones, the
    /// approximate one included) are ignored: nobody could find them again.
    pub fn start_tracking(&mut self, partition: ResultPartitionId, executor: ExecutorId, kind: ResultPartitionType) {
        if !kind.is_release_by_scheduler() {
            return;
        }
        self.forget(&partition);
        self.by_executor.entry(executor.clone()).or_default().insert(partition);
        self.partitions.insert(partition, (executor, kind));
    }

    /// True if the partition of that very attempt is held.
    #[must_use]
    pub fn is_tracked(&self, partition: &ResultPartitionId) -> bool {
        self.partitions.contains_key(partition)
    }

    /// Where the partition lies.
    #[must_use]
    pub fn location(&self, partition: &ResultPartitionId) -> Option<&ExecutorId> {
        self.partitions.get(partition).map(|(executor, _)| executor)
    }

    /// Drops partitions; unknown ones are ignored. Answers those that were held, by executor: what to send in a
    /// release (one message an executor), or to ignore if the data is already gone.
    pub fn stop_tracking(&mut self, partitions: &[ResultPartitionId]) -> Vec<(ExecutorId, Vec<ResultPartitionId>)> {
        let mut dropped: BTreeMap<ExecutorId, Vec<ResultPartitionId>> = BTreeMap::new();
        for partition in partitions {
            if let Some(executor) = self.forget(partition) {
                dropped.entry(executor).or_default().push(*partition);
            }
        }
        dropped.into_iter().collect()
    }

    /// Drops everything that lay on a lost executor, and answers it in order.
    pub fn executor_lost(&mut self, executor: &ExecutorId) -> Vec<ResultPartitionId> {
        let lost: Vec<_> = self.by_executor.remove(executor).into_iter().flatten().collect();
        lost.iter().for_each(|partition| drop(self.partitions.remove(partition)));
        lost
    }

    /// True if anything is held on `executor`.
    #[must_use]
    pub fn tracks_on(&self, executor: &ExecutorId) -> bool {
        self.by_executor.contains_key(executor)
    }

    /// Everything that is held, in order: partition, where it lies, how it is kept (persistent ones survive a job
    /// that succeeds).
    pub fn all(&self) -> impl Iterator<Item = (&ResultPartitionId, &ExecutorId, ResultPartitionType)> {
        self.partitions.iter().map(|(partition, (executor, kind))| (partition, executor, *kind))
    }

    fn forget(&mut self, partition: &ResultPartitionId) -> Option<ExecutorId> {
        let (executor, _) = self.partitions.remove(partition)?;
        if let Some(held) = self.by_executor.get_mut(&executor) {
            held.remove(partition);
            if held.is_empty() {
                self.by_executor.remove(&executor);
            }
        }
        Some(executor)
    }
}
