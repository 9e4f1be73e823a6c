//! How a bundled cluster is brought up, and what can be known to be wrong before anything starts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use stormproof_coordinator::config::ClusterSettings;
use tokio_util::sync::CancellationToken;

use super::{PartChoice, PartChoices};
use crate::plan::ClusterShape;
use crate::target::{Capability, TargetError};

/// How a bundled cluster is brought up.
#[derive(Debug, Clone, Default)]
pub struct BundledConfig {
    /// Executors, slots, standbys, settings.
    pub shape: ClusterShape,
    /// Where logs and the fault journal go; kept after the end. Made if absent.
    pub run_dir: PathBuf,
    /// Address of the first coordinator's REST API; any port if absent.
    pub rest: Option<SocketAddr>,
    /// Folder of the HA store, kept after the end; one in the work folder if absent.
    pub ha_dir: Option<PathBuf>,
    /// Seed of the proxy's random choices; a real Toxiproxy knows none.
    pub seed: u64,
    /// Embedded or real store and proxy.
    pub parts: PartChoices,
    /// For how long the embedded proxy keeps a fault that nobody renews; [`DEFAULT_TTL`](stormproof_chaos::journal::DEFAULT_TTL)
    /// if absent. A real one knows no leases.
    pub lease_ttl: Option<Duration>,
    /// Put a proxy on every link between executors, and between them and the coordinators; an embedded one is needed for
    /// that. See [`Capability::NetworkLinks`].
    pub network_links: bool,
    /// Gives the start up once it is cancelled.
    pub stop: CancellationToken,
}

impl BundledConfig {
    /// Finds what would end the coordinator right after its start, so that nothing has to be started for it.
    ///
    /// # Errors
    /// [`TargetError::Settings`], [`TargetError::AddressInUse`] and [`TargetError::Address`].
    pub fn check(&self) -> Result<(), TargetError> {
        ClusterSettings::of_map(&self.settings())?;
        if let Some(address) = self.rest.filter(|address| address.port() != 0) {
            // Closed again at once; whoever takes the port in between is met by the coordinator itself.
            TcpListener::bind(address).map_err(|source| match source.kind() {
                std::io::ErrorKind::AddrInUse => TargetError::AddressInUse(address),
                _ => TargetError::Address { address, source },
            })?;
        }
        Ok(())
    }

    /// What a cluster brought up so will let us do.
    #[must_use]
    pub fn capabilities(&self) -> BTreeSet<Capability> {
        let mut all = BTreeSet::from([
            Capability::ExecutorProcesses,
            Capability::ExecutorExit,
            Capability::CoordinatorStop,
            Capability::Partitions,
            Capability::UserCode,
            Capability::UserCodeRules,
            Capability::StoreLink,
        ]);
        if self.shape.standbys > 0 {
            all.insert(Capability::CoordinatorProcesses);
        }
        // A real store keeps no ledger that we could read, and obeys no rules of ours.
        if self.parts.store == PartChoice::Embedded {
            all.extend([Capability::StoreRequests, Capability::StoreRules]);
        }
        // A real proxy counts bytes when a connection ends.
        if self.parts.proxy == PartChoice::Embedded {
            all.insert(Capability::LinkTraffic);
            // Nor does it say what its toxics did.
            if self.network_links {
                all.insert(Capability::NetworkLinks);
            }
        }
        all
    }

    /// Our defaults for a test cluster, then what the shape asks for.
    pub(super) fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::from([
            ("heartbeat.interval".to_owned(), "500 ms".to_owned()),
            ("heartbeat.timeout".to_owned(), "10 s".to_owned()),
        ]);
        settings.extend(self.shape.settings.clone());
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_named_and_any_port_is_fine() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = listener.local_addr().unwrap();
        let config = |rest| BundledConfig { rest: Some(rest), ..BundledConfig::default() };
        let error = config(taken).check().unwrap_err();
        assert!(matches!(&error, TargetError::AddressInUse(address) if *address == taken), "{error}");
        drop(listener);
        config(taken).check().unwrap();
        config("127.0.0.1:0".parse().unwrap()).check().unwrap();
        // Of a net for documentation: never of this machine.
        let error = config("192.0.2.1:80".parse().unwrap()).check().unwrap_err();
        assert!(matches!(error, TargetError::Address { .. }), "{error}");
    }

    #[test]
    fn the_network_can_be_cut_only_where_embedded_proxies_were_asked_for() {
        let can = |network_links, proxy| {
            let parts = PartChoices { proxy, ..PartChoices::default() };
            let config = BundledConfig { network_links, parts, ..BundledConfig::default() };
            config.capabilities().contains(&Capability::NetworkLinks)
        };
        assert!(can(true, PartChoice::Embedded));
        assert!(!can(false, PartChoice::Embedded), "there are no proxies");
        assert!(!can(true, PartChoice::Real("toxiproxy-server".into())), "it would not say what it did");
    }

    #[test]
    fn unknown_keys_are_found_before_anything_starts() {
        let check = |key: &str, value: &str| {
            let shape =
                ClusterShape { settings: [(key.to_owned(), value.to_owned())].into(), ..ClusterShape::default() };
            BundledConfig { shape, ..BundledConfig::default() }.check().unwrap_err().to_string()
        };
        let error = check("heartbeat.intervall", "1 s");
        assert!(error.contains("did you mean `heartbeat.interval`"), "{error}");
        // Against the time-out that a test cluster gets, not against Flink's default.
        let error = check("heartbeat.interval", "20 s");
        assert!(error.contains("heartbeat.timeout` (10 s)"), "{error}");
    }
}
