//! One client connection: the dial in its own task, then two links.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::address::dial_target;
use super::chain::{Chain, ConnectionKey};
use super::effects::{Traffic, count};
use super::link::{Idle, Link, Outcome};
use super::proxy::ProxyCore;
use super::reception::{Met, registered_anew};
use super::server::DialFailure;
use super::stream::Stream;
use super::toxic::attributes::Reception;

/// What is thrown away of unread bytes before an orderly close: unread bytes make the kernel send a reset. 1 MiB.
const DRAIN_CAP_BYTES: usize = 1 << 20;

/// After so long without a packet, and then as often, the kernel asks whether a peer is still there: as Go has it. Where a
/// toxic lets nothing through, nobody else would notice that it is gone.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// One accepted client.
pub(crate) struct Connection {
    pub(crate) core: Arc<ProxyCore>,
    pub(crate) number: u64,
    /// What it meets before its upstream is dialled.
    pub(crate) met: Option<Met>,
    pub(crate) client: TcpStream,
    /// Where the client is.
    pub(crate) from: IpAddr,
    pub(crate) upstream: String,
    /// The proxy is being disabled, changed or deleted.
    pub(crate) cut: CancellationToken,
    /// Byte counters of the metrics, by stream.
    pub(crate) metrics: [Arc<Traffic>; 2],
}

impl Connection {
    /// Serves the client until it or the upstream goes, or the proxy is cut.
    pub(crate) async fn serve(self) {
        let core = Arc::clone(&self.core);
        let number = self.number;
        count(&core.counters.open, 1);
        self.dial_and_pump().await;
        core.forget_links(number);
        core.counters.open.fetch_sub(1, Relaxed);
    }

    async fn dial_and_pump(mut self) {
        // Refused only by a socket that is dead already.
        let _ = self.client.set_nodelay(true);
        keep_alive(&self.client);
        if let Some(met) = self.met.take() {
            if met.reception == Reception::Refuse {
                arm_reset(&self.client);
                return;
            }
            tokio::select! {
                biased;
                () = self.cut.cancelled() => return self.turn_away(),
                stayed = met.keep_silent(&self.client, self.core.toxics.subscribe()) => if !stayed {
                    return;
                }
            }
            let Ok(client) = registered_anew(self.client) else { return };
            self.client = client;
        }
        let limit = self.core.settings.dial_limit;
        let dialled = tokio::select! {
            biased;
            () = self.cut.cancelled() => return self.turn_away(),
            dialled = dial(&self.upstream, limit) => dialled,
        };
        match dialled {
            Ok(server) => self.pump(server).await,
            Err(error) => {
                tracing::info!(proxy = %self.core.name, upstream = %self.upstream, %error, "upstream not reached");
                count(&self.core.counters.refused, 1);
                match self.core.settings.dial_failure {
                    DialFailure::Close => drain(&self.client),
                    DialFailure::Reset => arm_reset(&self.client),
                }
            }
        }
    }

    /// The proxy is cut before the client has an upstream.
    fn turn_away(&self) {
        count(&self.core.counters.cut, 1);
        drain(&self.client);
    }

    async fn pump(self, server: TcpStream) {
        let client = Arc::new(self.client);
        let server = Arc::new(server);
        let stop = self.cut.child_token();
        let idle = Arc::new(Idle::default());
        let mut applied = Vec::new();
        let mut links = Vec::new();
        for (stream, metric) in Stream::BOTH.into_iter().zip(&self.metrics) {
            let (source, sink) = match stream {
                Stream::Upstream => (&client, &server),
                Stream::Downstream => (&server, &client),
            };
            let key = ConnectionKey {
                seed: self.core.settings.seed,
                proxy: self.core.name.clone(),
                number: self.number,
                client: self.from,
            };
            let acknowledge = watch::Sender::new(0);
            applied.push(acknowledge.subscribe());
            links.push(Link {
                stream,
                source: Arc::clone(source),
                sink: Arc::clone(sink),
                chain: Chain::new(key),
                wanted: self.core.toxics.subscribe(),
                applied: acknowledge,
                stop: stop.clone(),
                idle: Arc::clone(&idle),
                traffic: vec![Arc::clone(metric), self.core.counters.traffic(stream)],
                epoch: self.core.epoch,
            });
        }
        self.core.remember_links(self.number, applied);
        let tasks: Vec<_> = links.into_iter().map(|link| tokio::spawn(link.run())).collect();
        let mut worst = Outcome::Ended;
        for task in tasks {
            // A panic in a link closes the connection, not the server.
            worst = worst.max(task.await.unwrap_or(Outcome::Closed));
        }
        if worst == Outcome::Reset {
            arm_reset(&client);
            arm_reset(&server);
        } else {
            drain(&client);
            drain(&server);
        }
        if worst == Outcome::Stopped {
            count(&self.core.counters.cut, 1);
        }
    }
}

async fn dial(upstream: &str, limit: Duration) -> io::Result<TcpStream> {
    let attempt = async {
        let mut last = None;
        for address in tokio::net::lookup_host(dial_target(upstream)).await? {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    refuse_self_connect(&stream, address)?;
                    stream.set_nodelay(true)?;
                    keep_alive(&stream);
                    return Ok(stream);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address")))
    };
    tokio::time::timeout(limit, attempt).await.unwrap_or_else(|_| {
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {} ms", limit.as_millis())))
    })
}

/// Linux connects a socket to itself if the port dialled is free and happens to be chosen as the source port: a dead
/// upstream would then seem alive and echo.
fn refuse_self_connect(stream: &TcpStream, address: SocketAddr) -> io::Result<()> {
    if stream.local_addr()? == address {
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "nobody listens there"));
    }
    Ok(())
}

/// A peer that has gone without a word will be found out.
fn keep_alive(stream: &TcpStream) {
    let often = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    // Fails on a dead socket only.
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&often);
}

/// The socket will be reset, not closed, when it is dropped.
fn arm_reset(stream: &TcpStream) {
    // Fails on a dead socket only, whose peer has heard already.
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Throws away unread bytes, so that dropping the socket sends a normal close.
fn drain(stream: &TcpStream) {
    let mut scratch = [0; 16 * 1024];
    let mut drained = 0;
    while drained < DRAIN_CAP_BYTES {
        match stream.try_read(&mut scratch) {
            Ok(0) | Err(_) => return,
            Ok(read) => drained += read,
        }
    }
}
