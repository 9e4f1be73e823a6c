//! Into what a partition is cut, and who reads which piece.

use std::ops::Range;

use super::{EdgeLayout, GroupIndex, PartitionIndex, TaskIndex, Topology};
use crate::graph::DistributionPattern;

impl Topology {
    /// Into how many subpartitions the partition is cut. One for each consumer on its first edge; in a dynamic graph
    /// for the most consumers that it could come to have, since it is written before they are decided.
    #[must_use]
    pub fn subpartitions(&self, partition: PartitionIndex) -> u32 {
        let set = self.partitions.item(self.partitions.locate(partition.0).0);
        let Some(growth) = &self.growth else {
            let first = self.consumer_groups(partition).next();
            return first.map_or(0, |group| len(&self.group_consumer_range(group)));
        };
        let (widest, data_set) = (growth.widest_consumer(set), self.sets[set]);
        match data_set.pattern {
            DistributionPattern::AllToAll => widest,
            DistributionPattern::Pointwise => {
                widest.div_ceil(self.graph.vertices[data_set.vertex as usize].parallelism)
            }
        }
    }

    /// Which subpartitions of each of `group`'s partitions `consumer` reads; the same of all of them. The consumers of
    /// a group share all subpartitions out evenly, in order. If the graph is not dynamic, each reads exactly one.
    #[must_use]
    pub fn subpartitions_read(&self, group: GroupIndex, consumer: TaskIndex) -> Range<u32> {
        let consumers = self.group_consumer_range(group);
        let place = consumer.0.saturating_sub(consumers.start);
        if self.growth.is_none() {
            return place..place + 1;
        }
        // Neither factor exceeds the largest parallelism, 2¹⁵.
        let pieces = self.group_partitions(group).next().map_or(0, |partition| self.subpartitions(partition));
        let start = |place: u32| place * pieces / len(&consumers);
        start(place)..start(place + 1)
    }

    fn group_consumer_range(&self, group: GroupIndex) -> Range<u32> {
        let (place, local) = self.groups.locate(group.0);
        let EdgeLayout { shape, first_consumer, .. } = self.layouts[place];
        let range = shape.consumers_of(local);
        range.start + first_consumer..range.end + first_consumer
    }
}

fn len(range: &Range<u32>) -> u32 {
    range.end - range.start
}
