//! Building and checking a job graph.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::co_location;
use super::ids::{DataSetId, VertexId};
use super::job::{Edge, JobGraph, JobGraphError, JobKind, MAX_PARALLELISM, Vertex, VertexCode};
use super::partition::{ResultPartitionType, ShipStrategy};
use super::user::{Operator, Source, SplitSource, TaskError, TaskInfo};
use crate::core::regions::deadlocked_vertices;
use crate::core::scc;
use crate::core::topology::LogicalGraph;

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

    /// The vertices that are on a cycle. What is only behind one is not named: nobody has to mend it.
    fn cyclic(&self) -> Vec<String> {
        let end = |vertex: usize| u32::try_from(vertex).expect("far fewer vertices than 2^32");
        let edges: Vec<_> = self.edges.iter().map(|edge| (end(edge.from), end(edge.to))).collect();
        let on_cycle = scc::on_cycle(self.vertices.len(), &edges);
        on_cycle.into_iter().map(|vertex| self.vertices[vertex].name.clone()).collect()
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
            return Err(JobGraphError::Cyclic(self.cyclic()));
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

    #[test]
    fn a_cycle_is_named_and_what_is_before_or_behind_it_is_not() {
        let mut job = JobGraph::builder("cycle", JobKind::Batch);
        let a = job.source("a", 1, |_| Ok(Box::new(Nothing)));
        let [b, c, d] = ["b", "c", "d"].map(|name| job.operator(name, 1, |_| Ok(Box::new(Nothing))));
        for (from, to) in [(a, b), (b, c), (c, b), (c, d)] {
            job.connect(from, to, ShipStrategy::Hash, ResultPartitionType::Blocking);
        }
        assert_eq!(job.build().unwrap_err(), JobGraphError::Cyclic(vec!["b".to_owned(), "c".to_owned()]));
    }

    #[test]
    fn a_data_set_is_input_enough_for_an_operator_of_a_batch_job() {
        let data_set = DataSetId([7; 16]);
        let reading = |kind| {
            let mut job = JobGraph::builder("reading", kind);
            let reader = job.operator("reader", 1, |_| Ok(Box::new(Nothing)));
            job.read_data_set(reader, data_set);
            job
        };
        let graph = reading(JobKind::Batch).build().unwrap();
        assert_eq!(graph.vertices[0].data_sets, [data_set]);
        let refused = reading(JobKind::Streaming).build().unwrap_err().to_string();
        assert!(refused.starts_with("vertex `reader` reads a data set of the cluster"), "{refused}");
        let mut source = JobGraph::builder("source", JobKind::Batch);
        let vertex = source.source("source", 1, |_| Ok(Box::new(Nothing)));
        source.read_data_set(vertex, data_set);
        assert!(matches!(source.build(), Err(JobGraphError::Inputs { problem: "is a source but has inputs", .. })));
        let mut foreign = JobGraph::builder("foreign", JobKind::Batch);
        foreign.source("source", 1, |_| Ok(Box::new(Nothing)));
        foreign.read_data_set(VertexHandle(3), data_set);
        assert_eq!(foreign.build().unwrap_err(), JobGraphError::ForeignVertex(format!("data set {data_set}")));
    }
}
