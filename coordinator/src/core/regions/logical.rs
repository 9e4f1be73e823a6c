//! The first step: regions of job vertices (reference 1.3).

use std::collections::BTreeSet;

use crate::core::scc;
use crate::core::topology::LogicalGraph;
use crate::core::union_find::UnionFind;
use crate::graph::DistributionPattern;

/// Vertices joined by edges that must be consumed while they are produced.
#[derive(Debug, Clone)]
pub(super) struct LogicalRegions {
    /// By vertex position.
    region_of: Vec<u32>,
    count: usize,
}

impl LogicalRegions {
    pub(super) fn of(graph: &LogicalGraph) -> Self {
        let mut sets = UnionFind::new(graph.vertices.len());
        for edge in graph.edges.iter().filter(|edge| edge.partition_type.must_be_pipelined_consumed()) {
            sets.unite(position(edge.from), position(edge.to));
        }
        let (region_of, count) = sets.label();
        Self { region_of, count: count as usize }
    }

    pub(super) fn region_of(&self, vertex: usize) -> usize {
        self.region_of[vertex] as usize
    }

    pub(super) fn are_together(&self, a: usize, b: usize) -> bool {
        self.region_of[a] == self.region_of[b]
    }

    /// For each logical region, whether it is one execution region as a whole: it has an all-to-all edge *of any
    /// type* inside. A pipelined one connects everything anyway; a blocking one would make execution regions wait
    /// for each other (FLINK-17330).
    pub(super) fn whole(&self, graph: &LogicalGraph) -> Vec<bool> {
        let mut whole = vec![false; self.count];
        for edge in graph.edges.iter().filter(|edge| edge.pattern == DistributionPattern::AllToAll) {
            if self.are_together(edge.from, edge.to) {
                whole[self.region_of(edge.from)] = true;
            }
        }
        whole
    }

    /// For each edge between logical regions: from which region to which.
    fn crossings(&self, graph: &LogicalGraph) -> Vec<(u32, u32)> {
        let ends = graph.edges.iter().map(|edge| (self.region_of[edge.from], self.region_of[edge.to]));
        ends.filter(|(from, to)| from != to).collect()
    }
}

/// Vertices, by position, whose logical regions wait for each other's output: none of their tasks could ever start.
///
/// Logical regions decide, although execution regions are what waits: every execution region holds a subtask of each
/// vertex of its logical region, and every subtask reads at least one producer over each of its inputs, so that a
/// cycle of logical regions is one of execution regions too.
#[must_use]
pub fn deadlocked_vertices(graph: &LogicalGraph) -> Option<Vec<usize>> {
    let logical = LogicalRegions::of(graph);
    let components = scc::components(logical.count, &logical.crossings(graph));
    let mut seen = BTreeSet::new();
    let shared: BTreeSet<u32> = components.iter().copied().filter(|component| !seen.insert(*component)).collect();
    let stuck: Vec<usize> =
        (0..graph.vertices.len()).filter(|&v| shared.contains(&components[logical.region_of(v)])).collect();
    (!stuck.is_empty()).then_some(stuck)
}

/// A vertex position as a number of the disjoint sets; a graph has fewer than 2³² vertices.
fn position(vertex: usize) -> u32 {
    u32::try_from(vertex).unwrap_or(u32::MAX)
}
