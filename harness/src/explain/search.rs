//! Why a task restarts: the search of the coordinator's `restart_set`, with every task's reason.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use stormproof_coordinator::core::topology::{GroupIndex, PartitionIndex, TaskIndex};
use stormproof_coordinator::graph::ResultPartitionType;

use super::picture::Picture;
use crate::oracle::model::{Reason, Task};

/// A search that goes on from where it stopped. Each region and each group is looked at once, so an all-to-all edge
/// costs its two sides, not their product.
pub(super) struct Search<'a> {
    picture: &'a Picture,
    lost: &'a BTreeSet<PartitionIndex>,
    visited: Vec<bool>,
    read: Vec<bool>,
    fed: Vec<bool>,
    queue: VecDeque<(TaskIndex, Reason)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(picture: &'a Picture, lost: &'a BTreeSet<PartitionIndex>) -> Self {
        let groups = picture.topology.group_count();
        Self {
            picture,
            lost,
            visited: vec![false; picture.regions.count()],
            read: vec![false; groups],
            fed: vec![false; groups],
            queue: VecDeque::new(),
        }
    }

    /// Everything that these failures reach and that was not reached before.
    pub(super) fn spread(&mut self, failed: impl IntoIterator<Item = TaskIndex>) -> BTreeMap<Task, Reason> {
        let picture = self.picture;
        self.queue.extend(failed.into_iter().map(|task| (task, Reason::Failed)));
        let mut reached = BTreeMap::new();
        while let Some((entry, reason)) = self.queue.pop_front() {
            let region = picture.regions.region_of(entry);
            if std::mem::replace(&mut self.visited[region.at()], true) {
                continue;
            }
            let mate = Reason::SameRegion(picture.task(entry));
            for &task in picture.regions.tasks(region) {
                reached.insert(picture.task(task), if task == entry { reason } else { mate });
            }
            for &task in picture.regions.tasks(region) {
                picture.topology.consumed_groups(task).for_each(|group| self.draw_in_producers(task, group));
                picture.topology.produced_groups(task).for_each(|group| self.draw_in_consumers(task, group));
            }
        }
        reached
    }

    fn draw_in_producers(&mut self, task: TaskIndex, group: GroupIndex) {
        if std::mem::replace(&mut self.read[group.at()], true) {
            return;
        }
        let topology = &self.picture.topology;
        let kind = topology.group_type(group);
        let can_be_read_again = kind.is_reconsumable() || kind == ResultPartitionType::PipelinedApproximate;
        for (partition, producer) in topology.group_partitions(group).zip(topology.group_producers(group)) {
            if !can_be_read_again || self.lost.contains(&partition) {
                let (partition, needed_by) = (self.picture.partition(partition), self.picture.task(task));
                self.queue.push_back((producer, Reason::InputLost { partition, needed_by }));
            }
        }
    }

    fn draw_in_consumers(&mut self, task: TaskIndex, group: GroupIndex) {
        if std::mem::replace(&mut self.fed[group.at()], true) {
            return;
        }
        let reason = Reason::Consumes(self.picture.task(task));
        self.queue.extend(self.picture.topology.group_consumers(group).map(|consumer| (consumer, reason)));
    }
}
