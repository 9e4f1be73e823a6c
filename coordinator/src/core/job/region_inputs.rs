//! When the inputs of a region are consumable (reference 3.5, 4.7).

use std::collections::{BTreeMap, BTreeSet};

use super::JobCore;
use super::attempts::is_located;
use crate::core::regions::{RegionIndex, Regions};
use crate::core::status::ExecutionState;
use crate::core::topology::{GroupIndex, TaskIndex, Topology};
use crate::graph::ResultPartitionType;

/// An input of a region that comes, at least in part, from other regions.
#[derive(Debug, Clone, Copy)]
struct RegionInput {
    group: GroupIndex,
    kind: ResultPartitionType,
    /// Some of its producers are in the region itself: only the others count.
    mixed: bool,
}

/// Per region what it waits for, and per group who waits for it. Cost follows groups and tasks, never pairs.
#[derive(Debug)]
pub(super) struct RegionInputs {
    inputs: Vec<Vec<RegionInput>>,
    /// Regions that wait for a group.
    waiting: BTreeMap<GroupIndex, BTreeSet<RegionIndex>>,
    /// Groups that some region both produces and consumes in part.
    mixed: BTreeSet<GroupIndex>,
    /// For groups that can be consumed while they are produced: producers that are not deployed.
    unlocated: BTreeMap<GroupIndex, u32>,
}

impl RegionInputs {
    pub(super) fn new(topology: &Topology, regions: &Regions) -> Self {
        let mut this = Self {
            inputs: vec![Vec::new(); regions.count()],
            waiting: BTreeMap::new(),
            mixed: BTreeSet::new(),
            unlocated: BTreeMap::new(),
        };
        let groups: BTreeSet<GroupIndex> = topology.tasks().flat_map(|task| topology.consumed_groups(task)).collect();
        for group in groups {
            let kind = topology.group_type(group);
            if !kind.must_be_pipelined_consumed() {
                this.add_group(topology, regions, group, kind);
            }
        }
        this
    }

    fn add_group(&mut self, topology: &Topology, regions: &Regions, group: GroupIndex, kind: ResultPartitionType) {
        let mut producers = BTreeSet::new();
        let mut count = 0;
        for partition in topology.group_partitions(group) {
            producers.insert(regions.region_of(topology.partition_location(partition).0));
            count += 1;
        }
        if kind.can_be_pipelined_consumed() {
            self.unlocated.insert(group, count);
        }
        let consumers: BTreeSet<_> = topology.group_consumers(group).map(|task| regions.region_of(task)).collect();
        for region in consumers {
            let mixed = producers.contains(&region);
            if mixed && producers.len() == 1 {
                // P113: a region does not wait for itself.
                continue;
            }
            if mixed {
                self.mixed.insert(group);
            }
            self.inputs[region.0 as usize].push(RegionInput { group, kind, mixed });
            self.waiting.entry(group).or_default().insert(region);
        }
    }

    /// Regions that may have become consumable because a producer of `group` made progress.
    fn waiting_for(&self, group: GroupIndex) -> impl Iterator<Item = RegionIndex> {
        self.waiting.get(&group).into_iter().flatten().copied()
    }
}

impl JobCore {
    /// All inputs of the region can be read now, or as they are produced.
    pub(super) fn is_consumable(&self, region: RegionIndex) -> bool {
        self.schedule.inputs.inputs[region.0 as usize].iter().all(|input| self.is_input_consumable(region, *input))
    }

    fn is_input_consumable(&self, region: RegionIndex, input: RegionInput) -> bool {
        let blocking = input.kind.is_blocking_or_blocking_persistent();
        let whole = if blocking {
            self.groups.is_consumable(input.group)
        } else {
            self.schedule.inputs.unlocated.get(&input.group) == Some(&0)
        };
        let ready = |task| match blocking {
            true => self.state(task) == ExecutionState::Finished,
            false => self.task(task).current.is_located(),
        };
        whole
            || input.mixed
                && (self.topology.group_partitions(input.group))
                    .map(|partition| self.topology.partition_location(partition).0)
                    .filter(|&producer| self.regions.region_of(producer) != region)
                    .all(ready)
    }

    /// Groups of which a producer has finished but will restart: what it made is about to be deleted.
    pub(super) fn groups_produced_again(&self) -> BTreeSet<GroupIndex> {
        self.restarts.waiting().flat_map(|task| self.topology.produced_groups(task)).collect()
    }

    /// The region reads one of these groups. It is looked at again when the data has been made once more.
    pub(super) fn reads_any(&self, region: RegionIndex, groups: &BTreeSet<GroupIndex>) -> bool {
        self.schedule.inputs.inputs[region.0 as usize].iter().any(|input| groups.contains(&input.group))
    }

    /// Keeps the count of undeployed producers in step with a state change of `task`, and notes the regions that may
    /// start because of it.
    pub(super) fn inputs_follow(&mut self, task: TaskIndex, from: ExecutionState, to: ExecutionState) {
        let located = (is_located(from), is_located(to));
        let finished = to == ExecutionState::Finished;
        if located.0 == located.1 && !finished {
            return;
        }
        let Self { topology, schedule, groups, .. } = self;
        for partition in topology.produced(task) {
            let kind = topology.partition_type(partition);
            if kind.must_be_pipelined_consumed() {
                continue;
            }
            for group in topology.consumer_groups(partition) {
                let complete = if kind.is_blocking_or_blocking_persistent() {
                    finished && groups.is_consumable(group)
                } else if let Some(unlocated) = schedule.inputs.unlocated.get_mut(&group) {
                    match located {
                        (false, true) => *unlocated -= 1,
                        (true, false) => *unlocated += 1,
                        _ => {}
                    }
                    *unlocated == 0
                } else {
                    false
                };
                if complete || located.1 && schedule.inputs.mixed.contains(&group) {
                    schedule.candidates.extend(schedule.inputs.waiting_for(group));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::testing::{task, topology};

    // P035 (what is unknown has no number to ask for)
    #[test]
    fn a_region_waits_for_what_comes_from_outside_and_need_not_be_pipelined() {
        let topology = topology("a b c d", "a-c:B b-c:HF c-d:P c-d:B");
        let regions = Regions::build(&topology);
        let inputs = RegionInputs::new(&topology, &regions);
        let groups = |name: &str| -> Vec<u32> {
            let region = regions.region_of(task(&topology, name));
            inputs.inputs[region.at()].iter().map(|input| input.group.0).collect()
        };
        assert_eq!((groups("a"), groups("b"), groups("c"), groups("d")), (vec![], vec![], vec![0, 1], vec![0, 1]));
    }
}
