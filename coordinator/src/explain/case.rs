//! The format of a case.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::core::status::ExecutionState;
use crate::graph::{DistributionPattern, ResultPartitionType};

/// A line that is not a case.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// Not JSON, a field is missing, or a field has a value it cannot have.
    #[error("not a case: {0}")]
    Json(#[source] serde_json::Error),
    /// Two vertices of one name.
    #[error("case `{id}`: two vertices are called `{vertex}`")]
    DuplicateVertex {
        /// The case.
        id: String,
        /// The name.
        vertex: String,
    },
    /// An edge or `states` names a vertex that does not exist.
    #[error("case `{id}`: `{place}` names vertex `{vertex}`, which `vertices` does not list")]
    UnknownVertex {
        /// The case.
        id: String,
        /// `edges` or `states`.
        place: &'static str,
        /// The name.
        vertex: String,
    },
    /// `states` does not fit the vertex's parallelism.
    #[error("case `{id}`: `states` gives {given} states for vertex `{vertex}` of parallelism {parallelism}")]
    StateCount {
        /// The case.
        id: String,
        /// The vertex.
        vertex: String,
        /// How many states there are.
        given: usize,
        /// How many there should be.
        parallelism: u32,
    },
    /// A partition name that is not one.
    #[error("case `{id}`: `{name}` in `{place}` is not a partition; write `vertex.data/subtask`, e.g. `map.0/3`")]
    PartitionName {
        /// The case.
        id: String,
        /// `lost` or `cause`.
        place: &'static str,
        /// What it says.
        name: String,
    },
    /// A graph that Flink would take for another one than is meant, e.g. a shared data set with two types.
    #[error("case `{id}`: {reason}")]
    Graph {
        /// The case.
        id: String,
        /// What is wrong.
        reason: String,
    },
}

/// One case. See the [module](super).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Case {
    /// Copied to the answer.
    pub id: String,
    /// In any order.
    pub vertices: Vec<CaseVertex>,
    /// A vertex's inputs are numbered in this order.
    pub edges: Vec<CaseEdge>,
    /// By vertex: the state of each subtask.
    pub states: BTreeMap<String, Vec<ExecutionState>>,
    /// Partitions that are not tracked.
    pub lost: Vec<String>,
    /// The failing task.
    pub fail: String,
    /// The exception chain, outermost first.
    pub cause: Vec<Cause>,
}

/// A vertex of a case.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct CaseVertex {
    /// Unique.
    pub name: String,
    /// Number of subtasks; below one is for the answer to refuse.
    pub parallelism: i64,
}

/// An edge of a case.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct CaseEdge {
    /// Producer.
    pub from: String,
    /// Number of its data set.
    pub data: u32,
    /// How the data is kept.
    #[serde(rename = "type")]
    pub kind: ResultPartitionType,
    /// Consumer.
    pub to: String,
    /// Who reads whom.
    pub pattern: DistributionPattern,
}

/// One exception of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "kind")]
pub enum Cause {
    /// Names no partition.
    Exception,
    /// The producer's executor has no such partition.
    PartitionNotFoundException {
        /// `vertex.data/subtask`.
        partition: String,
        /// Of which attempt.
        attempt: AttemptRef,
    },
    /// The producer's executor cannot be reached.
    PartitionConnectionException {
        /// `vertex.data/subtask`.
        partition: String,
        /// Of which attempt.
        attempt: AttemptRef,
    },
}

/// Whether an exception names the producer's present attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AttemptRef {
    /// The present one.
    Current,
    /// An earlier one.
    Stale,
}

impl Case {
    /// Reads a line.
    ///
    /// # Errors
    /// When it is not JSON of this format; says where.
    pub fn from_json(line: &str) -> Result<Self, CaseError> {
        serde_json::from_str(line).map_err(CaseError::Json)
    }

    /// The outermost exception that names a partition, with the partition's text.
    pub(super) fn named(&self) -> Option<(&str, AttemptRef)> {
        self.cause.iter().find_map(|cause| match cause {
            Cause::Exception => None,
            Cause::PartitionNotFoundException { partition, attempt }
            | Cause::PartitionConnectionException { partition, attempt } => Some((partition.as_str(), *attempt)),
        })
    }
}

/// Cuts `vertex/subtask`. Vertex names may contain slashes themselves.
pub(super) fn parse_task(text: &str) -> Option<(&str, u32)> {
    let (vertex, subtask) = text.rsplit_once('/')?;
    Some((vertex, subtask.parse().ok()?))
}

/// Cuts `vertex.data/subtask`. Vertex names may contain dots themselves.
pub(super) fn parse_partition(text: &str) -> Option<(&str, u32, u32)> {
    let (set, subtask) = parse_task(text)?;
    let (vertex, data) = set.rsplit_once('.')?;
    Some((vertex, data.parse().ok()?, subtask))
}
