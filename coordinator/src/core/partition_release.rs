//! When a consumed result can be deleted while the job runs (reference 4.3).

use super::bitset::BitSet;
use super::regions::{RegionIndex, Regions};
use super::topology::{GroupIndex, PartitionIndex, TaskIndex, Topology};

/// Watches tasks finish and says which partitions nobody will read any more.
///
/// A partition can go once all regions that consume any of its groups have finished. Deleting it makes a later loss
/// further down dearer, not wrong: both stages are then computed again.
#[derive(Debug, Clone)]
pub struct PartitionRelease {
    topology: Topology,
    regions: Regions,
    is_enabled: bool,
    /// By task.
    finished: BitSet,
    /// By region: tasks that are not finished.
    unfinished_tasks: Vec<u32>,
    /// By group: consuming regions that are not finished.
    unfinished_regions: Vec<u32>,
}

impl PartitionRelease {
    /// Nothing has finished yet. With `is_enabled` false
    /// (`jobmanager.partition.release-during-job-execution: false`) nothing is ever released.
    #[must_use]
    pub fn new(topology: &Topology, regions: &Regions, is_enabled: bool) -> Self {
        let unfinished_tasks = regions.all().map(|region| count(regions.tasks(region).len())).collect();
        let mut release = Self {
            topology: topology.clone(),
            regions: regions.clone(),
            is_enabled,
            finished: BitSet::new(topology.task_count()),
            unfinished_tasks,
            unfinished_regions: vec![0; topology.group_count()],
        };
        for region in regions.all() {
            for group in release.consumed_by(region) {
                release.unfinished_regions[group.at()] += 1;
            }
        }
        release
    }

    /// A task finished. Answers the partitions that became releasable by it, in order. A second call for the same
    /// task changes nothing.
    pub fn vertex_finished(&mut self, task: TaskIndex) -> Vec<PartitionIndex> {
        let mut releasable = Vec::new();
        if !self.finished.insert(task.at()) {
            return releasable;
        }
        let region = self.regions.region_of(task);
        self.unfinished_tasks[region.at()] -= 1;
        if self.unfinished_tasks[region.at()] > 0 {
            return releasable;
        }
        for group in self.consumed_by(region) {
            self.unfinished_regions[group.at()] -= 1;
            if self.unfinished_regions[group.at()] == 0 && !self.topology.group_type(group).is_persistent() {
                let partitions = self.topology.group_partitions(group);
                releasable.extend(partitions.filter(|&partition| self.is_releasable(partition)));
            }
        }
        releasable.sort_unstable();
        releasable.dedup();
        if self.is_enabled { releasable } else { Vec::new() }
    }

    /// A task will run again: its region needs its inputs again. For a task that has not finished it changes
    /// nothing.
    pub fn vertex_unfinished(&mut self, task: TaskIndex) {
        if !self.finished.remove(task.at()) {
            return;
        }
        let region = self.regions.region_of(task);
        self.unfinished_tasks[region.at()] += 1;
        if self.unfinished_tasks[region.at()] == 1 {
            for group in self.consumed_by(region) {
                self.unfinished_regions[group.at()] += 1;
            }
        }
    }

    /// A data set that several edges share is released only when all of them are done with the partition.
    fn is_releasable(&self, partition: PartitionIndex) -> bool {
        self.topology.consumer_groups(partition).all(|group| self.unfinished_regions[group.at()] == 0)
    }

    /// Groups that the region consumes and that the scheduler releases, each once.
    fn consumed_by(&self, region: RegionIndex) -> Vec<GroupIndex> {
        let tasks = self.regions.tasks(region).iter();
        let groups = tasks.flat_map(|&task| self.topology.consumed_groups(task));
        let mut groups: Vec<_> =
            groups.filter(|&group| self.topology.group_type(group).is_release_by_scheduler()).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

/// A region has fewer than 2³² tasks, since tasks are numbered by `u32`.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::testing::{partitions, task, topology};

    struct Job(Topology, PartitionRelease);

    impl Job {
        fn new(vertices: &str, edges: &str, is_enabled: bool) -> Self {
            let topology = topology(vertices, edges);
            let release = PartitionRelease::new(&topology, &Regions::build(&topology), is_enabled);
            Self(topology, release)
        }

        fn finish(&mut self, name: &str) -> Vec<PartitionIndex> {
            self.1.vertex_finished(task(&self.0, name))
        }

        fn unfinish(&mut self, name: &str) {
            self.1.vertex_unfinished(task(&self.0, name));
        }

        fn of(&self, names: &str) -> Vec<PartitionIndex> {
            partitions(&self.0, names)
        }
    }

    // P166 P168 P169
    #[test]
    fn partitions_go_when_their_consuming_region_has_finished() {
        let mut job = Job::new("a b c", "a-b:B b-c:P", true);
        assert_eq!(job.finish("a"), []);
        assert_eq!(job.finish("b"), []);
        assert_eq!(job.finish("c"), job.of("a"));
    }

    // P168
    #[test]
    fn each_region_releases_what_only_it_reads() {
        let mut job = Job::new("a*2 b*2", "a-b:HF", true);
        job.finish("a1");
        assert_eq!(job.finish("b1"), job.of("a1"));
        assert_eq!(job.finish("b2"), job.of("a2"));
    }

    #[test]
    fn an_all_to_all_group_waits_for_its_last_region() {
        let mut job = Job::new("a*3 b*2", "a=b:B", true);
        assert_eq!(job.finish("b2"), []);
        assert_eq!(job.finish("b1"), job.of("a1 a2 a3"));
    }

    // P167 P170
    #[test]
    fn running_again_undoes_finishing() {
        let mut job = Job::new("a b*2", "a=b:B", true);
        job.finish("b1");
        job.unfinish("b1");
        assert_eq!(job.finish("b2"), []);
        assert_eq!(job.finish("b1"), job.of("a"));
        job.unfinish("b2");
        assert_eq!(job.finish("b2"), job.of("a"));
    }

    // P172
    #[test]
    fn finishing_and_unfinishing_are_idempotent() {
        let mut job = Job::new("a b*2", "a=b:B", true);
        assert_eq!((job.finish("b1"), job.finish("b1")), (vec![], vec![]));
        job.unfinish("b2");
        assert_eq!(job.finish("b2"), job.of("a"));
        assert_eq!(job.finish("b2"), []);
        job.unfinish("b1");
        job.unfinish("b1");
        assert_eq!(job.finish("b1"), job.of("a"));
    }

    // P150, P175
    #[test]
    fn a_shared_data_set_waits_for_its_last_consumer() {
        let mut job = Job::new("a b c", "a-b,c:B", true);
        assert_eq!(job.finish("c"), []);
        job.unfinish("c");
        assert_eq!(job.finish("b"), [], "c will read it again");
        assert_eq!(job.finish("c"), job.of("a"));
        let mut job = Job::new("a b c", "a-b:B a-c:B", true);
        assert_eq!(job.finish("c"), job.of("a->c"));
    }

    #[test]
    fn persistent_and_pipelined_partitions_stay() {
        let mut job = Job::new("a b", "a-b:BP", true);
        assert_eq!(job.finish("b"), []);
        let mut job = Job::new("a b", "a-b:P", true);
        assert_eq!((job.finish("a"), job.finish("b")), (vec![], vec![]));
    }

    // P174
    #[test]
    fn nothing_is_released_when_switched_off() {
        let mut job = Job::new("a b", "a-b:B", false);
        assert_eq!(job.finish("b"), []);
    }
}
