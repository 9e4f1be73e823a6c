//! One connection: HTTP/1.1 until it ends, drains, is cut or is reset.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::TcpStream;

use super::Stop;
use crate::edge::service::{Connection, EdgeService};

/// Serves until the end. All ways of ending drop the requests in flight, which ends their ledger entries.
pub(super) async fn serve(
    stream: TcpStream,
    service: EdgeService,
    connection: Arc<Connection>,
    idle: Duration,
    stop: Stop,
) {
    // Without it small answers wait for acknowledgements: up to 40 ms that look like an injected fault.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, connection = connection.number, "no TCP_NODELAY; the peer is gone already");
    }
    // A second descriptor of the socket: the first belongs to hyper when a reset is wanted.
    let socket = match SockRef::from(&stream).try_clone() {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!(%error, connection = connection.number, "cannot serve a connection");
            return;
        }
    };
    let end = {
        let mut serving = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(idle)
                .serve_connection(TokioIo::new(stream), service)
        );
        let mut draining = false;
        loop {
            tokio::select! {
                biased;
                () = connection.reset_wanted() => break End::Reset,
                () = stop.cut.cancelled() => {
                    connection.will_be_cut();
                    break End::Cut;
                }
                result = serving.as_mut() => {
                    if let Err(error) = result {
                        tracing::debug!(%error, connection = connection.number, "connection ended early");
                    }
                    break End::Closed;
                }
                () = stop.drain.cancelled(), if !draining => {
                    draining = true;
                    serving.as_mut().graceful_shutdown();
                }
            }
        }
    };
    if matches!(end, End::Reset)
        && let Err(error) = socket.set_linger(Some(Duration::ZERO))
    {
        tracing::warn!(%error, connection = connection.number, "a reset became an orderly close");
    }
}

enum End {
    Closed,
    Cut,
    Reset,
}
