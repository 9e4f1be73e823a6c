//! Starting the parts of a cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stormproof_chaos::fault::StoreLink;
use stormproof_chaos::journal::DEFAULT_TTL;
use stormproof_chaos::toxiproxy::ToxiproxyClient;
use stormproof_coordinator::config::{CoordinatorConfig, ExecutorConfig, StoreConfig};
use tokio::time::{Instant, sleep};

use super::proxy::Proxy;
use super::store::Store;
use super::{BundledConfig, PartChoices, Timings, links, make_dir};
use crate::flink::RestClient;
use crate::guard::Guard;
use crate::role::{Child, Launcher, Role};
use crate::target::{Capability, TargetError};

/// How long the cluster may take until every executor has registered.
const UP_DEADLINE: Duration = Duration::from_secs(30);

/// The store and the proxy in front of it.
pub(super) struct Infrastructure {
    pub(super) store: Store,
    pub(super) proxy: Proxy,
    pub(super) link: StoreLink,
    pub(super) store_config: StoreConfig,
}

impl Infrastructure {
    pub(super) async fn start(config: &BundledConfig, launcher: &Launcher, guard: &Guard) -> Result<Self, TargetError> {
        let PartChoices { store, proxy } = &config.parts;
        let (store, proxy) = tokio::try_join!(
            Store::start(store, config.seed, launcher, guard, &config.run_dir),
            Proxy::start(proxy, config.seed, launcher, &config.run_dir)
        )?;
        let direct = store.config();
        let link =
            proxy.link(direct.endpoint.trim_start_matches("http://"), config.lease_ttl.unwrap_or(DEFAULT_TTL)).await?;
        let store_config = StoreConfig { endpoint: format!("http://{}", link.address), ..direct.clone() };
        Ok(Self { store, proxy, link, store_config })
    }
}

/// All parts of a cluster that is up.
pub(super) struct Parts {
    pub(super) infrastructure: Infrastructure,
    pub(super) faults_dir: PathBuf,
    pub(super) children: Vec<Child>,
    pub(super) rest: RestClient,
    pub(super) timings: Timings,
}

impl Parts {
    /// Starts everything but the guardian, and waits until a job can be submitted. `began` is when the start began.
    pub(super) async fn start(
        config: &BundledConfig,
        launcher: &Launcher,
        guard: &Guard,
        began: Instant,
    ) -> Result<Self, TargetError> {
        let work_dir = guard.work_dir();
        let infrastructure = Infrastructure::start(config, launcher, guard).await?;
        let store_and_proxy = began.elapsed();
        let faults_dir = work_dir.join("faults");
        // Its pointers are synced at every write, which a disk answers in milliseconds.
        let ha_dir = config.ha_dir.clone().unwrap_or_else(|| guard.quick_dir().join("ha"));
        make_dir(&faults_dir)?;
        make_dir(&ha_dir)?;
        let has_links = config.capabilities().contains(&Capability::NetworkLinks);
        let routes_dir = has_links.then(|| work_dir.join("routes"));
        if let Some(folder) = &routes_dir {
            make_dir(folder)?;
        }
        let bring_up = BringUp {
            launcher,
            config,
            store: &infrastructure.store_config,
            work_dir,
            faults_dir: &faults_dir,
            ha_dir: &ha_dir,
            routes_dir: routes_dir.as_deref(),
        };
        let children = bring_up.processes().await?;
        bring_up.connect(&infrastructure.link.client, &children).await?;
        let rest = bring_up.registered(&children).await?;
        let timings = Timings { store_and_proxy, ready: began.elapsed() };
        Ok(Self { infrastructure, faults_dir, children, rest, timings })
    }
}

/// What every process of the cluster is started with.
struct BringUp<'a> {
    launcher: &'a Launcher,
    config: &'a BundledConfig,
    store: &'a StoreConfig,
    work_dir: &'a Path,
    faults_dir: &'a Path,
    ha_dir: &'a Path,
    /// None: everybody is dialled directly.
    routes_dir: Option<&'a Path>,
}

impl BringUp<'_> {
    /// Starts all coordinators and executors at once.
    async fn processes(&self) -> Result<Vec<Child>, TargetError> {
        let shape = &self.config.shape;
        let coordinators = (1..=1 + shape.standbys).map(|number| self.coordinator(number));
        let executors = (1..=shape.executors).map(|number| self.executor(number));
        let (coordinators, executors) =
            tokio::join!(futures::future::join_all(coordinators), futures::future::join_all(executors));
        let (mut children, mut first_error) = (vec![], None);
        for child in coordinators.into_iter().chain(executors) {
            match child {
                Ok(child) => children.push(child),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error {
            None => Ok(children),
            Some(error) => {
                children.into_iter().for_each(Child::kill);
                Err(error)
            }
        }
    }

    async fn coordinator(&self, number: u32) -> Result<Child, TargetError> {
        let name = format!("coordinator-{number}");
        let rest = self.config.rest.filter(|_| number == 1).map_or("127.0.0.1:0".to_owned(), |at| at.to_string());
        let config = CoordinatorConfig {
            name: name.clone(),
            ha_dir: self.ha_dir.to_owned(),
            rest_address: rest,
            rpc_address: "127.0.0.1:0".to_owned(),
            store: Some(self.store.clone()),
            settings: self.config.settings(),
        };
        Ok(self.launcher.launch(Role::Coordinator, &name, &config, &self.log(&name)).await?)
    }

    async fn executor(&self, number: u32) -> Result<Child, TargetError> {
        let name = format!("executor-{number}");
        let work_dir = self.work_dir.join(&name);
        make_dir(&work_dir)?;
        let config = ExecutorConfig {
            name: name.clone(),
            slots: self.config.shape.slots,
            ha_dir: self.ha_dir.to_owned(),
            work_dir,
            data_address: "127.0.0.1:0".to_owned(),
            store: Some(self.store.clone()),
            chaos_dir: Some(self.faults_dir.to_owned()),
            routes: self.routes_dir.map(|folder| links::routes_file(folder, &name)),
            settings: self.config.settings(),
        };
        Ok(self.launcher.launch(Role::Executor, &name, &config, &self.log(&name)).await?)
    }

    /// Executors that are to have routes wait for them.
    async fn connect(&self, proxies: &ToxiproxyClient, children: &[Child]) -> Result<(), TargetError> {
        match self.routes_dir {
            Some(folder) => links::lay(proxies, children, folder).await,
            None => Ok(()),
        }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.config.run_dir.join(format!("{name}.log"))
    }

    /// A client of the coordinators, once every executor has registered.
    async fn registered(&self, children: &[Child]) -> Result<RestClient, TargetError> {
        let ready = children.iter().filter_map(|child| child.ready.as_ref()?.rest.as_ref());
        let rest = RestClient::new(ready.map(|address| format!("http://{address}")).collect())
            .map_err(|source| TargetError::Rest { what: "give a usable address".to_owned(), source })?;
        let end = Instant::now() + UP_DEADLINE;
        loop {
            if let Ok(overview) = rest.overview().await
                && overview.taskmanagers >= self.config.shape.executors
            {
                return Ok(rest);
            }
            if Instant::now() > end {
                return Err(TargetError::Deadline {
                    what: format!("registration of {} executors", self.config.shape.executors),
                    seconds: UP_DEADLINE.as_secs(),
                    logs: self.config.run_dir.clone(),
                });
            }
            sleep(Duration::from_millis(2)).await;
        }
    }
}
