//! Accepts executors' connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection;
use super::manager::ResourceManager;

/// Open connections, registered or not. More wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 4_096;

/// Pause after a failed accept (out of file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `listener` until `stop`; ends once all connections have ended.
pub(crate) async fn serve(listener: TcpListener, manager: Arc<ResourceManager>, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accept = async {
            let permit = Arc::clone(&permits).acquire_owned().await.ok()?;
            match listener.accept().await {
                Ok((stream, peer)) => Some((stream, peer, permit)),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept an executor's connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    None
                }
            }
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept => accepted,
        };
        if let Some((stream, peer, permit)) = accepted {
            let (manager, stop) = (Arc::clone(&manager), stop.child_token());
            connections.spawn(async move {
                connection::serve(stream, peer, manager, stop).await;
                drop(permit);
            });
        }
    }
    connections.close();
    connections.wait().await;
}
