//! When a consumed result can be deleted while the job runs (reference 4.3).

use super::bitset::BitSet;
use super::regions::{RegionIndex, Regions};
use super::topology::{GroupIndex, PartitionIndex, TaskIndex, Topology};

/// Watches tasks finish and says which partitions nobody will read any more.
///
/// A partition can go once all regions that consume any of its groups have finished. Deleting it makes a later loss
/// further down dearer, not wrong: both stages are then computed again. A consumer that is not even decided
/// ([`Topology::grow`]) has not finished either.
///
/// All methods want the topology and the regions that it was made for, as they are now. After a growth,
/// [`Self::grow`] comes first.
#[derive(Debug, Clone)]
pub struct PartitionRelease {
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
        let mut release =
            Self { is_enabled, finished: BitSet::new(0), unfinished_tasks: Vec::new(), unfinished_regions: Vec::new() };
        release.grow(topology, regions);
        release
    }

    /// Learns of the tasks, regions and groups that were added since; none of the tasks has finished. Linear in what
    /// was added.
    pub fn grow(&mut self, topology: &Topology, regions: &Regions) {
        self.finished.grow(topology.task_count());
        self.unfinished_regions.resize(topology.group_count(), 0);
        for region in regions.all().skip(self.unfinished_tasks.len()) {
            self.unfinished_tasks.push(count(regions.tasks(region).len()));
            for group in consumed_by(topology, regions, region) {
                self.unfinished_regions[group.at()] += 1;
            }
        }
    }

    /// A task finished. Answers the partitions that became releasable by it, in order. A second call for the same
    /// task changes nothing.
    pub fn vertex_finished(&mut self, topology: &Topology, regions: &Regions, task: TaskIndex) -> Vec<PartitionIndex> {
        let mut releasable = Vec::new();
        if !self.finished.insert(task.at()) {
            return releasable;
        }
        let region = regions.region_of(task);
        self.unfinished_tasks[region.at()] -= 1;
        if self.unfinished_tasks[region.at()] > 0 {
            return releasable;
        }
        for group in consumed_by(topology, regions, region) {
            self.unfinished_regions[group.at()] -= 1;
            if self.unfinished_regions[group.at()] == 0 && !topology.group_type(group).is_persistent() {
                let partitions = topology.group_partitions(group);
                releasable.extend(partitions.filter(|&partition| self.is_releasable(topology, partition)));
            }
        }
        releasable.sort_unstable();
        releasable.dedup();
        if self.is_enabled { releasable } else { Vec::new() }
    }

    /// A task will run again: its region needs its inputs again. For a task that has not finished it changes
    /// nothing.
    pub fn vertex_unfinished(&mut self, topology: &Topology, regions: &Regions, task: TaskIndex) {
        if !self.finished.remove(task.at()) {
            return;
        }
        let region = regions.region_of(task);
        self.unfinished_tasks[region.at()] += 1;
        if self.unfinished_tasks[region.at()] == 1 {
            for group in consumed_by(topology, regions, region) {
                self.unfinished_regions[group.at()] += 1;
            }
        }
    }

    /// A data set that several edges share is released only when all of them are done with the partition, those of
    /// consumers that are not decided yet included (FLINK-28663).
    fn is_releasable(&self, topology: &Topology, partition: PartitionIndex) -> bool {
        topology.has_all_consumers(partition)
            && topology.consumer_groups(partition).all(|group| self.unfinished_regions[group.at()] == 0)
    }
}

/// Groups that the region consumes and that the scheduler releases, each once.
fn consumed_by(topology: &Topology, regions: &Regions, region: RegionIndex) -> Vec<GroupIndex> {
    let groups = regions.tasks(region).iter().flat_map(|&task| topology.consumed_groups(task));
    let mut groups: Vec<_> = groups.filter(|&group| topology.group_type(group).is_release_by_scheduler()).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// A region has fewer than 2³² tasks, since tasks are numbered by `u32`.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::testing::{dynamic_topology, grow, partitions, task, topology};

    struct Job {
        topology: Topology,
        regions: Regions,
        release: PartitionRelease,
    }

    impl Job {
        fn new(vertices: &str, edges: &str, is_enabled: bool) -> Self {
            Self::of(topology(vertices, edges), is_enabled)
        }

        fn dynamic(vertices: &str, edges: &str) -> Self {
            Self::of(dynamic_topology(vertices, edges), true)
        }

        fn of(topology: Topology, is_enabled: bool) -> Self {
            let regions = Regions::build(&topology);
            let release = PartitionRelease::new(&topology, &regions, is_enabled);
            Self { topology, regions, release }
        }

        fn decide(&mut self, decided: &str) {
            grow(&mut self.topology, decided).unwrap();
            self.regions.grow(&self.topology);
            self.release.grow(&self.topology, &self.regions);
        }

        fn finish(&mut self, name: &str) -> Vec<PartitionIndex> {
            self.release.vertex_finished(&self.topology, &self.regions, task(&self.topology, name))
        }

        fn unfinish(&mut self, name: &str) {
            self.release.vertex_unfinished(&self.topology, &self.regions, task(&self.topology, name));
        }

        fn partitions(&self, names: &str) -> Vec<PartitionIndex> {
            partitions(&self.topology, names)
        }
    }

    // P166 P168 P169
    #[test]
    fn partitions_go_when_their_consuming_region_has_finished() {
        let mut job = Job::new("a b c", "a-b:B b-c:P", true);
        assert_eq!(job.finish("a"), []);
        assert_eq!(job.finish("b"), []);
        assert_eq!(job.finish("c"), job.partitions("a"));
    }

    // P168
    #[test]
    fn each_region_releases_what_only_it_reads() {
        let mut job = Job::new("a*2 b*2", "a-b:HF", true);
        job.finish("a1");
        assert_eq!(job.finish("b1"), job.partitions("a1"));
        assert_eq!(job.finish("b2"), job.partitions("a2"));
    }

    #[test]
    fn an_all_to_all_group_waits_for_its_last_region() {
        let mut job = Job::new("a*3 b*2", "a=b:B", true);
        assert_eq!(job.finish("b2"), []);
        assert_eq!(job.finish("b1"), job.partitions("a1 a2 a3"));
    }

    // P167 P170
    #[test]
    fn running_again_undoes_finishing() {
        let mut job = Job::new("a b*2", "a=b:B", true);
        job.finish("b1");
        job.unfinish("b1");
        assert_eq!(job.finish("b2"), []);
        assert_eq!(job.finish("b1"), job.partitions("a"));
        job.unfinish("b2");
        assert_eq!(job.finish("b2"), job.partitions("a"));
    }

    // P172
    #[test]
    fn finishing_and_unfinishing_are_idempotent() {
        let mut job = Job::new("a b*2", "a=b:B", true);
        assert_eq!((job.finish("b1"), job.finish("b1")), (vec![], vec![]));
        job.unfinish("b2");
        assert_eq!(job.finish("b2"), job.partitions("a"));
        assert_eq!(job.finish("b2"), []);
        job.unfinish("b1");
        job.unfinish("b1");
        assert_eq!(job.finish("b1"), job.partitions("a"));
    }

    // P150, P175
    #[test]
    fn a_shared_data_set_waits_for_its_last_consumer() {
        let mut job = Job::new("a b c", "a-b,c:B", true);
        assert_eq!(job.finish("c"), []);
        job.unfinish("c");
        assert_eq!(job.finish("b"), [], "c will read it again");
        assert_eq!(job.finish("c"), job.partitions("a"));
        let mut job = Job::new("a b c", "a-b:B a-c:B", true);
        assert_eq!(job.finish("c"), job.partitions("a->c"));
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

    // P171
    #[test]
    fn regions_that_are_added_join() {
        let mut job = Job::dynamic("a*2 b*?", "a=b:B");
        assert_eq!((job.finish("a1"), job.finish("a2")), (vec![], vec![]));
        job.decide("b*2");
        assert_eq!(job.finish("b1"), []);
        assert_eq!(job.finish("b2"), job.partitions("a1 a2"));
        job.unfinish("b1");
        assert_eq!(job.finish("b1"), job.partitions("a1 a2"));
    }

    #[test]
    fn what_finished_before_a_growth_stays_finished() {
        let mut job = Job::dynamic("a b*2 c*?200", "a=b:B b=c:B");
        job.finish("b1");
        job.decide("c*100");
        assert_eq!(job.finish("b1"), []);
        assert_eq!(job.finish("b2"), job.partitions("a"));
    }

    #[test]
    fn a_shared_data_set_waits_for_consumers_that_are_not_decided() {
        let mut job = Job::dynamic("a b c*?", "a-b,c:B");
        assert_eq!(job.finish("b"), [], "c will read it");
        job.decide("c");
        assert_eq!(job.finish("c"), job.partitions("a"));
        // A data set of its own does not wait for the consumer of another one.
        let mut job = Job::dynamic("a b c*?", "a-b:B a-c:B");
        assert_eq!(job.finish("b"), job.partitions("a->b"));
    }
}
