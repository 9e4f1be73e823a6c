//! Vertices whose parallelism is decided while the job runs (Flink's dynamic graphs).

use std::collections::{BTreeMap, BTreeSet};

use super::{LogicalGraph, Topology};

/// A job graph in which some vertices have no parallelism yet: it is decided once their inputs are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DynamicGraph {
    /// All vertices and edges. The parallelism of an undecided vertex is not looked at.
    pub graph: LogicalGraph,
    /// Undecided vertices, by position, each with the most subtasks that it may get if it has a limit of its own.
    pub undecided: BTreeMap<usize, Option<u32>>,
    /// The most subtasks of an undecided vertex that has no limit of its own
    /// (`execution.batch.adaptive.auto-parallelism.max-parallelism`).
    pub default_max_parallelism: u32,
}

/// A topology that cannot grow as asked. It is as it was before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrowthError {
    /// A position that does not exist.
    #[error("vertex number {0} does not exist")]
    UnknownVertex(usize),
    /// The vertex was never undecided, or is not any more.
    #[error("the parallelism of vertex `{0}` is decided already")]
    AlreadyDecided(String),
    /// Parallelism out of range.
    #[error("vertex `{vertex}` cannot get parallelism {parallelism}; it must be from 1 to {max}")]
    BadParallelism {
        /// The vertex.
        vertex: String,
        /// What was decided.
        parallelism: u32,
        /// What its producers' output is cut for.
        max: u32,
    },
    /// The vertex reads one that is not laid out yet and does not become so in the same step.
    #[error("vertex `{vertex}` reads `{input}`, which is not decided yet")]
    InputUndecided {
        /// The vertex.
        vertex: String,
        /// Its producer.
        input: String,
    },
    /// The new tasks would have to join the region of tasks that exist, and regions never change.
    #[error("vertex `{vertex}` must run together with `{producer}`, whose regions exist already; decide both at once")]
    JoinsOldRegion {
        /// The new vertex.
        vertex: String,
        /// Its producer, laid out earlier.
        producer: String,
    },
}

/// What a topology must remember in order to grow.
#[derive(Debug, Clone)]
pub(super) struct Growth {
    /// Vertices without a parallelism.
    undecided: BTreeSet<usize>,
    /// By vertex: input edges whose producer is not laid out.
    open_inputs: Vec<u32>,
    /// By data set: the most subtasks that any of its consumers can have.
    widest_consumer: Vec<u32>,
}

impl Growth {
    /// For a topology of which nothing is laid out yet. Its graph gives undecided vertices their largest parallelism.
    pub(super) fn new(topology: &Topology, undecided: BTreeSet<usize>) -> Self {
        let LogicalGraph { vertices, edges } = &topology.graph;
        let mut open_inputs = vec![0; vertices.len()];
        edges.iter().for_each(|edge| open_inputs[edge.to] += 1);
        let consumers = |set| topology.set_edges.row(set).iter().map(|&edge| edges[edge as usize].to);
        let widest = |set| consumers(set).map(|to| vertices[to].parallelism).max().unwrap_or(0);
        let widest_consumer = (0..topology.sets.len()).map(widest).collect();
        Self { undecided, open_inputs, widest_consumer }
    }

    /// The most subtasks that any consumer of the data set can have, decided or not.
    pub(super) fn widest_consumer(&self, set: usize) -> u32 {
        self.widest_consumer[set]
    }

    /// The vertices that can be laid out once those in `decided` are: they, and those of known parallelism that
    /// waited for nothing else. `first` are the ones to begin with. Costs what these vertices and their outputs are.
    fn batch(&self, topology: &Topology, decided: &BTreeMap<usize, u32>, first: Vec<usize>) -> BTreeSet<usize> {
        let mut batch = BTreeSet::new();
        let mut closed: BTreeMap<usize, u32> = BTreeMap::new();
        let mut next = first;
        while let Some(vertex) = next.pop() {
            let is_known = decided.contains_key(&vertex) || !self.undecided.contains(&vertex);
            let is_fed = closed.get(&vertex).copied().unwrap_or(0) == self.open_inputs[vertex];
            if !is_known || !is_fed || !batch.insert(vertex) {
                continue;
            }
            for to in topology.consumers_of_vertex(vertex) {
                *closed.entry(to).or_default() += 1;
                next.push(to);
            }
        }
        batch
    }
}

impl Topology {
    /// Positions of the vertices that have no parallelism yet.
    pub fn undecided(&self) -> impl Iterator<Item = usize> {
        self.growth.iter().flat_map(|growth| growth.undecided.iter().copied())
    }

    /// Lays out the vertices that `decided` gives a parallelism, and with them those that only waited for their
    /// inputs. Answers all of these by position.
    ///
    /// Numbers of tasks, partitions and groups that were given before stay what they are; the new ones come behind
    /// them, by vertex and subtask. It costs what is added, whatever the topology holds already.
    ///
    /// # Errors
    /// Nothing is laid out then. See [`GrowthError`]; above all, an edge that must be consumed while it is produced
    /// cannot lead from an old vertex to a new one, because the new tasks would change a region that exists.
    pub fn grow(&mut self, decided: &BTreeMap<usize, u32>) -> Result<Vec<usize>, GrowthError> {
        for (&vertex, &parallelism) in decided {
            self.check_decision(vertex, parallelism)?;
        }
        let Some(growth) = &self.growth else { return Ok(Vec::new()) };
        let batch = growth.batch(self, decided, decided.keys().copied().collect());
        self.check_batch(decided, &batch)?;
        for (&vertex, &parallelism) in decided {
            self.graph.vertices[vertex].parallelism = parallelism;
        }
        Ok(self.lay_out_batch(batch))
    }

    /// Lays out all vertices that wait for no decision.
    pub(super) fn lay_out_decided(&mut self) {
        if let Some(growth) = &self.growth {
            let batch = growth.batch(self, &BTreeMap::new(), (0..self.graph.vertices.len()).collect());
            self.lay_out_batch(batch);
        }
    }

    fn lay_out_batch(&mut self, batch: BTreeSet<usize>) -> Vec<usize> {
        let batch: Vec<usize> = batch.into_iter().collect();
        let fed: Vec<usize> = batch.iter().flat_map(|&vertex| self.consumers_of_vertex(vertex)).collect();
        if let Some(growth) = &mut self.growth {
            fed.into_iter().for_each(|to| growth.open_inputs[to] -= 1);
            for vertex in &batch {
                growth.undecided.remove(vertex);
            }
        }
        self.lay_out(&batch);
        batch
    }

    fn check_decision(&self, vertex: usize, parallelism: u32) -> Result<(), GrowthError> {
        let known = self.graph.vertices.get(vertex).ok_or(GrowthError::UnknownVertex(vertex))?;
        if !self.growth.as_ref().is_some_and(|growth| growth.undecided.contains(&vertex)) {
            return Err(GrowthError::AlreadyDecided(known.name.clone()));
        }
        let max = known.parallelism;
        if parallelism == 0 || parallelism > max {
            return Err(GrowthError::BadParallelism { vertex: known.name.clone(), parallelism, max });
        }
        Ok(())
    }

    fn check_batch(&self, decided: &BTreeMap<usize, u32>, batch: &BTreeSet<usize>) -> Result<(), GrowthError> {
        let name = |vertex: usize| self.graph.vertices[vertex].name.clone();
        if let Some(&vertex) = decided.keys().find(|vertex| !batch.contains(vertex)) {
            let is_open = |from: &usize| !self.is_laid_out(*from) && !batch.contains(from);
            let open = self.input_edges(vertex).map(|edge| self.graph.edges[edge].from).find(is_open);
            let input = open.map_or_else(String::new, name);
            return Err(GrowthError::InputUndecided { vertex: name(vertex), input });
        }
        for &vertex in batch {
            let ties = self.input_edges(vertex).map(|edge| &self.graph.edges[edge]);
            let mut ties = ties.filter(|edge| edge.partition_type.must_be_pipelined_consumed());
            if let Some(old) = ties.find(|edge| !batch.contains(&edge.from)) {
                return Err(GrowthError::JoinsOldRegion { vertex: name(vertex), producer: name(old.from) });
            }
        }
        Ok(())
    }
}
