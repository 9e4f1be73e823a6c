//! Pipelined regions: the unit of scheduling and of failover (reference 1.3, 1.4).
//!
//! Two steps, as in Flink since 1.14. Job vertices are first joined into *logical* regions; each of those is then cut
//! into execution regions, or kept whole. A wide blocking all-to-all edge between logical regions costs nothing that
//! way, and cycles of execution regions are merged only *inside* a logical region.
//!
//! Regions of a topology that grows grow with it. New tasks never join a region that exists: the topology refuses
//! them ([`GrowthError::JoinsOldRegion`](super::topology::GrowthError::JoinsOldRegion)), so that what was said of a
//! region stays true.

mod logical;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use logical::LogicalRegions;
pub use logical::deadlocked_vertices;

use super::scc;
use super::topology::{TaskIndex, Topology};
use super::union_find::UnionFind;

/// A pipelined region, numbered by its first task; hence regions of tasks that come later have larger numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionIndex(pub u32);

impl RegionIndex {
    /// The number as an array index.
    #[must_use]
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// The pipelined regions of a [`Topology`].
#[derive(Debug, Clone)]
pub struct Regions {
    logical: LogicalRegions,
    /// By logical region: it is one region as a whole.
    whole: Vec<bool>,
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
        let mut regions = Self { logical, whole, region_of: Vec::new(), first: vec![0], tasks: Vec::new() };
        regions.grow(topology);
        regions
    }

    /// Adds the regions of the tasks that `topology`, which these regions were built from, has got since; those that
    /// exist stay as they are. Linear in the new tasks and groups.
    pub fn grow(&mut self, topology: &Topology) {
        let mut batch = Batch::new(self, topology);
        batch.join_whole();
        let mut inner = Vec::new();
        for vertex in topology.vertices_from(TaskIndex(batch.start)) {
            for position in topology.input_edges(vertex) {
                let edge = &topology.graph().edges[position];
                let is_one = self.whole[self.logical.region_of(vertex)];
                if is_one || !self.logical.are_together(edge.from, edge.to) || !batch.holds(edge.from) {
                    continue;
                }
                if edge.partition_type.must_be_pipelined_consumed() {
                    batch.join_groups(position);
                } else {
                    inner.push(position);
                }
            }
        }
        if !inner.is_empty() {
            batch.join_cycles(&inner);
        }
        let sets = batch.sets;
        self.append(sets);
    }

    /// Adds sets of tasks that follow all known ones as regions.
    fn append(&mut self, sets: UnionFind) {
        let (mut labels, count) = sets.label();
        let (count, regions, tasks) = (count as usize, self.count(), self.tasks.len());
        self.first.resize(regions + 1 + count, 0);
        let first = &mut self.first[regions..];
        labels.iter().for_each(|&label| first[label as usize + 1] += 1);
        (0..count).for_each(|region| first[region + 1] += first[region]);
        // Each start serves as the cursor of its region, and ends up as the start of the next one.
        self.tasks.resize(tasks + labels.len(), TaskIndex(0));
        let new_task = index(tasks);
        for (task, &label) in (new_task..).map(TaskIndex).zip(&labels) {
            let cursor = &mut first[label as usize];
            self.tasks[*cursor as usize] = task;
            *cursor += 1;
        }
        first.copy_within(0..count, 1);
        first[0] = new_task;
        if self.region_of.is_empty() {
            // The usual case by far, and a large array: it is not copied.
            self.region_of = labels;
        } else {
            let new_region = index(regions);
            labels.iter_mut().for_each(|label| *label += new_region);
            self.region_of.append(&mut labels);
        }
    }

    /// Number of regions.
    #[must_use]
    pub fn count(&self) -> usize {
        self.first.len() - 1
    }

    /// All regions, by number.
    pub fn all(&self) -> impl Iterator<Item = RegionIndex> + use<> {
        (0..).map(RegionIndex).take(self.count())
    }

    /// The region of a task.
    #[must_use]
    pub fn region_of(&self, task: TaskIndex) -> RegionIndex {
        RegionIndex(self.region_of[task.at()])
    }

    /// The tasks of a region, in order.
    #[must_use]
    pub fn tasks(&self, region: RegionIndex) -> &[TaskIndex] {
        let [start, end] = [self.first[region.at()], self.first[region.at() + 1]];
        &self.tasks[start as usize..end as usize]
    }

    /// Vertices, by position, that can never start because their logical regions wait for each other
    /// (reference 1.3). Flink takes such a job and starts nothing; [`deadlocked_vertices`] is the same question for
    /// a graph that was not laid out yet.
    #[must_use]
    pub fn deadlocked_vertices(&self, topology: &Topology) -> Option<Vec<usize>> {
        deadlocked_vertices(topology.graph())
    }
}

/// Tasks that are new, and which of them are joined so far. Their sets are numbered from 0.
struct Batch<'a> {
    topology: &'a Topology,
    logical: &'a LogicalRegions,
    whole: &'a [bool],
    /// The first new task.
    start: u32,
    sets: UnionFind,
}

impl<'a> Batch<'a> {
    fn new(regions: &'a Regions, topology: &'a Topology) -> Self {
        let Regions { logical, whole, region_of, .. } = regions;
        let sets = UnionFind::new(topology.task_count() - region_of.len());
        Self { topology, logical, whole, start: index(region_of.len()), sets }
    }

    /// True if the tasks of the vertex are among the new ones.
    fn holds(&self, vertex: usize) -> bool {
        self.topology.task(vertex, 0).is_some_and(|task| task.0 >= self.start)
    }

    /// Makes one set of each logical region that must stay whole.
    fn join_whole(&mut self) {
        let mut leader: BTreeMap<usize, u32> = BTreeMap::new();
        for vertex in self.topology.vertices_from(TaskIndex(self.start)) {
            let region = self.logical.region_of(vertex);
            if !self.whole[region] {
                continue;
            }
            for task in self.topology.tasks_of(vertex).map(|task| task.0 - self.start) {
                self.sets.unite(*leader.entry(region).or_insert(task), task);
            }
        }
    }

    /// Joins the two sides of each group of an edge that must be consumed while it is produced.
    fn join_groups(&mut self, edge: usize) {
        for (producers, consumers) in self.topology.edge_members(edge) {
            let first = producers.start - self.start;
            producers.skip(1).chain(consumers).for_each(|member| self.sets.unite(first, member - self.start));
        }
    }

    /// Joins sets that reach each other through the other edges inside their logical region. All of those edges are
    /// pointwise here, so their pairs are no more than the wider side has subtasks.
    fn join_cycles(&mut self, inner: &[usize]) {
        let (raw_of, count) = self.sets.clone().label();
        let raw_of_task = |task: u32| raw_of[(task - self.start) as usize];
        let mut edges = Vec::new();
        for &edge in inner {
            for (producers, consumers) in self.topology.edge_members(edge) {
                for from in producers.map(raw_of_task) {
                    let to = consumers.clone().map(raw_of_task);
                    edges.extend(to.filter(|&to| to != from).map(|to| (from, to)));
                }
            }
        }
        let components = scc::components(count as usize, &edges);
        let mut leader: Vec<Option<u32>> = vec![None; components.len()];
        for (task, &raw) in (0_u32..).zip(&raw_of) {
            let leader = *leader[components[raw as usize] as usize].get_or_insert(task);
            self.sets.unite(leader, task);
        }
    }
}

/// A number of tasks or regions; there are fewer than 2³² tasks.
fn index(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
