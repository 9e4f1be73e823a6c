//! Pipelined regions: the unit of scheduling and of failover (reference 1.3, 1.4).
//!
//! Two steps, as in Flink since 1.14. Job vertices are first joined into *logical* regions; each of those is then cut
//! into execution regions, or kept whole. A wide blocking all-to-all edge between logical regions costs nothing that
//! way, and cycles of execution regions are merged only *inside* a logical region.

mod logical;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use logical::LogicalRegions;
pub use logical::deadlocked_vertices;

use super::scc;
use super::topology::{TaskIndex, Topology};
use super::union_find::UnionFind;

/// A pipelined region, numbered by its first task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionIndex(pub u32);

impl RegionIndex {
    /// The number as an array index.
    #[must_use]
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// The pipelined regions of a [`Topology`]. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Regions(Arc<Members>);

#[derive(Debug)]
struct Members {
    /// By task.
    region_of: Vec<u32>,
    /// Where each region's tasks start in `tasks`; one more entry than regions.
    first: Vec<u32>,
    tasks: Vec<TaskIndex>,
}

impl Regions {
    /// Builds all regions. Linear in tasks and groups (plus a practically constant factor of the disjoint sets).
    #[must_use]
    pub fn build(topology: &Topology) -> Self {
        let logical = LogicalRegions::of(topology.graph());
        let whole = logical.whole(topology.graph());
        let mut sets = UnionFind::new(topology.task_count());
        join_whole(topology, &logical, &whole, &mut sets);
        let mut inner = Vec::new();
        for (position, edge) in topology.graph().edges.iter().enumerate() {
            if whole[logical.region_of(edge.from)] || !logical.are_together(edge.from, edge.to) {
                continue;
            }
            if edge.partition_type.must_be_pipelined_consumed() {
                join_groups(topology, position, &mut sets);
            } else {
                inner.push(position);
            }
        }
        if !inner.is_empty() {
            join_cycles(topology, &inner, &mut sets);
        }
        Self::of_sets(sets)
    }

    fn of_sets(sets: UnionFind) -> Self {
        let (region_of, count) = sets.label();
        let mut first = vec![0_u32; count as usize + 1];
        region_of.iter().for_each(|&region| first[region as usize + 1] += 1);
        (0..count as usize).for_each(|region| first[region + 1] += first[region]);
        // Each start serves as the cursor of its region, and ends up as the start of the next one.
        let mut tasks = vec![TaskIndex(0); region_of.len()];
        for (task, &region) in (0..).map(TaskIndex).zip(&region_of) {
            let cursor = &mut first[region as usize];
            tasks[*cursor as usize] = task;
            *cursor += 1;
        }
        first.copy_within(0..count as usize, 1);
        first[0] = 0;
        Self(Arc::new(Members { region_of, first, tasks }))
    }

    /// Number of regions.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.first.len() - 1
    }

    /// All regions, by number.
    pub fn all(&self) -> impl Iterator<Item = RegionIndex> + use<> {
        (0..).map(RegionIndex).take(self.count())
    }

    /// The region of a task.
    #[must_use]
    pub fn region_of(&self, task: TaskIndex) -> RegionIndex {
        RegionIndex(self.0.region_of[task.at()])
    }

    /// The tasks of a region, in order.
    #[must_use]
    pub fn tasks(&self, region: RegionIndex) -> &[TaskIndex] {
        let [start, end] = [self.0.first[region.at()], self.0.first[region.at() + 1]];
        &self.0.tasks[start as usize..end as usize]
    }

    /// Vertices, by position, that can never start because their logical regions wait for each other
    /// (reference 1.3). Flink takes such a job and starts nothing; [`deadlocked_vertices`] is the same question for
    /// a graph that was not laid out yet.
    #[must_use]
    pub fn deadlocked_vertices(&self, topology: &Topology) -> Option<Vec<usize>> {
        deadlocked_vertices(topology.graph())
    }
}

/// Makes one set of each logical region that must stay whole.
fn join_whole(topology: &Topology, logical: &LogicalRegions, whole: &[bool], sets: &mut UnionFind) {
    let mut leader: Vec<Option<TaskIndex>> = vec![None; whole.len()];
    for vertex in 0..topology.graph().vertices.len() {
        let region = logical.region_of(vertex);
        if !whole[region] {
            continue;
        }
        for task in topology.tasks_of(vertex) {
            let leader = *leader[region].get_or_insert(task);
            sets.unite(leader.0, task.0);
        }
    }
}

/// Joins the two sides of each group of an edge that must be consumed while it is produced.
fn join_groups(topology: &Topology, edge: usize, sets: &mut UnionFind) {
    for (producers, consumers) in topology.edge_members(edge) {
        let first = producers.start;
        producers.skip(1).chain(consumers).for_each(|member| sets.unite(first, member));
    }
}

/// Joins sets that reach each other through the other edges inside their logical region. All of those edges are
/// pointwise here, so their pairs are no more than the wider side has subtasks.
fn join_cycles(topology: &Topology, inner: &[usize], sets: &mut UnionFind) {
    let (raw_of, count) = sets.clone().label();
    let mut edges = Vec::new();
    for &edge in inner {
        for (producers, consumers) in topology.edge_members(edge) {
            for from in producers.map(|producer| raw_of[producer as usize]) {
                let to = consumers.clone().map(|consumer| raw_of[consumer as usize]);
                edges.extend(to.filter(|&to| to != from).map(|to| (from, to)));
            }
        }
    }
    let components = scc::components(count as usize, &edges);
    let mut leader: Vec<Option<u32>> = vec![None; components.len()];
    for (task, &raw) in (0_u32..).zip(&raw_of) {
        let leader = *leader[components[raw as usize] as usize].get_or_insert(task);
        sets.unite(leader, task);
    }
}
