//! What faults in a proxy share: what was done there belongs to a lease of the proxy server, if it knows leases.

use std::time::Duration;

use super::{Description, FaultError};
use crate::toxiproxy::{ClientError, ProxyLease, Toxic, ToxiproxyClient};

/// One proxy of a server, and the lease on what is done to it.
#[derive(Debug)]
pub(super) struct InProxy {
    pub(super) client: ToxiproxyClient,
    pub(super) proxy: String,
    lease_ttl: Duration,
    lease: Option<ProxyLease>,
}

impl InProxy {
    pub(super) fn new(client: ToxiproxyClient, proxy: String, lease_ttl: Duration) -> Self {
        Self { client, proxy, lease_ttl, lease: None }
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
            client.add_toxic(&proxy, toxic).await.map_err(|error| not_done(error, &fault))?;
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
