//! `timeout`: swallows all bytes. With a time it closes the connection after that long without bytes; with 0 it never
//! does. Removing it closes the connection, because bytes were lost, and so does the end of the source after bytes.

use std::time::Duration;

use serde::Serialize;

use super::{Attributes, Event, Output, Toxic, is_zero, millis};

/// Attributes of `timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Timeout {
    /// Milliseconds since the last byte (P70); 0: never.
    pub timeout: i64,
    /// Beyond Toxiproxy: milliseconds since the toxic began to act on the connection, whatever the traffic; 0: never.
    /// Shown only when set.
    #[serde(skip_serializing_if = "is_zero")]
    pub deadline: i64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct TimeoutToxic {
    attributes: Timeout,
    began: Duration,
    quiet_since: Duration,
    has_lost_bytes: bool,
}

impl TimeoutToxic {
    pub(super) fn new(attributes: Timeout, now: Duration) -> Self {
        Self { attributes, began: now, quiet_since: now, has_lost_bytes: false }
    }
}

impl Toxic for TimeoutToxic {
    fn start(&mut self, now: Duration) {
        self.began = now;
        self.quiet_since = now;
    }

    fn on_event(&mut self, now: Duration, event: Event, out: &mut Output) {
        match event {
            Event::Chunk(_) => {
                out.drop(&event);
                self.quiet_since = now;
                self.has_lost_bytes = true;
            }
            // As with Toxiproxy, the other side hears of it: a connection without its peer is of no use to anybody.
            Event::End if self.has_lost_bytes => out.act(Event::Close),
            end => out.events.push(end),
        }
    }

    fn on_tick(&mut self, now: Duration, out: &mut Output) {
        if self.deadline().is_some_and(|due| due <= now) {
            out.act(Event::Close);
        }
    }

    fn deadline(&self) -> Option<Duration> {
        let quiet =
            (self.attributes.timeout > 0).then(|| self.quiet_since.saturating_add(millis(self.attributes.timeout)));
        let total = (self.attributes.deadline > 0).then(|| self.began.saturating_add(millis(self.attributes.deadline)));
        quiet.into_iter().chain(total).min()
    }

    fn update(&mut self, now: Duration, attributes: &Attributes) {
        if let Attributes::Timeout(attributes) = attributes {
            self.attributes = *attributes;
            self.quiet_since = now;
        }
    }

    fn release(&mut self, _now: Duration, out: &mut Output) {
        out.act(Event::Close);
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::{chunk, feed, ms, release, tick};
    use super::*;

    fn toxic(timeout: i64, deadline: i64) -> TimeoutToxic {
        TimeoutToxic::new(Timeout { timeout, deadline }, Duration::ZERO)
    }

    #[test]
    fn each_byte_sets_the_timer_anew() {
        // P70
        let mut toxic = toxic(100, 0);
        assert_eq!(feed(&mut toxic, 90, chunk(90, b"a")), []);
        assert_eq!(tick(&mut toxic, 189), []);
        assert_eq!(tick(&mut toxic, 190), [Event::Close]);
    }

    #[test]
    fn a_deadline_ignores_traffic() {
        // P70
        let mut toxic = toxic(0, 100);
        assert_eq!(feed(&mut toxic, 99, chunk(99, b"a")), []);
        assert_eq!(tick(&mut toxic, 100), [Event::Close]);
    }

    #[test]
    fn zero_is_a_black_hole_and_removal_closes() {
        let mut toxic = toxic(0, 0);
        let mut out = Output::default();
        toxic.on_event(ms(1), chunk(1, b"abc"), &mut out);
        toxic.on_tick(ms(1_000_000), &mut out);
        assert_eq!((out.events.len(), out.dropped_bytes, toxic.deadline()), (0, 3, None));
        assert_eq!(release(&mut toxic, 3), [Event::Close]);
    }

    #[test]
    fn the_end_of_the_source_ends_the_connection() {
        assert_eq!(feed(&mut toxic(0, 0), 1, Event::End), [Event::End], "nothing was lost");
        let mut lossy = toxic(0, 0);
        assert_eq!(feed(&mut lossy, 1, chunk(1, b"abc")), []);
        assert_eq!(feed(&mut lossy, 2, Event::End), [Event::Close]);
        assert_eq!(feed(&mut toxic(0, 0), 1, Event::Close), [Event::Close], "the source is gone");
    }
}
