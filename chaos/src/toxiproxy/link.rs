//! One direction of one connection: one task that owns its chain.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::alarm::sleep_until;
use super::chain::Chain;
use super::effects::{Traffic, count};
use super::spec::ToxicList;
use super::stream::Stream;
use super::toxic::{Chunk, Event};

/// The largest chunk, in bytes; the size of Toxiproxy's copy buffer. 32 KiB.
const READ_CAP_BYTES: usize = 32 * 1024;

/// How long an orderly close waits for a sink that takes no bytes at all.
const CLOSE_STALL_LIMIT: Duration = Duration::from_secs(5);

/// Longer waits than this are cut up; it only keeps `Instant` from overflowing.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// How a link ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// The source has finished, and so has the sink been told: a half-close.
    Ended,
    /// Told to stop by the other link or by the proxy.
    Stopped,
    /// The connection is to be closed.
    Closed,
    /// The connection is to be reset.
    Reset,
}

/// See the module.
pub(crate) struct Link {
    pub(crate) stream: Stream,
    pub(crate) source: Arc<TcpStream>,
    pub(crate) sink: Arc<TcpStream>,
    pub(crate) chain: Chain,
    /// The proxy's toxics as they should be. A level, not a queue: however many changes come, none can pile up.
    pub(crate) wanted: watch::Receiver<Arc<ToxicList>>,
    /// The version of the list that is in effect here: the acknowledgement.
    pub(crate) applied: watch::Sender<u64>,
    /// Ends both links of the connection.
    pub(crate) stop: CancellationToken,
    pub(crate) idle: Arc<Idle>,
    pub(crate) traffic: Vec<Arc<Traffic>>,
    pub(crate) epoch: Instant,
}

/// Which links of a connection have nothing left to do: the source has finished, and the sink has been told, or is gone
/// itself, or a toxic keeps the end from it for good. If both have, nobody is left whom the connection could serve.
#[derive(Debug, Default)]
pub(crate) struct Idle([AtomicBool; 2]);

impl Idle {
    /// What is so of one link; answers whether it is so of both.
    fn both(&self, stream: Stream, idle: bool) -> bool {
        self.0[stream as usize].store(idle, SeqCst);
        self.0.iter().all(|idle| idle.load(SeqCst))
    }
}

enum Wake {
    Stop,
    Change,
    Writable,
    Due,
    Readable,
    SinkGone,
}

/// The ends of a link, as far as it has heard.
struct Ends {
    source_open: bool,
    sink_alive: bool,
}

impl Link {
    /// Runs until the direction has ended or the connection is to go. Never waits for one thing alone.
    pub(crate) async fn run(mut self) -> Outcome {
        let outcome = self.turn_until_done().await;
        if outcome > Outcome::Stopped {
            self.stop.cancel();
        }
        outcome
    }

    async fn turn_until_done(&mut self) -> Outcome {
        self.apply();
        let mut buffer = BytesMut::new();
        let mut ends = Ends { source_open: true, sink_alive: true };
        let mut last_progress = self.now();
        loop {
            match self.write_due(&mut last_progress) {
                Ok(None) => {}
                Ok(Some(Outcome::Ended)) if self.idle.both(self.stream, true) => return Outcome::Closed,
                Ok(Some(outcome)) => return outcome,
                Err(error) => {
                    tracing::debug!(stream = %self.stream, %error, "the sink is gone");
                    return Outcome::Closed;
                }
            }
            let now = self.now();
            let stall = self.chain.is_closing().then(|| last_progress + CLOSE_STALL_LIMIT);
            if stall.is_some_and(|limit| limit <= now) {
                return Outcome::Closed;
            }
            let idle = !ends.source_open && (!ends.sink_alive || self.chain.keeps_only_the_end());
            if self.idle.both(self.stream, idle) {
                return Outcome::Closed;
            }
            match self.wait(&ends, stall).await {
                Wake::Stop => return Outcome::Stopped,
                Wake::Change => self.apply(),
                Wake::Writable | Wake::Due => {}
                Wake::Readable => ends.source_open = self.read(&mut buffer),
                Wake::SinkGone => ends.sink_alive = false,
            }
            let now = self.now();
            self.chain.tick(now);
        }
    }

    async fn wait(&mut self, ends: &Ends, stall: Option<Duration>) -> Wake {
        let may_read = ends.source_open && self.chain.has_room();
        let due = self.chain.deadline().into_iter().chain(stall).min();
        let due = due.map(|due| self.epoch + due.min(self.now() + LONGEST_WAIT));
        let may_write = self.chain.front().is_some();
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Wake::Stop,
            changed = self.wanted.changed() => if changed.is_ok() { Wake::Change } else { Wake::Stop },
            // An error shows again when writing or reading.
            _ = self.sink.writable(), if may_write => Wake::Writable,
            () = sleep_until(due.unwrap_or(self.epoch).into_std()), if due.is_some() => Wake::Due,
            _ = self.source.readable(), if may_read => Wake::Readable,
            // With something to write, writing finds out.
            _ = self.sink.ready(Interest::ERROR), if ends.sink_alive && !may_write => Wake::SinkGone,
        }
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    fn apply(&mut self) {
        let now = self.now();
        let wanted = Arc::clone(&self.wanted.borrow_and_update());
        self.chain.reconcile(now, wanted.on(self.stream));
        self.applied.send_replace(wanted.version);
    }

    /// Writes what is due for as long as the sink takes it.
    fn write_due(&mut self, last_progress: &mut Duration) -> io::Result<Option<Outcome>> {
        loop {
            let chunk = match self.chain.front() {
                None => {
                    *last_progress = self.now();
                    return Ok(None);
                }
                Some(Event::End) => return Ok(Some(self.half_close())),
                Some(Event::Close) => return Ok(Some(Outcome::Closed)),
                Some(Event::Reset) => return Ok(Some(Outcome::Reset)),
                Some(Event::Chunk(chunk)) => chunk,
            };
            match self.sink.try_write(&chunk.bytes) {
                Ok(written) => {
                    self.chain.advance(written);
                    for traffic in &self.traffic {
                        count(&traffic.sent_bytes, written as u64);
                    }
                    *last_progress = self.now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads one chunk; `false` once the source has finished.
    fn read(&mut self, buffer: &mut BytesMut) -> bool {
        buffer.reserve(READ_CAP_BYTES);
        let result = self.source.try_read_buf(&mut (&mut *buffer).limit(READ_CAP_BYTES));
        let now = self.now();
        match result {
            Ok(0) => {
                self.chain.push(now, Event::End);
                false
            }
            Ok(read) => {
                for traffic in &self.traffic {
                    count(&traffic.received_bytes, read as u64);
                }
                let bytes = buffer.split().freeze();
                self.chain.push(now, Event::Chunk(Chunk { bytes, stamp: now }));
                true
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => true,
            Err(error) => {
                tracing::debug!(stream = %self.stream, %error, "the source is gone");
                self.chain.push(now, Event::Close);
                false
            }
        }
    }

    /// Passes the end on in this direction only (P72): the answer can still come back.
    fn half_close(&self) -> Outcome {
        // Fails if the peer is gone already, which is what it should hear of.
        let _ = socket2::SockRef::from(&*self.sink).shutdown(std::net::Shutdown::Write);
        Outcome::Ended
    }
}
