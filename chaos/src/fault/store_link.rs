//! `blackhole-store` and `refuse-store`: the way to the checkpoint store, broken in the proxy in front of it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::in_proxy::InProxy;
use super::{Description, Effect, Fault, FaultError};
use crate::journal::Undo;
use crate::toxiproxy::{Stream, Toxic, ToxiproxyClient};

/// A healthy store answers the probe within this; silence for so long is a black hole.
const PROBE_SILENCE: Duration = Duration::from_millis(250);

/// The proxy between the cluster and its checkpoint store.
#[derive(Debug, Clone)]
pub struct StoreLink {
    /// Client of the proxy's admin API.
    pub client: ToxiproxyClient,
    /// Name of the proxy.
    pub proxy: String,
    /// Where the cluster connects to, `host:port`.
    pub address: String,
    /// For how long our server keeps a fault that nobody renews.
    pub lease_ttl: Duration,
}

/// What a probe through the link met.
#[derive(Debug, PartialEq, Eq)]
enum Probe {
    Answered,
    Silent,
    Refused,
}

impl StoreLink {
    fn in_proxy(&self) -> InProxy {
        InProxy::new(self.client.clone(), self.proxy.clone(), self.lease_ttl)
    }

    /// A plain HTTP request through the proxy: any answer will do, 403 included.
    async fn probe(&self) -> Probe {
        let Ok(Ok(mut stream)) = timeout(PROBE_SILENCE, TcpStream::connect(&self.address)).await else {
            return Probe::Refused;
        };
        if stream.set_nodelay(true).is_err()
            || stream.write_all(b"GET / HTTP/1.0\r\nHost: probe\r\n\r\n").await.is_err()
        {
            return Probe::Refused;
        }
        match timeout(PROBE_SILENCE, stream.read(&mut [0; 16])).await {
            Ok(Ok(count)) if count > 0 => Probe::Answered,
            Ok(_) => Probe::Refused,
            Err(_) => Probe::Silent,
        }
    }
}

/// Nothing passes in either direction: connections are accepted and stay silent, for ever. Healing closes them.
#[derive(Debug)]
pub struct BlackholeStore {
    link: StoreLink,
    at: InProxy,
    /// Their names carry the tag that says they are ours.
    toxics: [Toxic; 2],
}

impl BlackholeStore {
    /// `tag` makes the toxics' names ours alone.
    #[must_use]
    pub fn new(link: StoreLink, tag: &str) -> Self {
        let toxic =
            |(stream, end)| Toxic::timeout(stream, Duration::ZERO).named(format!("stormproof-{tag}-blackhole-{end}"));
        let toxics = [(Stream::Upstream, "up"), (Stream::Downstream, "down")].map(toxic);
        Self { at: link.in_proxy(), link, toxics }
    }
}

#[async_trait]
impl Fault for BlackholeStore {
    fn describe(&self) -> Description {
        Description::new("blackhole-store", format!("proxy {} at {}", self.link.proxy, self.link.address))
    }

    fn undo(&self) -> Vec<Undo> {
        self.toxics
            .iter()
            .map(|toxic| Undo::RemoveToxic {
                api: self.link.client.base_url().to_owned(),
                proxy: self.link.proxy.clone(),
                toxic: toxic.name.clone(),
            })
            .collect()
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        let fault = self.describe();
        self.at.add(&self.toxics, || fault.clone()).await
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        self.at.still_held(|| self.describe())?;
        let silent = self.link.probe().await == Probe::Silent;
        Ok(Effect { bites: silent, counts: BTreeMap::from([("probe_silent".to_owned(), u64::from(silent))]) })
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        let fault = self.describe();
        self.at.remove(&self.toxics, || fault).await
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        Ok(self.link.probe().await == Probe::Answered)
    }
}

/// Connections to the store are refused, open ones are cut.
#[derive(Debug)]
pub struct RefuseStore {
    link: StoreLink,
    at: InProxy,
}

impl RefuseStore {
    /// Refuses connections through `link`.
    #[must_use]
    pub fn new(link: StoreLink) -> Self {
        Self { at: link.in_proxy(), link }
    }
}

#[async_trait]
impl Fault for RefuseStore {
    fn describe(&self) -> Description {
        Description::new("refuse-store", format!("proxy {} at {}", self.link.proxy, self.link.address))
    }

    fn undo(&self) -> Vec<Undo> {
        vec![Undo::EnableProxy { api: self.link.client.base_url().to_owned(), proxy: self.link.proxy.clone() }]
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        let fault = self.describe();
        self.at.disable(|| fault.clone()).await
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        self.at.still_held(|| self.describe())?;
        Ok(Effect::of("probe_refused", u64::from(self.link.probe().await == Probe::Refused)))
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        let fault = self.describe();
        self.at.enable(|| fault).await
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        Ok(self.link.probe().await == Probe::Answered)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::journal::DEFAULT_TTL;
    use crate::toxiproxy::{Proxy, ServerConfig, ToxiproxyServer};

    /// A store that answers every connection with one line, behind a proxy.
    async fn link() -> (ToxiproxyServer, StoreLink) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let upstream = listener.local_addr().expect("bound").to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = [0; 256];
                    let _ = stream.read(&mut request).await;
                    let _ = stream.write_all(b"HTTP/1.0 403 Forbidden\r\n\r\n").await;
                });
            }
        });
        let server = ToxiproxyServer::start(ServerConfig::default()).await.expect("started");
        let client = ToxiproxyClient::new(server.url());
        let proxy = client.create(&Proxy::new("store", "127.0.0.1:0", upstream)).await.expect("created");
        (server, StoreLink { client, proxy: "store".to_owned(), address: proxy.listen, lease_ttl: DEFAULT_TTL })
    }

    async fn until_it_bites(fault: &mut dyn Fault) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !fault.effect().await.expect("known").bites {
            assert!(Instant::now() < deadline, "{} never bites", fault.describe());
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn until_healed(fault: &mut dyn Fault) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !fault.is_healed().await.expect("known") {
            assert!(Instant::now() < deadline, "{} is never healed", fault.describe());
            sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_black_hole_is_silent_and_leaves_other_peoples_toxics_alone() {
        let (_server, link) = link().await;
        let theirs = Toxic::noop(Stream::Upstream).named("theirs");
        link.client.add_toxic("store", &theirs).await.expect("added");
        let mut fault = BlackholeStore::new(link.clone(), "test");
        assert_eq!(link.probe().await, Probe::Answered);
        fault.inject().await.expect("injected");
        until_it_bites(&mut fault).await;
        assert_eq!(fault.undo().len(), 2);
        fault.heal().await.expect("healed");
        until_healed(&mut fault).await;
        fault.heal().await.expect("already gone is done");
        let left = link.client.toxics("store").await.expect("listed");
        assert_eq!(left.iter().map(|toxic| toxic.name.as_str()).collect::<Vec<_>>(), ["theirs"]);
    }

    #[tokio::test]
    async fn a_refused_store_is_refused_until_it_is_healed() {
        let (_server, link) = link().await;
        let mut fault = RefuseStore::new(link);
        fault.inject().await.expect("injected");
        until_it_bites(&mut fault).await;
        assert!(!fault.is_healed().await.expect("known"));
        fault.heal().await.expect("healed");
        until_healed(&mut fault).await;
    }
}
