//! Toxics as pure steps: time and chance come in as arguments, so the same code runs on sockets and in simulation.
//!
//! # Layout
//!
//! One toxic a file. `attributes` names them all; this file holds what they share.

pub mod attributes;
mod bandwidth;
mod connect;
mod hold;
mod latency;
mod limit_data;
mod limit_time;
mod line;
mod noop;
mod reset_peer;
mod slicer;
mod slow_close;
mod timeout;

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

pub use attributes::Attributes;
pub use line::SharedLine;

/// What an ordinary toxic may hold back, in bytes, before its link stops reading. 1 MiB.
pub const QUEUE_CAP_BYTES: usize = 1 << 20;

/// Bytes of one read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The bytes; never empty.
    pub bytes: Bytes,
    /// When they were read, plus the delays that latency toxics have already imposed.
    pub stamp: Duration,
}

/// What passes through a chain, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Some bytes.
    Chunk(Chunk),
    /// The source has finished writing; to be forwarded as a half-close. Nothing follows.
    End,
    /// The whole connection is to be closed once everything before it is written. Nothing follows.
    Close,
    /// The whole connection is to be reset at once. Nothing follows.
    Reset,
}

impl Event {
    /// How many bytes it carries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Event::Chunk(chunk) => chunk.bytes.len(),
            Event::End | Event::Close | Event::Reset => 0,
        }
    }

    /// Whether it carries no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What leaves a toxic in one step, and what it did in it.
#[derive(Debug, Default)]
pub struct Output {
    /// For the next toxic, in order.
    pub events: Vec<Event>,
    /// The connection felt the toxic in this step.
    pub acted: bool,
    /// Bytes newly held back.
    pub held_bytes: u64,
    /// Bytes that will never arrive.
    pub dropped_bytes: u64,
}

impl Output {
    /// Counts an event that is being held back.
    fn hold(&mut self, event: &Event) {
        self.acted = true;
        self.held_bytes += event.len() as u64;
    }

    /// Counts an event that is thrown away.
    fn drop(&mut self, event: &Event) {
        self.acted = true;
        self.dropped_bytes += event.len() as u64;
    }

    /// Lets an event of the toxic's own making out.
    fn act(&mut self, event: Event) {
        self.acted = true;
        self.events.push(event);
    }
}

/// One toxic on one direction of one connection.
///
/// Times are since an epoch of the caller's choosing and never run backwards. A toxic that holds an event back names
/// the moment at which it wants to be called again.
pub trait Toxic: fmt::Debug + Send {
    /// The toxic begins to act on this connection.
    fn start(&mut self, _now: Duration) {}

    /// Something arrives.
    fn on_event(&mut self, now: Duration, event: Event, out: &mut Output);

    /// Time has passed; may be called at any moment.
    fn on_tick(&mut self, _now: Duration, _out: &mut Output) {}

    /// When [`Toxic::on_tick`] has work next.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Bytes held back at the moment.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Bytes it may hold before the link stops reading. A single step may go above it.
    fn cap_bytes(&self) -> usize {
        QUEUE_CAP_BYTES
    }

    /// New attributes of the same type. Held events stay held, under the new rule.
    fn update(&mut self, now: Duration, attributes: &Attributes);

    /// The toxic ceases to act: everything held leaves at once, in order. A toxic that has lost bytes closes the
    /// connection instead, because a gap in a TCP stream is corruption.
    fn release(&mut self, now: Duration, out: &mut Output);
}

/// Events in order, with their bytes counted.
#[derive(Debug, Default)]
struct Held {
    events: VecDeque<Event>,
    bytes: usize,
}

impl Held {
    fn push(&mut self, event: Event) {
        self.bytes += event.len();
        self.events.push_back(event);
    }

    fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes -= event.len();
        Some(event)
    }

    fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    fn drain_into(&mut self, out: &mut Output) {
        self.bytes = 0;
        out.events.extend(self.events.drain(..));
    }
}

fn millis(value: i64) -> Duration {
    // Attributes below zero are refused before they get here.
    Duration::from_millis(u64::try_from(value).unwrap_or(0))
}

/// Whether an attribute beyond Toxiproxy is not used.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

#[cfg(test)]
pub(crate) mod probe {
    //! What the tests of the toxics share.

    use super::*;

    pub(crate) const fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    pub(crate) fn chunk(at: u64, bytes: &[u8]) -> Event {
        Event::Chunk(Chunk { bytes: Bytes::copy_from_slice(bytes), stamp: ms(at) })
    }

    /// One event at `at` milliseconds, and what came out.
    pub(crate) fn feed(toxic: &mut dyn Toxic, at: u64, event: Event) -> Vec<Event> {
        let mut out = Output::default();
        toxic.on_event(ms(at), event, &mut out);
        out.events
    }

    /// Time up to `at` milliseconds, and what came out.
    pub(crate) fn tick(toxic: &mut dyn Toxic, at: u64) -> Vec<Event> {
        let mut out = Output::default();
        toxic.on_tick(ms(at), &mut out);
        out.events
    }

    pub(crate) fn release(toxic: &mut dyn Toxic, at: u64) -> Vec<Event> {
        let mut out = Output::default();
        toxic.release(ms(at), &mut out);
        out.events
    }

    /// The bytes in a list of events, joined.
    pub(crate) fn joined(events: &[Event]) -> Vec<u8> {
        let mut all = Vec::new();
        for event in events {
            if let Event::Chunk(chunk) = event {
                all.extend_from_slice(&chunk.bytes);
            }
        }
        all
    }
}
