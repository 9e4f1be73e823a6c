//! Connections to the API that keep us waiting are closed after a time, as Go's server does: each of them is a
//! descriptor, and somebody who never says a word could otherwise take them all.

use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::toxiproxy::proxy::lock;
use crate::toxiproxy::server::ApiLimits;

/// What a connection waits for.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The rest of a request, or the first one, since then.
    Head(Instant),
    /// Its handler, which has limits of its own.
    Handler,
    /// Another request, since then.
    Idle(Instant),
}

/// What the handlers and the socket of one connection tell each other.
#[derive(Debug, Clone)]
pub(crate) struct Pace(Arc<Mutex<Phase>>);

/// A handler is at work, until this is dropped.
pub(super) struct AtWork(Pace);

impl Pace {
    /// Until this is dropped, no limit of the connection counts.
    pub(super) fn at_work(&self) -> AtWork {
        *lock(&self.0) = Phase::Handler;
        AtWork(self.clone())
    }

    fn heard_something(&self) {
        let mut phase = lock(&self.0);
        if matches!(*phase, Phase::Idle(_)) {
            *phase = Phase::Head(Instant::now());
        }
    }

    fn deadline(&self, limits: &ApiLimits) -> Option<Instant> {
        match *lock(&self.0) {
            Phase::Head(since) => Some(since + limits.read),
            Phase::Handler => None,
            Phase::Idle(since) => Some(since + limits.idle),
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        *lock(&self.0.0) = Phase::Idle(Instant::now());
    }
}

/// Accepts connections whose patience has an end.
pub(crate) struct PacedListener {
    pub(crate) listener: TcpListener,
    pub(crate) limits: ApiLimits,
}

impl Listener for PacedListener {
    type Io = PacedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (PacedStream, SocketAddr) {
        let (stream, from) = Listener::accept(&mut self.listener).await;
        // Refused only by a socket that is dead already.
        let _ = stream.set_nodelay(true);
        let pace = Pace(Arc::new(Mutex::new(Phase::Head(Instant::now()))));
        (PacedStream { stream, pace, limits: self.limits, read_alarm: None, write_alarm: None }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection to the API.
pub(crate) struct PacedStream {
    stream: TcpStream,
    pace: Pace,
    limits: ApiLimits,
    read_alarm: Option<Pin<Box<Sleep>>>,
    write_alarm: Option<Pin<Box<Sleep>>>,
}

impl Connected<IncomingStream<'_, PacedListener>> for Pace {
    fn connect_info(stream: IncomingStream<'_, PacedListener>) -> Self {
        stream.io().pace.clone()
    }
}

impl PacedStream {
    /// The result of writing, or an error once the peer has taken nothing for too long.
    fn in_time<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_alarm = None;
            return written;
        }
        let limit = self.limits.write;
        let alarm = self.write_alarm.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
        alarm.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for PacedStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if read.is_ready() {
            this.pace.heard_something();
            return read;
        }
        let Some(deadline) = this.pace.deadline(&this.limits) else { return Poll::Pending };
        let alarm = this.read_alarm.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if alarm.deadline() != deadline {
            alarm.as_mut().reset(deadline);
        }
        // Too late: the end, without another word.
        alarm.as_mut().poll(context).map(Ok)
    }
}

impl AsyncWrite for PacedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.in_time(written, context)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
