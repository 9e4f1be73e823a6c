//! The checkpoint store of a bundled cluster.

use std::path::Path;

use stormproof_chaos::process::ProcessId;
use stormproof_coordinator::config::StoreConfig;
use stormproof_store::{Entry, RuleSet, Rules, S3Server, S3ServerConfig};

use super::minio::Minio;
use super::{BUCKET, PartChoice};
use crate::guard::Guard;
use crate::role::Launcher;
use crate::target::{Leftovers, StoreRequest, TargetError};

/// A store that runs.
pub(super) enum Store {
    /// Ours, in this process.
    Embedded {
        /// The server.
        server: Box<S3Server>,
        /// How it is reached.
        config: StoreConfig,
    },
    /// MinIO, a process.
    Minio(Box<Minio>),
}

impl Store {
    /// Starts what was chosen, with an empty bucket. `seed` decides the rules that act by chance.
    pub(super) async fn start(
        choice: &PartChoice,
        seed: u64,
        launcher: &Launcher,
        guard: &Guard,
        run_dir: &Path,
    ) -> Result<Self, TargetError> {
        if let PartChoice::Real(program) = choice {
            let minio = Minio::start(program, launcher, guard, &run_dir.join("minio.log")).await?;
            return Ok(Self::Minio(Box::new(minio)));
        }
        let settings = S3ServerConfig::default();
        let (access_key, secret_key) = (settings.access_key.clone(), settings.secret_key.clone());
        let server = Box::new(S3Server::start(settings).await?);
        server.backend().create_bucket(BUCKET)?;
        server.rules().set(RuleSet { seed, ..RuleSet::default() })?;
        let endpoint = format!("http://{}", server.address());
        let config = StoreConfig { endpoint, bucket: BUCKET.to_owned(), access_key, secret_key };
        Ok(Self::Embedded { server, config })
    }

    /// How it is reached, past any proxy.
    pub(super) fn config(&self) -> &StoreConfig {
        match self {
            Self::Embedded { config, .. } => config,
            Self::Minio(minio) => minio.config(),
        }
    }

    /// The rules by which it hurts requests; a real store has none.
    pub(super) fn rules(&self) -> Option<Rules> {
        match self {
            Self::Embedded { server, .. } => Some(server.rules()),
            Self::Minio(_) => None,
        }
    }

    /// Its process, if it is one of its own.
    pub(super) fn process(&self) -> Option<(String, ProcessId)> {
        match self {
            Self::Embedded { .. } => None,
            Self::Minio(minio) => Some(("minio".to_owned(), minio.process())),
        }
    }

    /// Requests that reached it from number `since` on; a real store keeps no ledger that we could read.
    pub(super) fn requests(&self, since: u64) -> Vec<StoreRequest> {
        match self {
            Self::Embedded { server, .. } => {
                server.ledger().entries_since(since).into_iter().map(store_request).collect()
            }
            Self::Minio(_) => vec![],
        }
    }

    /// What job `id` left here.
    pub(super) async fn leftovers(&self, id: &str, leftovers: &mut Leftovers) -> Result<(), TargetError> {
        match self {
            Self::Embedded { server, .. } => {
                let backend = server.backend();
                let objects = backend.list_objects(BUCKET, id)?.into_iter();
                leftovers.objects = objects.map(|object| object.key).collect();
                let uploads = backend.open_uploads(BUCKET)?.into_iter();
                leftovers.uploads = uploads.map(|upload| upload.key).collect();
                Ok(())
            }
            Self::Minio(minio) => minio.leftovers(id, leftovers).await,
        }
    }

    /// Ends it.
    pub(super) async fn stop(self) -> Result<(), TargetError> {
        match self {
            Self::Embedded { server, .. } => drop(server.shutdown().await?),
            Self::Minio(minio) => minio.stop(),
        }
        Ok(())
    }
}

fn store_request(entry: Entry) -> StoreRequest {
    StoreRequest {
        sequence: entry.seq,
        over: !entry.in_flight(),
        at_ms: entry.started_ms,
        operation: entry.operation.to_string(),
        key: entry.key.unwrap_or_default(),
        status: entry.status,
        bytes: entry.response_bytes,
    }
}
