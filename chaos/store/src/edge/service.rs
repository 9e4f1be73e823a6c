//! The service of one connection: ledger entry, rule faults, then S3.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use hyper::body::Incoming;
use hyper::header::{CONTENT_RANGE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use s3s::service::S3Service;
use s3s::{HttpResponse, S3Error, S3ErrorCode, StdError};
use tokio_util::sync::CancellationToken;

use super::StaleList;
use super::body::{RequestBody, ResponseBody, Unread};
use super::operation::Target;
use crate::backend::object::epoch_ms;
use crate::effects::Effect;
use crate::ledger::{Ledger, Ticket};
use crate::rules::{Decision, Rules};

/// How long the rest of an upload is read that was answered before its end.
const MAX_DRAIN: Duration = Duration::from_secs(10);

/// What the service and the task of a connection share.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) number: u64,
    /// Set before this side breaks the connection.
    cut: Arc<AtomicBool>,
    reset: CancellationToken,
}

impl Connection {
    pub(crate) fn new(number: u64) -> Self {
        Self { number, cut: Arc::default(), reset: CancellationToken::new() }
    }

    /// From now on the requests that are lost with it are recorded as cut by the server.
    pub(crate) fn will_be_cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Asks the connection's task to reset it.
    pub(crate) fn reset(&self) {
        self.will_be_cut();
        self.reset.cancel();
    }

    pub(crate) async fn reset_wanted(&self) {
        self.reset.cancelled().await;
    }
}

/// One per connection; cheap to clone.
#[derive(Clone)]
pub(crate) struct EdgeService {
    pub(crate) s3: S3Service,
    pub(crate) ledger: Ledger,
    pub(crate) rules: Rules,
    pub(crate) connection: Arc<Connection>,
}

impl hyper::service::Service<Request<Incoming>> for EdgeService {
    type Response = Response<ResponseBody>;
    type Error = StdError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        // The one place where a request gets its time.
        let started_ms = epoch_ms(SystemTime::now());
        let uri = request.uri();
        let target = Target::of(request.method(), uri.path(), uri.query(), request.headers());
        let cut = Arc::clone(&self.connection.cut);
        let ticket = self.ledger.begin(target, self.connection.number, started_ms, cut);
        Box::pin(self.clone().answer(request, ticket))
    }
}

impl EdgeService {
    async fn answer(self, request: Request<Incoming>, mut ticket: Ticket) -> Result<Response<ResponseBody>, StdError> {
        let head_only = request.method() == Method::HEAD;
        let progress = ticket.request_progress();
        let unread = Unread::default();
        let request = request.map(|body| s3s::Body::http_body(RequestBody::new(body, progress, unread.clone())));
        let mut decision = self.rules.decide(ticket.entry());
        let mut response = match &mut decision {
            None => self.s3.call(request).await?,
            Some(decision) => self.answer_with_fault(request, decision, &mut ticket).await?,
        };
        unread.drain(MAX_DRAIN).await;
        if response.status() == StatusCode::OK && response.headers().contains_key(CONTENT_RANGE) {
            // The protocol crate does this for GET only.
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        let id = HeaderValue::try_from(format!("{:016X}", ticket.entry().seq))?;
        response.headers_mut().insert(HeaderName::from_static("x-amz-request-id"), id);
        ticket.set_status(response.status().as_u16());
        let sends_body = !head_only && !matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let fault = decision.and_then(|decision| decision.body_fault(&self.connection));
        Ok(response.map(|body| ResponseBody::new(body, ticket, sends_body, fault)))
    }

    /// Faults before and right after the operation; those inside of the body follow in [`ResponseBody`].
    async fn answer_with_fault(
        &self,
        mut request: Request<s3s::Body>,
        decision: &mut Decision,
        ticket: &mut Ticket,
    ) -> Result<HttpResponse, StdError> {
        let effect = decision.effect.clone();
        match effect {
            Effect::StallRequest { ms } => decision.stall(ms, ticket).await,
            Effect::ResetBefore if decision.acts(ticket) => return self.reset().await,
            Effect::SlowDown { retry_after_seconds } if decision.acts(ticket) => {
                let mut response = refusal(S3ErrorCode::SlowDown, &decision.rule)?;
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after_seconds));
                return Ok(response);
            }
            Effect::InternalError if decision.acts(ticket) => {
                return refusal(S3ErrorCode::InternalError, &decision.rule);
            }
            Effect::StaleList { changes_ago } => {
                let differs = Arc::new(AtomicBool::new(false));
                request.extensions_mut().insert(StaleList { changes_ago, differs: Arc::clone(&differs) });
                let response = self.s3.call(request).await?;
                if differs.load(Ordering::Relaxed) {
                    decision.acts(ticket);
                }
                return Ok(response);
            }
            _ => {}
        }
        let response = self.s3.call(request).await?;
        match effect {
            Effect::StallHeaders { ms } => decision.stall(ms, ticket).await,
            Effect::ResetAfter if decision.acts(ticket) => return self.reset().await,
            Effect::ErrorAfterSuccess if response.status().is_success() && decision.acts(ticket) => {
                return refusal(S3ErrorCode::InternalError, &decision.rule);
            }
            _ => {}
        }
        Ok(response)
    }

    /// Never answers: the connection's task drops this future together with the connection.
    async fn reset(&self) -> Result<HttpResponse, StdError> {
        self.connection.reset();
        std::future::pending().await
    }
}

fn refusal(code: S3ErrorCode, rule: &str) -> Result<HttpResponse, StdError> {
    let error = S3Error::with_message(code, format!("rule {rule:?} wants this request to fail"));
    Ok(error.to_http_response()?)
}
