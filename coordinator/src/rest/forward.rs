//! A coordinator that does not lead passes requests on to the one that does (reference 9.1; Flink asks it by RPC).

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use reqwest::redirect;
use tokio::sync::watch;

use super::cluster::Cluster;
use super::error::ApiError;
use crate::leadership::LeaderInfo;

/// Header of an answer that another coordinator gave: that one's REST address, `host:port`.
pub const ANSWERED_BY: &str = "stormproof-answered-by";

/// Header of a request that has been passed on: it is not passed on again.
const PASSED_ON: &str = "stormproof-passed-on";

/// How long the leader may take, as long as Flink's `pekko.ask.timeout`.
const LEADER_DEADLINE: Duration = Duration::from_secs(10);

/// Largest body that is passed on, bytes; axum's own limit for a handler.
const MAX_BODY: usize = 2 << 20;

/// What both ends of a connection settle among themselves.
const OF_THE_CONNECTION: [HeaderName; 4] =
    [header::CONNECTION, header::CONTENT_LENGTH, header::HOST, header::TRANSFER_ENCODING];

/// Who leads, and how to ask.
pub(super) struct Forward {
    cluster: Arc<dyn Cluster>,
    leader: watch::Receiver<Option<LeaderInfo>>,
    http: reqwest::Client,
}

impl Forward {
    pub(super) fn new(
        cluster: Arc<dyn Cluster>,
        leader: watch::Receiver<Option<LeaderInfo>>,
    ) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder().no_proxy().redirect(redirect::Policy::none()).timeout(LEADER_DEADLINE);
        Ok(Self { cluster, leader, http: http.build()? })
    }

    async fn ask(&self, leader: &str, request: Request) -> Result<Response, ApiError> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, MAX_BODY).await;
        let body = body.map_err(|error| ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()))?;
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let request = self.http.request(parts.method, format!("http://{leader}{path}")).body(body);
        let answer = request.headers(of_the_message(&parts.headers)).header(PASSED_ON, "1").send().await;
        let answer = answer.map_err(|error| silent(leader, &error))?;
        let (status, headers) = (answer.status(), of_the_message(answer.headers()));
        let body = answer.bytes().await.map_err(|error| silent(leader, &error))?;
        let mut response = (status, Body::from(body)).into_response();
        response.headers_mut().extend(headers);
        if let Ok(leader) = HeaderValue::from_str(leader) {
            response.headers_mut().insert(ANSWERED_BY, leader);
        }
        Ok(response)
    }
}

/// Answers here if this coordinator leads, else with what the leader says; 503 if there is none.
pub(super) async fn by_the_leader(State(forward): State<Arc<Forward>>, request: Request, next: Next) -> Response {
    if forward.cluster.is_leader() {
        return next.run(request).await;
    }
    let leader = forward.leader.borrow().as_ref().map(|leader| leader.rest.clone());
    match leader.filter(|_| !request.headers().contains_key(PASSED_ON)) {
        Some(leader) => forward.ask(&leader, request).await.into_response(),
        None => ApiError::no_leader().into_response(),
    }
}

fn of_the_message(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    OF_THE_CONNECTION.iter().for_each(|name| drop(headers.remove(name)));
    headers
}

/// Nobody there: an election is due. Somebody who does not answer may have done what was asked.
fn silent(leader: &str, error: &reqwest::Error) -> ApiError {
    if error.is_connect() {
        return ApiError::no_leader();
    }
    let limit = LEADER_DEADLINE.as_secs();
    let how = if error.is_timeout() { format!("did not answer within {limit} s") } else { "hung up".to_owned() };
    let message = format!("The leading coordinator, {leader}, {how}; what was asked of it may have been done.");
    ApiError::new(StatusCode::GATEWAY_TIMEOUT, message)
}
