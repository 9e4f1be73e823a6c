//! What faults in a proxy share: what was done there belongs to a lease of the proxy server, if it knows leases.

use std::time::Duration;

use super::{Description, FaultError};
use crate::toxiproxy::{BadToxic, ClientError, ProxyLease, Toxic, ToxiproxyClient};

/// One proxy of a server, and the lease on what is done to it.
#[derive(Debug)]
pub(super) struct InProxy {
    pub(super) client: ToxiproxyClient,
    pub(super) proxy: String,
    /// Where it listens and where it leads to, for people; empty if nobody has said.
    way: String,
    lease_ttl: Duration,
    lease: Option<ProxyLease>,
}

impl InProxy {
    pub(super) fn new(client: ToxiproxyClient, proxy: String, lease_ttl: Duration) -> Self {
        Self { client, proxy, way: String::new(), lease_ttl, lease: None }
    }

    /// The same, of which is told where it `listen`s and where it leads to.
    pub(super) fn with_way(mut self, listen: &str, upstream: &str) -> Self {
        self.way = format!(" ({listen} → {upstream})");
        self
    }

    /// The proxy, its way and its server.
    pub(super) fn target(&self) -> String {
        format!("proxy {}{} of {}", self.proxy, self.way, self.client.base_url())
    }

    /// Whether the server is ours: only ours gives leases.
    pub(super) fn has_lease(&self) -> bool {
        self.lease.is_some()
    }

    /// Takes the lease; a client whose changes belong to it.
    async fn leased(&mut self) -> Result<&ToxiproxyClient, ClientError> {
        self.lease = ProxyLease::take(&self.client, self.lease_ttl).await?;
        Ok(self.lease.as_ref().map_or(&self.client, ProxyLease::client))
    }

    pub(super) async fn add(&mut self, toxics: &[Toxic], fault: impl Fn() -> Description) -> Result<(), FaultError> {
        let proxy = self.proxy.clone();
        let client = self.leased().await?;
        for toxic in toxics {
            let added = client.add_toxic(&proxy, toxic).await.map_err(|error| not_done(error, &fault))?;
            check_attributes(toxic, &added).map_err(|unknown| FaultError::Refused { source: Box::new(unknown) })?;
        }
        Ok(())
    }

    pub(super) async fn disable(&mut self, fault: impl Fn() -> Description) -> Result<(), FaultError> {
        let proxy = self.proxy.clone();
        let disabled = self.leased().await?.disable(&proxy).await;
        disabled.map(drop).map_err(|error| not_done(error, fault))
    }

    /// Removes them, the last one first, and ends the lease.
    pub(super) async fn remove(
        &mut self,
        toxics: &[Toxic],
        fault: impl FnOnce() -> Description,
    ) -> Result<(), FaultError> {
        let (lease, held) = self.given_up(fault);
        for toxic in toxics.iter().rev() {
            gone_is_done(self.client.remove_toxic(&self.proxy, &toxic.name).await)?;
        }
        end(lease).await?;
        held
    }

    /// Enables the proxy and ends the lease.
    pub(super) async fn enable(&mut self, fault: impl FnOnce() -> Description) -> Result<(), FaultError> {
        let (lease, held) = self.given_up(fault);
        gone_is_done(self.client.enable(&self.proxy).await)?;
        end(lease).await?;
        held
    }

    /// A fault that the proxy has ended by itself has not lasted for as long as the record would say.
    pub(super) fn still_held(&self, fault: impl FnOnce() -> Description) -> Result<(), FaultError> {
        match &self.lease {
            Some(lease) if lease.is_lost() => Err(FaultError::LeaseLost { fault: fault() }),
            _ => Ok(()),
        }
    }

    /// What was done is no longer there. Not by somebody else, if the proxy has ended its lease.
    pub(super) async fn ended(&self, how: &'static str, fault: Description) -> FaultError {
        let renewed = match &self.lease {
            Some(lease) => lease.renew().await,
            None => Ok(()),
        };
        match renewed {
            Err(error) if error.is_not_found() => FaultError::LeaseLost { fault },
            _ => FaultError::Ended { fault, how },
        }
    }

    /// The lease, no longer ours to renew, and whether it was held until now.
    fn given_up(&mut self, fault: impl FnOnce() -> Description) -> (Option<ProxyLease>, Result<(), FaultError>) {
        let held = self.still_held(fault);
        (self.lease.take(), held)
    }
}

/// A lease may end before everything is done under it: whoever holds it was stopped.
fn not_done(error: ClientError, fault: impl Fn() -> Description) -> FaultError {
    if error.is_lease_lost() { FaultError::LeaseLost { fault: fault() } } else { error.into() }
}

/// Every attribute of `asked` is in `added`: a server that does not know one ignores it. One that is 0 need not be shown,
/// and Go does not mind capital letters.
fn check_attributes(asked: &Toxic, added: &Toxic) -> Result<(), BadToxic> {
    let is_known = |name: &str| added.attributes.keys().any(|known| known.eq_ignore_ascii_case(name));
    let Some((name, _)) = asked.attributes.iter().find(|(name, value)| *value != 0 && !is_known(name)) else {
        return Ok(());
    };
    let known: Vec<&str> = added.attributes.keys().map(String::as_str).collect();
    Err(BadToxic::unknown(&asked.kind, name, &known))
}

async fn end(lease: Option<ProxyLease>) -> Result<(), ClientError> {
    match lease {
        Some(lease) => lease.end().await,
        None => Ok(()),
    }
}

/// Whoever has removed a toxic or a proxy has healed what was done there.
fn gone_is_done<T>(result: Result<T, ClientError>) -> Result<(), ClientError> {
    match result {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}
