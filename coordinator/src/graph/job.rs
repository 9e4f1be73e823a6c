//! The job graph and its builder.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::co_location;
use super::ids::{DataSetId, VertexId};
use super::partition::{ResultPartitionType, ShipStrategy};
use super::registry::ParamError;
use super::user::{Operator, Source, SplitSource, TaskError, TaskInfo};
use crate::core::regions::deadlocked_vertices;
use crate::core::topology::LogicalGraph;

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

/// A vertex of a graph under construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VertexHandle(usize);

/// Builds a [`JobGraph`].
pub struct JobGraphBuilder {
    name: String,
    kind: JobKind,
    vertices: Vec<Vertex>,
    edges: Vec<Edge>,
    /// Vertices, by position, and what they read of other jobs.
    reads: Vec<(usize, DataSetId)>,
    co_located: Vec<Vec<usize>>,
    config: BTreeMap<String, String>,
}

impl JobGraph {
    /// Starts a job called `name`.
    pub fn builder(name: impl Into<String>, kind: JobKind) -> JobGraphBuilder {
        let name = name.into();
        JobGraphBuilder {
            name,
            kind,
            vertices: vec![],
            edges: vec![],
            reads: vec![],
            co_located: vec![],
            config: BTreeMap::new(),
        }
    }

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

impl JobGraphBuilder {
    /// Adds a source.
    pub fn source<F>(&mut self, name: impl Into<String>, parallelism: u32, make: F) -> VertexHandle
    where
        F: Fn(&TaskInfo) -> Result<Box<dyn Source>, TaskError> + Send + Sync + 'static,
    {
        self.add(name.into(), parallelism, VertexCode::Source(Arc::new(make)), None)
    }

    /// Adds a source whose input is cut into splits that the coordinator hands out.
    pub fn split_source<F>(
        &mut self,
        name: impl Into<String>,
        parallelism: u32,
        splits: SplitSource,
        make: F,
    ) -> VertexHandle
    where
        F: Fn(&TaskInfo) -> Result<Box<dyn Source>, TaskError> + Send + Sync + 'static,
    {
        self.add(name.into(), parallelism, VertexCode::Source(Arc::new(make)), Some(splits))
    }

    /// Adds a vertex with inputs.
    pub fn operator<F>(&mut self, name: impl Into<String>, parallelism: u32, make: F) -> VertexHandle
    where
        F: Fn(&TaskInfo) -> Result<Box<dyn Operator>, TaskError> + Send + Sync + 'static,
    {
        self.add(name.into(), parallelism, VertexCode::Operator(Arc::new(make)), None)
    }

    fn add(&mut self, name: String, parallelism: u32, code: VertexCode, splits: Option<SplitSource>) -> VertexHandle {
        self.vertices.push(Vertex { id: VertexId::of_name(&name), name, parallelism, code, splits, data_sets: vec![] });
        VertexHandle(self.vertices.len() - 1)
    }

    /// Connects `from` to `to` by a data set of its own.
    pub fn connect(
        &mut self,
        from: VertexHandle,
        to: VertexHandle,
        ship: ShipStrategy,
        partition_type: ResultPartitionType,
    ) -> &mut Self {
        let data_set = u32::try_from(self.edges.iter().filter(|edge| edge.from == from.0).count()).unwrap_or(u32::MAX);
        self.edges.push(Edge { from: from.0, data_set, to: to.0, partition_type, ship });
        self
    }

    /// Has `vertex` read what another job has left in the cluster: a result whose type is
    /// [`BlockingPersistent`](ResultPartitionType::BlockingPersistent), of a job that has FINISHED. The inputs of a
    /// vertex are numbered through its edges first, then through its data sets.
    ///
    /// The vertex needs the parallelism of the data set's first reader. A data set that is not there (any more) fails
    /// the job.
    pub fn read_data_set(&mut self, vertex: VertexHandle, data_set: DataSetId) -> &mut Self {
        self.reads.push((vertex.0, data_set));
        self
    }

    /// Has subtasks with one number of all these vertices share a slot, in every attempt (Flink's `CoLocationGroup`).
    /// [`build`](Self::build) refuses it where their regions or their parallelism differ.
    pub fn co_locate(&mut self, vertices: impl IntoIterator<Item = VertexHandle>) -> &mut Self {
        self.co_located.push(vertices.into_iter().map(|handle| handle.0).collect());
        self
    }

    /// Asks for a configuration value (Flink's key); the submission may override it.
    pub fn config(&mut self, key: impl Into<String>, value: impl fmt::Display) -> &mut Self {
        self.config.insert(key.into(), value.to_string());
        self
    }

    /// Checks the graph and sorts it topologically. Refuses one whose pipelined regions wait for each other.
    ///
    /// # Errors
    /// See [`JobGraphError`]; the error names the vertex.
    pub fn build(mut self) -> Result<JobGraph, JobGraphError> {
        if self.vertices.is_empty() {
            return Err(JobGraphError::Empty);
        }
        self.check_ends()?;
        for (vertex, data_set) in std::mem::take(&mut self.reads) {
            self.vertices[vertex].data_sets.push(data_set);
        }
        let mut names = BTreeSet::new();
        for (position, vertex) in self.vertices.iter().enumerate() {
            if !names.insert(vertex.name.as_str()) {
                return Err(JobGraphError::DuplicateVertex(vertex.name.clone()));
            }
            if vertex.parallelism == 0 || vertex.parallelism > MAX_PARALLELISM {
                return Err(JobGraphError::Parallelism {
                    vertex: vertex.name.clone(),
                    parallelism: vertex.parallelism,
                });
            }
            let has_inputs = self.edges.iter().any(|edge| edge.to == position) || !vertex.data_sets.is_empty();
            let problem = match (&vertex.code, has_inputs) {
                _ if self.kind == JobKind::Streaming && !vertex.data_sets.is_empty() => {
                    Some("reads a data set of the cluster, which only a vertex of a batch job can")
                }
                (VertexCode::Source(_), true) => Some("is a source but has inputs"),
                (VertexCode::Operator(_), false) => Some("is an operator but has no inputs"),
                _ => None,
            };
            if let Some(problem) = problem {
                return Err(JobGraphError::Inputs { vertex: vertex.name.clone(), problem });
            }
        }
        for edge in &self.edges {
            let (from, to) = (&self.vertices[edge.from], &self.vertices[edge.to]);
            if edge.ship == ShipStrategy::Forward && from.parallelism != to.parallelism {
                return Err(JobGraphError::Forward {
                    from: from.name.clone(),
                    from_parallelism: from.parallelism,
                    to: to.name.clone(),
                    to_parallelism: to.parallelism,
                });
            }
        }
        self.sorted()
    }

    fn check_ends(&self) -> Result<(), JobGraphError> {
        let name = |position: usize| self.vertices.get(position).map(|vertex| vertex.name.clone());
        for edge in &self.edges {
            let (from, to) = (name(edge.from), name(edge.to));
            if from.is_none() || to.is_none() {
                return Err(JobGraphError::ForeignVertex(from.or(to).unwrap_or_default()));
            }
        }
        if let Some((_, data_set)) = self.reads.iter().find(|(vertex, _)| name(*vertex).is_none()) {
            return Err(JobGraphError::ForeignVertex(format!("data set {data_set}")));
        }
        for group in &self.co_located {
            if group.iter().any(|&vertex| name(vertex).is_none()) {
                let known = group.iter().find_map(|&vertex| name(vertex));
                return Err(JobGraphError::ForeignVertex(known.unwrap_or_default()));
            }
        }
        Ok(())
    }

    /// Kahn's algorithm, keeping the order of insertion among vertices that are ready.
    fn sorted(self) -> Result<JobGraph, JobGraphError> {
        let mut open: Vec<usize> =
            (0..self.vertices.len()).map(|v| self.edges.iter().filter(|edge| edge.to == v).count()).collect();
        let mut ready: BTreeSet<usize> = (0..open.len()).filter(|&v| open[v] == 0).collect();
        let mut order = Vec::with_capacity(open.len());
        while let Some(next) = ready.pop_first() {
            order.push(next);
            for edge in self.edges.iter().filter(|edge| edge.from == next) {
                open[edge.to] -= 1;
                if open[edge.to] == 0 {
                    ready.insert(edge.to);
                }
            }
        }
        if order.len() < self.vertices.len() {
            let stuck = (0..open.len()).filter(|&v| open[v] > 0).map(|v| self.vertices[v].name.clone()).collect();
            return Err(JobGraphError::Cyclic(stuck));
        }
        let mut position = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            position[old] = new;
        }
        let edges =
            self.edges.iter().map(|edge| Edge { from: position[edge.from], to: position[edge.to], ..*edge }).collect();
        let vertices = order.iter().map(|&old| self.vertices[old].clone()).collect();
        let co_located = self.co_located.iter().map(|group| group.iter().map(|&old| position[old]).collect()).collect();
        let graph = JobGraph { name: self.name, kind: self.kind, vertices, edges, co_located, config: self.config };
        if let Some(stuck) = deadlocked_vertices(&LogicalGraph::of_job(&graph)) {
            let names = stuck.into_iter().map(|position| graph.vertices[position].name.clone()).collect();
            return Err(JobGraphError::RegionDeadlock(names));
        }
        co_location::check(&graph)?;
        Ok(graph)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Collector, Record, SourceStatus, TaskContext};

    struct Nothing;

    impl Source for Nothing {
        fn poll(&mut self, _: &mut dyn TaskContext, _: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
            Ok(SourceStatus::Finished)
        }
    }

    impl Operator for Nothing {
        fn process(
            &mut self,
            _: usize,
            _: Record,
            _: &mut dyn TaskContext,
            _: &mut dyn Collector,
        ) -> Result<(), TaskError> {
            Ok(())
        }
    }

    /// `a` feeds `b` and `c`, which feed `d`; the four edges have the given types, in that order.
    fn diamond(types: [ResultPartitionType; 4]) -> Result<JobGraph, JobGraphError> {
        let mut job = JobGraph::builder("diamond", JobKind::Batch);
        let a = job.source("a", 2, |_| Ok(Box::new(Nothing)));
        let [b, c, d] = ["b", "c", "d"].map(|name| job.operator(name, 2, |_| Ok(Box::new(Nothing))));
        for ((from, to), kind) in [(a, b), (a, c), (b, d), (c, d)].into_iter().zip(types) {
            job.connect(from, to, ShipStrategy::Forward, kind);
        }
        job.build()
    }

    #[test]
    fn regions_that_wait_for_each_other_are_refused_by_name() {
        use ResultPartitionType::{Blocking as B, HybridFull as H, PipelinedBounded as P};
        // Reference 1.5, second row: {a, c, d} needs b's output and b needs a's.
        let refused = diamond([B, P, B, P]).unwrap_err();
        assert_eq!(refused, JobGraphError::RegionDeadlock(["a", "b", "c", "d"].map(str::to_owned).to_vec()));
        assert!(matches!(diamond([H, P, B, P]), Err(JobGraphError::RegionDeadlock(_))));
        for fine in [[B, P, P, P], [B, B, B, B], [P, P, B, B], [B, B, P, P]] {
            assert!(diamond(fine).is_ok(), "{fine:?}");
        }
    }
}
