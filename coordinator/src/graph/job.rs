//! The job graph.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::{DataSetId, VertexId};
use super::partition::{ResultPartitionType, ShipStrategy};
use super::registry::ParamError;
use super::user::{Operator, Source, SplitSource, TaskError, TaskInfo};

/// Most subtasks a vertex may have (Flink's upper bound of the maximum parallelism).
pub const MAX_PARALLELISM: u32 = 32_768;

/// Batch or streaming; Flink's `job-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobKind {
    /// Ends by itself; no checkpoints.
    Batch,
    /// Checkpointed when an interval is configured.
    Streaming,
}

/// Makes the user code of one attempt, a `T`.
pub type MakeCode<T> = Arc<dyn Fn(&TaskInfo) -> Result<Box<T>, TaskError> + Send + Sync>;

/// Makes the user code of one attempt.
#[derive(Clone)]
pub enum VertexCode {
    /// A vertex without inputs.
    Source(MakeCode<dyn Source>),
    /// A vertex with inputs.
    Operator(MakeCode<dyn Operator>),
}

/// A vertex of the job graph (Flink's `JobVertex`).
#[derive(Clone)]
pub struct Vertex {
    /// Derived from the name.
    pub id: VertexId,
    /// Unique within the job.
    pub name: String,
    /// Number of subtasks, at least 1.
    pub parallelism: u32,
    /// Its user code.
    pub code: VertexCode,
    /// For a batch source: lists its input.
    pub splits: Option<SplitSource>,
    /// Data sets of the cluster that it reads: inputs that come after those from other vertices.
    pub data_sets: Vec<DataSetId>,
}

impl fmt::Debug for Vertex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ×{}", self.name, self.parallelism)
    }
}

/// An edge: the vertex at position `to` reads data set `data_set` of the vertex at position `from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Position of the producer in [`JobGraph::vertices`].
    pub from: usize,
    /// Number of the data set among the producer's, from 0. Each edge has one of its own.
    pub data_set: u32,
    /// Position of the consumer.
    pub to: usize,
    /// How the data is kept.
    pub partition_type: ResultPartitionType,
    /// How it is spread.
    pub ship: ShipStrategy,
}

/// A job, checked: acyclic, vertices in topological order, names unique.
#[derive(Debug, Clone)]
pub struct JobGraph {
    /// For people.
    pub name: String,
    /// Batch or streaming.
    pub kind: JobKind,
    /// In topological order.
    pub vertices: Vec<Vertex>,
    /// In the order they were connected; a vertex's inputs are numbered in this order.
    pub edges: Vec<Edge>,
    /// Groups of vertices, by position, of which subtasks with one number always share a slot.
    pub co_located: Vec<Vec<usize>>,
    /// Configuration that the job itself asks for; what the submission gives overrides it.
    pub config: BTreeMap<String, String>,
}

/// A job that cannot be built or was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobGraphError {
    /// No such job in this binary.
    #[error("there is no job called `{name}`; known: {}", known.join(", "))]
    UnknownJob {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A parameter is missing or wrong.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// The job's own check failed (an unreadable input folder, say).
    #[error("{0}")]
    Refused(String),
    /// Two vertices of one name.
    #[error("two vertices are called `{0}`; names must be unique")]
    DuplicateVertex(String),
    /// Parallelism out of range.
    #[error("vertex `{vertex}` has parallelism {parallelism}; it must be from 1 to {MAX_PARALLELISM}")]
    Parallelism {
        /// The vertex.
        vertex: String,
        /// What it asked for.
        parallelism: u32,
    },
    /// The graph has a cycle.
    #[error("the job graph has a cycle through {}", .0.join(", "))]
    Cyclic(Vec<String>),
    /// A source with inputs, or an operator without.
    #[error("vertex `{vertex}` {problem}")]
    Inputs {
        /// The vertex.
        vertex: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// An edge, a co-location or a reader with a handle that another builder gave out.
    #[error("`{0}` is joined to a vertex of another job's graph; join vertices of one builder")]
    ForeignVertex(String),
    /// A `FORWARD` edge between vertices of different parallelism.
    #[error(
        "a FORWARD edge joins `{from}` (parallelism {from_parallelism}) and `{to}` ({to_parallelism}); it needs equal parallelism"
    )]
    Forward {
        /// Producer.
        from: String,
        /// Its parallelism.
        from_parallelism: u32,
        /// Consumer.
        to: String,
        /// Its parallelism.
        to_parallelism: u32,
    },
    /// Vertices that are to share slots but could not.
    #[error("`{first}` and `{second}` cannot be co-located: {problem}")]
    CoLocation {
        /// One vertex.
        first: String,
        /// The other.
        second: String,
        /// Why not.
        problem: &'static str,
    },
    /// Logical regions that wait for each other's blocking output (reference 1.3): Flink takes such a job and
    /// starts nothing.
    #[error("the pipelined regions of {} wait for each other: no task could ever start", .0.join(", "))]
    RegionDeadlock(Vec<String>),
    /// No vertices.
    #[error("the job has no vertices")]
    Empty,
}

impl JobGraph {
    /// The position of the vertex with this identifier.
    #[must_use]
    pub fn position(&self, id: VertexId) -> Option<usize> {
        self.vertices.iter().position(|vertex| vertex.id == id)
    }

    /// Edges into the vertex at `position`, in input order.
    pub fn inputs(&self, position: usize) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(move |edge| edge.to == position)
    }

    /// Edges out of the vertex at `position`, by data set.
    pub fn outputs(&self, position: usize) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(move |edge| edge.from == position)
    }
}
