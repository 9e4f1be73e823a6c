//! One proxy: its listener, its state, its links.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::address::{bind, listen_on, resolve};
use super::connection::Connection;
use super::effects::{ProxyCounters, Traffic, count};
use super::error::ApiError;
use super::registry::Settings;
use super::request::{NewProxy, ProxyChange};
use super::room::Place;
use super::spec::{ToxicList, ToxicSpec};
use super::stream::Stream;

/// How long a stop waits for connections to close. They close within one turn.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// Pause after a failed accept (usually: no file descriptor left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A lock that a panic elsewhere does not take down: all guarded data is valid between statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What connections and admin calls share.
pub(crate) struct ProxyCore {
    pub(crate) name: String,
    pub(crate) settings: Arc<Settings>,
    pub(crate) toxics: watch::Sender<Arc<ToxicList>>,
    pub(crate) counters: ProxyCounters,
    pub(crate) next_toxic: AtomicU64,
    pub(crate) removed_toxics: Mutex<VecDeque<ToxicSpec>>,
    /// By connection number: the version of the toxic list that each link has in effect.
    pub(crate) links: Mutex<BTreeMap<u64, Vec<watch::Receiver<u64>>>>,
    next_connection: AtomicU64,
    /// What all its links count time from: some toxics look at all connections.
    pub(crate) epoch: Instant,
}

impl ProxyCore {
    pub(crate) fn remember_links(&self, number: u64, applied: Vec<watch::Receiver<u64>>) {
        lock(&self.links).insert(number, applied);
    }

    pub(crate) fn forget_links(&self, number: u64) {
        lock(&self.links).remove(&number);
    }
}

/// What the API shows of a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) listen: String,
    pub(crate) upstream: String,
    pub(crate) enabled: bool,
}

/// See the module.
pub(crate) struct Proxy {
    pub(crate) core: Arc<ProxyCore>,
    state: Mutex<State>,
    /// How often it has begun to listen.
    runs: AtomicU64,
    /// Held by one change at a time, so that reads never wait for one.
    lifecycle: tokio::sync::Mutex<Lifecycle>,
    /// Parent of the tokens of all runs.
    alive: CancellationToken,
}

#[derive(Default)]
struct Lifecycle {
    running: Option<Running>,
    deleted: bool,
}

struct Running {
    cut: CancellationToken,
    accept: JoinHandle<()>,
    connections: TaskTracker,
}

/// A proxy as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct ProxyDocument {
    name: String,
    listen: String,
    upstream: String,
    enabled: bool,
    toxics: Vec<ToxicSpec>,
}

impl Proxy {
    /// A stopped proxy with its toxics in place.
    pub(crate) fn new(settings: Arc<Settings>, new: &NewProxy) -> Result<Self, ApiError> {
        let core = ProxyCore {
            name: new.name.clone(),
            settings,
            toxics: watch::Sender::new(Arc::default()),
            counters: ProxyCounters::default(),
            next_toxic: AtomicU64::new(1),
            removed_toxics: Mutex::default(),
            links: Mutex::default(),
            next_connection: AtomicU64::new(1),
            epoch: Instant::now(),
        };
        for toxic in &new.toxics {
            core.insert(toxic)?;
        }
        let state = State { listen: new.listen.clone(), upstream: new.upstream.clone(), enabled: false };
        Ok(Self {
            core: Arc::new(core),
            state: Mutex::new(state),
            runs: AtomicU64::new(0),
            lifecycle: tokio::sync::Mutex::default(),
            alive: CancellationToken::new(),
        })
    }

    pub(crate) fn state(&self) -> State {
        lock(&self.state).clone()
    }

    /// Rises whenever it begins to listen: the same number while it is disabled means that nobody has enabled it since.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Relaxed)
    }

    pub(crate) fn document(&self) -> ProxyDocument {
        let State { listen, upstream, enabled } = self.state();
        let toxics = self.core.list().listed().into_iter().cloned().collect();
        ProxyDocument { name: self.core.name.clone(), listen, upstream, enabled, toxics }
    }

    /// Starts listening; nothing to do if it does already.
    pub(crate) async fn start(&self) -> Result<(), ApiError> {
        let mut life = self.lifecycle.lock().await;
        if life.deleted {
            return Err(ApiError::proxy_not_found());
        }
        if life.running.is_some() {
            return Ok(());
        }
        let State { listen, upstream, .. } = self.state();
        let listener = listen_on(&listen).await?;
        self.run(&mut life, listener, upstream)
    }

    /// Refuses new connections and cuts the open ones; both have happened on return. Harmless if stopped (P37).
    pub(crate) async fn stop(&self) {
        let mut life = self.lifecycle.lock().await;
        self.halt(&mut life).await;
    }

    /// Tells everything to stop, without waiting for it and for good.
    pub(crate) fn cut(&self) {
        self.alive.cancel();
    }

    /// Stops for good.
    pub(crate) async fn delete(&self) {
        let mut life = self.lifecycle.lock().await;
        life.deleted = true;
        self.halt(&mut life).await;
    }

    /// Whether other values would make it another proxy: by resolved `listen` and literal `upstream` (P09, P41).
    pub(crate) async fn differs(&self, listen: &str, upstream: &str) -> Result<bool, ApiError> {
        let state = self.state();
        Ok(resolve(listen).await?.to_string() != state.listen || upstream != state.upstream)
    }

    /// Changes address, upstream or `enabled`. If it cannot listen on the new address, the old one stays (P77).
    pub(crate) async fn update(&self, change: ProxyChange) -> Result<(), ApiError> {
        let mut life = self.lifecycle.lock().await;
        if life.deleted {
            return Err(ApiError::proxy_not_found());
        }
        let old = self.state();
        let listen = change.listen.unwrap_or_else(|| old.listen.clone());
        let upstream = change.upstream.unwrap_or_else(|| old.upstream.clone());
        let enabled = change.enabled.unwrap_or(old.enabled);
        if !self.differs(&listen, &upstream).await? && enabled == old.enabled {
            return Ok(());
        }
        if !enabled {
            self.halt(&mut life).await;
            // An address that only differs in its spelling stays as it was resolved.
            let listen = if resolve(&listen).await?.to_string() == old.listen { old.listen } else { listen };
            *lock(&self.state) = State { listen, upstream, enabled: false };
            return Ok(());
        }
        let listener = self.move_to(&mut life, &listen, &old).await?;
        self.halt(&mut life).await;
        self.run(&mut life, listener, upstream)
    }

    /// A listener on `listen`, opened before the old one goes where the system allows it.
    async fn move_to(&self, life: &mut Lifecycle, listen: &str, old: &State) -> Result<TcpListener, ApiError> {
        let address = resolve(listen).await?;
        let is_in_own_way = life.running.is_some() && old.listen.ends_with(&format!(":{}", address.port()));
        if is_in_own_way {
            self.halt(life).await;
        }
        let error = match bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => error,
        };
        if is_in_own_way {
            let listener = bind(resolve(&old.listen).await?)?;
            self.run(life, listener, old.upstream.clone())?;
        }
        let standing = if old.enabled { "still listens on" } else { "stays disabled with" };
        Err(ApiError::internal(format!("{error}; proxy {} {standing} {}", self.core.name, old.listen)))
    }

    fn run(&self, life: &mut Lifecycle, listener: TcpListener, upstream: String) -> Result<(), ApiError> {
        let address = listener.local_addr().map_err(|error| ApiError::internal(error.to_string()))?;
        let listen = address.to_string();
        let cut = self.alive.child_token();
        let connections = TaskTracker::new();
        let metrics =
            Stream::BOTH.map(|stream| self.core.settings.metrics.traffic(stream, &self.core.name, &listen, &upstream));
        let door = Door {
            core: Arc::clone(&self.core),
            listener,
            upstream: upstream.clone(),
            cut: cut.clone(),
            connections: connections.clone(),
            metrics,
        };
        life.running = Some(Running { cut, accept: tokio::spawn(door.accept()), connections });
        tracing::info!(name = %self.core.name, listen, upstream, "started proxy");
        *lock(&self.state) = State { listen, upstream, enabled: true };
        self.runs.fetch_add(1, Relaxed);
        Ok(())
    }

    async fn halt(&self, life: &mut Lifecycle) {
        let Some(running) = life.running.take() else { return };
        running.cut.cancel();
        // The accept task waits for nothing else, so the port is closed once it has ended.
        let _ = running.accept.await;
        running.connections.close();
        if tokio::time::timeout(STOP_LIMIT, running.connections.wait()).await.is_err() {
            tracing::warn!(proxy = %self.core.name, "connections still closing after {} ms", STOP_LIMIT.as_millis());
        }
        let State { listen, upstream, .. } = self.state();
        tracing::info!(name = %self.core.name, listen, upstream, "terminated proxy");
        lock(&self.state).enabled = false;
    }
}

/// The accept loop of a running proxy. It does nothing but accept: a slow dial delays nobody else (P73).
struct Door {
    core: Arc<ProxyCore>,
    listener: TcpListener,
    upstream: String,
    cut: CancellationToken,
    connections: TaskTracker,
    metrics: [Arc<Traffic>; 2],
}

impl Door {
    async fn accept(self) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.cut.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((client, from)) => {
                    tracing::debug!(proxy = %self.core.name, client = %from, "accepted client");
                    // This client waits accepted, the next ones in the backlog.
                    let place = tokio::select! {
                        biased;
                        () = self.cut.cancelled() => return,
                        place = self.core.settings.room.take() => place,
                    };
                    self.admit(client, from.ip(), place);
                }
                Err(error) => {
                    tracing::warn!(proxy = %self.core.name, %error, "accept failed");
                    tokio::select! {
                        () = self.cut.cancelled() => return,
                        () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                    }
                }
            }
        }
    }

    fn admit(&self, client: tokio::net::TcpStream, from: IpAddr, place: Place) {
        count(&self.core.counters.accepted, 1);
        let number = self.core.next_connection.fetch_add(1, Relaxed);
        let connection = Connection {
            core: Arc::clone(&self.core),
            number,
            met: self.core.receive(number, from),
            from,
            client,
            upstream: self.upstream.clone(),
            cut: self.cut.clone(),
            metrics: self.metrics.clone(),
        };
        self.connections.spawn(async move {
            connection.serve().await;
            drop(place);
        });
    }
}
