//! What the parts of a leading coordinator share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::executors::ResourceManager;
use super::fatal::Fatal;
use crate::config::Settings;
use crate::graph::JobRegistry;
use crate::leadership::{HaError, HaStore};
use crate::storage::CheckpointStorage;

/// Longest wait for one call to the HA store.
pub(crate) const HA_DEADLINE: Duration = Duration::from_secs(10);

/// Threads that may ask failure enrichers at once.
pub(crate) const ENRICHER_THREADS: usize = 16;

/// First and longest pause between tries of something that must be done in the end.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Parts of a leading coordinator. They exist once a session has begun and end with it.
pub(crate) struct Services {
    /// Executors and slots.
    pub(crate) manager: Arc<ResourceManager>,
    /// Writes for this session.
    pub(crate) ha: Arc<dyn HaStore>,
    /// None: no job may take checkpoints.
    pub(crate) storage: Option<CheckpointStorage>,
    /// The jobs of this binary.
    pub(crate) registry: JobRegistry,
    /// One permit for each thread that may ask a failure enricher.
    pub(crate) enricher_threads: Arc<Semaphore>,
    /// Configuration of the cluster.
    pub(crate) settings: Settings,
    /// Ends the process.
    pub(crate) fatal: Fatal,
}

/// A call to the HA store failed or took too long.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HaFailure {
    #[error(transparent)]
    Ha(#[from] HaError),
    #[error("the HA store did not answer within {} s", HA_DEADLINE.as_secs())]
    Timeout,
}

/// A call to the HA store, with a deadline.
pub(crate) async fn ha_call<T>(call: impl Future<Output = Result<T, HaError>>) -> Result<T, HaFailure> {
    match tokio::time::timeout(HA_DEADLINE, call).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(HaFailure::Timeout),
    }
}

/// Pauses between tries: doubling, bounded.
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(RETRY_PAUSE)
    }

    /// Waits, and doubles the next wait.
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(MAX_RETRY_PAUSE);
    }
}
