//! Clusters that can be tested.
//!
//! Nothing above a target knows which engine it is: a plan asks for what it needs by [`Capability`], reads the
//! cluster through Flink's REST API, and gets its faults from [`Target::fault`].

pub mod bundled;
mod error;

use std::collections::BTreeSet;
use std::path::Path;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stormproof_chaos::fault::Fault;

pub use error::TargetError;

use crate::flink::RestClient;
use crate::plan::{FaultSpec, JobCall};
use crate::timeline::{Losses, Timeline};

/// What a target lets us do or see. A plan that needs one the target lacks is skipped, with the reason, before
/// anything starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Kill, stop, slow or limit an executor's process.
    ExecutorProcesses,
    /// Make an executor exit by itself.
    ExecutorExit,
    /// Kill the coordinator's process, with a standby that takes over.
    CoordinatorProcesses,
    /// Stop the coordinator's process for a while.
    CoordinatorStop,
    /// Cut the network between executors, or between them and a coordinator.
    NetworkLinks,
    /// Delete, hide or corrupt a result partition where it lies.
    Partitions,
    /// Make user code fail or wait.
    UserCode,
    /// Make user code fail by a rule.
    UserCodeRules,
    /// Break the way to the checkpoint store.
    StoreLink,
    /// Hurt requests in the checkpoint store itself, by rules.
    StoreRules,
    /// See each request that reaches the checkpoint store.
    StoreRequests,
    /// Count the bytes on the way to the checkpoint store while they pass.
    LinkTraffic,
}

impl Capability {
    /// Its name in reasons for skipping.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ExecutorProcesses => "executor-processes",
            Self::ExecutorExit => "executor-exit",
            Self::CoordinatorStop => "coordinator-stop",
            Self::CoordinatorProcesses => "coordinator-processes",
            Self::NetworkLinks => "network-links",
            Self::Partitions => "partitions",
            Self::UserCode => "user-code",
            Self::UserCodeRules => "user-code-rules",
            Self::StoreLink => "store-link",
            Self::StoreRules => "store-rules",
            Self::StoreRequests => "store-requests",
            Self::LinkTraffic => "link-traffic",
        }
    }
}

/// A request that reached the checkpoint store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreRequest {
    /// Number within the store's ledger, rising.
    pub sequence: u64,
    /// It has ended, well or badly.
    pub over: bool,
    /// When it started, milliseconds since the epoch.
    pub at_ms: u64,
    /// S3 operation, e.g. `GetObject`.
    pub operation: String,
    /// Object key, empty for bucket operations.
    pub key: String,
    /// HTTP status; none if there was no answer.
    pub status: Option<u16>,
    /// Bytes of the answer's body.
    pub bytes: u64,
}

/// What a job left on the cluster after its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Result partitions on executors.
    pub partitions: Vec<String>,
    /// Objects in the checkpoint store.
    pub objects: Vec<String>,
    /// Multipart uploads that were never completed.
    pub uploads: Vec<String>,
    /// Processes that should be gone.
    pub processes: Vec<String>,
}

impl Leftovers {
    /// All of them, named by kind.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let kinds = [
            ("partition", &self.partitions),
            ("object", &self.objects),
            ("upload", &self.uploads),
            ("process", &self.processes),
        ];
        kinds.into_iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, name)))
    }
}

/// A cluster that can be tested.
#[async_trait]
pub trait Target: Send + Sync {
    /// Its name in reports and repeat commands, e.g. `bundled`.
    fn name(&self) -> &str;

    /// What it lets us do.
    fn capabilities(&self) -> &BTreeSet<Capability>;

    /// Flink's REST API of its coordinators.
    fn rest(&self) -> &RestClient;

    /// Folder in which tasks look for fault files, for targets with [`Capability::UserCode`].
    fn faults_dir(&self) -> Option<&Path>;

    /// Runs a job; returns its identifier.
    ///
    /// # Errors
    /// When the cluster refuses it.
    async fn submit(&self, job: &JobCall) -> Result<String, TargetError>;

    /// The fault that `spec` describes, on the victims that `timeline` shows for `job`, and what will be gone because
    /// of it. `tag` marks what it leaves anywhere as ours.
    ///
    /// # Errors
    /// When the target cannot do it or there is no such victim.
    async fn fault(
        &self,
        spec: &FaultSpec,
        timeline: &Timeline,
        job: Option<&str>,
        tag: &str,
    ) -> Result<(Box<dyn Fault>, Losses), TargetError>;

    /// Base URLs of the servers that are asked to do what `spec` describes, or of those that it hurts. None: only
    /// processes and files of this machine.
    fn servers(&self, spec: &FaultSpec) -> Vec<String>;

    /// Requests that reached the store with a sequence number of at least `since`.
    fn store_requests(&self, since: u64) -> Vec<StoreRequest>;

    /// Bytes that have passed the link to the store, both ways together, for targets with
    /// [`Capability::LinkTraffic`].
    ///
    /// # Errors
    /// When whoever counts them did not answer.
    async fn link_bytes(&self) -> Result<u64, TargetError>;

    /// What is left of job `id`, which has ended.
    ///
    /// # Errors
    /// When that could not be found out.
    async fn leftovers(&self, id: &str) -> Result<Leftovers, TargetError>;
}
