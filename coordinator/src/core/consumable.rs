//! Which inputs are complete (reference 4.7, FLINK-12131).

use super::bitset::BitSet;
use super::topology::{GroupIndex, PartitionIndex, TaskIndex, Topology};

/// A call that would break the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GroupStatusError {
    /// The partition is complete already.
    #[error("partition {} is already finished; reset it before it can finish again", .0.0)]
    AlreadyFinished(PartitionIndex),
    /// A PIPELINED or PIPELINED_BOUNDED partition is consumed while it is produced and is never complete.
    #[error("partition {} must be consumed while it is produced; it cannot be marked finished", .0.0)]
    MustBePipelined(PartitionIndex),
}

/// For each group, how many of its partitions are not completely produced.
///
/// There is one flag a partition and the counts follow from the flags, by exactly one for each finish and for each
/// reset of a finished partition. (Flink once had one counter a *result*, and a reset left it wrong.)
#[derive(Debug, Clone)]
pub struct GroupStatus {
    topology: Topology,
    finished: BitSet,
    unfinished: Vec<u32>,
}

impl GroupStatus {
    /// Nothing is produced yet.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        let mut unfinished = Vec::with_capacity(topology.group_count());
        for edge in 0..topology.graph().edges.len() {
            for group in topology.edge_groups(edge) {
                unfinished.push(u32::try_from(topology.group_partitions(group).count()).unwrap_or(u32::MAX));
            }
        }
        Self { topology: topology.clone(), finished: BitSet::new(topology.partition_count()), unfinished }
    }

    /// All data of a partition is produced. Answers the groups that became complete by it.
    ///
    /// # Errors
    /// When it is already finished, or of a type that must be consumed while it is produced.
    pub fn partition_finished(&mut self, partition: PartitionIndex) -> Result<Vec<GroupIndex>, GroupStatusError> {
        if self.topology.partition_type(partition).must_be_pipelined_consumed() {
            return Err(GroupStatusError::MustBePipelined(partition));
        }
        if !self.finished.insert(partition.at()) {
            return Err(GroupStatusError::AlreadyFinished(partition));
        }
        let mut complete = Vec::new();
        for group in self.topology.consumer_groups(partition) {
            self.unfinished[group.at()] -= 1;
            if self.unfinished[group.at()] == 0 {
                complete.push(group);
            }
        }
        Ok(complete)
    }

    /// The producer runs again. Nothing changes for a partition that is not finished, nor for one that can be
    /// consumed while it is produced: hybrid partitions keep their mark, as in Flink.
    pub fn partition_reset(&mut self, partition: PartitionIndex) {
        if self.topology.partition_type(partition).can_be_pipelined_consumed() {
            return;
        }
        if self.finished.remove(partition.at()) {
            self.topology.consumer_groups(partition).for_each(|group| self.unfinished[group.at()] += 1);
        }
    }

    /// A task finished: its blocking partitions are complete (what Flink's default scheduler marks). Answers the
    /// groups that became complete by it. A second call without [`Self::task_reset`] changes nothing.
    pub fn task_finished(&mut self, task: TaskIndex) -> Vec<GroupIndex> {
        let mut complete = Vec::new();
        for partition in self.topology.produced(task).collect::<Vec<_>>() {
            if self.topology.partition_type(partition).is_blocking_or_blocking_persistent() {
                complete.extend(self.partition_finished(partition).unwrap_or_default());
            }
        }
        complete
    }

    /// A task will run again: all it produced counts as not produced.
    pub fn task_reset(&mut self, task: TaskIndex) {
        for partition in self.topology.produced(task).collect::<Vec<_>>() {
            self.partition_reset(partition);
        }
    }

    /// True if a consumer of this group may be scheduled as far as *finished* producers decide: all data of a
    /// blocking group is there. Groups that can be consumed while they are produced are always consumable in this
    /// sense; the scheduler sees to it that their producers are scheduled first.
    #[must_use]
    pub fn is_consumable(&self, group: GroupIndex) -> bool {
        self.unfinished[group.at()] == 0 || self.topology.group_type(group).can_be_pipelined_consumed()
    }

    /// How many partitions of the group are not completely produced.
    #[must_use]
    pub fn unfinished(&self, group: GroupIndex) -> u32 {
        self.unfinished[group.at()]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::testing::{partition, task, topology};

    /// The invariant of FLINK-12131, from the flags alone.
    fn assert_counts(status: &GroupStatus, flags: &[bool]) {
        for group in (0..status.topology.group_count()).map(|group| GroupIndex(group as u32)) {
            let open = status.topology.group_partitions(group).filter(|partition| !flags[partition.at()]).count();
            assert_eq!(status.unfinished(group) as usize, open, "{group:?}");
            let is_blocking = !status.topology.group_type(group).can_be_pipelined_consumed();
            assert_eq!(status.is_consumable(group), open == 0 || !is_blocking, "{group:?}");
        }
    }

    // P028, P149
    #[test]
    fn a_group_is_complete_when_all_its_partitions_are() {
        let topology = topology("a*2 b*2 c", "a=b:B a-c:B");
        let mut status = GroupStatus::new(&topology);
        assert_eq!(status.task_finished(task(&topology, "a1")), []);
        assert_eq!(status.task_finished(task(&topology, "a2")), [GroupIndex(0), GroupIndex(1)]);
        status.task_reset(task(&topology, "a1"));
        assert_eq!((status.unfinished(GroupIndex(0)), status.is_consumable(GroupIndex(0))), (1, false));
        assert_eq!(status.task_finished(task(&topology, "a1")), [GroupIndex(0), GroupIndex(1)]);
    }

    // P149
    #[test]
    fn finishing_twice_and_finishing_a_pipelined_partition_are_errors() {
        let topology = topology("a b c", "a-b:B a-c:P");
        let (blocking, pipelined) = (partition(&topology, "a->b"), partition(&topology, "a->c"));
        let mut status = GroupStatus::new(&topology);
        assert_eq!(status.partition_finished(blocking), Ok(vec![GroupIndex(0)]));
        assert_eq!(status.partition_finished(blocking), Err(GroupStatusError::AlreadyFinished(blocking)));
        assert_eq!(status.partition_finished(pipelined), Err(GroupStatusError::MustBePipelined(pipelined)));
        assert_eq!((status.unfinished(GroupIndex(0)), status.unfinished(GroupIndex(1))), (0, 1));
    }

    #[test]
    fn hybrid_partitions_do_not_touch_the_count_on_reset() {
        let topology = topology("a b", "a-b:HF");
        let hybrid = partition(&topology, "a");
        let mut status = GroupStatus::new(&topology);
        assert!(status.is_consumable(GroupIndex(0)));
        status.partition_reset(hybrid);
        assert_eq!(status.unfinished(GroupIndex(0)), 1);
        status.partition_finished(hybrid).unwrap();
        status.partition_reset(hybrid);
        assert_eq!(status.unfinished(GroupIndex(0)), 0);
    }

    #[test]
    fn a_task_that_only_streams_completes_nothing() {
        let topology = topology("a b c", "a-b:P a-c:HS");
        let mut status = GroupStatus::new(&topology);
        assert_eq!(status.task_finished(task(&topology, "a")), []);
        assert_counts(&status, &[false; 2]);
    }

    proptest! {
        /// Whatever finishes and is reset, in whatever order, the counts follow the flags.
        #[test]
        fn counts_follow_flags(steps in prop::collection::vec((0..11_u32, any::<bool>()), 0..60)) {
            let topology = topology("a*3 b*2 c*4", "a=b:B a-b,c:B b-c:BP");
            let mut status = GroupStatus::new(&topology);
            let mut flags = vec![false; topology.partition_count()];
            for (number, finishes) in steps {
                let number = number % flags.len() as u32;
                let partition = PartitionIndex(number);
                if finishes {
                    let was_finished = std::mem::replace(&mut flags[partition.at()], true);
                    prop_assert_eq!(status.partition_finished(partition).is_err(), was_finished);
                } else {
                    flags[partition.at()] = false;
                    status.partition_reset(partition);
                }
                assert_counts(&status, &flags);
            }
        }
    }
}
