//! From a case to Flink's answer.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::case::{AttemptRef, Case, CaseError, parse_partition, parse_task};
use crate::core::failover::{Failure, NamedPartition, StalePolicy, restart_set};
use crate::core::regions::Regions;
use crate::core::topology::{
    LogicalEdge, LogicalGraph, LogicalVertex, PartitionIndex, TaskIndex, Topology, TopologyError,
};

/// What Flink answers to a case. Lists are sorted by the vertex's position in the case, then by subtask; regions by
/// their first task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Of the case.
    pub id: String,
    /// All pipelined regions; none if no graph was built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<Vec<Vec<String>>>,
    /// The tasks that restart, possibly none; absent if refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<Vec<String>>,
    /// Why Flink refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal>,
}

/// What Flink refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// When.
    pub at: Stage,
    /// Why.
    pub kind: RefusalKind,
}

/// When a case is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// While the graph was built.
    Graph,
    /// While the restart set was computed.
    Failover,
}

/// Why a case is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RefusalKind {
    /// No topological order; also an edge from a vertex to itself.
    Cyclic,
    /// Edges of one data set with different patterns.
    PatternMismatch,
    /// A vertex with fewer than one subtask, or with more than Flink's upper bound.
    BadParallelism,
    /// The failing task does not exist.
    UnknownTask,
}

impl Answer {
    fn refused(case: &Case, at: Stage, kind: RefusalKind) -> Self {
        Self { id: case.id.clone(), regions: None, restart: None, error: Some(Refusal { at, kind }) }
    }
}

/// Answers a case as Flink does, a stale partition exception included ([`StalePolicy::Honour`]).
///
/// # Errors
/// When the case contradicts itself, so that Flink could not be asked.
pub fn answer(case: &Case) -> Result<Answer, CaseError> {
    let names = Names::of(case)?;
    let Some(graph) = names.graph(case)? else {
        return Ok(Answer::refused(case, Stage::Graph, RefusalKind::BadParallelism));
    };
    let topology = match Topology::build(graph) {
        Ok(topology) => topology,
        Err(error) => return refuse_graph(case, &error),
    };
    check_states(case, &topology)?;
    let lost: BTreeSet<PartitionIndex> = case
        .lost
        .iter()
        .filter_map(|name| names.partition(&topology, "lost", name).transpose())
        .collect::<Result<_, _>>()?;
    let named = match case.named() {
        None => None,
        Some((name, attempt)) => names
            .partition(&topology, "cause", name)?
            .map(|partition| NamedPartition { partition, is_current_attempt: attempt == AttemptRef::Current }),
    };
    let regions = Regions::build(&topology);
    let print = |task: &TaskIndex| {
        let (vertex, subtask) = topology.location(*task);
        format!("{}/{subtask}", case.vertices[vertex].name)
    };
    let listed = regions.all().map(|region| regions.tasks(region).iter().map(print).collect()).collect();
    let Some(task) = names.task(&topology, &case.fail) else {
        let refused = Answer::refused(case, Stage::Failover, RefusalKind::UnknownTask);
        return Ok(Answer { regions: Some(listed), ..refused });
    };
    let state = |task: TaskIndex| {
        let (vertex, subtask) = topology.location(task);
        case.states[&case.vertices[vertex].name][subtask as usize]
    };
    let failure = Failure { task, named };
    let restart = restart_set(&topology, &regions, &failure, StalePolicy::Honour, state, |p| !lost.contains(&p));
    let restart = restart.iter().map(print).collect();
    Ok(Answer { id: case.id.clone(), regions: Some(listed), restart: Some(restart), error: None })
}

fn refuse_graph(case: &Case, error: &TopologyError) -> Result<Answer, CaseError> {
    let kind = match error {
        TopologyError::Cyclic { .. } => RefusalKind::Cyclic,
        TopologyError::PatternMismatch { .. } => RefusalKind::PatternMismatch,
        TopologyError::BadParallelism { .. } => RefusalKind::BadParallelism,
        TopologyError::TypeMismatch { .. }
        | TopologyError::UnknownVertex { .. }
        | TopologyError::UnknownUndecided { .. }
        | TopologyError::TooLarge(_) => {
            return Err(CaseError::Graph { id: case.id.clone(), reason: error.to_string() });
        }
    };
    Ok(Answer::refused(case, Stage::Graph, kind))
}

fn check_states(case: &Case, topology: &Topology) -> Result<(), CaseError> {
    for vertex in &topology.graph().vertices {
        let given = case.states.get(&vertex.name).map_or(0, Vec::len);
        if given != vertex.parallelism as usize {
            let (id, vertex, parallelism) = (case.id.clone(), vertex.name.clone(), vertex.parallelism);
            return Err(CaseError::StateCount { id, vertex, given, parallelism });
        }
    }
    Ok(())
}

/// Vertex positions by name.
struct Names<'a> {
    id: &'a str,
    position: BTreeMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    fn of(case: &'a Case) -> Result<Self, CaseError> {
        let mut position = BTreeMap::new();
        for (at, vertex) in case.vertices.iter().enumerate() {
            if position.insert(vertex.name.as_str(), at).is_some() {
                return Err(CaseError::DuplicateVertex { id: case.id.clone(), vertex: vertex.name.clone() });
            }
        }
        let names = Self { id: &case.id, position };
        case.states.keys().try_for_each(|vertex| names.vertex("states", vertex).map(drop))?;
        Ok(names)
    }

    fn vertex(&self, place: &'static str, name: &str) -> Result<usize, CaseError> {
        let unknown = || CaseError::UnknownVertex { id: self.id.to_owned(), place, vertex: name.to_owned() };
        self.position.get(name).copied().ok_or_else(unknown)
    }

    /// None if a parallelism does not fit any number of subtasks.
    fn graph(&self, case: &Case) -> Result<Option<LogicalGraph>, CaseError> {
        let mut edges = Vec::with_capacity(case.edges.len());
        for edge in &case.edges {
            edges.push(LogicalEdge {
                from: self.vertex("edges", &edge.from)?,
                data_set: edge.data,
                to: self.vertex("edges", &edge.to)?,
                partition_type: edge.kind,
                pattern: edge.pattern,
            });
        }
        let vertices: Option<Vec<_>> = case
            .vertices
            .iter()
            .map(|vertex| {
                let parallelism = u32::try_from(vertex.parallelism).ok()?;
                Some(LogicalVertex { name: vertex.name.clone(), parallelism })
            })
            .collect();
        Ok(vertices.map(|vertices| LogicalGraph { vertices, edges }))
    }

    fn task(&self, topology: &Topology, text: &str) -> Option<TaskIndex> {
        let (vertex, subtask) = parse_task(text)?;
        topology.task(*self.position.get(vertex)?, subtask)
    }

    /// None if there is no such partition: losing it has no effect.
    fn partition(
        &self,
        topology: &Topology,
        place: &'static str,
        text: &str,
    ) -> Result<Option<PartitionIndex>, CaseError> {
        let Some((vertex, data, subtask)) = parse_partition(text) else {
            return Err(CaseError::PartitionName { id: self.id.to_owned(), place, name: text.to_owned() });
        };
        let vertex = self.position.get(vertex);
        Ok(vertex.and_then(|&vertex| topology.partition(vertex, data, subtask)))
    }
}
