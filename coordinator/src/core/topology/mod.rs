//! All tasks, partitions and groups of a job, by dense numbers.
//!
//! Nothing here is a list of task pairs. A task is its vertex's first task plus a subtask number, a partition is its
//! data set's first partition plus a subtask number, and a group (Flink's `ConsumedPartitionGroup` together with its
//! `ConsumerVertexGroup`) is two ranges found by arithmetic (`shape`). Memory follows vertices and edges of the
//! *job* graph; walking it costs what is walked.
//!
//! In a *dynamic* graph vertices may get their parallelism while the job runs. The topology then begins with what is
//! known and [grows](Topology::grow); a number, once given, stays.

mod build;
mod growth;
mod logical;
pub(crate) mod shape;
mod spans;
mod subpartitions;
#[cfg(test)]
mod tests;

pub use build::TopologyError;
pub use growth::{DynamicGraph, GrowthError};
pub use logical::{LogicalEdge, LogicalGraph, LogicalVertex};
pub(crate) use shape::Shape;

use std::ops::Range;

use growth::Growth;
use spans::Spans;

use super::csr::Csr;
use crate::graph::{DistributionPattern, ResultPartitionType};

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
    /// A task (Flink's `ExecutionVertex`): numbered by vertex position, then subtask. Vertices that are decided later
    /// come behind those that were there before.
    TaskIndex
}
index! {
    /// A partition (Flink's `IntermediateResultPartition`): numbered by producing vertex, data set, subtask.
    PartitionIndex
}
index! {
    /// A group: partitions that are read identically by some tasks over one edge. Numbered by edge, those of later
    /// vertices behind the others.
    GroupIndex
}

/// A data set of a vertex.
#[derive(Debug, Clone, Copy)]
struct DataSet {
    vertex: u32,
    number: u32,
    partition_type: ResultPartitionType,
    pattern: DistributionPattern,
}

/// Where an edge's tasks and partitions start.
#[derive(Debug, Clone, Copy)]
struct EdgeLayout {
    edge: usize,
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
    /// By vertex and number.
    sets: Vec<DataSet>,
    /// By vertex: incoming edges.
    inputs: Csr,
    /// By vertex: data sets.
    outputs: Csr,
    /// By data set: edges that read it.
    set_edges: Csr,
    /// Numbers of vertices.
    tasks: Spans,
    /// Numbers of data sets; laid out with their vertex.
    partitions: Spans,
    /// Numbers of edges; laid out with their consumer.
    groups: Spans,
    /// By place in `groups`.
    layouts: Vec<EdgeLayout>,
    /// Only of a dynamic graph.
    growth: Option<Growth>,
}

impl Topology {
    /// Checks `graph` and numbers everything in it.
    ///
    /// # Errors
    /// A cycle, a data set with two patterns or types, a parallelism out of range; the error names the vertex.
    pub fn build(graph: LogicalGraph) -> Result<Self, TopologyError> {
        build::build(graph)
    }

    /// Checks a graph with undecided vertices and numbers what is decided and does not wait for one that is not.
    /// [`Self::grow`] adds the rest.
    ///
    /// # Errors
    /// As [`Self::build`]; what an undecided vertex could become at most counts as its parallelism.
    pub fn build_dynamic(graph: DynamicGraph) -> Result<Self, TopologyError> {
        build::build_dynamic(graph)
    }

    /// What this was built from. An undecided vertex has the largest parallelism that it may get.
    #[must_use]
    pub fn graph(&self) -> &LogicalGraph {
        &self.graph
    }

    /// Number of tasks.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.tasks.total() as usize
    }

    /// Number of partitions.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.partitions.total() as usize
    }

    /// Number of groups.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.groups.total() as usize
    }

    /// True if the tasks of the vertex exist: it is decided, and so is all that it reads.
    #[must_use]
    pub fn is_laid_out(&self, vertex: usize) -> bool {
        self.tasks.holds(vertex)
    }

    /// All tasks, by number.
    pub fn tasks(&self) -> impl Iterator<Item = TaskIndex> + use<> {
        (0..self.tasks.total()).map(TaskIndex)
    }

    /// All tasks of one vertex, by subtask.
    pub fn tasks_of(&self, vertex: usize) -> impl Iterator<Item = TaskIndex> + use<> {
        self.tasks.range(vertex).map(TaskIndex)
    }

    /// Subtask `subtask` of the vertex at position `vertex`, if both exist.
    #[must_use]
    pub fn task(&self, vertex: usize, subtask: u32) -> Option<TaskIndex> {
        nth(self.tasks.range(vertex), subtask).map(TaskIndex)
    }

    /// Position of the task's vertex, and its subtask number.
    #[must_use]
    pub fn location(&self, task: TaskIndex) -> (usize, u32) {
        let (place, subtask) = self.tasks.locate(task.0);
        (self.tasks.item(place), subtask)
    }

    /// What `subtask` of `vertex` puts into its data set number `data_set`, if all of them exist.
    #[must_use]
    pub fn partition(&self, vertex: usize, data_set: u32, subtask: u32) -> Option<PartitionIndex> {
        if !self.is_laid_out(vertex) {
            return None;
        }
        let sets = self.outputs.row(vertex);
        let found = sets.binary_search_by_key(&data_set, |&set| self.sets[set as usize].number).ok()?;
        nth(self.partitions.range(sets[found] as usize), subtask).map(PartitionIndex)
    }

    /// Who produces the partition, and the number of its data set.
    #[must_use]
    pub fn partition_location(&self, partition: PartitionIndex) -> (TaskIndex, u32) {
        let (set, subtask) = self.locate_partition(partition);
        let DataSet { vertex, number, .. } = self.sets[set];
        (TaskIndex(self.tasks.range(vertex as usize).start + subtask), number)
    }

    /// Position of the partition's data set, and its producer's subtask number.
    fn locate_partition(&self, partition: PartitionIndex) -> (usize, u32) {
        let (place, subtask) = self.partitions.locate(partition.0);
        (self.partitions.item(place), subtask)
    }

    /// How the partition is kept.
    #[must_use]
    pub fn partition_type(&self, partition: PartitionIndex) -> ResultPartitionType {
        self.sets[self.locate_partition(partition).0].partition_type
    }

    /// What the task produces, by data set.
    pub fn produced(&self, task: TaskIndex) -> impl Iterator<Item = PartitionIndex> {
        let (vertex, subtask) = self.location(task);
        let sets = self.outputs.row(vertex).iter();
        sets.map(move |&set| PartitionIndex(self.partitions.range(set as usize).start + subtask))
    }

    /// What the task consumes: one group for each input edge, in input order.
    pub fn consumed_groups(&self, task: TaskIndex) -> impl Iterator<Item = GroupIndex> {
        let (vertex, subtask) = self.location(task);
        self.input_edges(vertex).filter_map(move |edge| self.group(edge, |shape| shape.group_of_consumer(subtask)))
    }

    /// Groups that contain something the task produces, by data set, then edge.
    pub fn produced_groups(&self, task: TaskIndex) -> impl Iterator<Item = GroupIndex> {
        let (vertex, subtask) = self.location(task);
        let sets = self.outputs.row(vertex).iter();
        sets.flat_map(move |&set| self.groups_of(set as usize, subtask))
    }

    /// The partitions of a group, in order of their producers.
    pub fn group_partitions(&self, group: GroupIndex) -> impl Iterator<Item = PartitionIndex> + use<> {
        let (place, local) = self.groups.locate(group.0);
        let EdgeLayout { shape, first_partition, .. } = self.layouts[place];
        shape.producers_of(local).map(move |producer| PartitionIndex(first_partition + producer))
    }

    /// The producers of a group's partitions, in order.
    pub fn group_producers(&self, group: GroupIndex) -> impl Iterator<Item = TaskIndex> + use<> {
        let (place, local) = self.groups.locate(group.0);
        let EdgeLayout { shape, first_producer, .. } = self.layouts[place];
        shape.producers_of(local).map(move |producer| TaskIndex(first_producer + producer))
    }

    /// The tasks that read a group, in order.
    pub fn group_consumers(&self, group: GroupIndex) -> impl Iterator<Item = TaskIndex> + use<> {
        let (place, local) = self.groups.locate(group.0);
        let EdgeLayout { shape, first_consumer, .. } = self.layouts[place];
        shape.consumers_of(local).map(move |consumer| TaskIndex(first_consumer + consumer))
    }

    /// The edge that a group belongs to, as a position in [`LogicalGraph::edges`].
    #[must_use]
    pub fn group_edge(&self, group: GroupIndex) -> usize {
        self.layouts[self.groups.locate(group.0).0].edge
    }

    /// How a group's partitions are kept (all alike).
    #[must_use]
    pub fn group_type(&self, group: GroupIndex) -> ResultPartitionType {
        self.graph.edges[self.group_edge(group)].partition_type
    }

    /// All groups of an edge; none if its ends are not both laid out.
    pub fn edge_groups(&self, edge: usize) -> impl Iterator<Item = GroupIndex> + use<> {
        self.groups.range(edge).map(GroupIndex)
    }

    /// For each group of an edge, its producers and its consumers, as ranges of task numbers. For walks over a whole
    /// edge: no group has to be looked up.
    pub(crate) fn edge_members(&self, edge: usize) -> impl Iterator<Item = (Range<u32>, Range<u32>)> + use<> {
        let layout = self.groups.place(edge).map(|place| self.layouts[place]);
        let shift = |range: Range<u32>, by: u32| range.start + by..range.end + by;
        layout.into_iter().flat_map(move |EdgeLayout { shape, first_producer, first_consumer, .. }| {
            (0..shape.groups()).map(move |group| {
                let (producers, consumers) = (shape.producers_of(group), shape.consumers_of(group));
                (shift(producers, first_producer), shift(consumers, first_consumer))
            })
        })
    }

    /// Edges into a vertex, as positions in [`LogicalGraph::edges`], in order.
    pub(crate) fn input_edges(&self, vertex: usize) -> impl Iterator<Item = usize> {
        self.inputs.row(vertex).iter().map(|&edge| edge as usize)
    }

    /// Vertices whose tasks are numbered from `task` on, in order of these numbers.
    pub(crate) fn vertices_from(&self, task: TaskIndex) -> impl Iterator<Item = usize> {
        self.tasks.items_from(task.0)
    }

    /// The vertices that read anything of `vertex`, laid out or not, once for each edge.
    fn consumers_of_vertex(&self, vertex: usize) -> impl Iterator<Item = usize> {
        let edges = self.outputs.row(vertex).iter().flat_map(|&set| self.set_edges.row(set as usize));
        edges.map(|&edge| self.graph.edges[edge as usize].to)
    }

    /// Numbers the tasks of these vertices, in order, their data sets and the edges into them.
    fn lay_out(&mut self, vertices: &[usize]) {
        for &vertex in vertices {
            let parallelism = self.graph.vertices[vertex].parallelism;
            self.tasks.push(small(vertex), parallelism);
            self.outputs.row(vertex).iter().for_each(|&set| self.partitions.push(set, parallelism));
        }
        let mut edges: Vec<u32> = vertices.iter().flat_map(|&vertex| self.inputs.row(vertex)).copied().collect();
        edges.sort_unstable();
        for edge in edges {
            self.lay_out_edge(edge);
        }
    }

    fn lay_out_edge(&mut self, edge: u32) {
        let LogicalEdge { from, data_set, to, pattern, .. } = self.graph.edges[edge as usize];
        let [producers, consumers] = [from, to].map(|end| self.graph.vertices[end].parallelism);
        let shape = Shape::new(producers, consumers, pattern);
        let [first_producer, first_consumer] = [from, to].map(|end| self.tasks.range(end).start);
        let first_partition = self.partition(from, data_set, 0).map_or(0, |partition| partition.0);
        let edge_position = edge as usize;
        self.layouts.push(EdgeLayout { edge: edge_position, shape, first_producer, first_consumer, first_partition });
        self.groups.push(edge, shape.groups());
    }

    /// The groups that read a partition: one, or one for each edge that shares its data set. Consumers that are not
    /// laid out have none yet.
    pub fn consumer_groups(&self, partition: PartitionIndex) -> impl Iterator<Item = GroupIndex> {
        let (set, subtask) = self.locate_partition(partition);
        self.groups_of(set, subtask)
    }

    /// False as long as some vertex that will read the partition is not laid out.
    #[must_use]
    pub fn has_all_consumers(&self, partition: PartitionIndex) -> bool {
        let (set, _) = self.locate_partition(partition);
        self.set_edges.row(set).iter().all(|&edge| self.groups.holds(edge as usize))
    }

    fn groups_of(&self, set: usize, subtask: u32) -> impl Iterator<Item = GroupIndex> {
        let edges = self.set_edges.row(set).iter();
        edges.filter_map(move |&edge| self.group(edge as usize, |shape| shape.group_of_producer(subtask)))
    }

    /// A group of an edge, if the edge is laid out.
    fn group(&self, edge: usize, of_shape: impl Fn(Shape) -> u32) -> Option<GroupIndex> {
        let place = self.groups.place(edge)?;
        Some(GroupIndex(self.groups.start(place) + of_shape(self.layouts[place].shape)))
    }
}

/// The `at`th number of a range.
fn nth(range: Range<u32>, at: u32) -> Option<u32> {
    (at < range.end - range.start).then(|| range.start + at)
}

/// A vertex position; a graph has fewer than 2³² vertices.
fn small(vertex: usize) -> u32 {
    u32::try_from(vertex).unwrap_or(u32::MAX)
}
