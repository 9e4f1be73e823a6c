//! Answers about jobs, vertices and attempts.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::lenient;
use crate::timeline::{ObservedEdge, ObservedPlan, ObservedVertex};

/// `GET /jobs/overview`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct JobsOverview {
    /// Running and recently ended jobs.
    #[serde(default)]
    pub jobs: Vec<JobSummary>,
}

/// One job of the overview.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobSummary {
    /// Identifier.
    #[serde(default)]
    pub jid: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// E.g. `RUNNING`.
    #[serde(default)]
    pub state: String,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "lenient::int")]
    pub start_time: i64,
    /// Milliseconds since the epoch; -1 until it ends.
    #[serde(default, deserialize_with = "lenient::int")]
    pub end_time: i64,
    /// Tasks by state in lower case, and `total`.
    #[serde(default)]
    pub tasks: BTreeMap<String, i64>,
}

/// `GET /jobs/:id`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobDetail {
    /// Identifier.
    #[serde(default)]
    pub jid: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// E.g. `INITIALIZING`.
    #[serde(default)]
    pub state: String,
    /// `BATCH` or `STREAMING`, since 1.20.
    #[serde(default)]
    pub job_type: Option<String>,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "lenient::int")]
    pub start_time: i64,
    /// Milliseconds since the epoch; -1 until it ends.
    #[serde(default, deserialize_with = "lenient::int")]
    pub end_time: i64,
    /// The coordinator's clock when it made this picture, milliseconds since the epoch.
    #[serde(default, deserialize_with = "lenient::int")]
    pub now: i64,
    /// Time of the last entry into each state; 0 if never.
    #[serde(default)]
    pub timestamps: BTreeMap<String, i64>,
    /// Empty while INITIALIZING; in 2.x adaptive batch it grows as stages are planned.
    #[serde(default)]
    pub vertices: Vec<VertexSummary>,
    /// Empty while INITIALIZING.
    #[serde(default)]
    pub plan: Plan,
}

/// A vertex of `GET /jobs/:id`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct VertexSummary {
    /// Identifier.
    #[serde(default)]
    pub id: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Number of subtasks.
    #[serde(default, deserialize_with = "lenient::small")]
    pub parallelism: u32,
    /// Flink's aggregate of its tasks' states.
    #[serde(default)]
    pub status: String,
    /// Tasks by state.
    #[serde(default)]
    pub tasks: BTreeMap<String, i64>,
    /// Counters over all tasks.
    #[serde(default)]
    pub metrics: IoMetrics,
}

/// Counters of a vertex or an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct IoMetrics {
    /// Bytes read.
    #[serde(default, deserialize_with = "lenient::count")]
    pub read_bytes: u64,
    /// Bytes written.
    #[serde(default, deserialize_with = "lenient::count")]
    pub write_bytes: u64,
    /// Records read.
    #[serde(default, deserialize_with = "lenient::count")]
    pub read_records: u64,
    /// Records written.
    #[serde(default, deserialize_with = "lenient::count")]
    pub write_records: u64,
}

/// A job's plan.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Plan {
    /// Vertices; the order differs between versions.
    #[serde(default)]
    pub nodes: Vec<PlanNode>,
}

/// A vertex of a plan.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct PlanNode {
    /// Identifier.
    pub id: String,
    /// Number of subtasks.
    #[serde(default, deserialize_with = "lenient::small")]
    pub parallelism: u32,
    /// Its name with HTML in it.
    #[serde(default, deserialize_with = "lenient::text")]
    pub description: String,
    /// Edges into it.
    #[serde(default, deserialize_with = "lenient::list")]
    pub inputs: Vec<PlanInput>,
}

/// An edge of a plan.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct PlanInput {
    /// Producing vertex.
    pub id: String,
    /// Which of the consumer's inputs, from 0.
    #[serde(default, deserialize_with = "lenient::small")]
    pub num: u32,
    /// E.g. `FORWARD`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub ship_strategy: String,
    /// Partition type in lower case, e.g. `pipelined_bounded`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub exchange: String,
    /// What only the bundled coordinator tells.
    #[serde(default)]
    pub stormproof: Option<StormproofInput>,
}

/// The bundled coordinator's remarks on an edge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StormproofInput {
    /// Number of the data set among the producer's.
    #[serde(default)]
    pub data_set: Option<u32>,
}

impl JobDetail {
    /// Time of the last entry into a state, milliseconds since the epoch.
    #[must_use]
    pub fn entered(&self, state: &str) -> Option<i64> {
        self.timestamps.get(state).copied().filter(|at| *at > 0)
    }

    /// FAILED, CANCELED or FINISHED.
    #[must_use]
    pub fn is_globally_terminal(&self) -> bool {
        matches!(self.state.as_str(), "FAILED" | "CANCELED" | "FINISHED")
    }

    /// The vertex's name, made unique: Flink allows two vertices of one name.
    #[must_use]
    pub fn label(&self, vertex: &str) -> String {
        let Some(found) = self.vertices.iter().find(|known| known.id == vertex) else {
            return vertex.to_owned();
        };
        if self.vertices.iter().filter(|other| other.name == found.name).count() == 1 {
            return found.name.clone();
        }
        format!("{}#{}", found.name, vertex.get(..8).unwrap_or(vertex))
    }

    /// The plan in the timeline's form; vertices in the order of [`JobDetail::vertices`], which is topological.
    #[must_use]
    pub fn observed_plan(&self) -> ObservedPlan {
        let vertices = self
            .vertices
            .iter()
            .map(|vertex| ObservedVertex { name: self.label(&vertex.id), parallelism: vertex.parallelism })
            .collect();
        let mut edges = vec![];
        for vertex in &self.vertices {
            let Some(node) = self.plan.nodes.iter().find(|node| node.id == vertex.id) else { continue };
            let mut inputs: Vec<_> = node.inputs.iter().collect();
            inputs.sort_by_key(|input| input.num);
            edges.extend(inputs.into_iter().map(|input| ObservedEdge {
                from: self.label(&input.id),
                to: self.label(&vertex.id),
                exchange: input.exchange.clone(),
                ship_strategy: input.ship_strategy.clone(),
                data_set: input.stormproof.as_ref().and_then(|extra| extra.data_set),
            }));
        }
        ObservedPlan { vertices, edges }
    }
}

/// `GET /jobs/:id/vertices/:vid`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct VertexDetail {
    /// Identifier.
    #[serde(default)]
    pub id: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Number of subtasks.
    #[serde(default, deserialize_with = "lenient::small")]
    pub parallelism: u32,
    /// The current attempt of each subtask.
    #[serde(default)]
    pub subtasks: Vec<Attempt>,
}

/// One attempt of one subtask.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Attempt {
    /// Index of the subtask, from 0.
    #[serde(default, deserialize_with = "lenient::small")]
    pub subtask: u32,
    /// E.g. `RUNNING`.
    #[serde(default)]
    pub status: String,
    /// Attempt number, from 0.
    #[serde(default, deserialize_with = "lenient::small")]
    pub attempt: u32,
    /// `host:port`, since 1.19.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// Host alone, before 2.0.
    #[serde(default)]
    pub host: Option<String>,
    /// Milliseconds since the epoch; -1 until it is deployed.
    #[serde(default, deserialize_with = "lenient::int")]
    pub start_time: i64,
    /// Milliseconds since the epoch; -1 until it ends.
    #[serde(default, deserialize_with = "lenient::int")]
    pub end_time: i64,
    /// Where it runs; `(unassigned)` or empty before it is deployed.
    #[serde(default)]
    pub taskmanager_id: Option<String>,
    /// Counters.
    #[serde(default)]
    pub metrics: IoMetrics,
    /// What only the bundled coordinator tells.
    #[serde(default)]
    pub stormproof: Option<StormproofAttempt>,
}

/// The bundled coordinator's remarks on an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct StormproofAttempt {
    /// Why it failed.
    #[serde(default)]
    pub failure: Option<String>,
}

impl Attempt {
    /// The executor, once there is one.
    #[must_use]
    pub fn executor(&self) -> Option<&str> {
        self.taskmanager_id.as_deref().filter(|id| !id.is_empty() && !id.starts_with('('))
    }
}

/// `GET /jobs/:id/exceptions`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Exceptions {
    /// Failures, newest first.
    #[serde(default, rename = "exceptionHistory")]
    pub history: ExceptionHistory,
}

/// Failures of a job.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct ExceptionHistory {
    /// Newest first.
    #[serde(default)]
    pub entries: Vec<ExceptionEntry>,
    /// There were more.
    #[serde(default)]
    pub truncated: bool,
}

/// One failure.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExceptionEntry {
    /// Class or kind.
    #[serde(default)]
    pub exception_name: String,
    /// Cause chain.
    #[serde(default)]
    pub stacktrace: String,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "lenient::int")]
    pub timestamp: i64,
    /// E.g. `mid (2/2) - execution #1`; none for a global failure.
    #[serde(default)]
    pub task_name: Option<String>,
    /// Where the task ran, since 1.17.
    #[serde(default)]
    pub task_manager_id: Option<String>,
    /// Handled as part of this one.
    #[serde(default, deserialize_with = "lenient::list")]
    pub concurrent_exceptions: Vec<ExceptionEntry>,
}

impl ExceptionEntry {
    /// The failure and what caused it, in one line: where it was thrown is left out.
    #[must_use]
    pub fn causes(&self) -> String {
        let outer = self.stacktrace.lines().next().unwrap_or(&self.exception_name);
        let inner = self.stacktrace.lines().filter_map(|line| line.trim().strip_prefix("Caused by: "));
        std::iter::once(outer).chain(inner).collect::<Vec<_>>().join(": ")
    }
}

/// `GET /jobs/:id/status`, since 1.16.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct JobStatusAnswer {
    /// E.g. `RUNNING`.
    pub status: String,
}
