//! Bodies that count what passes, on the way in and on the way out.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use s3s::StdError;

use crate::effects::BodyFault;
use crate::ledger::{RequestProgress, Ticket};

/// A request's body; adds what is read from it to the ledger entry.
pub(crate) struct RequestBody {
    /// None once it ended, or broke off.
    inner: Option<Incoming>,
    progress: Arc<RequestProgress>,
    unread: Unread,
}

/// Where a body goes that was dropped before its end.
#[derive(Clone, Default)]
pub(crate) struct Unread(Arc<Mutex<Option<Rest>>>);

type Rest = (Incoming, Arc<RequestProgress>);

impl RequestBody {
    pub(crate) fn new(inner: Incoming, progress: Arc<RequestProgress>, unread: Unread) -> Self {
        let inner = (!inner.is_end_stream()).then_some(inner);
        Self { inner, progress, unread }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            *self.unread.lock() = Some((inner, Arc::clone(&self.progress)));
        }
    }
}

impl Unread {
    fn lock(&self) -> MutexGuard<'_, Option<Rest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads and forgets the rest of an upload that nobody wanted to its end: a client that is still sending would not
    /// see the answer but a reset, and one that keeps the connection would lose its next request. What it does wrong
    /// meanwhile is its own affair.
    pub(crate) async fn drain(&self, limit: Duration) {
        let Some((inner, progress)) = self.lock().take() else { return };
        let mut rest = RequestBody::new(inner, progress, Self::default());
        let end = async { while let Some(Ok(_)) = rest.frame().await {} };
        // Who is slower than this finds the connection closed.
        let _ = tokio::time::timeout(limit, end).await;
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(inner).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => self.progress.add_bytes(frame.data_ref().map_or(0, |data| data.len() as u64)),
            Some(Err(_)) => {
                self.inner = None;
                self.progress.broke_off();
            }
            None => self.inner = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

/// An answer's body; holds the request's ledger entry open until the last byte is handed over. Faults that act in the
/// middle of a body act here.
pub(crate) struct ResponseBody {
    inner: s3s::Body,
    ticket: Option<Ticket>,
    fault: Option<BodyFault>,
}

impl ResponseBody {
    /// `sends_body` is false where HTTP sends none whatever it is (HEAD, 204, 304): the entry ends at once.
    pub(crate) fn new(inner: s3s::Body, ticket: Ticket, sends_body: bool, fault: Option<BodyFault>) -> Self {
        let mut body = Self { inner, ticket: Some(ticket), fault };
        if !sends_body || body.inner.is_end_stream() {
            body.answered();
        }
        body
    }

    fn answered(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.answered();
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = &mut *self;
        let frame = match &mut this.fault {
            None => ready!(Pin::new(&mut this.inner).poll_frame(cx)),
            Some(fault) => ready!(fault.poll_frame(Pin::new(&mut this.inner), &mut this.ticket, cx)),
        };
        match &frame {
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                if let Some(ticket) = &mut this.ticket {
                    ticket.add_response_bytes(bytes);
                }
                // The connection does not poll again once this is so.
                if this.is_end_stream() {
                    this.answered();
                }
            }
            None => this.answered(),
            Some(Err(_)) => {
                if let Some(mut ticket) = this.ticket.take() {
                    ticket.server_cuts();
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream() && self.fault.as_ref().is_none_or(BodyFault::holds_nothing)
    }

    fn size_hint(&self) -> SizeHint {
        // With a fault the inner body may be ahead of what was sent, but the connection asks before the first frame.
        self.inner.size_hint()
    }
}
