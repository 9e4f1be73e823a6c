//! The admin port: a second port, of this machine alone, on which people look into a server and set it back.
//!
//! It asks for no keys, so only loopback addresses are taken, and browsers are not let in: a page from elsewhere could
//! ask them to. What can be asked is in [`desk`]; requests and answers are JSON.

mod desk;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub(crate) use desk::Desk;
use desk::{Answer, Refusal};

use crate::server::{Stop, next_connection};

/// Connections at once; further ones wait in the listen queue of the kernel.
const MAX_CONNECTIONS: usize = 32;
/// Largest body of a request: a set of rules.
const MAX_BODY_BYTES: usize = 1 << 20;
/// How long a connection may stay open without a request, and a body may take.
const MAX_IDLE: Duration = Duration::from_secs(60);

/// Serves until told to stop; the listener is closed when this returns.
pub(crate) async fn run(listener: TcpListener, desk: Desk, stop: Stop) {
    let (desk, slots) = (Arc::new(desk), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
    while let Some((stream, slot)) = next_connection(&listener, &slots, &stop).await {
        let serving = serve(stream, Arc::clone(&desk), stop.clone());
        stop.tasks.spawn(async move {
            serving.await;
            drop(slot);
        });
    }
}

async fn serve(stream: TcpStream, desk: Arc<Desk>, stop: Stop) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY; the peer is gone already");
    }
    let service = service_fn(move |request| {
        let desk = Arc::clone(&desk);
        async move { Ok::<_, Infallible>(respond(answer(&desk, request).await)) }
    });
    let mut builder = http1::Builder::new();
    let mut serving = pin!(
        builder.timer(TokioTimer::new()).header_read_timeout(MAX_IDLE).serve_connection(TokioIo::new(stream), service)
    );
    let mut draining = false;
    loop {
        tokio::select! {
            biased;
            () = stop.cut.cancelled() => return,
            result = serving.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "an admin connection ended early");
                }
                return;
            }
            () = stop.drain.cancelled(), if !draining => {
                draining = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

async fn answer(desk: &Desk, request: Request<Incoming>) -> Result<Answer, Refusal> {
    if request.headers().contains_key(ORIGIN) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "web pages are not let in; ask with a command such as curl"));
    }
    let (head, body) = request.into_parts();
    let body = match tokio::time::timeout(MAX_IDLE, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => {
            return Err(Refusal::new(StatusCode::BAD_REQUEST, format!("the body cannot be read: {error}")));
        }
        Err(_) => return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 60 s")),
    };
    desk.answer(&head.method, head.uri.path(), head.uri.query(), &body)
}

fn respond(answer: Result<Answer, Refusal>) -> Response<Full<Bytes>> {
    let (status, value) = match answer {
        Ok(Answer { status, value }) => (status, value),
        Err(Refusal { status, error }) => (status, serde_json::json!({ "error": error })),
    };
    let mut response = Response::new(Full::new(Bytes::from(format!("{value}\n"))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
