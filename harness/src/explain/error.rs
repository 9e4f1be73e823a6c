//! What cannot be explained.

use stormproof_coordinator::core::topology::TopologyError;

use crate::flink::RestError;
use crate::oracle::observed::PlanError;

/// A question or an answer of a cluster that makes no sense; the message names the thing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// Not JSON.
    #[error("{place} is not JSON")]
    Json {
        /// File or call.
        place: String,
        /// Where it stops being JSON.
        #[source]
        source: serde_json::Error,
    },
    /// JSON, but not what it should be.
    #[error("{place} {problem}")]
    Shape {
        /// File or call.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A field of a vertex that has no sensible value.
    #[error("vertex `{vertex}` has {found} as `{field}`")]
    Field {
        /// The vertex.
        vertex: String,
        /// The field as REST spells it.
        field: &'static str,
        /// What it says, as JSON, or `nothing`.
        found: String,
    },
    /// Two vertices of one identifier, or two answers for one.
    #[error("vertex `{0}` is given twice")]
    Twice(String),
    /// An input from nowhere.
    #[error("vertex `{vertex}` reads from vertex `{producer}`, which the plan does not have")]
    Producer {
        /// Consumer.
        vertex: String,
        /// What it names.
        producer: String,
    },
    /// An answer about a vertex of another job.
    #[error("{place} is about vertex `{vertex}`, which the job does not have")]
    ForeignVertex {
        /// File or call.
        place: String,
        /// What it names.
        vertex: String,
    },
    /// The coordinator does not show the job's vertices (yet).
    #[error("job `{job}` is {state} and shows no vertices; ask again once it runs")]
    NoVertices {
        /// The job.
        job: String,
        /// Its state.
        state: String,
    },
    /// More tasks than are laid out.
    #[error("the job has {tasks} tasks, and at most {most} are explained")]
    TooManyTasks {
        /// How many.
        tasks: u64,
        /// The limit.
        most: u64,
    },
    /// Unknown exchange or dangling edge.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A graph that cannot be executed.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A vertex that the job does not have.
    #[error("there is no vertex `{name}`{nearest}")]
    UnknownVertex {
        /// What was asked for.
        name: String,
        /// "; did you mean …?", or what there is.
        nearest: String,
    },
    /// Not the name of a task.
    #[error("`{0}` is not a task; write `vertex/subtask`, e.g. `map/3`")]
    TaskName(String),
    /// Not the name of a partition.
    #[error("`{0}` is not a partition; write `vertex.dataset/subtask`, e.g. `map.0/3`")]
    PartitionName(String),
    /// A subtask that the vertex does not have.
    #[error("vertex `{vertex}` has no subtask {subtask}: its parallelism is {parallelism}, counted from 0")]
    Subtask {
        /// The vertex.
        vertex: String,
        /// What was asked for.
        subtask: u32,
        /// How many there are.
        parallelism: u32,
    },
    /// A data set that the vertex does not have.
    #[error("vertex `{vertex}` has no data set {data_set}; it has {known}")]
    DataSet {
        /// The vertex.
        vertex: String,
        /// What was asked for.
        data_set: u32,
        /// What there is.
        known: String,
    },
    /// An executor that no task is on.
    #[error("no task is on executor `{name}`{nearest}")]
    Executor {
        /// What was asked for.
        name: String,
        /// "; did you mean …?", or what there is.
        nearest: String,
    },
    /// The call failed.
    #[error("could not ask the cluster")]
    Rest(#[from] RestError),
    /// No job was named and not exactly one runs.
    #[error("{0}")]
    WhichJob(String),
}
