//! `partition-network`, `isolate-coordinator`: links between parties fall silent, in one direction or both.
//!
//! A link is a proxy that one party dials to reach another. Nothing is lost: connections stay open, new ones are
//! accepted, and what is sent meanwhile, closes included, arrives at the heal, as what TCP sends again after a
//! partition does. (The acknowledgements of TCP itself are not held: the other direction goes on.)

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::{Description, Effect, Fault, FaultError, ProxyToxics};
use crate::journal::Undo;
use crate::toxiproxy::{Stream, ToxiproxyClient};

/// One link and which of its directions fall silent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SilentLink {
    /// The proxy.
    pub proxy: String,
    /// From the party that dials, or to it, or both.
    pub streams: Vec<Stream>,
}

/// See the module. Only for proxies of our own server, which says what its toxics did.
#[derive(Debug)]
pub struct PartitionNetwork {
    kind: &'static str,
    target: String,
    links: Vec<ProxyToxics>,
}

impl PartitionNetwork {
    /// Silences `links`, proxies of the server that `client` talks to. `kind` and `target` are for people; `tag` makes
    /// the toxics' names ours alone; `lease_ttl` is for how long the server keeps them if nobody renews them.
    #[must_use]
    pub fn new(
        kind: &'static str,
        target: impl Into<String>,
        client: &ToxiproxyClient,
        links: &[SilentLink],
        tag: &str,
        lease_ttl: Duration,
    ) -> Self {
        let silent =
            |link: &SilentLink| ProxyToxics::hold(kind, client.clone(), &link.proxy, &link.streams, tag, lease_ttl);
        Self { kind, target: target.into(), links: links.iter().map(silent).collect() }
    }
}

#[async_trait]
impl Fault for PartitionNetwork {
    fn describe(&self) -> Description {
        Description::new(self.kind, &self.target)
    }

    fn undo(&self) -> Vec<Undo> {
        self.links.iter().flat_map(Fault::undo).collect()
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        for link in &mut self.links {
            link.inject().await?;
        }
        Ok(())
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        let mut all = Effect::default();
        for link in &mut self.links {
            let felt = link.effect().await?;
            all.bites |= felt.bites;
            for (what, count) in felt.counts {
                *all.counts.entry(what).or_default() += count;
            }
        }
        Ok(all)
    }

    async fn counted(&mut self) -> BTreeMap<String, u64> {
        // A lease that was lost is told of by the heal.
        self.effect().await.map(|effect| effect.counts).unwrap_or_default()
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        // One that cannot be healed keeps no other from it.
        let mut healed = Ok(());
        for link in self.links.iter_mut().rev() {
            healed = healed.and(link.heal().await);
        }
        healed
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        for link in &mut self.links {
            if !link.is_healed().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
