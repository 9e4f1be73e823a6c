//! `bandwidth`: passes at most `rate` KB a second, in pieces of at most 100 ms, on each connection or, if `shared`, on all
//! of them together, piece by piece in turn. Rate 0 is a stall: nothing passes and nothing is lost (P69).

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::{Attributes, Chunk, Event, Held, Output, SharedLine, Toxic, is_zero};

/// A chunk that takes longer than this goes in pieces.
const PIECE_MILLIS: i64 = 100;

/// Attributes of `bandwidth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Bandwidth {
    /// KB (1000 bytes) a second.
    pub rate: i64,
    /// Beyond Toxiproxy: 1 if all connections of the proxy share the rate; 0: each has its own. Shown only when set.
    #[serde(skip_serializing_if = "is_zero")]
    pub shared: i64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct BandwidthToxic {
    attributes: Bandwidth,
    held: Held,
    /// What is left of the chunk whose pieces are leaving.
    current: Option<Event>,
    /// When the line became free for the next piece: not when the timer fired, so its error does not add up.
    free_since: Duration,
    line: Arc<SharedLine>,
    /// When the next piece has crossed the shared line.
    booked: Option<Duration>,
}

impl BandwidthToxic {
    pub(super) fn new(attributes: Bandwidth, line: Arc<SharedLine>, now: Duration) -> Self {
        Self { attributes, held: Held::default(), current: None, free_since: now, line, booked: None }
    }

    fn is_shared(&self) -> bool {
        self.attributes.shared != 0
    }

    fn rate(&self) -> u64 {
        u64::try_from(self.attributes.rate).unwrap_or(0)
    }

    /// The largest piece, in bytes: `rate` KB/s is `rate` bytes a millisecond.
    fn piece_bytes(&self) -> usize {
        usize::try_from(self.attributes.rate.saturating_mul(PIECE_MILLIS)).unwrap_or(0)
    }

    /// How long the next piece takes; none if it never passes.
    fn piece_time(&self) -> Option<Duration> {
        let piece = self.current.as_ref()?.len().min(self.piece_bytes()) as u64;
        (piece * 1_000_000).checked_div(self.rate()).map(Duration::from_nanos)
    }

    /// Chooses the next piece, and books the shared line for it.
    fn next(&mut self) {
        if self.current.is_none() {
            self.current = self.held.pop();
        }
        let needs = self.piece_time().filter(|needs| self.is_shared() && !needs.is_zero());
        self.booked = needs.map(|needs| self.line.book(self.free_since, needs));
    }
}

impl Toxic for BandwidthToxic {
    fn on_event(&mut self, now: Duration, event: Event, out: &mut Output) {
        let is_idle = self.current.is_none();
        if is_idle {
            self.free_since = self.free_since.max(now);
        }
        if !event.is_empty() || self.current.is_some() {
            out.hold(&event);
        }
        self.held.push(event);
        if is_idle {
            self.next();
        }
        self.on_tick(now, out);
    }

    fn on_tick(&mut self, now: Duration, out: &mut Output) {
        while let Some(due) = self.deadline().filter(|due| *due <= now) {
            let piece_bytes = self.piece_bytes();
            let Some(event) = self.current.take() else { return };
            match event {
                Event::Chunk(Chunk { mut bytes, stamp }) => {
                    let piece = bytes.split_to(piece_bytes.min(bytes.len()));
                    if !bytes.is_empty() {
                        self.current = Some(Event::Chunk(Chunk { bytes, stamp }));
                    }
                    out.events.push(Event::Chunk(Chunk { bytes: piece, stamp }));
                    self.free_since = due;
                }
                other => out.events.push(other),
            }
            self.next();
        }
    }

    fn deadline(&self) -> Option<Duration> {
        if self.current.as_ref()?.is_empty() {
            return Some(Duration::ZERO);
        }
        if self.is_shared() { self.booked } else { Some(self.free_since.saturating_add(self.piece_time()?)) }
    }

    fn held_bytes(&self) -> usize {
        self.held.bytes + self.current.as_ref().map_or(0, Event::len)
    }

    fn update(&mut self, now: Duration, attributes: &Attributes) {
        if let Attributes::Bandwidth(attributes) = attributes {
            if self.is_shared() && self.attributes == *attributes {
                // What is booked stays booked.
                return;
            }
            self.attributes = *attributes;
            // Time spent under the old rate earns nothing under the new one.
            self.free_since = now;
            self.line.renew(now, self.attributes.rate);
            self.next();
        }
    }

    fn release(&mut self, _now: Duration, out: &mut Output) {
        out.events.extend(self.current.take());
        self.held.drain_into(out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::{chunk, feed, joined, ms, release, tick};
    use super::*;

    fn toxic(rate: i64) -> BandwidthToxic {
        BandwidthToxic::new(Bandwidth { rate, shared: 0 }, Arc::default(), Duration::ZERO)
    }

    /// Runs the toxic dry; answers with what left and when the last of it did.
    fn run_dry(toxic: &mut BandwidthToxic) -> (Vec<Event>, Duration) {
        let mut out = Output::default();
        let mut now = Duration::ZERO;
        while let Some(due) = toxic.deadline() {
            now = now.max(due);
            toxic.on_tick(now, &mut out);
        }
        (out.events, now)
    }

    #[test]
    fn a_large_write_takes_its_time_to_the_byte() {
        // P51: 480 KB at 1000 KB/s take 0.48 s.
        let mut toxic = toxic(1_000);
        let data: Vec<u8> = (0..480_000_u32).map(|n| n as u8).collect();
        let mut seen = Vec::new();
        for part in data.chunks(32 * 1024) {
            seen.extend(feed(&mut toxic, 0, chunk(0, part)));
        }
        assert_eq!(toxic.held_bytes() + joined(&seen).len(), data.len());
        let (rest, end) = run_dry(&mut toxic);
        seen.extend(rest);
        assert!(joined(&seen) == data);
        assert_eq!(end, ms(480));
        assert_eq!(toxic.held_bytes(), 0);
    }

    #[test]
    fn a_slow_line_passes_pieces_of_a_tenth_of_a_second() {
        let mut toxic = toxic(1);
        assert_eq!(feed(&mut toxic, 0, chunk(0, &[7; 250])), []);
        assert_eq!(tick(&mut toxic, 99), []);
        assert_eq!(tick(&mut toxic, 100), [chunk(0, &[7; 100])]);
        assert_eq!(tick(&mut toxic, 200), [chunk(0, &[7; 100])]);
        assert_eq!(tick(&mut toxic, 250), [chunk(0, &[7; 50])]);
    }

    #[test]
    fn late_timers_do_not_slow_the_line() {
        let mut toxic = toxic(1);
        assert_eq!(feed(&mut toxic, 0, chunk(0, &[7; 300])), []);
        // 50 ms late; the next piece is on time again.
        assert_eq!(tick(&mut toxic, 150).len(), 1);
        assert_eq!(tick(&mut toxic, 200).len(), 1);
    }

    #[test]
    fn rate_zero_stalls_without_loss() {
        // P69
        let mut toxic = toxic(0);
        assert_eq!(feed(&mut toxic, 0, chunk(0, b"abc")), []);
        assert_eq!(feed(&mut toxic, 0, Event::End), []);
        assert_eq!(toxic.deadline(), None);
        assert_eq!(tick(&mut toxic, 1_000_000), []);
        toxic.update(ms(1_000_000), &Attributes::Bandwidth(Bandwidth { rate: 1, shared: 0 }));
        assert_eq!(tick(&mut toxic, 1_000_002), [], "stalled time must earn nothing");
        assert_eq!(tick(&mut toxic, 1_000_003), [chunk(0, b"abc"), Event::End]);
    }

    #[test]
    fn idle_time_earns_nothing_and_removal_flushes() {
        let mut toxic = toxic(1);
        assert_eq!(feed(&mut toxic, 5_000, chunk(5_000, &[1; 10])), []);
        assert_eq!(tick(&mut toxic, 5_009), []);
        assert_eq!(release(&mut toxic, 5_009), [chunk(5_000, &[1; 10])]);
    }

    /// Two connections of a shared toxic.
    fn two_on_one_line(rate: i64) -> [BandwidthToxic; 2] {
        let line = Arc::new(SharedLine::default());
        [(); 2].map(|()| BandwidthToxic::new(Bandwidth { rate, shared: 1 }, Arc::clone(&line), Duration::ZERO))
    }

    /// Runs both dry in turn; how many bytes each has passed by each due time.
    fn passed(toxics: &mut [BandwidthToxic; 2]) -> Vec<(u128, usize, usize)> {
        let mut seen = [0, 0];
        let mut steps = vec![];
        while let Some(due) = toxics.iter().filter_map(BandwidthToxic::deadline).min() {
            for (toxic, seen) in toxics.iter_mut().zip(&mut seen) {
                let mut out = Output::default();
                toxic.on_tick(due, &mut out);
                *seen += joined(&out.events).len();
            }
            steps.push((due.as_millis(), seen[0], seen[1]));
        }
        steps
    }

    #[test]
    fn a_shared_line_passes_the_pieces_of_all_in_turn() {
        let mut toxics = two_on_one_line(1);
        for toxic in &mut toxics {
            assert_eq!(feed(toxic, 0, chunk(0, &[7; 200])), []);
        }
        assert_eq!(passed(&mut toxics), [(100, 100, 0), (200, 100, 100), (300, 200, 100), (400, 200, 200)]);
        // It is free again for one of them alone, and idle time has earned nothing.
        assert_eq!(feed(&mut toxics[1], 1_000, chunk(1_000, &[7; 100])), []);
        assert_eq!(passed(&mut toxics), [(1_100, 0, 100)]);
    }

    #[test]
    fn a_new_rate_of_a_shared_line_holds_at_once_and_for_all() {
        let mut toxics = two_on_one_line(0);
        for toxic in &mut toxics {
            assert_eq!(feed(toxic, 0, chunk(0, &[7; 100])), []);
        }
        assert_eq!(passed(&mut toxics), [], "a stall");
        for toxic in &mut toxics {
            toxic.update(ms(1_000), &Attributes::Bandwidth(Bandwidth { rate: 1, shared: 1 }));
        }
        assert_eq!(passed(&mut toxics), [(1_100, 100, 0), (1_200, 100, 100)]);
    }
}
