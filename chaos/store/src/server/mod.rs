//! Start, serve, stop.

mod connection;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use s3s::auth::SecretKey;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::{self, Desk};
use crate::backend::Backend;
use crate::config::{Limits, S3ServerConfig};
use crate::edge::service::{Connection, EdgeService};
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::rules::Rules;
use crate::s3::Gateway;
use crate::s3::access::Access;
use crate::s3::keys::Keys;
use crate::s3::range::IgnoredRange;

/// How long a shutdown waits for tasks to end after their connections were cut.
const MAX_STOP: Duration = Duration::from_secs(10);
/// How long accepting pauses after an error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running S3 server on the current tokio runtime. Dropping it cuts all connections and closes the port.
#[derive(Debug)]
pub struct S3Server {
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
    ledger: Ledger,
    backend: Backend,
    rules: Rules,
    stop: Stop,
    accepting: JoinHandle<()>,
    grace: Duration,
}

/// The ways down, from polite to final.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    /// No new connections; those that are open end with their running request.
    pub(crate) drain: CancellationToken,
    /// Open connections end now.
    pub(crate) cut: CancellationToken,
    /// Tasks of open connections.
    pub(crate) tasks: TaskTracker,
}

/// What a shutdown found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Connections that were still busy after the grace and were cut.
    pub cut_connections: usize,
}

impl S3Server {
    /// Begins the description of a server; see [`S3ServerConfig`] for the defaults.
    pub fn builder() -> S3ServerBuilder {
        S3ServerBuilder { config: S3ServerConfig::default() }
    }

    /// Listens and serves until [`shutdown`](Self::shutdown) or drop.
    ///
    /// # Errors
    /// [`StoreError::Data`] (before the port opens), [`StoreError::AddressInUse`], [`StoreError::Listen`], and those of
    /// a configuration that cannot work.
    pub async fn start(config: S3ServerConfig) -> Result<Self, StoreError> {
        config.check()?;
        let limits = config.limits;
        let backend =
            Backend::open(limits.clone(), config.data.as_deref()).map_err(|source| StoreError::Data { source })?;
        let (listener, address) = listen(config.listen).await?;
        let admin = match config.admin {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let ledger = Ledger::new(limits.ledger_entries, limits.ledger_backlog_events);
        let rules = Rules::default();
        let stop = Stop::default();
        let admin_address = admin.as_ref().map(|(_, address)| *address);
        if let Some((listener, _)) = admin {
            let desk = Desk::new(ledger.clone(), backend.clone(), rules.clone());
            stop.tasks.spawn(admin::run(listener, desk, stop.clone()));
        }
        let grace = limits.shutdown_grace;
        let acceptor = Acceptor {
            listener,
            s3: s3_service(backend.clone(), &config.access_key, &config.secret_key),
            ledger: ledger.clone(),
            rules: rules.clone(),
            slots: Arc::new(Semaphore::new(limits.max_connections.min(Semaphore::MAX_PERMITS))),
            limits,
            stop: stop.clone(),
        };
        let accepting = tokio::spawn(acceptor.run());
        Ok(Self { address, admin_address, ledger, backend, rules, stop, accepting, grace })
    }

    /// `http://host:port`, for clients on this machine.
    #[must_use]
    pub fn endpoint(&self) -> String {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        format!("http://{}", SocketAddr::new(ip, self.address.port()))
    }

    /// Where it listens, with the real port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://host:port` of the admin port, if there is one.
    #[must_use]
    pub fn admin_endpoint(&self) -> Option<String> {
        self.admin_address.map(|address| format!("http://{address}"))
    }

    /// What was asked of it.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// What is stored in it.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend.clone()
    }

    /// The faults it injects.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.rules.clone()
    }

    /// Closes the port, lets running requests end within [`Limits::shutdown_grace`], cuts the others. Stalls that
    /// rules cause do not end early: they are cut.
    ///
    /// # Errors
    /// [`StoreError::NotStopped`] if connections survive being cut.
    pub async fn shutdown(mut self) -> Result<ShutdownReport, StoreError> {
        self.stop.drain.cancel();
        // The acceptor closes the listener before it ends. It cannot panic; if the runtime cancelled it, it is gone.
        let _ = (&mut self.accepting).await;
        self.stop.tasks.close();
        let mut cut_connections = 0;
        if tokio::time::timeout(self.grace, self.stop.tasks.wait()).await.is_err() {
            cut_connections = self.stop.tasks.len();
            self.stop.cut.cancel();
            if tokio::time::timeout(MAX_STOP, self.stop.tasks.wait()).await.is_err() {
                let waited_ms = MAX_STOP.as_millis() as u64;
                return Err(StoreError::NotStopped { open: self.stop.tasks.len(), waited_ms });
            }
        }
        Ok(ShutdownReport { cut_connections })
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.stop.drain.cancel();
        self.stop.cut.cancel();
        self.accepting.abort();
    }
}

/// Describes a server field by field, then starts it.
#[derive(Debug, Clone)]
#[must_use]
pub struct S3ServerBuilder {
    config: S3ServerConfig,
}

impl S3ServerBuilder {
    /// Where to listen; port 0 takes a free port.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.config.listen = address;
        self
    }

    /// The keys clients sign with.
    pub fn credentials(mut self, access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        self.config.access_key = access_key.into();
        self.config.secret_key = secret_key.into();
        self
    }

    /// Opens the [admin port](crate#from-outside-of-the-process) there.
    pub fn admin(mut self, address: SocketAddr) -> Self {
        self.config.admin = Some(address);
        self
    }

    /// Keeps everything in that folder as well, and begins with what is in it.
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.config.data = Some(folder.into());
        self
    }

    /// Bounds on memory, sizes and waits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.config.limits = limits;
        self
    }

    /// See [`S3Server::start`].
    ///
    /// # Errors
    /// Those of [`S3Server::start`].
    pub async fn start(self) -> Result<S3Server, StoreError> {
        S3Server::start(self.config).await
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StoreError> {
    let listener = TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => StoreError::AddressInUse { address },
        _ => StoreError::Listen { address, source },
    })?;
    let real = listener.local_addr().map_err(|source| StoreError::Listen { address, source })?;
    Ok((listener, real))
}

fn s3_service(backend: Backend, access_key: &str, secret_key: &str) -> S3Service {
    let gateway = Gateway { backend };
    let mut builder = S3ServiceBuilder::new(gateway.clone());
    builder.set_access(Access);
    builder.set_route(IgnoredRange::new(gateway));
    builder.set_auth(Keys { access_key: access_key.to_owned(), secret_key: SecretKey::from(secret_key) });
    builder.build()
}

struct Acceptor {
    listener: TcpListener,
    s3: S3Service,
    ledger: Ledger,
    rules: Rules,
    slots: Arc<Semaphore>,
    limits: Limits,
    stop: Stop,
}

impl Acceptor {
    /// Accepts until told to stop; the listener is closed when this returns.
    async fn run(self) {
        let mut number = 0;
        while let Some((stream, slot)) = next_connection(&self.listener, &self.slots, &self.stop).await {
            number += 1;
            let connection = Arc::new(Connection::new(number));
            let service = EdgeService {
                s3: self.s3.clone(),
                ledger: self.ledger.clone(),
                rules: self.rules.clone(),
                connection: Arc::clone(&connection),
            };
            let serving =
                connection::serve(stream, service, connection, self.limits.connection_idle, self.stop.clone());
            self.stop.tasks.spawn(async move {
                serving.await;
                drop(slot);
            });
        }
    }
}

/// The next connection and its slot; none when stopping.
pub(crate) async fn next_connection(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
    stop: &Stop,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let accept = async {
        // The semaphore is never closed.
        let slot = Arc::clone(slots).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return Some((stream, slot)),
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = stop.drain.cancelled() => None,
        accepted = accept => accepted,
    }
}
