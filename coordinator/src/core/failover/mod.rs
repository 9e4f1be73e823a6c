//! Which tasks restart (reference 2.2, 2.3).

#[cfg(test)]
mod tests;

use std::str::FromStr;

use super::bitset::BitSet;
use super::regions::{RegionIndex, Regions};
use super::status::ExecutionState;
use super::topology::{GroupIndex, PartitionIndex, TaskIndex, Topology};
use crate::graph::ResultPartitionType;

/// How a failure widens to a restart set (`jobmanager.execution.failover-strategy`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailoverStrategy {
    /// The failed task's pipelined region and what hangs on it.
    #[default]
    Region,
    /// Everything.
    Full,
}

/// A failover strategy that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a failover strategy; use `region` or `full`")]
pub struct UnknownFailoverStrategy(pub String);

impl FailoverStrategy {
    /// Flink's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Full => "full",
        }
    }
}

impl FromStr for FailoverStrategy {
    type Err = UnknownFailoverStrategy;

    fn from_str(text: &str) -> Result<Self, UnknownFailoverStrategy> {
        let known = [Self::Region, Self::Full];
        known
            .into_iter()
            .find(|strategy| strategy.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownFailoverStrategy(text.to_owned()))
    }
}

/// A partition that the cause of a failure names as lost (Flink's `PartitionException`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedPartition {
    /// The partition.
    pub partition: PartitionIndex,
    /// The cause names the producer's current attempt, not an earlier one.
    pub is_current_attempt: bool,
}

/// A failed task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub task: TaskIndex,
    /// The first partition that the cause chain names, outermost cause first.
    pub named: Option<NamedPartition>,
}

/// What a named partition of an attempt that is no longer current means (reference 2.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StalePolicy {
    /// As in Flink: the attempt is not looked at, so the new, healthy attempt's partition counts as lost.
    Honour,
    /// Nothing: the new attempt has not lost anything.
    Ignore,
}

/// The tasks that must restart when `failure` happens, in order; possibly none.
///
/// From the failed task's region: every region that consumes anything of a restarting region restarts, and so does
/// every region that produces an input of a restarting region that is not available. A partition is available if it
/// is not the one named, `is_tracked` says that the tracker holds it for the producer's current attempt, and its type
/// can be read again (PIPELINED_APPROXIMATE counts as such). Tasks that are CREATED have nothing to restart and are
/// left out (FLINK-19712).
///
/// Each group is looked at once, so an all-to-all edge costs its two sides, not their product.
#[must_use]
pub fn restart_set(
    topology: &Topology,
    regions: &Regions,
    failure: &Failure,
    stale: StalePolicy,
    state: impl Fn(TaskIndex) -> ExecutionState,
    is_tracked: impl Fn(PartitionIndex) -> bool,
) -> Vec<TaskIndex> {
    restart_set_of_all(topology, regions, [failure.task], failure.named, stale, state, is_tracked)
}

/// The union of the restart sets of all these tasks, which failed for one cause, at the cost of one: a restart set is
/// closed, so one search from all of them at once finds it.
#[must_use]
pub fn restart_set_of_all(
    topology: &Topology,
    regions: &Regions,
    failed: impl IntoIterator<Item = TaskIndex>,
    named: Option<NamedPartition>,
    stale: StalePolicy,
    state: impl Fn(TaskIndex) -> ExecutionState,
    is_tracked: impl Fn(PartitionIndex) -> bool,
) -> Vec<TaskIndex> {
    let counts = |named: &NamedPartition| named.is_current_attempt || stale == StalePolicy::Honour;
    let lost = named.filter(counts).map(|named| named.partition);
    let mut search = Search {
        regions,
        visited: BitSet::new(regions.count()),
        queue: Vec::new(),
        read: BitSet::new(topology.group_count()),
        fed: BitSet::new(topology.group_count()),
    };
    failed.into_iter().for_each(|task| search.visit(regions.region_of(task)));
    let mut next = 0;
    while let Some(&region) = search.queue.get(next) {
        next += 1;
        for &task in regions.tasks(region) {
            for group in topology.consumed_groups(task) {
                search.visit_lost_producers(topology, group, |p| Some(p) != lost && is_tracked(p));
            }
            for group in topology.produced_groups(task) {
                search.visit_consumers(topology, group);
            }
        }
    }
    let tasks = search.queue.iter().flat_map(|&region| regions.tasks(region)).copied();
    let mut tasks: Vec<_> = tasks.filter(|&task| state(task) != ExecutionState::Created).collect();
    tasks.sort_unstable();
    tasks
}

/// What restarts after a global failure, and after any failure with [`FailoverStrategy::Full`]: all tasks. Flink does
/// not leave CREATED ones out here, so they too get a new attempt.
#[must_use]
pub fn restart_all(topology: &Topology) -> Vec<TaskIndex> {
    topology.tasks().collect()
}

struct Search<'a> {
    regions: &'a Regions,
    visited: BitSet,
    /// Visited regions in the order they were found.
    queue: Vec<RegionIndex>,
    /// Groups whose producers were looked at.
    read: BitSet,
    /// Groups whose consumers were visited.
    fed: BitSet,
}

impl Search<'_> {
    fn visit(&mut self, region: RegionIndex) {
        if self.visited.insert(region.at()) {
            self.queue.push(region);
        }
    }

    fn visit_lost_producers(&mut self, topology: &Topology, group: GroupIndex, holds: impl Fn(PartitionIndex) -> bool) {
        if !self.read.insert(group.at()) {
            return;
        }
        let kind = topology.group_type(group);
        let can_be_read_again = kind.is_reconsumable() || kind == ResultPartitionType::PipelinedApproximate;
        for (partition, producer) in topology.group_partitions(group).zip(topology.group_producers(group)) {
            if !can_be_read_again || !holds(partition) {
                self.visit(self.regions.region_of(producer));
            }
        }
    }

    fn visit_consumers(&mut self, topology: &Topology, group: GroupIndex) {
        if self.fed.insert(group.at()) {
            topology.group_consumers(group).for_each(|task| self.visit(self.regions.region_of(task)));
        }
    }
}
