//! `reset_peer`: at the first byte or close, waits `timeout`, then resets the connection on both sides.
//!
//! Works on connections that were open before it came and leaves nothing behind (P71). What arrives during the wait is
//! held, so removing the toxic in time lets the connection go on unharmed.

use std::time::Duration;

use serde::Serialize;

use super::{Attributes, Event, Held, Output, Toxic, millis};

/// Attributes of `reset_peer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ResetPeer {
    /// Milliseconds.
    pub timeout: i64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct ResetPeerToxic {
    attributes: ResetPeer,
    triggered: Option<Duration>,
    held: Held,
}

impl ResetPeerToxic {
    pub(super) fn new(attributes: ResetPeer) -> Self {
        Self { attributes, triggered: None, held: Held::default() }
    }
}

impl Toxic for ResetPeerToxic {
    fn on_event(&mut self, now: Duration, event: Event, out: &mut Output) {
        self.triggered.get_or_insert(now);
        out.hold(&event);
        self.held.push(event);
        self.on_tick(now, out);
    }

    fn on_tick(&mut self, now: Duration, out: &mut Output) {
        if self.deadline().is_some_and(|due| due <= now) {
            out.dropped_bytes += self.held.bytes as u64;
            self.held = Held::default();
            self.triggered = None;
            out.act(Event::Reset);
        }
    }

    fn deadline(&self) -> Option<Duration> {
        self.triggered.map(|since| since.saturating_add(millis(self.attributes.timeout)))
    }

    fn held_bytes(&self) -> usize {
        self.held.bytes
    }

    fn update(&mut self, _now: Duration, attributes: &Attributes) {
        if let Attributes::ResetPeer(attributes) = attributes {
            self.attributes = *attributes;
        }
    }

    fn release(&mut self, _now: Duration, out: &mut Output) {
        self.triggered = None;
        self.held.drain_into(out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::{chunk, feed, release, tick};
    use super::*;

    #[test]
    fn the_first_byte_or_close_resets() {
        // P53
        let mut toxic = ResetPeerToxic::new(ResetPeer { timeout: 0 });
        assert_eq!(tick(&mut toxic, 1_000), []);
        assert_eq!(feed(&mut toxic, 1_000, chunk(1_000, b"a")), [Event::Reset]);
        let mut toxic = ResetPeerToxic::new(ResetPeer { timeout: 0 });
        assert_eq!(feed(&mut toxic, 0, Event::End), [Event::Reset]);
    }

    #[test]
    fn the_wait_counts_from_the_first_byte() {
        // P53
        let mut toxic = ResetPeerToxic::new(ResetPeer { timeout: 10 });
        assert_eq!(feed(&mut toxic, 5, chunk(5, b"a")), []);
        assert_eq!(feed(&mut toxic, 9, chunk(9, b"b")), []);
        assert_eq!(tick(&mut toxic, 14), []);
        assert_eq!(tick(&mut toxic, 15), [Event::Reset]);
    }

    #[test]
    fn removal_in_time_spares_the_connection() {
        // P71
        let mut toxic = ResetPeerToxic::new(ResetPeer { timeout: 1_000 });
        assert_eq!(feed(&mut toxic, 0, chunk(0, b"a")), []);
        assert_eq!(release(&mut toxic, 1), [chunk(0, b"a")]);
        assert_eq!(toxic.deadline(), None);
    }
}
