//! `latency`: every chunk leaves `latency` ± `jitter` after it was read. Chunks overlap, so throughput is kept.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

use super::{Attributes, Chunk, Event, Output, Toxic};
use crate::toxiproxy::random::Draws;

/// What one latency toxic may hold, in bytes. 32 MiB, as in Toxiproxy (1024 chunks of 32 KiB): with less, the delay
/// would limit throughput, and 100 MB/s under 100 ms (P50) already needs 10 MB in flight.
const LATENCY_CAP_BYTES: usize = 32 << 20;

/// Attributes of `latency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Latency {
    /// Milliseconds.
    pub latency: i64,
    /// Milliseconds; uniform on `[-jitter, +jitter)`, drawn once per chunk. Order is kept.
    pub jitter: i64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct LatencyToxic {
    attributes: Latency,
    draws: Draws,
    chunks: u64,
    /// Each with its place in the jitter range, in `[-1, 1)`: a changed `jitter` then moves held chunks too.
    queue: VecDeque<(Event, f64)>,
    held_bytes: usize,
}

impl LatencyToxic {
    pub(super) fn new(attributes: Latency, draws: Draws) -> Self {
        Self { attributes, draws, chunks: 0, queue: VecDeque::new(), held_bytes: 0 }
    }

    fn due(&self, event: &Event, place: f64) -> Duration {
        match event {
            Event::Chunk(chunk) => chunk.stamp.saturating_add(self.delay(place)),
            // A close is not delayed for itself: it only stays behind the bytes before it.
            Event::End | Event::Close | Event::Reset => Duration::ZERO,
        }
    }

    fn delay(&self, place: f64) -> Duration {
        let millis = self.attributes.latency as f64 + self.attributes.jitter as f64 * place;
        Duration::from_micros((millis.max(0.0) * 1_000.0) as u64)
    }
}

impl Toxic for LatencyToxic {
    fn on_event(&mut self, now: Duration, event: Event, out: &mut Output) {
        let mut place = 0.0;
        if let Event::Chunk(_) = &event {
            place = self.draws.chunk(self.chunks).unit() * 2.0 - 1.0;
            self.chunks += 1;
        }
        if !self.queue.is_empty() || self.due(&event, place) > now {
            out.hold(&event);
        }
        self.held_bytes += event.len();
        self.queue.push_back((event, place));
        self.on_tick(now, out);
    }

    fn on_tick(&mut self, now: Duration, out: &mut Output) {
        while self.deadline().is_some_and(|due| due <= now) {
            let Some((event, place)) = self.queue.pop_front() else { return };
            self.held_bytes -= event.len();
            out.events.push(match event {
                // The delay counts as travelled, so that a second latency toxic adds its own in full.
                Event::Chunk(Chunk { bytes, stamp }) => {
                    Event::Chunk(Chunk { bytes, stamp: stamp.saturating_add(self.delay(place)) })
                }
                other => other,
            });
        }
    }

    fn deadline(&self) -> Option<Duration> {
        self.queue.front().map(|(event, place)| self.due(event, *place))
    }

    fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    fn cap_bytes(&self) -> usize {
        LATENCY_CAP_BYTES
    }

    fn update(&mut self, _now: Duration, attributes: &Attributes) {
        if let Attributes::Latency(attributes) = attributes {
            self.attributes = *attributes;
        }
    }

    fn release(&mut self, _now: Duration, out: &mut Output) {
        self.held_bytes = 0;
        out.events.extend(self.queue.drain(..).map(|(event, _)| event));
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::{chunk, feed, joined, ms, release, tick};
    use super::*;

    fn toxic(latency: i64, jitter: i64) -> LatencyToxic {
        LatencyToxic::new(Latency { latency, jitter }, Draws::new(1, "p", 1, "latency"))
    }

    #[test]
    fn a_chunk_waits_from_its_arrival_and_chunks_overlap() {
        let mut toxic = toxic(100, 0);
        assert_eq!(feed(&mut toxic, 0, chunk(0, b"a")), []);
        assert_eq!(feed(&mut toxic, 60, chunk(50, b"b")), []);
        assert_eq!(tick(&mut toxic, 99), []);
        assert_eq!(tick(&mut toxic, 100), [chunk(100, b"a")]);
        assert_eq!(toxic.deadline(), Some(ms(150)));
        assert_eq!(tick(&mut toxic, 150), [chunk(150, b"b")]);
    }

    #[test]
    fn no_latency_passes_at_once_and_a_close_stays_behind() {
        let mut instant = toxic(0, 0);
        assert_eq!(feed(&mut instant, 7, chunk(7, b"a")), [chunk(7, b"a")]);
        let mut slow = toxic(10, 0);
        assert_eq!(feed(&mut slow, 0, chunk(0, b"a")), []);
        assert_eq!(feed(&mut slow, 1, Event::End), []);
        assert_eq!(tick(&mut slow, 10), [chunk(10, b"a"), Event::End]);
    }

    #[test]
    fn jitter_stays_in_its_range_and_keeps_the_order() {
        let mut toxic = toxic(100, 40);
        let mut seen = Vec::new();
        for index in 0..200_u8 {
            let at = u64::from(index) * 1_000;
            assert_eq!(feed(&mut toxic, at, chunk(at, &[index])), []);
            assert_eq!(tick(&mut toxic, at + 59), [], "chunk {index} left early");
            seen.extend(tick(&mut toxic, at + 140));
        }
        assert_eq!(joined(&seen), (0..200).collect::<Vec<u8>>());
    }

    #[test]
    fn jitter_above_latency_means_no_wait_rather_than_underflow() {
        let mut toxic = toxic(1, 1_000);
        let mut at_once = 0;
        for index in 0..100_u64 {
            at_once += feed(&mut toxic, index * 10_000, chunk(index * 10_000, b"x")).len();
            let _ = tick(&mut toxic, index * 10_000 + 9_999);
        }
        assert!((30..=70).contains(&at_once), "{at_once} of 100 passed at once");
    }

    #[test]
    fn removal_and_update_lose_nothing() {
        let mut toxic = toxic(10_000, 0);
        assert_eq!(feed(&mut toxic, 0, chunk(0, b"a")), []);
        toxic.update(ms(1), &Attributes::Latency(Latency { latency: 5, jitter: 0 }));
        assert_eq!(tick(&mut toxic, 5), [chunk(5, b"a")]);
        assert_eq!(feed(&mut toxic, 6, chunk(6, b"b")), []);
        assert_eq!(release(&mut toxic, 7), [chunk(6, b"b")]);
        assert_eq!(toxic.held_bytes(), 0);
    }
}
