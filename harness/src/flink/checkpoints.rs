//! `GET /jobs/:id/checkpoints`.

use serde::Deserialize;

use super::lenient;

/// Counters and history.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Checkpoints {
    /// Counters; they start again after a leader change.
    #[serde(default)]
    pub counts: Counts,
    /// Statistics over completed checkpoints.
    #[serde(default)]
    pub summary: Summary,
    /// Newest of each kind.
    #[serde(default)]
    pub latest: Latest,
    /// Newest first, 10 by default.
    #[serde(default, deserialize_with = "lenient::list")]
    pub history: Vec<Checkpoint>,
}

/// Counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Counts {
    /// Restores, regional ones included.
    #[serde(default, deserialize_with = "lenient::count")]
    pub restored: u64,
    /// Triggered.
    #[serde(default, deserialize_with = "lenient::count")]
    pub total: u64,
    /// Not yet over.
    #[serde(default, deserialize_with = "lenient::count")]
    pub in_progress: u64,
    /// Completed.
    #[serde(default, deserialize_with = "lenient::count")]
    pub completed: u64,
    /// Failed or aborted.
    #[serde(default, deserialize_with = "lenient::count")]
    pub failed: u64,
}

/// Statistics over completed checkpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub struct Summary {
    /// Trigger to completion, milliseconds.
    #[serde(default)]
    pub end_to_end_duration: Spread,
    /// Bytes of state.
    #[serde(default)]
    pub state_size: Spread,
}

/// A distribution. Percentiles are since 1.14, and `None` while there is no data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub struct Spread {
    /// Smallest.
    #[serde(default, deserialize_with = "lenient::float")]
    pub min: Option<f64>,
    /// Largest.
    #[serde(default, deserialize_with = "lenient::float")]
    pub max: Option<f64>,
    /// Mean.
    #[serde(default, deserialize_with = "lenient::float")]
    pub avg: Option<f64>,
    /// Median.
    #[serde(default, deserialize_with = "lenient::float")]
    pub p50: Option<f64>,
    /// 99th percentile.
    #[serde(default, deserialize_with = "lenient::float")]
    pub p99: Option<f64>,
}

/// Newest of each kind.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Latest {
    /// Completed.
    #[serde(default)]
    pub completed: Option<Checkpoint>,
    /// Failed.
    #[serde(default)]
    pub failed: Option<Checkpoint>,
    /// Restored from.
    #[serde(default)]
    pub restored: Option<Restored>,
}

/// One checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Checkpoint {
    /// Number.
    #[serde(default, deserialize_with = "lenient::count")]
    pub id: u64,
    /// `IN_PROGRESS`, `COMPLETED` or `FAILED`.
    #[serde(default)]
    pub status: String,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "lenient::int")]
    pub trigger_timestamp: i64,
    /// Milliseconds since the epoch; -1 before the first acknowledgement.
    #[serde(default, deserialize_with = "lenient::int")]
    pub latest_ack_timestamp: i64,
    /// Bytes.
    #[serde(default, deserialize_with = "lenient::count")]
    pub state_size: u64,
    /// Where it lies, if completed.
    #[serde(default)]
    pub external_path: Option<String>,
    /// Subsumed and deleted.
    #[serde(default)]
    pub discarded: bool,
    /// Why it failed.
    #[serde(default)]
    pub failure_message: Option<String>,
}

/// A restore.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Restored {
    /// The checkpoint.
    #[serde(default, deserialize_with = "lenient::count")]
    pub id: u64,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "lenient::int")]
    pub restore_timestamp: i64,
    /// Where it lies.
    #[serde(default)]
    pub external_path: Option<String>,
}
