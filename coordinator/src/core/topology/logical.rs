//! The job graph as recovery sees it: vertices, parallelisms, edges; no user code.

use crate::graph::{DistributionPattern, JobGraph, ResultPartitionType};

/// A vertex of a [`LogicalGraph`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogicalVertex {
    /// For error messages.
    pub name: String,
    /// Number of subtasks.
    pub parallelism: u32,
}

/// An edge of a [`LogicalGraph`], between positions of [`LogicalGraph::vertices`].
///
/// Several edges may have the same `from` and `data_set`: they read one shared data set, and must agree on type and
/// pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogicalEdge {
    /// Producer.
    pub from: usize,
    /// Number of the data set among the producer's. Need not be dense.
    pub data_set: u32,
    /// Consumer.
    pub to: usize,
    /// How the data is kept.
    pub partition_type: ResultPartitionType,
    /// Who reads whom.
    pub pattern: DistributionPattern,
}

/// Vertices and edges in any order. A vertex's inputs are numbered in the order of the edges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogicalGraph {
    /// All vertices.
    pub vertices: Vec<LogicalVertex>,
    /// All edges.
    pub edges: Vec<LogicalEdge>,
}

impl LogicalGraph {
    /// The logical graph of a job; positions of vertices and edges are kept.
    #[must_use]
    pub fn of_job(graph: &JobGraph) -> Self {
        let vertices = graph
            .vertices
            .iter()
            .map(|vertex| LogicalVertex { name: vertex.name.clone(), parallelism: vertex.parallelism })
            .collect();
        let edges = graph
            .edges
            .iter()
            .map(|edge| LogicalEdge {
                from: edge.from,
                data_set: edge.data_set,
                to: edge.to,
                partition_type: edge.partition_type,
                pattern: edge.ship.pattern(),
            })
            .collect();
        Self { vertices, edges }
    }
}
