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

use crate::edge::service::Connection;
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
    /// The answer stops in the middle of its body, and goes on later.
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
    /// are not idempotent.
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
    /// A list operation answers as the bucket was some writes and deletes ago (1024 are remembered). S3 promises
    /// better, other stores do not.
    StaleList {
        /// How many.
        changes_ago: usize,
    },
    /// The answer's body comes slowly but steadily: an idle time-out must not fire, a total one would.
    Trickle {
        /// At this rate.
        bytes_per_second: u64,
    },
}

impl Decision {
    /// Waits, but not longer than the rule exists.
    pub(crate) async fn stall(&self, ms: u64) {
        stall(ms, self.removed.clone()).await;
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
        Some(BodyFault { kind, left_bytes: at_bytes, held: Bytes::new(), wait: None, removed: self.removed })
    }
}

async fn stall(ms: u64, removed: CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(ms)) => {}
        () = removed.cancelled() => {}
    }
}

type Wait = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// A fault that acts while a body is sent. It cuts the body's frames so that it acts at the exact byte.
pub(crate) struct BodyFault {
    kind: BodyFaultKind,
    /// Bytes until it acts.
    left_bytes: u64,
    /// The rest of a frame that was cut.
    held: Bytes,
    wait: Option<Wait>,
    removed: CancellationToken,
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

    /// The next frame of `inner`, as the fault lets it through.
    pub(crate) fn poll_frame(
        &mut self,
        mut inner: Pin<&mut s3s::Body>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        loop {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(cx));
                self.wait = None;
            }
            if self.left_bytes == 0 {
                match self.act(cx) {
                    Some(Poll::Pending) => return Poll::Pending,
                    Some(Poll::Ready(error)) => return Poll::Ready(Some(Err(error))),
                    None => continue,
                }
            }
            if self.held.is_empty() {
                match ready!(inner.as_mut().poll_frame(cx)) {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => self.held = data,
                        Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                    },
                    end => return Poll::Ready(end),
                }
            }
            let bytes = self.left_bytes.min(self.held.len() as u64);
            self.left_bytes -= bytes;
            // At most the length of `held`, a usize.
            return Poll::Ready(Some(Ok(Frame::data(self.held.split_to(bytes as usize)))));
        }
    }

    /// What happens at the byte. None: go on.
    fn act(&mut self, cx: &mut Context<'_>) -> Option<Poll<StdError>> {
        match std::mem::replace(&mut self.kind, BodyFaultKind::Over) {
            BodyFaultKind::Over => self.left_bytes = u64::MAX,
            BodyFaultKind::Stall { ms } => self.wait = Some(Box::pin(stall(ms, self.removed.clone()))),
            BodyFaultKind::Truncate => return Some(self.flush_then_break(None, cx)),
            BodyFaultKind::Reset(connection) => return Some(self.flush_then_break(Some(connection), cx)),
            BodyFaultKind::Breaking { reset: None } => return Some(Poll::Ready(Box::new(Truncated))),
            BodyFaultKind::Breaking { reset: Some(connection) } => {
                // The connection's task drops this body; nothing has to wake it.
                connection.reset();
                return Some(Poll::Pending);
            }
            BodyFaultKind::Trickle { .. } if self.removed.is_cancelled() => {}
            BodyFaultKind::Trickle { bytes_per_second } => {
                self.left_bytes = (bytes_per_second / TRICKLE_STEPS_PER_SECOND).max(1);
                let ms = (self.left_bytes * 1_000).div_ceil(bytes_per_second);
                self.wait = Some(Box::pin(stall(ms, self.removed.clone())));
                self.kind = BodyFaultKind::Trickle { bytes_per_second };
            }
        }
        None
    }

    /// Being pending once makes the connection flush what it was given.
    fn flush_then_break(&mut self, reset: Option<Arc<Connection>>, cx: &mut Context<'_>) -> Poll<StdError> {
        self.kind = BodyFaultKind::Breaking { reset };
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
