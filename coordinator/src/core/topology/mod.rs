//! All tasks, partitions and groups of a job, by dense numbers.
//!
//! Nothing here is a list of task pairs. A task is its vertex's first task plus a subtask number, a partition is its
//! data set's first partition plus a subtask number, and a group (Flink's `ConsumedPartitionGroup` together with its
//! `ConsumerVertexGroup`) is two ranges found by arithmetic (`shape`). Memory follows vertices and edges of the
//! *job* graph; walking it costs what is walked.

mod build;
mod logical;
pub(crate) mod shape;
#[cfg(test)]
mod tests;

pub use build::TopologyError;
pub use logical::{LogicalEdge, LogicalGraph, LogicalVertex};
pub(crate) use shape::Shape;

use std::ops::Range;

use super::csr::Csr;
use crate::graph::ResultPartitionType;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an array index.
            #[must_use]
            pub fn at(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index! {
    /// A task (Flink's `ExecutionVertex`): numbered by vertex position, then subtask.
    TaskIndex
}
index! {
    /// A partition (Flink's `IntermediateResultPartition`): numbered by producing vertex, data set, subtask.
    PartitionIndex
}
index! {
    /// A group: partitions that are read identically by some tasks over one edge. Numbered by edge.
    GroupIndex
}

/// A data set of a vertex.
#[derive(Debug, Clone, Copy)]
struct DataSet {
    vertex: u32,
    number: u32,
    partition_type: ResultPartitionType,
}

/// Where an edge's tasks and partitions start.
#[derive(Debug, Clone, Copy)]
struct EdgeLayout {
    shape: Shape,
    first_producer: u32,
    first_consumer: u32,
    first_partition: u32,
}

/// A job's tasks, partitions and groups. See the [module](self).
///
/// Indices given to its methods must come from the same topology; others panic.
#[derive(Debug, Clone)]
pub struct Topology {
    graph: LogicalGraph,
    /// By vertex, then the total.
    first_task: Vec<u32>,
    /// By vertex and number.
    sets: Vec<DataSet>,
    /// By data set, then the total.
    first_partition: Vec<u32>,
    edges: Vec<EdgeLayout>,
    /// By edge, then the total.
    first_group: Vec<u32>,
    /// By vertex: incoming edges.
    inputs: Csr,
    /// By vertex: data sets.
    outputs: Csr,
    /// By data set: edges that read it.
    set_edges: Csr,
}

/// The position whose range holds `value`, and the offset within it. `first` starts with 0 and rises strictly.
fn locate(first: &[u32], value: u32) -> (usize, u32) {
    let position = first.partition_point(|&start| start <= value) - 1;
    (position, value - first[position])
}

impl Topology {
    /// Checks `graph` and numbers everything in it.
    ///
    /// # Errors
    /// A cycle, a data set with two patterns or types, a parallelism out of range; the error names the vertex.
    pub fn build(graph: LogicalGraph) -> Result<Self, TopologyError> {
        build::build(graph)
    }

    /// What this was built from.
    #[must_use]
    pub fn graph(&self) -> &LogicalGraph {
        &self.graph
    }

    /// Number of tasks.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.first_task[self.graph.vertices.len()] as usize
    }

    /// Number of partitions.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.first_partition[self.sets.len()] as usize
    }

    /// Number of groups.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.first_group[self.edges.len()] as usize
    }

    /// All tasks, by vertex, then subtask.
    pub fn tasks(&self) -> impl Iterator<Item = TaskIndex> + use<> {
        (0..self.first_task[self.graph.vertices.len()]).map(TaskIndex)
    }

    /// All tasks of one vertex, by subtask.
    pub fn tasks_of(&self, vertex: usize) -> impl Iterator<Item = TaskIndex> + use<> {
        (self.first_task[vertex]..self.first_task[vertex + 1]).map(TaskIndex)
    }

    /// Subtask `subtask` of the vertex at position `vertex`, if both exist.
    #[must_use]
    pub fn task(&self, vertex: usize, subtask: u32) -> Option<TaskIndex> {
        let parallelism = self.graph.vertices.get(vertex)?.parallelism;
        (subtask < parallelism).then(|| TaskIndex(self.first_task[vertex] + subtask))
    }

    /// Position of the task's vertex, and its subtask number.
    #[must_use]
    pub fn location(&self, task: TaskIndex) -> (usize, u32) {
        locate(&self.first_task, task.0)
    }

    /// What `subtask` of `vertex` puts into its data set number `data_set`, if all of them exist.
    #[must_use]
    pub fn partition(&self, vertex: usize, data_set: u32, subtask: u32) -> Option<PartitionIndex> {
        let parallelism = self.graph.vertices.get(vertex)?.parallelism;
        let sets = self.outputs.row(vertex);
        let found = sets.binary_search_by_key(&data_set, |&set| self.sets[set as usize].number).ok()?;
        (subtask < parallelism).then(|| PartitionIndex(self.first_partition[sets[found] as usize] + subtask))
    }

    /// Who produces the partition, and the number of its data set.
    #[must_use]
    pub fn partition_location(&self, partition: PartitionIndex) -> (TaskIndex, u32) {
        let (set, subtask) = locate(&self.first_partition, partition.0);
        let DataSet { vertex, number, .. } = self.sets[set];
        (TaskIndex(self.first_task[vertex as usize] + subtask), number)
    }

    /// How the partition is kept.
    #[must_use]
    pub fn partition_type(&self, partition: PartitionIndex) -> ResultPartitionType {
        self.sets[locate(&self.first_partition, partition.0).0].partition_type
    }

    /// What the task produces, by data set.
    pub fn produced(&self, task: TaskIndex) -> impl Iterator<Item = PartitionIndex> {
        let (vertex, subtask) = self.location(task);
        let sets = self.outputs.row(vertex).iter();
        sets.map(move |&set| PartitionIndex(self.first_partition[set as usize] + subtask))
    }

    /// What the task consumes: one group for each input edge, in input order.
    pub fn consumed_groups(&self, task: TaskIndex) -> impl Iterator<Item = GroupIndex> {
        let (vertex, subtask) = self.location(task);
        self.inputs.row(vertex).iter().map(move |&edge| {
            let group = self.edges[edge as usize].shape.group_of_consumer(subtask);
            GroupIndex(self.first_group[edge as usize] + group)
        })
    }

    /// Groups that contain something the task produces, by data set, then edge.
    pub fn produced_groups(&self, task: TaskIndex) -> impl Iterator<Item = GroupIndex> {
        let (vertex, subtask) = self.location(task);
        let sets = self.outputs.row(vertex).iter();
        sets.flat_map(move |&set| self.groups_of(set as usize, subtask))
    }

    /// The partitions of a group, in order of their producers.
    pub fn group_partitions(&self, group: GroupIndex) -> impl Iterator<Item = PartitionIndex> + use<> {
        let (edge, local) = locate(&self.first_group, group.0);
        let EdgeLayout { shape, first_partition, .. } = self.edges[edge];
        shape.producers_of(local).map(move |producer| PartitionIndex(first_partition + producer))
    }

    /// The producers of a group's partitions, in order.
    pub fn group_producers(&self, group: GroupIndex) -> impl Iterator<Item = TaskIndex> + use<> {
        let (edge, local) = locate(&self.first_group, group.0);
        let EdgeLayout { shape, first_producer, .. } = self.edges[edge];
        shape.producers_of(local).map(move |producer| TaskIndex(first_producer + producer))
    }

    /// The tasks that read a group, in order.
    pub fn group_consumers(&self, group: GroupIndex) -> impl Iterator<Item = TaskIndex> + use<> {
        let (edge, local) = locate(&self.first_group, group.0);
        let EdgeLayout { shape, first_consumer, .. } = self.edges[edge];
        shape.consumers_of(local).map(move |consumer| TaskIndex(first_consumer + consumer))
    }

    /// The edge that a group belongs to, as a position in [`LogicalGraph::edges`].
    #[must_use]
    pub fn group_edge(&self, group: GroupIndex) -> usize {
        locate(&self.first_group, group.0).0
    }

    /// How a group's partitions are kept (all alike).
    #[must_use]
    pub fn group_type(&self, group: GroupIndex) -> ResultPartitionType {
        self.graph.edges[self.group_edge(group)].partition_type
    }

    /// All groups of an edge.
    pub fn edge_groups(&self, edge: usize) -> impl Iterator<Item = GroupIndex> + use<> {
        (self.first_group[edge]..self.first_group[edge + 1]).map(GroupIndex)
    }

    /// For each group of an edge, its producers and its consumers, as ranges of task numbers. For walks over a whole
    /// edge: no group has to be looked up.
    pub(crate) fn edge_members(&self, edge: usize) -> impl Iterator<Item = (Range<u32>, Range<u32>)> + use<> {
        let EdgeLayout { shape, first_producer, first_consumer, .. } = self.edges[edge];
        let shift = |range: Range<u32>, by: u32| range.start + by..range.end + by;
        (0..shape.groups()).map(move |group| {
            let (producers, consumers) = (shape.producers_of(group), shape.consumers_of(group));
            (shift(producers, first_producer), shift(consumers, first_consumer))
        })
    }

    /// The groups that read a partition: one, or one for each edge that shares its data set.
    pub fn consumer_groups(&self, partition: PartitionIndex) -> impl Iterator<Item = GroupIndex> {
        let (set, subtask) = locate(&self.first_partition, partition.0);
        self.groups_of(set, subtask)
    }

    fn groups_of(&self, set: usize, subtask: u32) -> impl Iterator<Item = GroupIndex> {
        self.set_edges.row(set).iter().map(move |&edge| {
            let group = self.edges[edge as usize].shape.group_of_producer(subtask);
            GroupIndex(self.first_group[edge as usize] + group)
        })
    }

    /// Into how many subpartitions the partition is cut: one for each consumer on its first edge.
    #[must_use]
    pub fn subpartitions(&self, partition: PartitionIndex) -> u32 {
        let first = self.consumer_groups(partition).next();
        first.map_or(0, |group| {
            let (edge, local) = locate(&self.first_group, group.0);
            let range = self.edges[edge].shape.consumers_of(local);
            range.end - range.start
        })
    }

    /// Which subpartition of each of `group`'s partitions `consumer` reads: its place among the group's consumers.
    /// The same for all partitions of the group.
    #[must_use]
    pub fn subpartition_of(&self, group: GroupIndex, consumer: TaskIndex, _partition: PartitionIndex) -> u32 {
        let (edge, local) = locate(&self.first_group, group.0);
        let EdgeLayout { shape, first_consumer, .. } = self.edges[edge];
        consumer.0.saturating_sub(first_consumer + shape.consumers_of(local).start)
    }
}
