//! An independent model of Flink's region failover, written from the definitions and for reading, not for speed: it
//! shares nothing with the coordinator's implementation, so that each checks the other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;
use petgraph::unionfind::UnionFind;

/// Result partition types that the model tells apart by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exchange {
    /// Ties regions.
    Pipelined,
    /// Ties regions; the streaming default.
    PipelinedBounded,
    /// A region border; may be read again.
    PipelinedApproximate,
    /// A region border; may be read again; the batch default.
    Blocking,
    /// Like `Blocking`.
    BlockingPersistent,
    /// A region border; may be read again.
    HybridFull,
    /// A region border; can be read once only.
    HybridSelective,
}

impl Exchange {
    /// All seven.
    pub const ALL: [Self; 7] = [
        Self::Pipelined,
        Self::PipelinedBounded,
        Self::PipelinedApproximate,
        Self::Blocking,
        Self::BlockingPersistent,
        Self::HybridFull,
        Self::HybridSelective,
    ];

    /// By the name in a REST plan, any case.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        Self::ALL.into_iter().find(|exchange| exchange.name() == name)
    }

    /// The name in a REST plan.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pipelined => "pipelined",
            Self::PipelinedBounded => "pipelined_bounded",
            Self::PipelinedApproximate => "pipelined_approximate",
            Self::Blocking => "blocking",
            Self::BlockingPersistent => "blocking_persistent",
            Self::HybridFull => "hybrid_full",
            Self::HybridSelective => "hybrid_selective",
        }
    }

    fn ties(self) -> bool {
        matches!(self, Self::Pipelined | Self::PipelinedBounded)
    }

    fn can_be_read_again(self) -> bool {
        !self.ties() && self != Self::HybridSelective
    }
}

/// A job graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    /// Name and parallelism of each vertex.
    pub vertices: Vec<(String, u32)>,
    /// Edges.
    pub edges: Vec<Edge>,
}

/// An edge between vertices, by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Producer.
    pub from: usize,
    /// Number of the data set among the producer's; edges may share one.
    pub data_set: u32,
    /// Consumer.
    pub to: usize,
    /// Type.
    pub exchange: Exchange,
    /// POINTWISE if true, else ALL_TO_ALL.
    pub pointwise: bool,
}

/// A task: position of the vertex, index of the subtask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task {
    /// Position of the vertex.
    pub vertex: usize,
    /// Index of the subtask, from 0.
    pub subtask: u32,
}

/// A result partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The producing task.
    pub producer: Task,
    /// Number of the data set among the producing vertex's.
    pub data_set: u32,
}

/// What matters of a job's condition when a task fails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Situation {
    /// Tasks in state CREATED: never restarted (FLINK-19712).
    pub created: BTreeSet<Task>,
    /// Partitions that are gone, including one that the failure names.
    pub lost: BTreeSet<Partition>,
}

/// Why a task is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is the task that failed.
    Failed,
    /// It is in one region with this task.
    SameRegion(Task),
    /// It reads what this task, which restarts, produces.
    Consumes(Task),
    /// It must produce this partition again, for this task reads it.
    InputLost {
        /// The partition that is gone.
        partition: Partition,
        /// Who needs it.
        needed_by: Task,
    },
}

/// The answer: every task that was reached, with the reason, and which of them stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestartSet {
    /// All tasks of all regions that restart.
    pub reached: BTreeMap<Task, Reason>,
    /// Those of them that are CREATED and so need no restart.
    pub spared: BTreeSet<Task>,
}

impl RestartSet {
    /// The tasks that restart.
    pub fn members(&self) -> impl Iterator<Item = Task> {
        self.reached.keys().filter(|task| !self.spared.contains(task)).copied()
    }
}

/// The graph makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The failed task is none of the graph's.
    #[error("the graph has no task {0:?}")]
    UnknownTask(Task),
    /// An edge from or to nowhere.
    #[error("edge {0} joins vertices that the graph does not have")]
    UnknownVertex(usize),
    /// A vertex without tasks.
    #[error("vertex `{0}` has parallelism 0")]
    NoTasks(String),
    /// Two edges read one data set by different patterns.
    #[error("edges that share a data set of `{0}` differ in pattern")]
    Pattern(String),
    /// A vertex that reads, directly or not, its own output.
    #[error("the graph has a cycle through `{0}`")]
    Cyclic(String),
}

impl Edge {
    /// Does subtask `consumer` of `consumers` read what subtask `producer` of `producers` writes? Reference 1.2.
    fn joins(&self, producer: u32, producers: u32, consumer: u32, consumers: u32) -> bool {
        let [p, s, i, t] = [producer, producers, consumer, consumers].map(u64::from);
        if !self.pointwise {
            true
        } else if s >= t {
            (i * s / t..(i + 1) * s / t).contains(&p)
        } else {
            ((p * t).div_ceil(s)..((p + 1) * t).div_ceil(s)).contains(&i)
        }
    }
}

impl Graph {
    /// All tasks in order.
    pub fn tasks(&self) -> impl Iterator<Item = Task> {
        let of_vertex = |(vertex, (_, parallelism)): (usize, &(String, u32))| {
            (0..*parallelism).map(move |subtask| Task { vertex, subtask })
        };
        self.vertices.iter().enumerate().flat_map(of_vertex)
    }

    /// Pairs of producing and consuming task over every edge.
    pub fn pairs(&self) -> impl Iterator<Item = (&Edge, Task, Task)> {
        self.edges.iter().flat_map(move |edge| {
            let (producers, consumers) = (self.vertices[edge.from].1, self.vertices[edge.to].1);
            (0..producers).flat_map(move |p| {
                (0..consumers)
                    .filter(move |i| edge.joins(p, producers, *i, consumers))
                    .map(move |i| (edge, Task { vertex: edge.from, subtask: p }, Task { vertex: edge.to, subtask: i }))
            })
        })
    }

    fn check(&self) -> Result<(), ModelError> {
        if let Some((name, _)) = self.vertices.iter().find(|(_, parallelism)| *parallelism == 0) {
            return Err(ModelError::NoTasks(name.clone()));
        }
        let mut graph = DiGraph::<usize, ()>::new();
        let nodes: Vec<_> = (0..self.vertices.len()).map(|vertex| graph.add_node(vertex)).collect();
        for (number, edge) in self.edges.iter().enumerate() {
            let ends = nodes.get(edge.from).zip(nodes.get(edge.to)).ok_or(ModelError::UnknownVertex(number))?;
            graph.add_edge(*ends.0, *ends.1, ());
        }
        let mut patterns = BTreeMap::new();
        for edge in &self.edges {
            if *patterns.entry((edge.from, edge.data_set)).or_insert(edge.pointwise) != edge.pointwise {
                return Err(ModelError::Pattern(self.vertices[edge.from].0.clone()));
            }
        }
        match petgraph::algo::toposort(&graph, None) {
            Ok(_) => Ok(()),
            Err(cycle) => Err(ModelError::Cyclic(self.vertices[graph[cycle.node_id()]].0.clone())),
        }
    }

    /// The pipelined regions: for each task the number of its region. Reference 1.3 and 1.4.
    ///
    /// # Errors
    /// If the graph makes no sense.
    pub fn regions(&self) -> Result<BTreeMap<Task, usize>, ModelError> {
        self.check()?;
        let mut logical = UnionFind::<usize>::new(self.vertices.len());
        for edge in self.edges.iter().filter(|edge| edge.exchange.ties()) {
            logical.union(edge.from, edge.to);
        }
        let inside = |edge: &Edge| logical.equiv(edge.from, edge.to);
        // Any all-to-all edge inside a logical region makes it one region.
        let whole: BTreeSet<usize> = self
            .edges
            .iter()
            .filter(|edge| inside(edge) && !edge.pointwise)
            .map(|edge| logical.find(edge.from))
            .collect();

        let numbers: BTreeMap<Task, usize> = self.tasks().zip(0..).collect();
        let mut regions = UnionFind::<usize>::new(numbers.len());
        let mut first_of: BTreeMap<usize, usize> = BTreeMap::new();
        for (task, number) in &numbers {
            let of = logical.find(task.vertex);
            if whole.contains(&of) {
                regions.union(*first_of.entry(of).or_insert(*number), *number);
            }
        }
        for (_, from, to) in self.pairs().filter(|(edge, ..)| edge.exchange.ties()) {
            regions.union(numbers[&from], numbers[&to]);
        }
        // Borders inside a logical region must not make regions wait for each other in a circle.
        let mut borders = DiGraph::<usize, ()>::new();
        let nodes: Vec<_> = (0..numbers.len()).map(|number| borders.add_node(number)).collect();
        for (_, from, to) in self.pairs().filter(|(edge, ..)| inside(edge) && !edge.exchange.ties()) {
            borders.add_edge(nodes[regions.find(numbers[&from])], nodes[regions.find(numbers[&to])], ());
        }
        for component in kosaraju_scc(&borders) {
            for node in &component {
                regions.union(borders[component[0]], borders[*node]);
            }
        }
        Ok(numbers.iter().map(|(task, number)| (*task, regions.find(*number))).collect())
    }
}

/// Which tasks restart if `failed` fails. Reference 2.2 and 2.3.
///
/// # Errors
/// If the graph makes no sense or has no such task.
pub fn restart_set(graph: &Graph, situation: &Situation, failed: Task) -> Result<RestartSet, ModelError> {
    let region_of = graph.regions()?;
    if !region_of.contains_key(&failed) {
        return Err(ModelError::UnknownTask(failed));
    }
    let mut mates: BTreeMap<usize, Vec<Task>> = BTreeMap::new();
    for (task, region) in &region_of {
        mates.entry(*region).or_default().push(*task);
    }
    let (mut readers, mut inputs) = (BTreeMap::<Task, Vec<Task>>::new(), BTreeMap::<Task, Vec<Partition>>::new());
    for (edge, producer, consumer) in graph.pairs() {
        readers.entry(producer).or_default().push(consumer);
        let partition = Partition { producer, data_set: edge.data_set };
        if !edge.exchange.can_be_read_again() || situation.lost.contains(&partition) {
            inputs.entry(consumer).or_default().push(partition);
        }
    }

    let mut reached = BTreeMap::new();
    let mut queue = VecDeque::from([(failed, Reason::Failed)]);
    while let Some((entry, reason)) = queue.pop_front() {
        if reached.contains_key(&entry) {
            continue;
        }
        let region = &mates[&region_of[&entry]];
        for task in region {
            reached.insert(*task, if *task == entry { reason } else { Reason::SameRegion(entry) });
        }
        for task in region {
            let gone = inputs.get(task).into_iter().flatten();
            queue.extend(
                gone.map(|partition| {
                    (partition.producer, Reason::InputLost { partition: *partition, needed_by: *task })
                }),
            );
            queue.extend(readers.get(task).into_iter().flatten().map(|reader| (*reader, Reason::Consumes(*task))));
        }
    }
    let spared = reached.keys().filter(|task| situation.created.contains(task)).copied().collect();
    Ok(RestartSet { reached, spared })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: usize, to: usize, pointwise: bool) -> Edge {
        Edge { from, data_set: 0, to, exchange: Exchange::Blocking, pointwise }
    }

    fn joined(producers: u32, consumers: u32) -> Vec<(u32, u32)> {
        let edge = edge(0, 1, true);
        let all = (0..producers).flat_map(|p| (0..consumers).map(move |i| (p, i)));
        all.filter(|(p, i)| edge.joins(*p, producers, *i, consumers)).collect()
    }

    #[test]
    fn pointwise_edges_join_as_in_the_reference() {
        assert_eq!(joined(4, 2), [(0, 0), (1, 0), (2, 1), (3, 1)]);
        assert_eq!(joined(2, 3), [(0, 0), (0, 1), (1, 2)]);
        assert_eq!(joined(3, 2), [(0, 0), (1, 1), (2, 1)]);
        let fed = |p| joined(2, 7).into_iter().filter(|(producer, _)| *producer == p).count();
        assert_eq!((fed(0), fed(1)), (4, 3));
    }

    #[test]
    fn every_task_takes_part_in_a_pointwise_edge() {
        for (producers, consumers) in (1..12).flat_map(|p| (1..12).map(move |c| (p, c))) {
            let pairs = joined(producers, consumers);
            let (from, to): (BTreeSet<_>, BTreeSet<_>) = pairs.into_iter().unzip();
            assert_eq!((from.len(), to.len()), (producers as usize, consumers as usize), "{producers} to {consumers}");
        }
    }

    /// Two pipelined trees of uneven width reach each other over blocking pointwise edges: as two regions each would
    /// wait for the other.
    #[test]
    fn regions_that_reach_each_other_are_one() {
        let tie = |from, to| Edge { exchange: Exchange::PipelinedBounded, ..edge(from, to, true) };
        let vertices = [("a", 2), ("b", 3), ("c", 7), ("d", 7)].map(|(name, size)| (name.to_owned(), size)).to_vec();
        let mut graph = Graph { vertices, edges: vec![tie(0, 1), tie(0, 2), tie(1, 3), edge(1, 2, true)] };
        let count = |graph: &Graph| graph.regions().unwrap().into_values().collect::<BTreeSet<_>>().len();
        assert_eq!(count(&graph), 2, "one reaches the other, but not back");
        graph.edges.push(edge(2, 3, true));
        assert_eq!(count(&graph), 1);
    }

    #[test]
    fn senseless_graphs_are_refused() {
        let vertices = vec![("a".to_owned(), 1), ("b".to_owned(), 1)];
        let cyclic = Graph { vertices: vertices.clone(), edges: vec![edge(0, 1, true), edge(1, 0, true)] };
        assert!(matches!(cyclic.regions(), Err(ModelError::Cyclic(_))));
        let dangling = Graph { vertices: vertices.clone(), edges: vec![edge(0, 2, true)] };
        assert_eq!(dangling.regions(), Err(ModelError::UnknownVertex(0)));
        let task = Task { vertex: 1, subtask: 1 };
        let graph = Graph { vertices, edges: vec![] };
        assert_eq!(restart_set(&graph, &Situation::default(), task), Err(ModelError::UnknownTask(task)));
    }

    #[test]
    fn a_long_chain_does_not_overflow_the_stack() {
        let names = (0..20_000).map(|number| (format!("v{number}"), 1)).collect();
        let edges = (1..20_000).map(|to| edge(to - 1, to, true)).collect();
        let graph = Graph { vertices: names, edges };
        let set = restart_set(&graph, &Situation::default(), Task { vertex: 0, subtask: 0 }).unwrap();
        assert_eq!(set.members().count(), 20_000);
    }
}
