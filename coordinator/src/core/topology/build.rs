//! Checks a [`LogicalGraph`] and lays its tasks, partitions and groups out.

use std::collections::{BTreeMap, BTreeSet};

use super::{DataSet, DynamicGraph, Growth, LogicalEdge, LogicalGraph, Shape, Spans, Topology, small};
use crate::core::csr::Csr;
use crate::core::scc;
use crate::graph::job::MAX_PARALLELISM;

/// A graph that cannot be executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// There is no topological order; an edge from a vertex to itself counts.
    #[error("the job graph has a cycle through {}", vertices.join(", "))]
    Cyclic {
        /// Vertices on a cycle.
        vertices: Vec<String>,
    },
    /// Edges that share a data set differ in their pattern.
    #[error("data set {data_set} of `{vertex}` is read with different distribution patterns; give each edge its own")]
    PatternMismatch {
        /// The producer.
        vertex: String,
        /// Its data set.
        data_set: u32,
    },
    /// Edges that share a data set differ in its type.
    #[error("data set {data_set} of `{vertex}` has two result partition types; give each edge its own data set")]
    TypeMismatch {
        /// The producer.
        vertex: String,
        /// Its data set.
        data_set: u32,
    },
    /// Parallelism out of range.
    #[error("vertex `{vertex}` has parallelism {parallelism}; it must be from 1 to {MAX_PARALLELISM}")]
    BadParallelism {
        /// The vertex.
        vertex: String,
        /// What it asked for.
        parallelism: u32,
    },
    /// An edge names a vertex position that does not exist.
    #[error("edge {edge} names vertex number {vertex}, but there are only {vertices}")]
    UnknownVertex {
        /// Position of the edge.
        edge: usize,
        /// The position it names.
        vertex: usize,
        /// How many vertices there are.
        vertices: usize,
    },
    /// A vertex is to be decided later that does not exist.
    #[error("vertex number {vertex} is to be decided later, but there are only {vertices}")]
    UnknownUndecided {
        /// The position.
        vertex: usize,
        /// How many vertices there are.
        vertices: usize,
    },
    /// More than 2³² tasks, partitions or groups.
    #[error("the job has more than 4294967295 {0}; lower its parallelism")]
    TooLarge(&'static str),
}

pub(super) fn build(graph: LogicalGraph) -> Result<Topology, TopologyError> {
    let mut topology = unnumbered(graph)?;
    let vertices: Vec<usize> = (0..topology.graph.vertices.len()).collect();
    topology.lay_out(&vertices);
    Ok(topology)
}

pub(super) fn build_dynamic(dynamic: DynamicGraph) -> Result<Topology, TopologyError> {
    let DynamicGraph { mut graph, undecided, default_max_parallelism } = dynamic;
    let vertices = graph.vertices.len();
    for (&vertex, max) in &undecided {
        let known = graph.vertices.get_mut(vertex);
        known.ok_or(TopologyError::UnknownUndecided { vertex, vertices })?.parallelism =
            max.unwrap_or(default_max_parallelism);
    }
    let mut topology = unnumbered(graph)?;
    topology.growth = Some(Growth::new(&topology, undecided.into_keys().collect::<BTreeSet<_>>()));
    topology.lay_out_decided();
    Ok(topology)
}

/// Checks the graph, and that everything in it can be numbered, at the parallelisms that it gives.
fn unnumbered(graph: LogicalGraph) -> Result<Topology, TopologyError> {
    check_parallelism(&graph)?;
    check_ends(&graph)?;
    let (sets, set_of_edge) = data_sets(&graph)?;
    check_acyclic(&graph)?;
    let parallelism = |vertex: usize| graph.vertices[vertex].parallelism;
    let groups = graph.edges.iter().map(|e| Shape::new(parallelism(e.from), parallelism(e.to), e.pattern).groups());
    check_total((0..graph.vertices.len()).map(parallelism), "tasks")?;
    check_total(sets.iter().map(|set| parallelism(set.vertex as usize)), "partitions")?;
    check_total(groups, "groups")?;
    Ok(Topology {
        inputs: Csr::new(graph.vertices.len(), graph.edges.iter().map(|edge| edge.to)),
        outputs: Csr::new(graph.vertices.len(), sets.iter().map(|set| set.vertex as usize)),
        set_edges: Csr::new(sets.len(), set_of_edge.iter().map(|&set| set as usize)),
        tasks: Spans::new(graph.vertices.len()),
        partitions: Spans::new(sets.len()),
        groups: Spans::new(graph.edges.len()),
        layouts: Vec::with_capacity(graph.edges.len()),
        growth: None,
        sets,
        graph,
    })
}

fn check_parallelism(graph: &LogicalGraph) -> Result<(), TopologyError> {
    match graph.vertices.iter().find(|vertex| vertex.parallelism == 0 || vertex.parallelism > MAX_PARALLELISM) {
        Some(bad) => Err(TopologyError::BadParallelism { vertex: bad.name.clone(), parallelism: bad.parallelism }),
        None => Ok(()),
    }
}

fn check_ends(graph: &LogicalGraph) -> Result<(), TopologyError> {
    let vertices = graph.vertices.len();
    for (edge, LogicalEdge { from, to, .. }) in graph.edges.iter().enumerate() {
        if let Some(&vertex) = [from, to].into_iter().find(|&&end| end >= vertices) {
            return Err(TopologyError::UnknownVertex { edge, vertex, vertices });
        }
    }
    Ok(())
}

/// All data sets by (producer, number), and for each edge the position of the one it reads.
fn data_sets(graph: &LogicalGraph) -> Result<(Vec<DataSet>, Vec<u32>), TopologyError> {
    let mut known: BTreeMap<(usize, u32), &LogicalEdge> = BTreeMap::new();
    for edge in &graph.edges {
        let first = *known.entry((edge.from, edge.data_set)).or_insert(edge);
        let name = || (graph.vertices[edge.from].name.clone(), edge.data_set);
        if first.pattern != edge.pattern {
            let (vertex, data_set) = name();
            return Err(TopologyError::PatternMismatch { vertex, data_set });
        }
        if first.partition_type != edge.partition_type {
            let (vertex, data_set) = name();
            return Err(TopologyError::TypeMismatch { vertex, data_set });
        }
    }
    let position: BTreeMap<(usize, u32), u32> = known.keys().copied().zip(0..).collect();
    let set_of_edge = graph.edges.iter().map(|edge| position[&(edge.from, edge.data_set)]).collect();
    let sets = known
        .into_iter()
        .map(|((vertex, number), edge)| DataSet {
            vertex: small(vertex),
            number,
            partition_type: edge.partition_type,
            pattern: edge.pattern,
        })
        .collect();
    Ok((sets, set_of_edge))
}

/// A vertex is on a cycle if it shares its strongly connected component with another one, or has an edge to itself.
fn check_acyclic(graph: &LogicalGraph) -> Result<(), TopologyError> {
    let edges: Vec<(u32, u32)> = graph.edges.iter().map(|edge| (small(edge.from), small(edge.to))).collect();
    let on_cycle = scc::on_cycle(graph.vertices.len(), &edges);
    let vertices: Vec<String> = on_cycle.into_iter().map(|vertex| graph.vertices[vertex].name.clone()).collect();
    if vertices.is_empty() { Ok(()) } else { Err(TopologyError::Cyclic { vertices }) }
}

fn check_total(mut counts: impl Iterator<Item = u32>, what: &'static str) -> Result<(), TopologyError> {
    let total = counts.try_fold(0_u32, u32::checked_add);
    total.map(drop).ok_or(TopologyError::TooLarge(what))
}
