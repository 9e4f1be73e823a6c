//! The embedded server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::address::listen;
use super::api::{self, Api, PacedListener};
use super::metrics::Metrics;
use super::registry::{Registry, Settings};
use super::room::Room;

/// How long [`ToxiproxyServer::shutdown`] waits for API answers that are under way.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(1);

/// What a client sees when the upstream cannot be reached. It is connected already, so it cannot be refused any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DialFailure {
    /// A normal close, as with Toxiproxy (P36).
    #[default]
    Close,
    /// A reset, which is closer to what a client without a proxy would see.
    Reset,
}

/// How long a connection to the API may keep it waiting before it is closed. The defaults are Toxiproxy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiLimits {
    /// For the head of a request, and then for its body (which is answered with 503). Default 15 s.
    pub read: Duration,
    /// For an answer to be taken. Default 30 s.
    pub write: Duration,
    /// For another request after an answer. Default 60 s.
    pub idle: Duration,
}

impl Default for ApiLimits {
    fn default() -> Self {
        Self { read: Duration::from_secs(15), write: Duration::from_secs(30), idle: Duration::from_secs(60) }
    }
}

/// How the server is started.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Address of the HTTP API. Default `127.0.0.1:0`; see [`ToxiproxyServer::api_address`] for the port.
    pub listen: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// Refuse unknown attributes (P67), and let populate apply `enabled` and `toxics` to unchanged proxies (P64).
    pub strict: bool,
    /// Serve byte counters at `/metrics`. On by default, since it costs nothing; off in the command (P75).
    pub proxy_metrics: bool,
    /// Serve build information at `/metrics`. On by default (P62).
    pub runtime_metrics: bool,
    /// How long a dial to an upstream may take. Default 10 s.
    pub dial_limit: Duration,
    /// What clients see when it fails.
    pub dial_failure: DialFailure,
    /// How long any API request may take, the reading of its body included. Default 25 s, as in Toxiproxy (P78).
    pub handler_limit: Duration,
    /// How long a connection to the API may keep it waiting.
    pub api_limits: ApiLimits,
    /// Proxies to begin with: the text of a Toxiproxy config file, which is a populate body.
    pub proxies_json: Option<String>,
    /// Start even if `proxies_json` is bad, as Toxiproxy does (P79); see [`ToxiproxyServer::proxies_error`].
    pub lenient: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            seed: 0,
            strict: false,
            proxy_metrics: true,
            runtime_metrics: true,
            dial_limit: Duration::from_secs(10),
            dial_failure: DialFailure::default(),
            handler_limit: Duration::from_secs(25),
            api_limits: ApiLimits::default(),
            proxies_json: None,
            lenient: false,
        }
    }
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address of the API cannot be listened on.
    #[error("cannot serve the Toxiproxy API on {address}; choose a free address")]
    Listen {
        /// As configured.
        address: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The initial proxies are bad.
    #[error("cannot apply the initial proxies: {message}; correct them, or start leniently to go on without")]
    Proxies {
        /// What the same body would be answered by `/populate`.
        message: String,
    },
}

/// A running server. Dropping it stops the API at once; [`ToxiproxyServer::shutdown`] also waits for the proxies to be
/// gone.
#[derive(Debug)]
pub struct ToxiproxyServer {
    address: SocketAddr,
    registry: Arc<Registry>,
    proxies_error: Option<String>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl ToxiproxyServer {
    /// Starts the API and the initial proxies.
    ///
    /// # Errors
    ///
    /// [`ServerError`]; nothing is left running then.
    pub async fn start(config: ServerConfig) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Listen { address: config.listen.clone(), source };
        let listener = listen_on(&config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let registry = Arc::new(Registry::new(Settings {
            seed: config.seed,
            strict: config.strict,
            dial_limit: config.dial_limit,
            dial_failure: config.dial_failure,
            metrics: Metrics::default(),
            room: Room::of_this_process(),
        }));
        let mut proxies_error = None;
        if let Some(text) = &config.proxies_json
            && let Err(error) = api::populate_text(&registry, text).await
        {
            if !config.lenient {
                registry.clear().await;
                return Err(ServerError::Proxies { message: error.message });
            }
            tracing::warn!(%error, "going on without some of the initial proxies");
            proxies_error = Some(error.message);
        }
        tracing::info!(%address, "started the Toxiproxy API");
        let stop = CancellationToken::new();
        let service = api::service(Api::new(Arc::clone(&registry), &config));
        let listener = PacedListener { listener, limits: config.api_limits };
        let serve = axum::serve(listener, service).with_graceful_shutdown(stop.clone().cancelled_owned());
        let task = tokio::spawn(async move {
            if let Err(error) = serve.await {
                tracing::error!(%error, "the Toxiproxy API ended");
            }
        });
        Ok(Self { address, registry, proxies_error, stop, task })
    }

    /// Where the HTTP API listens.
    #[must_use]
    pub fn api_address(&self) -> SocketAddr {
        self.address
    }

    /// What was wrong with the initial proxies, if it was started leniently; the rest of them from there on is missing.
    #[must_use]
    pub fn proxies_error(&self) -> Option<&str> {
        self.proxies_error.as_deref()
    }

    /// The API's base URL, for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops the API, cuts all connections and closes all ports; that has happened on return.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        self.registry.clear().await;
        if tokio::time::timeout(SHUTDOWN_LIMIT, &mut self.task).await.is_err() {
            self.task.abort();
        }
        // A request that was under way may have created one more.
        self.registry.clear().await;
    }
}

/// Listens on the first of a name's addresses that can be had.
async fn listen_on(name: &str) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in tokio::net::lookup_host(name).await? {
        match listen(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Drop for ToxiproxyServer {
    fn drop(&mut self) {
        self.stop.cancel();
        self.registry.cut_all();
        self.task.abort();
    }
}
