//! `toxic`, `blackhole`: toxics on any proxy of a server with Toxiproxy's API.
//!
//! Nothing is sent through the proxy: what counts is what its own clients felt.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::in_proxy::InProxy;
use super::{Description, Effect, Fault, FaultError};
use crate::journal::Undo;
use crate::toxiproxy::{ProxyEffects, Stream, Toxic, ToxiproxyClient};

/// Toxics of ours on one proxy.
#[derive(Debug)]
pub struct ProxyToxics {
    kind: &'static str,
    at: InProxy,
    toxics: Vec<Toxic>,
}

impl ProxyToxics {
    /// `toxic` on the proxy `proxy`, under a name that `tag` makes ours alone.
    ///
    /// `lease_ttl` is for how long our own server keeps it if nobody renews it.
    #[must_use]
    pub fn one(client: ToxiproxyClient, proxy: &str, toxic: Toxic, tag: &str, lease_ttl: Duration) -> Self {
        Self::new("toxic", client, proxy, vec![toxic], tag, lease_ttl)
    }

    /// Nothing passes in either direction. Our own server holds everything back and lets it arrive at the heal; a real
    /// Toxiproxy (`is_ours` is false) swallows it, so healing closes the connections.
    #[must_use]
    pub fn blackhole(client: ToxiproxyClient, proxy: &str, is_ours: bool, tag: &str, lease_ttl: Duration) -> Self {
        let toxic = |stream| if is_ours { Toxic::hold(stream) } else { Toxic::timeout(stream, Duration::ZERO) };
        Self::new("blackhole", client, proxy, Stream::BOTH.map(toxic).to_vec(), tag, lease_ttl)
    }

    /// `streams` are silent, and what they hold back arrives at the heal. Our own server only.
    pub(super) fn hold(
        kind: &'static str,
        client: ToxiproxyClient,
        proxy: &str,
        streams: &[Stream],
        tag: &str,
        lease_ttl: Duration,
    ) -> Self {
        Self::new(kind, client, proxy, streams.iter().copied().map(Toxic::hold).collect(), tag, lease_ttl)
    }

    fn new(
        kind: &'static str,
        client: ToxiproxyClient,
        proxy: &str,
        toxics: Vec<Toxic>,
        tag: &str,
        lease_ttl: Duration,
    ) -> Self {
        let ours = |toxic: Toxic| {
            let name = format!("stormproof-{tag}-{}-{}", toxic.kind, toxic.stream);
            toxic.named(name)
        };
        let toxics = toxics.into_iter().map(ours).collect();
        Self { kind, at: InProxy::new(client, proxy.to_owned(), lease_ttl), toxics }
    }

    /// The same fault, whose description says where the proxy listens and where it leads to.
    #[must_use]
    pub fn with_way(mut self, listen: &str, upstream: &str) -> Self {
        self.at = self.at.with_way(listen, upstream);
        self
    }

    /// The toxics as they are added.
    #[must_use]
    pub fn toxics(&self) -> &[Toxic] {
        &self.toxics
    }
}

#[async_trait]
impl Fault for ProxyToxics {
    fn describe(&self) -> Description {
        let what = match self.toxics.as_slice() {
            [toxic] => format!(" ({} {})", toxic.kind, toxic.stream),
            _ => String::new(),
        };
        Description::new(self.kind, self.at.target()).with_detail(what)
    }

    fn undo(&self) -> Vec<Undo> {
        let undo = |toxic: &Toxic| Undo::RemoveToxic {
            api: self.at.client.base_url().to_owned(),
            proxy: self.at.proxy.clone(),
            toxic: toxic.name.clone(),
        };
        self.toxics.iter().map(undo).collect()
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        let fault = self.describe();
        self.at.add(&self.toxics, || fault.clone()).await
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        self.at.still_held(|| self.describe())?;
        let there = self.at.client.toxics(&self.at.proxy).await?;
        if !self.toxics.iter().all(|ours| there.iter().any(|found| found.name == ours.name)) {
            return Err(self.at.ended("somebody else has removed it from the proxy", self.describe()).await);
        }
        // A real Toxiproxy counts bytes when a connection ends, whether its toxics touched them or not.
        if !self.at.has_lease() {
            return Ok(Effect::default());
        }
        Ok(felt(&self.at.client.effects(&self.at.proxy).await?, &self.toxics))
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        let fault = self.describe();
        self.at.remove(&self.toxics, || fault).await
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        match self.at.client.toxics(&self.at.proxy).await {
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) => Err(error.into()),
            Ok(there) => Ok(!there.iter().any(|found| self.toxics.iter().any(|ours| ours.name == found.name))),
        }
    }
}

/// What the clients of the proxy felt of `toxics`, all together.
fn felt(effects: &ProxyEffects, toxics: &[Toxic]) -> Effect {
    let ours: Vec<_> = toxics.iter().filter_map(|toxic| effects.toxic(&toxic.name)).collect();
    let total = |count: fn(&crate::toxiproxy::ToxicEffects) -> u64| ours.iter().map(|toxic| count(toxic)).sum::<u64>();
    let counts = BTreeMap::from([
        // A connection that felt two of them is one connection.
        ("connections_hit".to_owned(), ours.iter().map(|toxic| toxic.connections_hit).max().unwrap_or(0)),
        ("connections_closed".to_owned(), total(|toxic| toxic.connections_closed)),
        ("bytes_held".to_owned(), total(|toxic| toxic.held_bytes)),
        ("bytes_dropped".to_owned(), total(|toxic| toxic.dropped_bytes)),
    ]);
    Effect { bites: counts["connections_hit"] > 0, counts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::DEFAULT_TTL;
    use crate::toxiproxy::ToxicEffects;

    #[test]
    fn names_are_of_the_run_and_a_real_one_is_asked_for_what_it_knows() {
        let client = ToxiproxyClient::new("http://127.0.0.1:1");
        let names = |is_ours| {
            let fault = ProxyToxics::blackhole(client.clone(), "db", is_ours, "7-a", DEFAULT_TTL);
            fault.toxics().iter().map(|toxic| toxic.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(true), ["stormproof-7-a-hold-upstream", "stormproof-7-a-hold-downstream"]);
        assert_eq!(names(false), ["stormproof-7-a-timeout-upstream", "stormproof-7-a-timeout-downstream"]);
        let toxic = Toxic::latency(Stream::Downstream, Duration::from_millis(5), Duration::ZERO);
        let fault = ProxyToxics::one(client, "db", toxic, "7-a", DEFAULT_TTL);
        let expected = "toxic on proxy db of http://127.0.0.1:1 (latency downstream)";
        assert_eq!(fault.describe().to_string(), expected);
    }

    #[test]
    fn only_what_our_own_toxics_did_counts() {
        let did = |name: &str, hit, held| ToxicEffects {
            name: name.to_owned(),
            kind: "hold".to_owned(),
            stream: Stream::Upstream,
            removed: false,
            connections_hit: hit,
            connections_closed: 0,
            held_bytes: held,
            dropped_bytes: 0,
        };
        let effects = |toxics| ProxyEffects { toxics, ..ProxyEffects::default() };
        let ours = Stream::BOTH.map(|stream| Toxic::hold(stream).named(format!("ours-{stream}")));
        let all = effects(vec![did("ours-upstream", 2, 10), did("ours-downstream", 1, 5), did("theirs", 9, 90)]);
        let effect = felt(&all, &ours);
        assert_eq!((effect.bites, effect.counts["connections_hit"], effect.counts["bytes_held"]), (true, 2, 15));
        let idle = felt(&effects(vec![did("ours-upstream", 0, 0), did("theirs", 9, 90)]), &ours);
        assert!(!idle.bites && !idle.is_unknown(), "it is known that nobody felt it");
    }
}
