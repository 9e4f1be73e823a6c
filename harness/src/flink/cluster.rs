//! Answers about the cluster: overview, executors, programs, metrics.

use serde::Deserialize;

use super::lenient;

/// `GET /overview`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Overview {
    /// Registered executors.
    #[serde(default, deserialize_with = "lenient::small")]
    pub taskmanagers: u32,
    /// Slots.
    #[serde(default, deserialize_with = "lenient::small")]
    pub slots_total: u32,
    /// Free slots.
    #[serde(default, deserialize_with = "lenient::small")]
    pub slots_available: u32,
    /// Jobs that are not over.
    #[serde(default, deserialize_with = "lenient::small")]
    pub jobs_running: u32,
    /// Jobs that finished.
    #[serde(default, deserialize_with = "lenient::small")]
    pub jobs_finished: u32,
    /// Jobs that were cancelled.
    #[serde(default, deserialize_with = "lenient::small")]
    pub jobs_cancelled: u32,
    /// Jobs that failed.
    #[serde(default, deserialize_with = "lenient::small")]
    pub jobs_failed: u32,
    /// Version of the engine.
    #[serde(default)]
    pub flink_version: String,
}

/// `GET /taskmanagers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct TaskManagers {
    /// Registered executors.
    #[serde(default)]
    pub taskmanagers: Vec<TaskManager>,
}

/// An executor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskManager {
    /// Its name.
    #[serde(default)]
    pub id: String,
    /// RPC address.
    #[serde(default)]
    pub path: String,
    /// Data port.
    #[serde(default, deserialize_with = "lenient::small")]
    pub data_port: u32,
    /// Despite its name: when it was last heard of, milliseconds since the epoch.
    #[serde(default, deserialize_with = "lenient::int")]
    pub time_since_last_heartbeat: i64,
    /// Slots.
    #[serde(default, deserialize_with = "lenient::small")]
    pub slots_number: u32,
    /// Free slots.
    #[serde(default, deserialize_with = "lenient::small")]
    pub free_slots: u32,
    /// What only the bundled coordinator tells.
    #[serde(default)]
    pub stormproof: Option<StormproofExecutor>,
}

/// The bundled coordinator's remarks on an executor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StormproofExecutor {
    /// Its process.
    #[serde(default)]
    pub pid: Option<u32>,
    /// Result partitions on its disk.
    #[serde(default)]
    pub partitions: Option<u32>,
}

/// `GET /jars`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Jars {
    /// Programs; the bundled coordinator lists its registered jobs.
    #[serde(default)]
    pub files: Vec<Jar>,
}

/// A program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Jar {
    /// What `/jars/:id/run` takes.
    pub id: String,
    /// For people.
    #[serde(default)]
    pub name: String,
}

/// Answer to `POST /jars/:id/run`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Started {
    pub(super) jobid: String,
}

/// One metric.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Metric {
    pub(super) id: String,
    #[serde(default, deserialize_with = "lenient::float")]
    pub(super) value: Option<f64>,
}
