//! The bundled cluster: coordinator and executors as processes of this binary, an S3 server, and a Toxiproxy in front
//! of it; both embedded, or real ones as processes. If the network is to be cut, a proxy on every link between its
//! parties, too.
//!
//! Nothing is left behind: a [guardian](stormproof_chaos::guardian) is started before anything else and tidies up
//! however we end.

mod bring_up;
mod choice;
mod config;
mod faults;
mod links;
mod minio;
mod proxy;
mod store;
mod store_rule;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use stormproof_chaos::fault::{Fault, StoreLink};
use stormproof_chaos::process::ProcessId;
use stormproof_coordinator::leadership::{EmbeddedHaStore, HaStore as _, is_led};
use tokio::time::Instant;

use self::bring_up::{Infrastructure, Parts};
pub use self::choice::{ChoiceError, PartChoice, PartChoices};
pub use self::config::BundledConfig;
use self::proxy::Proxy;
use self::store::Store;
use super::{Capability, Leftovers, StoreRequest, Target, TargetError};
use crate::flink::{RestClient, RunRequest};
use crate::guard::Guard;
use crate::plan::{FaultSpec, JobCall};
use crate::role::{Child, Launcher};
use crate::timeline::{Losses, Timeline};

/// Bucket for checkpoints.
pub const BUCKET: &str = "checkpoints";

/// Name of the proxy in front of the store.
pub const STORE_PROXY: &str = "store";

/// How long a child may take to end by itself.
const END_DEADLINE: Duration = Duration::from_secs(3);

/// A running bundled cluster.
///
/// Call [`shutdown`](Self::shutdown); a cluster that is dropped is torn down by the guardian and the parent-death
/// signal instead.
pub struct BundledCluster {
    name: String,
    rest: RestClient,
    /// Names of the coordinators by REST address.
    coordinators: BTreeMap<String, String>,
    capabilities: BTreeSet<Capability>,
    faults_dir: PathBuf,
    work_dir: PathBuf,
    link: StoreLink,
    children: Vec<Child>,
    processes: BTreeMap<String, ProcessId>,
    store: Store,
    proxy: Proxy,
    // After the children: its end kills what is left of them.
    launcher: Launcher,
    // Last: its end starts the sweep.
    guard: Guard,
    tag: String,
    timings: Timings,
}

/// How long the parts of a start took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// Store and proxy listen.
    pub store_and_proxy: Duration,
    /// A job can be submitted: the leader answers and every executor has registered.
    pub ready: Duration,
}

impl BundledCluster {
    /// Brings a cluster up and waits until a job can be submitted.
    ///
    /// # Errors
    /// When any part does not start; whatever had started is torn down.
    pub async fn start(config: BundledConfig) -> Result<Self, TargetError> {
        config.check()?;
        if let Some(folder) = &config.ha_dir {
            check_unled(folder).await?;
        }
        let began = Instant::now();
        make_dir(&config.run_dir)?;
        let guard = Guard::prepare(&config.run_dir)?;
        let tag = guard.tag().to_owned();
        let launcher = Launcher::new(&tag).map_err(TargetError::Launcher)?;
        // The guardian first of all: whatever starts after it cannot be left behind.
        let guard = guard.start(&launcher).await?;
        let started = tokio::select! {
            started = Parts::start(&config, &launcher, &guard, began) => started,
            () = config.stop.cancelled() => Err(TargetError::Stopped),
        };
        match started {
            Ok(parts) => Ok(Self::of(parts, launcher, guard, tag, &config)),
            Err(error) => {
                // Its children die with it.
                drop(launcher);
                if let Err(left) = guard.finish().await {
                    tracing::warn!(error = %crate::role::chain(&left), "a cluster that did not start was not tidied up");
                }
                Err(error)
            }
        }
    }

    fn of(parts: Parts, launcher: Launcher, guard: Guard, tag: String, config: &BundledConfig) -> Self {
        let Parts { infrastructure, faults_dir, children, rest, timings } = parts;
        let Infrastructure { store, proxy, link, .. } = infrastructure;
        let own = children.iter().map(|child| (child.name.clone(), child.process));
        Self {
            name: config.parts.target_name(),
            rest,
            coordinators: children.iter().filter_map(coordinator_address).collect(),
            capabilities: config.capabilities(),
            faults_dir,
            work_dir: guard.work_dir().to_owned(),
            link,
            processes: own.chain(store.process()).chain(proxy.process()).collect(),
            children,
            store,
            proxy,
            launcher,
            guard,
            tag,
            timings,
        }
    }

    /// REST addresses of all coordinators, `coordinator-1`'s first.
    #[must_use]
    pub fn rest_addresses(&self) -> Vec<String> {
        self.children.iter().filter_map(coordinator_address).map(|(address, _)| address).collect()
    }

    /// Base URL of the store, past the proxy.
    #[must_use]
    pub fn store_endpoint(&self) -> String {
        self.store.config().endpoint.clone()
    }

    /// The store's address as the cluster sees it, and the proxy's admin API.
    #[must_use]
    pub fn store_link(&self) -> &StoreLink {
        &self.link
    }

    /// Processes of the cluster by name.
    #[must_use]
    pub fn processes(&self) -> &BTreeMap<String, ProcessId> {
        &self.processes
    }

    /// The run's fault journal.
    #[must_use]
    pub fn journal(&self) -> &Path {
        self.guard.journal()
    }

    /// How long the start took.
    #[must_use]
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// Ends everything, in order, and lists what did not want to go.
    ///
    /// # Errors
    /// When the guardian could not tidy up.
    pub async fn shutdown(self) -> Result<Leftovers, TargetError> {
        let ends = self.children.into_iter().map(|child| child.end(END_DEADLINE));
        futures::future::join_all(ends).await;
        self.proxy.stop().await;
        let stopped = self.store.stop().await;
        let processes = stormproof_chaos::process::tagged_processes(&self.tag);
        let leftovers =
            Leftovers { processes: processes.iter().map(ToString::to_string).collect(), ..Leftovers::default() };
        let swept = self.guard.finish().await;
        drop(self.launcher);
        stopped?;
        swept?;
        Ok(leftovers)
    }
}

/// A cluster whose coordinators only wait for another one's to end would never be up.
async fn check_unled(folder: &Path) -> Result<(), TargetError> {
    if !is_led(folder) {
        return Ok(());
    }
    let store = EmbeddedHaStore::open(folder).await;
    let leader = match store {
        Ok(store) => store.leader().await.ok().flatten(),
        Err(_) => None,
    };
    let leader = leader.map_or_else(
        || "a coordinator".to_owned(),
        |leader| format!("{} (pid {}, REST {})", leader.name, leader.pid, leader.rest),
    );
    Err(TargetError::HaInUse { folder: folder.to_owned(), leader })
}

fn coordinator_address(child: &Child) -> Option<(String, String)> {
    let rest = child.ready.as_ref()?.rest.as_ref()?;
    Some((format!("http://{rest}"), child.name.clone()))
}

fn make_dir(path: &Path) -> Result<(), TargetError> {
    std::fs::create_dir_all(path).map_err(|source| TargetError::File {
        action: "create folder",
        path: path.to_owned(),
        source,
    })
}

#[async_trait]
impl Target for BundledCluster {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> &BTreeSet<Capability> {
        &self.capabilities
    }

    fn rest(&self) -> &RestClient {
        &self.rest
    }

    fn faults_dir(&self) -> Option<&Path> {
        Some(&self.faults_dir)
    }

    async fn submit(&self, job: &JobCall) -> Result<String, TargetError> {
        let request = RunRequest {
            program_args_list: job.params.iter().flat_map(|(key, value)| [format!("--{key}"), value.clone()]).collect(),
            flink_configuration: job.settings.clone(),
            job_id: None,
        };
        let submitted = self.rest.run_jar(&job.name, &request).await;
        submitted.map_err(|source| TargetError::Rest { what: format!("take job `{}`", job.name), source })
    }

    async fn fault(
        &self,
        spec: &FaultSpec,
        timeline: &Timeline,
        job: Option<&str>,
        tag: &str,
    ) -> Result<(Box<dyn Fault>, Losses), TargetError> {
        faults::resolve(self, spec, timeline, job, tag)
    }

    fn servers(&self, spec: &FaultSpec) -> Vec<String> {
        match spec.needs() {
            Capability::StoreLink => vec![self.link.client.base_url().to_owned()],
            Capability::StoreRules => vec![self.store_endpoint()],
            _ => vec![],
        }
    }

    fn store_requests(&self, since: u64) -> Vec<StoreRequest> {
        self.store.requests(since)
    }

    async fn link_bytes(&self) -> Result<u64, TargetError> {
        let effects = self.link.client.effects(&self.link.proxy).await?;
        Ok(effects.upstream_received_bytes + effects.downstream_received_bytes)
    }

    async fn leftovers(&self, id: &str) -> Result<Leftovers, TargetError> {
        let mut leftovers = Leftovers::default();
        // The disk of a killed executor is gone with it, as far as the cluster is concerned; the guardian removes it.
        let alive = self.processes.iter().filter(|(name, process)| name.starts_with("executor") && process.is_alive());
        for (name, _) in alive {
            let folder = self.work_dir.join(name).join("partitions").join(id);
            if let Ok(entries) = std::fs::read_dir(&folder) {
                let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
                leftovers.partitions.extend(names.map(|partition| format!("{name}: {partition}")));
            }
        }
        self.store.leftovers(id, &mut leftovers).await?;
        Ok(leftovers)
    }
}
