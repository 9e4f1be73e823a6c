//! The proxy between a bundled cluster and its checkpoint store.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use stormproof_chaos::fault::StoreLink;
use stormproof_chaos::journal::DEFAULT_TTL;
use stormproof_chaos::process::ProcessId;
use stormproof_chaos::toxiproxy::real::{self, NotReady};
use stormproof_chaos::toxiproxy::{Proxy as ProxySpec, ServerConfig, ToxiproxyClient, ToxiproxyServer};

use super::{PartChoice, STORE_PROXY};
use crate::role::{Child, Launcher, PartConfig, Role};
use crate::target::TargetError;

/// How long a real Toxiproxy may take until its API answers.
const READY_DEADLINE: Duration = Duration::from_secs(30);

/// A proxy that runs. The cluster and the faults know it by its API only.
pub(super) enum Proxy {
    /// Ours, in this process.
    Embedded(ToxiproxyServer),
    /// Toxiproxy, a process.
    Real {
        /// The process.
        child: Child,
        /// Base URL of its API.
        api: String,
    },
}

impl Proxy {
    /// Starts what was chosen. A real one cannot be told a seed.
    pub(super) async fn start(
        choice: &PartChoice,
        seed: u64,
        launcher: &Launcher,
        run_dir: &Path,
    ) -> Result<Self, TargetError> {
        let PartChoice::Real(program) = choice else {
            let server = ToxiproxyServer::start(ServerConfig { seed, ..ServerConfig::default() }).await?;
            return Ok(Self::Embedded(server));
        };
        let part = PartConfig {
            program: program.clone(),
            arguments: real::ARGUMENTS.map(str::to_owned).to_vec(),
            environment: BTreeMap::from([("LOG_LEVEL".to_owned(), "info".to_owned())]),
            own_prefix: None,
        };
        let log = run_dir.join("toxiproxy.log");
        let child = launcher.launch(Role::Part, "toxiproxy", &part, &log).await?;
        match real::ready(child.process, READY_DEADLINE).await {
            Ok(api) => Ok(Self::Real { child, api }),
            Err(error) => {
                child.kill();
                Err(match error {
                    NotReady::Ended => TargetError::part_ended("Toxiproxy", &log),
                    NotReady::Silent(waited) => TargetError::Deadline {
                        what: "an answer of Toxiproxy".to_owned(),
                        seconds: waited.as_secs(),
                        logs: log,
                    },
                })
            }
        }
    }

    /// Puts it in front of the store at `upstream`, `host:port`.
    pub(super) async fn link(&self, upstream: &str) -> Result<StoreLink, TargetError> {
        let api = match self {
            Self::Embedded(server) => server.url(),
            Self::Real { api, .. } => api.clone(),
        };
        let client = ToxiproxyClient::new(&api);
        let created = client.create(&ProxySpec::new(STORE_PROXY, "127.0.0.1:0", upstream)).await?;
        Ok(StoreLink { client, api, proxy: STORE_PROXY.to_owned(), address: created.listen, lease_ttl: DEFAULT_TTL })
    }

    /// Its process, if it is one of its own.
    pub(super) fn process(&self) -> Option<(String, ProcessId)> {
        match self {
            Self::Embedded(_) => None,
            Self::Real { child, .. } => Some(("toxiproxy".to_owned(), child.process)),
        }
    }

    /// Ends it and cuts every connection.
    pub(super) async fn stop(self) {
        match self {
            Self::Embedded(server) => server.shutdown().await,
            Self::Real { child, .. } => child.kill(),
        }
    }
}
