//! The proxy between a bundled cluster and its checkpoint store.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use stormproof_chaos::fault::StoreLink;
use stormproof_chaos::process::{ProcessId, raise_open_files_limit};
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
            raise_open_files_limit();
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

    /// Puts it in front of the store at `upstream`, `host:port`. What is done in it is kept for `lease_ttl` unless it is
    /// renewed.
    pub(super) async fn link(&self, upstream: &str, lease_ttl: Duration) -> Result<StoreLink, TargetError> {
        let api = match self {
            Self::Embedded(server) => server.url(),
            Self::Real { api, .. } => api.clone(),
        };
        let client = ToxiproxyClient::new(&api);
        let created = client.create(&ProxySpec::new(STORE_PROXY, "127.0.0.1:0", upstream)).await?;
        Ok(StoreLink { client, proxy: STORE_PROXY.to_owned(), address: created.listen, lease_ttl })
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

#[cfg(test)]
mod tests {
    use stormproof_chaos::fault::{Fault as _, RefuseStore};
    use stormproof_chaos::journal::DEFAULT_TTL;
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test]
    async fn a_fault_whose_holder_is_gone_ends_after_the_lease_that_was_asked_for() {
        let server = ToxiproxyServer::start(ServerConfig::default()).await.expect("started");
        let proxy = Proxy::Embedded(server);
        let link = proxy.link("127.0.0.1:9", Duration::from_millis(300)).await.expect("created");
        let mut fault = RefuseStore::new(link.clone());
        fault.inject().await.expect("injected");
        let injected = Instant::now();
        assert!(!link.client.get(STORE_PROXY).await.expect("there").enabled);
        // Nobody renews what nobody holds.
        drop(fault);
        while !link.client.get(STORE_PROXY).await.expect("there").enabled {
            assert!(injected.elapsed() < DEFAULT_TTL, "it lasts as long as if nothing had been asked for");
            sleep(Duration::from_millis(5)).await;
        }
    }
}
