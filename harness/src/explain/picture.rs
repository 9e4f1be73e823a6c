//! A job as it stands at one moment: its plan laid out, the state and place of every task.

use std::collections::{BTreeMap, BTreeSet};

use stormproof_coordinator::core::regions::Regions;
use stormproof_coordinator::core::status::ExecutionState;
use stormproof_coordinator::core::topology::{
    LogicalEdge, LogicalGraph, LogicalVertex, PartitionIndex, TaskIndex, Topology,
};
use stormproof_coordinator::graph::{DistributionPattern, ResultPartitionType};

use super::error::ExplainError;
use super::names;
use crate::nearest::nearest;
use crate::oracle::model::{Exchange, Partition, Task};
use crate::oracle::observed::ObservedGraph;
use crate::timeline::{ObservedPlan, TaskFact, TaskName};

/// Most tasks of a job that is explained; nothing near it was ever run, and memory is not for the asking.
const MAX_TASKS: u64 = 10_000_000;

/// Which job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobHead {
    /// Identifier; empty if unknown.
    pub id: String,
    /// For people; empty if unknown.
    pub name: String,
    /// E.g. `RUNNING`; empty if unknown.
    pub state: String,
}

/// What is known of a task's current attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) state: ExecutionState,
    /// Its number, where known.
    pub(super) number: Option<u32>,
    /// Where it runs or ran.
    pub(super) executor: Option<String>,
}

/// A job at one moment. See the [module](super).
pub struct Picture {
    pub(super) head: JobHead,
    pub(super) observed: ObservedGraph,
    pub(super) topology: Topology,
    pub(super) regions: Regions,
    /// By task.
    pub(super) attempts: Vec<Attempt>,
    /// Identifiers by vertex, where known.
    pub(super) ids: Vec<String>,
    /// What was assumed, for the reader to judge.
    pub(super) notes: Vec<String>,
}

impl Picture {
    /// A picture of a plan and the tasks as last seen, e.g. from [`crate::timeline::Timeline::tasks`]. A task that
    /// was never seen is CREATED.
    ///
    /// # Errors
    /// If the plan makes no sense or a state is unknown.
    pub fn of_facts(plan: &ObservedPlan, tasks: &BTreeMap<TaskName, TaskFact>) -> Result<Self, ExplainError> {
        let mut picture = Self::lay_out(JobHead::default(), plan, vec![], vec![])?;
        for task in picture.topology.tasks() {
            let (vertex, subtask) = picture.topology.location(task);
            let vertex = picture.vertex_name(vertex);
            let attempt = match tasks.get(&TaskName::new(vertex, subtask)) {
                None => Attempt { state: ExecutionState::Created, number: Some(0), executor: None },
                Some(fact) => Attempt {
                    state: state(vertex, &fact.state)?,
                    number: Some(fact.attempt),
                    executor: fact.executor.clone(),
                },
            };
            picture.attempts.push(attempt);
        }
        Ok(picture)
    }

    /// Everything but the attempts, which the caller fills in: one for each task of [`Topology::tasks`].
    pub(super) fn lay_out(
        head: JobHead,
        plan: &ObservedPlan,
        ids: Vec<String>,
        notes: Vec<String>,
    ) -> Result<Self, ExplainError> {
        let observed = ObservedGraph::of(plan)?;
        let vertices = observed.graph.vertices.iter();
        let vertices =
            vertices.map(|(name, parallelism)| LogicalVertex { name: name.clone(), parallelism: *parallelism });
        let edges = observed.graph.edges.iter().map(|edge| LogicalEdge {
            from: edge.from,
            data_set: edge.data_set,
            to: edge.to,
            partition_type: partition_type(edge.exchange),
            pattern: if edge.pointwise { DistributionPattern::Pointwise } else { DistributionPattern::AllToAll },
        });
        let graph = LogicalGraph { vertices: vertices.collect(), edges: edges.collect() };
        let tasks: u64 = graph.vertices.iter().map(|vertex| u64::from(vertex.parallelism)).sum();
        if tasks > MAX_TASKS {
            return Err(ExplainError::TooManyTasks { tasks, most: MAX_TASKS });
        }
        let topology = Topology::build(graph)?;
        let regions = Regions::build(&topology);
        Ok(Self { head, observed, topology, regions, attempts: vec![], ids, notes })
    }

    /// Which job this is.
    #[must_use]
    pub fn head(&self) -> &JobHead {
        &self.head
    }

    /// The plan as the model's graph: positions of vertices and numbers of data sets are those of the explanation.
    #[must_use]
    pub fn observed(&self) -> &ObservedGraph {
        &self.observed
    }

    /// The pipelined regions, by their first task.
    pub fn regions(&self) -> impl Iterator<Item = Vec<Task>> {
        self.regions.all().map(|region| self.regions.tasks(region).iter().map(|task| self.task(*task)).collect())
    }

    /// A sentence about vertices whose logical regions wait for each other, if there are any (reference 1.3).
    #[must_use]
    pub fn deadlock(&self) -> Option<String> {
        let stuck = self.regions.deadlocked_vertices(&self.topology)?;
        let names: Vec<_> = stuck.into_iter().map(|vertex| self.vertex_name(vertex)).collect();
        let names = names.join(", ");
        Some(format!("the pipelined regions of {names} wait for each other: Flink 1.14 to 2.3 starts none of them"))
    }

    pub(super) fn vertex_name(&self, vertex: usize) -> &str {
        &self.observed.graph.vertices[vertex].0
    }

    pub(super) fn state(&self, task: TaskIndex) -> ExecutionState {
        self.attempts[task.at()].state
    }

    pub(super) fn task(&self, task: TaskIndex) -> Task {
        let (vertex, subtask) = self.topology.location(task);
        Task { vertex, subtask }
    }

    pub(super) fn partition(&self, partition: PartitionIndex) -> Partition {
        let (producer, data_set) = self.topology.partition_location(partition);
        Partition { producer: self.task(producer), data_set }
    }

    /// As `restart-sets` and `--fail` write it: `vertex/subtask`.
    pub(super) fn task_text(&self, task: Task) -> String {
        format!("{}/{}", self.vertex_name(task.vertex), task.subtask)
    }

    /// As `restart-sets` and `--lost` write it: `vertex.dataset/subtask`.
    pub(super) fn partition_text(&self, partition: Partition) -> String {
        let Partition { producer, data_set } = partition;
        format!("{}.{data_set}/{}", self.vertex_name(producer.vertex), producer.subtask)
    }

    fn vertex(&self, wanted: &str) -> Option<usize> {
        let named = self.observed.graph.vertices.iter().position(|(name, _)| name == wanted);
        named.or_else(|| self.ids.iter().position(|id| id == wanted))
    }

    fn known_vertex(&self, wanted: &str) -> Result<usize, ExplainError> {
        self.vertex(wanted).ok_or_else(|| {
            let names = self.observed.graph.vertices.iter().map(|(name, _)| name.as_str());
            ExplainError::UnknownVertex { name: wanted.to_owned(), nearest: nearest(wanted, names) }
        })
    }

    fn known_subtask(&self, vertex: usize, subtask: u32) -> Result<TaskIndex, ExplainError> {
        self.topology.task(vertex, subtask).ok_or_else(|| ExplainError::Subtask {
            vertex: self.vertex_name(vertex).to_owned(),
            subtask,
            parallelism: self.observed.graph.vertices[vertex].1,
        })
    }

    /// The task called `vertex/subtask` or `vertex[subtask]`; the vertex by name or identifier.
    pub(super) fn find_task(&self, text: &str) -> Result<TaskIndex, ExplainError> {
        let (vertex, subtask) = names::task(text).ok_or_else(|| ExplainError::TaskName(text.to_owned()))?;
        self.known_subtask(self.known_vertex(vertex)?, subtask)
    }

    /// The partitions called so: one, or all of a task's where the data set is left out.
    pub(super) fn find_partitions(&self, text: &str) -> Result<Vec<PartitionIndex>, ExplainError> {
        let cut = names::partition(text).ok_or_else(|| ExplainError::PartitionName(text.to_owned()))?;
        let split = cut.set.rsplit_once('.').and_then(|(vertex, set)| Some((vertex, set.parse().ok()?)));
        let (vertex, data_set) = match (cut.data_set, split) {
            (Some(data_set), _) => (self.known_vertex(cut.set)?, Some(data_set)),
            // A vertex may itself be called `map.0`.
            (None, Some((vertex, data_set))) if self.vertex(vertex).is_some() || self.vertex(cut.set).is_none() => {
                (self.known_vertex(vertex)?, Some(data_set))
            }
            (None, _) => (self.known_vertex(cut.set)?, None),
        };
        let producer = self.known_subtask(vertex, cut.subtask)?;
        match data_set {
            None => Ok(self.topology.produced(producer).collect()),
            Some(data_set) => match self.topology.partition(vertex, data_set, cut.subtask) {
                Some(partition) => Ok(vec![partition]),
                None => Err(self.no_data_set(vertex, producer, data_set)),
            },
        }
    }

    fn no_data_set(&self, vertex: usize, producer: TaskIndex, data_set: u32) -> ExplainError {
        let known = self.topology.produced(producer).map(|partition| self.partition(partition).data_set.to_string());
        let known = known.collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "none".to_owned() } else { known };
        ExplainError::DataSet { vertex: self.vertex_name(vertex).to_owned(), data_set, known }
    }

    /// All tasks that are or were on an executor.
    pub(super) fn on_executor(&self, name: &str) -> Result<Vec<TaskIndex>, ExplainError> {
        let place = |task: &TaskIndex| self.attempts[task.at()].executor.as_deref();
        let there: Vec<_> = self.topology.tasks().filter(|task| place(task) == Some(name)).collect();
        if there.is_empty() {
            let known: BTreeSet<_> = self.attempts.iter().filter_map(|attempt| attempt.executor.as_deref()).collect();
            return Err(ExplainError::Executor {
                name: name.to_owned(),
                nearest: match known.is_empty() {
                    true => "; no task's place is known (from files: give a --vertex-file for each vertex)".to_owned(),
                    false => nearest(name, known.into_iter()),
                },
            });
        }
        Ok(there)
    }
}

/// The state of this name.
pub(super) fn state(vertex: &str, name: &str) -> Result<ExecutionState, ExplainError> {
    ExecutionState::ALL.into_iter().find(|state| state.name() == name).ok_or_else(|| ExplainError::Field {
        vertex: vertex.to_owned(),
        field: "status",
        found: format!("`{name}`"),
    })
}

fn partition_type(exchange: Exchange) -> ResultPartitionType {
    match exchange {
        Exchange::Pipelined => ResultPartitionType::Pipelined,
        Exchange::PipelinedBounded => ResultPartitionType::PipelinedBounded,
        Exchange::PipelinedApproximate => ResultPartitionType::PipelinedApproximate,
        Exchange::Blocking => ResultPartitionType::Blocking,
        Exchange::BlockingPersistent => ResultPartitionType::BlockingPersistent,
        Exchange::HybridFull => ResultPartitionType::HybridFull,
        Exchange::HybridSelective => ResultPartitionType::HybridSelective,
    }
}
