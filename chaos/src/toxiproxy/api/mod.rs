//! Toxiproxy's HTTP API.
//!
//! # Layout
//!
//! | module | what it holds |
//! | --- | --- |
//! | `route` | which handler a method and path mean, pure |
//! | `answer` | responses in Toxiproxy's form |
//! | `handlers` | the handlers |
//! | `pace` | how long a connection may keep us waiting |

mod answer;
mod handlers;
mod pace;
mod route;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::extract::connect_info::IntoMakeServiceWithConnectInfo;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use tokio::time::Instant;

pub(crate) use handlers::populate_text;
pub(crate) use pace::PacedListener;

use super::error::ApiError;
use super::leases::LEASE_HEADER;
use super::registry::Registry;
use super::server::ServerConfig;
use pace::Pace;
use route::{Miss, Route, route};

/// What all requests share.
pub(crate) struct Api {
    registry: Arc<Registry>,
    proxy_metrics: bool,
    runtime_metrics: bool,
    handler_limit: Duration,
    read_limit: Duration,
    requests: AtomicU64,
}

impl Api {
    pub(crate) fn new(registry: Arc<Registry>, config: &ServerConfig) -> Self {
        Self {
            registry,
            proxy_metrics: config.proxy_metrics,
            runtime_metrics: config.runtime_metrics,
            handler_limit: config.handler_limit,
            read_limit: config.api_limits.read,
            requests: AtomicU64::new(1),
        }
    }

    fn has_metrics(&self) -> bool {
        self.proxy_metrics || self.runtime_metrics
    }

    /// Toxiproxy's middleware: request id, browser check, time limit.
    async fn answer(&self, route: Route, request: Request) -> Response {
        let mut response = if is_browser(&request) {
            answer::text(StatusCode::FORBIDDEN, "User agent not allowed\n")
        } else {
            let (parts, body) = request.into_parts();
            if parts.method == Method::POST && matches!(route, Route::UpdateProxy(_) | Route::UpdateToxic(..)) {
                tracing::info!(path = parts.uri.path(), "an update by POST is deprecated, use PATCH");
            }
            let lease = parts.headers.get(LEASE_HEADER).and_then(|id| id.to_str().ok());
            let limited = tokio::time::timeout(self.handler_limit, self.dispatch(route, lease, body));
            limited.await.unwrap_or_else(|_| {
                answer::error(&ApiError::too_slow(format!("no answer within {} ms", self.handler_limit.as_millis())))
            })
        };
        let id = format!("{:020x}", self.requests.fetch_add(1, Relaxed));
        if let Ok(id) = HeaderValue::try_from(id) {
            response.headers_mut().insert("x-toxiproxy-request-id", id); // P01
        }
        response
    }
}

/// The whole API. Routing is ours, because axum's answers to wrong methods and unclean paths differ from Toxiproxy's.
/// Served to connections of a [`PacedListener`].
pub(crate) fn service(api: Api) -> IntoMakeServiceWithConnectInfo<Router, Pace> {
    Router::new().fallback(handle).with_state(Arc::new(api)).into_make_service_with_connect_info()
}

async fn handle(State(api): State<Arc<Api>>, ConnectInfo(pace): ConnectInfo<Pace>, request: Request) -> Response {
    let _at_work = pace.at_work();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let start = Instant::now();
    let response = routed(&api, request).await;
    tracing::debug!(%method, path, status = response.status().as_u16(), duration = ?start.elapsed(), "answered");
    response
}

async fn routed(api: &Api, request: Request) -> Response {
    match route(request.method(), request.uri().path(), api.has_metrics()) {
        Ok(route) => api.answer(route, request).await,
        Err(Miss::UnknownPath) => answer::text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Err(Miss::WrongMethod) => answer::empty(StatusCode::METHOD_NOT_ALLOWED),
        Err(Miss::Unclean(path)) => answer::moved(&path, request.uri().query()),
        Err(Miss::BadEscape) => answer::with_body(StatusCode::BAD_REQUEST, answer::PLAIN, "400 Bad Request"),
    }
}

/// Keeps pages in a browser from driving the proxy (P02).
fn is_browser(request: &Request) -> bool {
    request.headers().get(header::USER_AGENT).is_some_and(|agent| agent.as_bytes().starts_with(b"Mozilla/"))
}
