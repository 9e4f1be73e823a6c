//! A coordinator process from its configuration to its end.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::dispatcher::Dispatcher;
use super::error::{CoordinatorError, chain};
use super::executors::{ResourceManager, listener};
use super::fatal::Fatal;
use super::services::{ENRICHER_THREADS, Services, ha_call};
use crate::config::{ClusterSettings, CoordinatorConfig, Ready, Settings};
use crate::graph::JobRegistry;
use crate::leadership::{Candidate, LeaderElection, LeaderInfo, Leadership, leader_watch};
use crate::rest::RestServer;
use crate::rest::cluster::Cluster;
use crate::storage::{BlobStore, CheckpointStorage, S3BlobStore};

/// A coordinator that listens, and does not lead yet.
pub struct Coordinator {
    config: CoordinatorConfig,
    settings: Settings,
    blobs: Option<Arc<dyn BlobStore>>,
    manager: Arc<ResourceManager>,
    dispatcher: Arc<Dispatcher>,
    registry: JobRegistry,
    rest: RestServer,
    rpc: TcpListener,
    fatal: Fatal,
}

impl Coordinator {
    /// Checks the configuration and binds both addresses.
    ///
    /// # Errors
    /// A wrong configuration, an address in use.
    pub async fn bind(config: CoordinatorConfig, registry: JobRegistry) -> Result<Self, CoordinatorError> {
        let (settings, typed) = ClusterSettings::of_map(&config.settings)?;
        let blobs = match &config.store {
            None => None,
            Some(store) => {
                let store = S3BlobStore::new(store, typed.store_deadlines)
                    .map_err(|error| CoordinatorError::Store(chain(&error)))?;
                Some(Arc::new(store) as Arc<dyn BlobStore>)
            }
        };
        let rpc = TcpListener::bind(&config.rpc_address)
            .await
            .map_err(|source| CoordinatorError::Bind { address: config.rpc_address.clone(), source })?;
        let manager = Arc::new(ResourceManager::new(typed.heartbeat_interval, typed.heartbeat_timeout));
        let dispatcher =
            Dispatcher::new(registry.clone(), settings.clone(), Arc::clone(&manager), typed.max_ended_jobs);
        // From now on REST answers: with what the leader says, with 503 until there is one.
        let leader = leader_watch(&config.ha_dir).map_err(CoordinatorError::Watch)?;
        let rest = RestServer::start(&config.rest_address, Arc::new(Arc::clone(&dispatcher)), leader).await?;
        Ok(Self { config, settings, blobs, manager, dispatcher, registry, rest, rpc, fatal: Fatal::default() })
    }

    /// Where it can be reached.
    #[must_use]
    pub fn ready(&self) -> Ready {
        Ready {
            name: self.config.name.clone(),
            pid: std::process::id(),
            rest: Some(self.rest.address().to_string()),
            rpc: self.rpc.local_addr().ok().map(|address| address.to_string()),
            data: None,
        }
    }

    /// The cluster as REST sees it, for callers in the same process.
    #[must_use]
    pub fn cluster(&self) -> Arc<dyn Cluster> {
        Arc::new(Arc::clone(&self.dispatcher))
    }

    /// Serves until `shutdown` completes; then suspends all jobs (what is recorded of them stays) and ends.
    ///
    /// # Errors
    /// The coordinator cannot become leader, lost its leadership, or met something it must not go on after.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), CoordinatorError> {
        let ready = self.ready();
        let stop = CancellationToken::new();
        let Self { config, settings, blobs, manager, dispatcher, registry, rest, rpc, fatal } = self;
        let executors = tokio::spawn(listener::serve(rpc, Arc::clone(&manager), stop.clone()));
        let election = LeaderElection::new(&config.ha_dir, Candidate { name: config.name });
        let lead = async {
            let leadership = election.campaign().await.map_err(CoordinatorError::Election)?;
            let ha = leadership.store();
            let storage = blobs.map(|blobs| CheckpointStorage::new(blobs, Arc::clone(&ha)));
            let enricher_threads = Arc::new(Semaphore::new(ENRICHER_THREADS));
            let services =
                Services { manager, ha, storage, registry, enricher_threads, settings, fatal: fatal.clone() };
            start(&leadership, Arc::new(services), &dispatcher, ready).await?;
            Ok::<_, CoordinatorError>(leadership)
        };
        tokio::pin!(shutdown);
        let mut leadership = None;
        let mut outcome = tokio::select! {
            () = &mut shutdown => None,
            led = lead => Some(led),
        };
        if let Some(Ok(led)) = outcome {
            leadership = Some(led);
            outcome = tokio::select! {
                () = &mut shutdown => None,
                error = fatal.wait() => Some(Err(error)),
            };
        }
        dispatcher.suspend().await;
        if let Some(leadership) = leadership
            && let Err(error) = ha_call(leadership.resign()).await
        {
            tracing::warn!(error = %chain(&error), "the leader's address was not taken back");
        }
        stop.cancel();
        rest.shutdown().await;
        let _ = executors.await;
        match outcome {
            Some(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Takes up the recorded jobs, lets executors in, and tells everybody.
async fn start(
    leadership: &Leadership,
    services: Arc<Services>,
    dispatcher: &Arc<Dispatcher>,
    ready: Ready,
) -> Result<(), CoordinatorError> {
    let session = leadership.session();
    dispatcher.lead(Arc::clone(&services)).await?;
    services.manager.lead(session);
    let info = LeaderInfo {
        session,
        name: ready.name,
        pid: ready.pid,
        rest: ready.rest.unwrap_or_default(),
        rpc: ready.rpc.unwrap_or_default(),
    };
    tracing::info!(session, rest = info.rest, rpc = info.rpc, "this coordinator leads");
    leadership.publish(info).await.map_err(CoordinatorError::Election)
}

/// Runs a coordinator process: [`Coordinator::bind`], `on_ready` once both addresses are bound (it may be a standby
/// then), [`Coordinator::run`] until `shutdown`.
///
/// # Errors
/// As both.
pub async fn run(
    config: CoordinatorConfig,
    registry: JobRegistry,
    on_ready: impl FnOnce(Ready),
    shutdown: impl Future<Output = ()>,
) -> Result<(), CoordinatorError> {
    let coordinator = Coordinator::bind(config, registry).await?;
    on_ready(coordinator.ready());
    coordinator.run(shutdown).await
}
