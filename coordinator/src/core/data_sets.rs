//! Results that outlive their job: the ResourceManager's partition tracker (reference 4.1, 4.4; FLIP-31, FLIP-205).
//!
//! When a job has FINISHED, its persistent partitions are *promoted* on the executors that have them: they belong to
//! the cluster from then on. What exists is only ever known from what executors report. A data set that has lost a
//! partition is of no use: the rest of it is released as well.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::graph::{DataSetId, ExecutorId, JobId, ResultPartitionId};

/// Released data sets that are remembered for those who ask how far their release is.
const REMEMBERED_RELEASES: usize = 1_024;

/// A partition that belongs to the cluster (Flink's cluster partition).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPartition {
    /// The data set that it is a part of.
    pub data_set: DataSetId,
    /// Number of partitions of that data set.
    pub total: u32,
    /// The job that produced it.
    pub job: JobId,
    /// What one attempt of that job produced.
    pub partition: ResultPartitionId,
    /// Number of its subpartitions.
    pub subpartitions: u32,
}

/// How far the release of a data set is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseState {
    /// Some executor still has a part of it.
    InProgress,
    /// Nobody has.
    Completed,
}

#[derive(Debug, Clone)]
struct DataSet {
    total: u32,
    partitions: BTreeMap<ResultPartitionId, (ExecutorId, ClusterPartition)>,
    /// Asked for, or a part of it was lost.
    releasing: bool,
}

impl DataSet {
    fn hosts(&self) -> BTreeSet<ExecutorId> {
        self.partitions.values().map(|(executor, _)| executor.clone()).collect()
    }

    fn is_complete(&self) -> bool {
        !self.releasing && self.partitions.len() == self.total as usize
    }
}

/// The data sets of a cluster.
#[derive(Debug, Clone, Default)]
pub struct DataSets {
    sets: BTreeMap<DataSetId, DataSet>,
    /// Gone, newest last.
    released: VecDeque<DataSetId>,
}

/// Executors that must be told to release a data set.
pub type Releases = BTreeSet<(ExecutorId, DataSetId)>;

impl DataSets {
    /// Takes in all that `executor` has. Answers what must be released because it is of no use any more.
    pub fn report(&mut self, executor: &ExecutorId, partitions: &[ClusterPartition]) -> Releases {
        let mut releases = Releases::new();
        let reported: BTreeSet<_> = partitions.iter().map(|it| (it.data_set, it.partition)).collect();
        for (&id, set) in &mut self.sets {
            let before = set.partitions.len();
            set.partitions.retain(|partition, (host, _)| host != executor || reported.contains(&(id, *partition)));
            if set.partitions.len() < before && !set.releasing {
                set.releasing = true;
                releases.extend(set.hosts().into_iter().map(|host| (host, id)));
            }
        }
        for partition in partitions {
            let set = self.sets.entry(partition.data_set).or_insert_with(|| DataSet {
                total: partition.total,
                partitions: BTreeMap::new(),
                releasing: false,
            });
            let known = set.partitions.insert(partition.partition, (executor.clone(), *partition)).is_some();
            if set.releasing && !known {
                // Promoted after the rest of it was lost.
                releases.insert((executor.clone(), partition.data_set));
            }
        }
        self.forget_empty();
        releases
    }

    /// All that was on `executor` is lost.
    pub fn executor_lost(&mut self, executor: &ExecutorId) -> Releases {
        self.report(executor, &[])
    }

    /// Begins to release a data set: the executors to be told. An unknown one is released already.
    pub fn release(&mut self, id: DataSetId) -> Releases {
        match self.sets.get_mut(&id) {
            Some(set) => {
                set.releasing = true;
                set.hosts().into_iter().map(|host| (host, id)).collect()
            }
            None => {
                self.remember_released(id);
                Releases::new()
            }
        }
    }

    /// How far a release is; nothing if there was none.
    #[must_use]
    pub fn release_state(&self, id: DataSetId) -> Option<ReleaseState> {
        match self.sets.get(&id) {
            Some(set) => set.releasing.then_some(ReleaseState::InProgress),
            None => self.released.contains(&id).then_some(ReleaseState::Completed),
        }
    }

    /// All data sets, and whether all their partitions are there.
    pub fn list(&self) -> impl Iterator<Item = (DataSetId, bool)> {
        self.sets.iter().map(|(id, set)| (*id, set.is_complete()))
    }

    /// The partitions of a complete data set by subtask, with the executors that have them.
    #[must_use]
    pub fn find(&self, id: DataSetId) -> Option<Vec<(ExecutorId, ClusterPartition)>> {
        let set = self.sets.get(&id).filter(|set| set.is_complete())?;
        Some(set.partitions.values().cloned().collect())
    }

    fn forget_empty(&mut self) {
        let empty: Vec<_> = self.sets.iter().filter(|(_, set)| set.partitions.is_empty()).map(|(id, _)| *id).collect();
        for id in empty {
            self.sets.remove(&id);
            self.remember_released(id);
        }
    }

    fn remember_released(&mut self, id: DataSetId) {
        if !self.released.contains(&id) {
            self.released.push_back(id);
            if self.released.len() > REMEMBERED_RELEASES {
                self.released.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{PartitionId, TaskId, VertexId};

    const JOB: JobId = JobId([1; 16]);

    fn partition(vertex: &str, subtask: u32) -> ClusterPartition {
        let producer = TaskId { vertex: VertexId::of_name(vertex), subtask };
        let partition = PartitionId { producer, data_set: 0 };
        ClusterPartition {
            data_set: DataSetId::of(JOB, partition),
            total: 2,
            job: JOB,
            partition: ResultPartitionId { partition, attempt: 0 },
            subpartitions: 1,
        }
    }

    fn executor(number: u32) -> ExecutorId {
        ExecutorId(format!("executor-{number}"))
    }

    /// Each of two executors has one partition.
    fn spread() -> (DataSets, DataSetId) {
        let mut sets = DataSets::default();
        for number in 0..2 {
            assert_eq!(sets.report(&executor(number), &[partition("a", number)]), Releases::new());
        }
        (sets, partition("a", 0).data_set)
    }

    // P184: testListDataSetsBasics
    #[test]
    fn a_data_set_is_complete_once_all_its_partitions_are_reported() {
        let mut sets = DataSets::default();
        let (first, second) = (partition("a", 0), partition("a", 1));
        sets.report(&executor(0), &[first]);
        let listed = |sets: &DataSets| sets.list().collect::<Vec<_>>();
        assert_eq!((listed(&sets), sets.find(first.data_set)), (vec![(first.data_set, false)], None));
        sets.report(&executor(1), &[second]);
        assert_eq!(listed(&sets), [(first.data_set, true)]);
        assert_eq!(sets.find(first.data_set), Some(vec![(executor(0), first), (executor(1), second)]));
        assert_eq!(sets.report(&executor(1), &[second]), Releases::new(), "nothing new");
        assert_eq!(listed(&sets), [(first.data_set, true)]);
    }

    // P183: testReportProcessingWithPartitionLossOnSameTaskExecutor
    #[test]
    fn a_report_without_a_partition_releases_what_the_same_executor_still_has() {
        let mut sets = DataSets::default();
        let (first, second) = (partition("a", 0), partition("a", 1));
        sets.report(&executor(0), &[first, second]);
        assert_eq!(sets.report(&executor(0), &[second]), Releases::from([(executor(0), first.data_set)]));
        assert_eq!(sets.find(first.data_set), None);
        assert_eq!(sets.report(&executor(0), &[second]), Releases::new(), "told once");
        sets.report(&executor(0), &[]);
        assert_eq!(sets.list().count(), 0);
    }

    // P183: testReportProcessingWithPartitionLossOnOtherTaskExecutor
    #[test]
    fn a_lost_executor_makes_the_others_release_the_rest() {
        let (mut sets, id) = spread();
        sets.report(&executor(1), &[partition("a", 1), partition("b", 0)]);
        assert_eq!(sets.executor_lost(&executor(0)), Releases::from([(executor(1), id)]));
        assert_eq!(sets.list().filter(|(listed, _)| *listed == id).collect::<Vec<_>>(), [(id, false)]);
        sets.report(&executor(1), &[partition("b", 0)]);
        assert_eq!(sets.list().map(|(id, _)| id).collect::<Vec<_>>(), [partition("b", 0).data_set]);
    }

    #[test]
    fn what_is_promoted_after_a_loss_is_released_too() {
        let mut sets = DataSets::default();
        let (first, second) = (partition("a", 0), partition("a", 1));
        sets.report(&executor(0), &[ClusterPartition { total: 3, ..first }]);
        sets.report(&executor(1), &[ClusterPartition { total: 3, ..second }]);
        sets.executor_lost(&executor(0));
        let third = ClusterPartition { total: 3, ..partition("a", 2) };
        assert_eq!(sets.report(&executor(2), &[third]), Releases::from([(executor(2), third.data_set)]));
    }

    // P184: testReleasePartition
    #[test]
    fn a_release_is_complete_once_no_executor_has_anything() {
        let (mut sets, id) = spread();
        assert_eq!(sets.release_state(id), None, "nobody asked for it");
        assert_eq!(sets.release(id), Releases::from([(executor(0), id), (executor(1), id)]));
        assert_eq!((sets.release_state(id), sets.find(id)), (Some(ReleaseState::InProgress), None));
        assert_eq!(sets.report(&executor(0), &[]), Releases::new(), "everybody has been told");
        assert_eq!(sets.release_state(id), Some(ReleaseState::InProgress));
        sets.executor_lost(&executor(1));
        assert_eq!(sets.release_state(id), Some(ReleaseState::Completed));
        let unknown = partition("never", 0).data_set;
        assert_eq!(
            (sets.release(unknown), sets.release_state(unknown)),
            (Releases::new(), Some(ReleaseState::Completed))
        );
    }
}
