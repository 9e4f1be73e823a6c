//! `refuse`: any proxy of a server with Toxiproxy's API is disabled: it refuses connections and cuts open ones.

use std::time::Duration;

use async_trait::async_trait;

use super::in_proxy::InProxy;
use super::{Description, Effect, Fault, FaultError};
use crate::journal::Undo;
use crate::toxiproxy::ToxiproxyClient;

/// Disables a proxy; healing enables it. Only for one that is enabled: what somebody else has disabled is not ours to
/// enable.
#[derive(Debug)]
pub struct ProxyDown {
    at: InProxy,
    /// Connections that had been cut before.
    cut_before: u64,
}

impl ProxyDown {
    /// `lease_ttl` is for how long our own server keeps it if nobody renews it.
    #[must_use]
    pub fn new(client: ToxiproxyClient, proxy: &str, lease_ttl: Duration) -> Self {
        Self { at: InProxy::new(client, proxy.to_owned(), lease_ttl), cut_before: 0 }
    }

    /// The same fault, whose description says where the proxy listens and where it leads to.
    #[must_use]
    pub fn with_way(mut self, listen: &str, upstream: &str) -> Self {
        self.at = self.at.with_way(listen, upstream);
        self
    }

    /// Connections that the proxy has cut so far; none is known of a real Toxiproxy.
    async fn cut(&self) -> Result<u64, FaultError> {
        match self.at.client.effects(&self.at.proxy).await {
            Err(error) if error.is_not_found() => Ok(0),
            other => Ok(other?.connections_cut),
        }
    }
}

#[async_trait]
impl Fault for ProxyDown {
    fn describe(&self) -> Description {
        Description::new("refuse", self.at.target())
    }

    fn undo(&self) -> Vec<Undo> {
        vec![Undo::EnableProxy { api: self.at.client.base_url().to_owned(), proxy: self.at.proxy.clone() }]
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        self.cut_before = self.cut().await?;
        let fault = self.describe();
        self.at.disable(|| fault.clone()).await
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        self.at.still_held(|| self.describe())?;
        if self.at.client.get(&self.at.proxy).await?.enabled {
            return Err(self.at.ended("somebody else has enabled the proxy", self.describe()).await);
        }
        let cut = self.cut().await?.saturating_sub(self.cut_before);
        // Connections that are refused are refused by the kernel, which counts them for nobody.
        Ok(if cut == 0 { Effect::default() } else { Effect::of("connections_cut", cut) })
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        let fault = self.describe();
        self.at.enable(|| fault).await
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        match self.at.client.get(&self.at.proxy).await {
            Err(error) if error.is_not_found() => Ok(true),
            other => Ok(other?.enabled),
        }
    }
}
