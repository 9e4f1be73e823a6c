//! What a run is judged by, as plans write it.

use serde::{Deserialize, Serialize};

use crate::target::Capability;
use crate::timeline::Window;

/// One expectation: an oracle and its parameters. In TOML: `check = "recovery-time"`, `max-ms = 5000`.
///
/// What only a fault can bring about (so many restarts, so many requests, another end than FINISHED) is *vacuous* where
/// it is missing and a fault of the run had no effect; everything else fails all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "check", rename_all = "kebab-case")]
pub enum Expectation {
    /// Exactly the tasks that Flink's rule names are restarted.
    RestartSet(RestartSet),
    /// No record of the output is lost or doubled.
    ExactlyOnce(ExactlyOnce),
    /// The control plane keeps answering.
    Responsive(Responsive),
    /// Nothing is left behind.
    NoLeftovers(NoLeftovers),
    /// All tasks run again in time.
    RecoveryTime(RecoveryTime),
    /// So many requests of a kind reach the object store.
    StoreTraffic(StoreTraffic),
    /// The job ends so.
    JobResult(JobResult),
    /// The job is restarted so often.
    RestartCount(RestartCount),
}

impl Expectation {
    /// The oracle's name, as plans and reports write it.
    #[must_use]
    pub fn oracle(&self) -> &'static str {
        match self {
            Self::RestartSet(_) => "restart-set",
            Self::ExactlyOnce(_) => "exactly-once",
            Self::Responsive(_) => "responsive",
            Self::NoLeftovers(_) => "no-leftovers",
            Self::RecoveryTime(_) => "recovery-time",
            Self::StoreTraffic(_) => "store-traffic",
            Self::JobResult(_) => "job-result",
            Self::RestartCount(_) => "restart-count",
        }
    }

    /// What a target must let us see for this to be judged at all.
    #[must_use]
    pub fn needs(&self) -> Option<Capability> {
        match self {
            Self::StoreTraffic(_) => Some(Capability::StoreRequests),
            _ => None,
        }
    }
}

/// Parameters of the restart-set oracle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RestartSet {
    /// Name or identifier of the job; the first one if absent.
    #[serde(default)]
    pub job: Option<String>,
    /// Faults outside this window are not looked at, nor restarts.
    #[serde(default)]
    pub window: Window,
    /// Task states in the timeline are exact (simulation), not polled: then a CREATED task that restarts is a
    /// useless restart. With polled states it may have left CREATED unseen.
    #[serde(default)]
    pub exact_states: bool,
    /// `jobmanager.partition.release-during-job-execution` is false: partitions stay although all that read them have
    /// finished.
    #[serde(default)]
    pub partitions_are_kept: bool,
}

/// Parameters of the exactly-once oracle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ExactlyOnce {
    /// Allow surplus copies: at-least-once.
    #[serde(default)]
    pub allow_doubled: bool,
    /// Fewer expected records than this prove nothing.
    #[serde(default = "one")]
    pub min_expected: u64,
}

/// Parameters of the responsiveness oracle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Responsive {
    /// Which probes; all if absent.
    #[serde(default)]
    pub probe: Option<String>,
    /// When.
    #[serde(default)]
    pub window: Window,
    /// Limit of the 99th percentile of latency, milliseconds.
    #[serde(default)]
    pub max_p99_ms: Option<u64>,
    /// Limit of the longest latency, milliseconds.
    #[serde(default)]
    pub max_ms: Option<u64>,
    /// Limit of the longest time without any answer, milliseconds.
    #[serde(default)]
    pub max_gap_ms: Option<u64>,
    /// Allow probes without an answer (a killed coordinator cannot answer); the gap limit still holds.
    #[serde(default)]
    pub allow_unanswered: bool,
    /// Each of these must have been seen, e.g. `INITIALIZING`.
    #[serde(default)]
    pub must_see: Vec<String>,
    /// Fewer probes than this prove nothing.
    #[serde(default = "twenty")]
    pub min_probes: u64,
}

/// Parameters of the leftovers oracle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NoLeftovers {
    /// Each of these must have been looked for, e.g. `processes`.
    #[serde(default)]
    pub looked_for: Vec<String>,
}

/// Parameters of the recovery-time oracle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RecoveryTime {
    /// Name or identifier of the job; the first one if absent.
    #[serde(default)]
    pub job: Option<String>,
    /// When.
    #[serde(default)]
    pub window: Window,
    /// Limit, milliseconds; without it the time is only reported.
    #[serde(default)]
    pub max_ms: Option<u64>,
}

/// Parameters of the store-traffic oracle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StoreTraffic {
    /// S3's name, e.g. `GetObject`; all if absent.
    #[serde(default)]
    pub op: Option<String>,
    /// Only keys that contain this, e.g. `_metadata`.
    #[serde(default)]
    pub key_contains: String,
    /// Only keys of checkpoints that tasks were restored from. A checkpoint whose write was in doubt is read back to
    /// settle it, and that is no read for a failover.
    #[serde(default)]
    pub of_restored: bool,
    /// When.
    #[serde(default)]
    pub window: Window,
    /// Fewest requests.
    #[serde(default)]
    pub min: u64,
    /// Most requests.
    #[serde(default)]
    pub max: Option<u64>,
}

/// Parameters of the job-result oracle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct JobResult {
    /// Name or identifier of the job; the first one if absent.
    #[serde(default)]
    pub job: Option<String>,
    /// Its last state, e.g. `FINISHED`.
    pub state: String,
}

/// Parameters of the restart-count oracle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RestartCount {
    /// Name or identifier of the job; the first one if absent.
    #[serde(default)]
    pub job: Option<String>,
    /// Fewest restarts.
    #[serde(default)]
    pub min: u64,
    /// Most restarts.
    #[serde(default)]
    pub max: Option<u64>,
}

impl Default for Responsive {
    fn default() -> Self {
        Self {
            probe: None,
            window: Window::default(),
            max_p99_ms: None,
            max_ms: None,
            max_gap_ms: None,
            allow_unanswered: false,
            must_see: vec![],
            min_probes: twenty(),
        }
    }
}

fn one() -> u64 {
    1
}

fn twenty() -> u64 {
    20
}
