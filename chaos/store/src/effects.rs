//! What a rule can do to a request: the faults that a TCP proxy cannot express, because it does not know where a
//! request ends, whether a write has happened, or what a listing means.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use s3s::StdError;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::edge::operation::Operation;
use crate::edge::service::Connection;
use crate::ledger::Ticket;
use crate::rules::Decision;

/// A fault of one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Effect {
    /// The request is held before anything is done for it. A client that gives up meanwhile leaves no trace.
    StallRequest {
        /// How long, unless the rule is removed before.
        ms: u64,
    },
    /// The request is done, its answer is held: a client that gives up meanwhile has written nevertheless.
    StallHeaders {
        /// How long, unless the rule is removed before.
        ms: u64,
    },
    /// The answer stops in the middle of its body, and goes on later. This effect, and the others in bodies, acts on
    /// bodies that have more bytes than it lets through, and can be named only for operations that are answered with one.
    StallBody {
        /// Bytes of the body before the stall.
        at_bytes: u64,
        /// How long, unless the rule is removed before.
        ms: u64,
    },
    /// 503 `SlowDown` with `Retry-After`; nothing is done.
    SlowDown {
        /// The value of `Retry-After`.
        retry_after_seconds: u64,
    },
    /// 500 `InternalError`; nothing is done.
    InternalError,
    /// The request is done, and if that succeeded the answer is 500 `InternalError` all the same. Finds retries that
    /// are not idempotent. On a request that fails by itself it does not act.
    ErrorAfterSuccess,
    /// The answer has the right Content-Length and fewer bytes, then the connection is closed.
    TruncateBody {
        /// Bytes of the body that are sent.
        at_bytes: u64,
    },
    /// The connection is reset (RST) before anything is done.
    ResetBefore,
    /// The request is done, then the connection is reset: the acknowledgement is lost.
    ResetAfter,
    /// The connection is reset in the middle of the answer's body.
    ResetBody {
        /// Bytes of the body that were handed to the connection before; some may be lost with it.
        at_bytes: u64,
    },
    /// A list operation answers as the bucket was some writes and deletes ago. S3 promises better, other stores do not.
    /// It acts on listings that would be others without it.
    StaleList {
        /// How many; 1024 are remembered.
        changes_ago: usize,
    },
    /// The answer's body comes slowly but steadily: an idle time-out must not fire, a total one would.
    Trickle {
        /// At this rate.
        bytes_per_second: u64,
    },
}

impl Effect {
    /// Its name in a rules file.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::StallRequest { .. } => "stall-request",
            Self::StallHeaders { .. } => "stall-headers",
            Self::StallBody { .. } => "stall-body",
            Self::SlowDown { .. } => "slow-down",
            Self::InternalError => "internal-error",
            Self::ErrorAfterSuccess => "error-after-success",
            Self::TruncateBody { .. } => "truncate-body",
            Self::ResetBefore => "reset-before",
            Self::ResetAfter => "reset-after",
            Self::ResetBody { .. } => "reset-body",
            Self::StaleList { .. } => "stale-list",
            Self::Trickle { .. } => "trickle",
        }
    }

    /// Why it can never act on an operation, and what to name instead; none if it can.
    pub(crate) fn idle_on(&self, operation: Operation) -> Option<&'static str> {
        match self {
            Self::StallBody { .. } | Self::TruncateBody { .. } | Self::ResetBody { .. } | Self::Trickle { .. } => {
                (!operation.answers_with_body())
                    .then_some("which is answered without a body; name operations such as GetObject or ListObjectsV2")
            }
            Self::StaleList { .. } => (!matches!(operation, Operation::ListObjects | Operation::ListObjectsV2))
                .then_some("which lists no objects; name ListObjects or ListObjectsV2"),
            _ => None,
        }
    }
}

impl Decision {
    /// Waits, but not longer than the rule exists.
    pub(crate) async fn stall(&mut self, ms: u64, ticket: &mut Ticket) {
        if self.acts(ticket) {
            stall(ms, self.removed.clone()).await;
        }
    }

    /// The part of the effect that acts inside of the answer's body.
    pub(crate) fn body_fault(self, connection: &Arc<Connection>) -> Option<BodyFault> {
        let (kind, at_bytes) = match self.effect {
            Effect::StallBody { at_bytes, ms } => (BodyFaultKind::Stall { ms }, at_bytes),
            Effect::TruncateBody { at_bytes } => (BodyFaultKind::Truncate, at_bytes),
            Effect::ResetBody { at_bytes } => (BodyFaultKind::Reset(Arc::clone(connection)), at_bytes),
            Effect::Trickle { bytes_per_second } => (BodyFaultKind::Trickle { bytes_per_second }, 0),
            _ => return None,
        };
        Some(BodyFault { kind, left_bytes: at_bytes, held: Bytes::new(), wait: None, decision: self })
    }
}

async fn stall(ms: u64, removed: CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(ms)) => {}
        () = removed.cancelled() => {}
    }
}

type Wait = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// A fault that acts while a body is sent. It cuts the body's frames so that it acts at the exact byte, if there is
/// another byte behind it.
pub(crate) struct BodyFault {
    kind: BodyFaultKind,
    /// Bytes until it acts.
    left_bytes: u64,
    /// The rest of a frame that was cut.
    held: Bytes,
    wait: Option<Wait>,
    decision: Decision,
}

enum BodyFaultKind {
    Stall {
        ms: u64,
    },
    Truncate,
    Reset(Arc<Connection>),
    Trickle {
        bytes_per_second: u64,
    },
    /// The connection gets the chance to send what it has, then it breaks.
    Breaking {
        reset: Option<Arc<Connection>>,
    },
    Over,
}

/// Steps of a trickle per second: often enough to be steady, rarely enough to cost little.
const TRICKLE_STEPS_PER_SECOND: u64 = 10;

/// The error that ends a truncated body; the connection closes on it.
#[derive(Debug, thiserror::Error)]
#[error("a rule truncates this answer")]
struct Truncated;

impl BodyFault {
    /// True if no byte waits here.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.held.is_empty()
    }

    /// The next frame of `inner`, as the fault lets it through. `ticket` is the request's, while it has one.
    pub(crate) fn poll_frame(
        &mut self,
        mut inner: Pin<&mut s3s::Body>,
        ticket: &mut Option<Ticket>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        loop {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(cx));
                self.wait = None;
            }
            // First of all a byte to act on: a body that ends here is whole, whatever the rule wants.
            if self.held.is_empty() {
                match ready!(inner.as_mut().poll_frame(cx)) {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => self.held = data,
                        Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                    },
                    end => return Poll::Ready(end),
                }
                continue;
            }
            if self.left_bytes == 0 {
                match self.act(ticket, cx) {
                    Some(Poll::Pending) => return Poll::Pending,
                    Some(Poll::Ready(error)) => return Poll::Ready(Some(Err(error))),
                    None => continue,
                }
            }
            let bytes = self.left_bytes.min(self.held.len() as u64);
            self.left_bytes -= bytes;
            // At most the length of `held`, a usize.
            return Poll::Ready(Some(Ok(Frame::data(self.held.split_to(bytes as usize)))));
        }
    }

    /// What happens at the byte. None: go on.
    fn act(&mut self, ticket: &mut Option<Ticket>, cx: &mut Context<'_>) -> Option<Poll<StdError>> {
        let kind = std::mem::replace(&mut self.kind, BodyFaultKind::Over);
        let begins = !matches!(kind, BodyFaultKind::Over | BodyFaultKind::Breaking { .. });
        if begins && !ticket.as_mut().is_some_and(|ticket| self.decision.acts(ticket)) {
            return None;
        }
        match kind {
            BodyFaultKind::Over => self.left_bytes = u64::MAX,
            BodyFaultKind::Stall { ms } => self.wait = Some(self.stall(ms)),
            BodyFaultKind::Truncate => return Some(self.flush_then_break(None, cx)),
            BodyFaultKind::Reset(connection) => return Some(self.flush_then_break(Some(connection), cx)),
            BodyFaultKind::Breaking { reset: None } => return Some(Poll::Ready(Box::new(Truncated))),
            BodyFaultKind::Breaking { reset: Some(connection) } => {
                // The connection's task drops this body; nothing has to wake it.
                connection.reset();
                return Some(Poll::Pending);
            }
            BodyFaultKind::Trickle { bytes_per_second } => {
                self.left_bytes = (bytes_per_second / TRICKLE_STEPS_PER_SECOND).max(1);
                self.wait = Some(self.stall(self.left_bytes.saturating_mul(1_000).div_ceil(bytes_per_second)));
                self.kind = BodyFaultKind::Trickle { bytes_per_second };
            }
        }
        None
    }

    fn stall(&self, ms: u64) -> Wait {
        Box::pin(stall(ms, self.decision.removed.clone()))
    }

    /// Being pending once makes the connection flush what it was given.
    fn flush_then_break(&mut self, reset: Option<Arc<Connection>>, cx: &mut Context<'_>) -> Poll<StdError> {
        self.kind = BodyFaultKind::Breaking { reset };
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
