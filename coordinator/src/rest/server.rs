//! The listening socket of the REST API.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::cluster::Cluster;
use super::forward::Forward;
use super::routes;
use crate::leadership::LeaderInfo;

/// How long a shutdown waits for requests under way.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// The REST server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum RestError {
    /// Another process listens there.
    #[error("REST address {0} is in use; stop what listens there, or use port 0 to have a free one chosen")]
    InUse(String),
    /// The client that asks the leader.
    #[error("cannot make a client for requests to the leading coordinator")]
    Client(#[source] reqwest::Error),
    /// The address cannot be listened on.
    #[error("cannot serve REST on {address}")]
    Bind {
        /// As configured.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A running REST server; it stops when dropped.
#[derive(Debug)]
pub struct RestServer {
    address: SocketAddr,
    stop: DropGuard,
    task: JoinHandle<io::Result<()>>,
}

impl RestServer {
    /// Listens on `address`, e.g. `127.0.0.1:8081` or `127.0.0.1:0`, and answers from `cluster` while that leads, else
    /// with what `leader` answers.
    ///
    /// # Errors
    ///
    /// See [`RestError`].
    pub async fn start(
        address: &str,
        cluster: Arc<dyn Cluster>,
        leader: watch::Receiver<Option<LeaderInfo>>,
    ) -> Result<Self, RestError> {
        let forward = Forward::new(Arc::clone(&cluster), leader).map_err(RestError::Client)?;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => RestError::InUse(address.to_owned()),
            _ => RestError::Bind { address: address.to_owned(), source },
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let listener = listener.tap_io(|socket| {
            if let Err(error) = socket.set_nodelay(true) {
                tracing::debug!(%error, "TCP_NODELAY was refused");
            }
        });
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let serve = axum::serve(listener, routes::router(cluster, forward)).with_graceful_shutdown(stopped);
        let task = tokio::spawn(async move { serve.await });
        Ok(Self { address: bound, stop: stop.drop_guard(), task })
    }

    /// Where it listens, with the port that was chosen.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening, gives requests under way two seconds, then cuts them off.
    pub async fn shutdown(self) {
        let Self { stop, mut task, .. } = self;
        drop(stop);
        if tokio::time::timeout(SHUTDOWN_GRACE, &mut task).await.is_err() {
            task.abort();
        }
    }
}
