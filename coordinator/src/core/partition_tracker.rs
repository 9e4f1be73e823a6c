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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{PartitionId, TaskId, VertexId};

    fn partition(subtask: u32, attempt: u32) -> ResultPartitionId {
        let producer = TaskId { vertex: VertexId::of_name("map"), subtask };
        ResultPartitionId { partition: PartitionId { producer, data_set: 0 }, attempt }
    }

    fn executor(number: u32) -> ExecutorId {
        ExecutorId(format!("executor-{number}"))
    }

    // P176
    #[test]
    fn only_types_that_the_scheduler_releases_are_tracked() {
        for kind in ResultPartitionType::ALL {
            let mut tracker = PartitionTracker::new();
            tracker.start_tracking(partition(0, 0), executor(1), kind);
            let expected = !matches!(
                kind,
                ResultPartitionType::Pipelined
                    | ResultPartitionType::PipelinedBounded
                    | ResultPartitionType::PipelinedApproximate
            );
            assert_eq!(tracker.is_tracked(&partition(0, 0)), expected, "{kind:?}");
            assert_eq!(tracker.tracks_on(&executor(1)), expected, "{kind:?}");
        }
    }

    fn three() -> PartitionTracker {
        let mut tracker = PartitionTracker::new();
        for (subtask, number) in [(0, 1), (1, 2), (2, 1)] {
            tracker.start_tracking(partition(subtask, 0), executor(number), ResultPartitionType::Blocking);
        }
        tracker
    }

    // P177: what is stopped comes back grouped, one release an executor; unknown partitions are ignored.
    #[test]
    fn stopping_groups_by_executor() {
        let mut tracker = three();
        let stop = [2, 9, 1, 0].map(|subtask| partition(subtask, 0));
        let expected =
            vec![(executor(1), vec![partition(2, 0), partition(0, 0)]), (executor(2), vec![partition(1, 0)])];
        assert_eq!(tracker.stop_tracking(&stop), expected);
        assert_eq!(tracker.stop_tracking(&stop), vec![]);
        assert!(!tracker.tracks_on(&executor(1)) && tracker.all().next().is_none());
    }

    // P191
    #[test]
    fn a_lost_executor_takes_its_partitions_with_it() {
        let mut tracker = three();
        assert_eq!(tracker.executor_lost(&executor(1)), [partition(0, 0), partition(2, 0)]);
        assert!(!tracker.is_tracked(&partition(0, 0)) && tracker.is_tracked(&partition(1, 0)));
        assert_eq!(tracker.executor_lost(&executor(1)), []);
        assert_eq!(tracker.all().count(), 1);
    }

    #[test]
    fn another_attempt_is_another_partition() {
        let mut tracker = three();
        assert!(!tracker.is_tracked(&partition(0, 1)));
        tracker.start_tracking(partition(0, 1), executor(3), ResultPartitionType::HybridFull);
        assert_eq!(tracker.location(&partition(0, 0)), Some(&executor(1)));
        assert_eq!(tracker.location(&partition(0, 1)), Some(&executor(3)));
    }

    #[test]
    fn a_partition_that_is_announced_again_moves() {
        let mut tracker = three();
        tracker.start_tracking(partition(1, 0), executor(1), ResultPartitionType::Blocking);
        assert!(!tracker.tracks_on(&executor(2)));
        assert_eq!(tracker.executor_lost(&executor(1)).len(), 3);
    }

    // What is persistent can be told apart when the job ends.
    #[test]
    fn types_are_remembered() {
        let mut tracker = three();
        tracker.start_tracking(partition(5, 0), executor(1), ResultPartitionType::BlockingPersistent);
        let kept: Vec<_> = tracker.all().filter(|(.., kind)| kind.is_persistent()).map(|(id, ..)| *id).collect();
        assert_eq!(kept, [partition(5, 0)]);
    }
}
