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
