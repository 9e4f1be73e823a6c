//! `bandwidth`: passes at most `rate` KB a second, in pieces of at most 100 ms. Rate 0 is a stall: nothing passes and
//! nothing is lost (P69).

use std::time::Duration;

use serde::Serialize;

use super::{Attributes, Chunk, Event, Held, Output, Toxic};

/// A chunk that takes longer than this goes in pieces.
const PIECE_MILLIS: i64 = 100;

/// Attributes of `bandwidth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Bandwidth {
    /// KB (1000 bytes) a second.
    pub rate: i64,
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
}

impl BandwidthToxic {
    pub(super) fn new(attributes: Bandwidth, now: Duration) -> Self {
        Self { attributes, held: Held::default(), current: None, free_since: now }
    }

    fn rate(&self) -> u64 {
        u64::try_from(self.attributes.rate).unwrap_or(0)
    }

    /// The largest piece, in bytes: `rate` KB/s is `rate` bytes a millisecond.
    fn piece_bytes(&self) -> usize {
        usize::try_from(self.attributes.rate.saturating_mul(PIECE_MILLIS)).unwrap_or(0)
    }

    fn next(&mut self) {
        if self.current.is_none() {
            self.current = self.held.pop();
        }
    }
}

impl Toxic for BandwidthToxic {
    fn on_event(&mut self, now: Duration, event: Event, out: &mut Output) {
        if self.current.is_none() {
            self.free_since = self.free_since.max(now);
        }
        if !event.is_empty() || self.current.is_some() {
            out.hold(&event);
        }
        self.held.push(event);
        self.next();
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
        let length = self.current.as_ref()?.len();
        if length == 0 {
            return Some(Duration::ZERO);
        }
        let piece = length.min(self.piece_bytes()) as u64;
        // Rate 0: never.
        let nanos = (piece * 1_000_000).checked_div(self.rate())?;
        Some(self.free_since.saturating_add(Duration::from_nanos(nanos)))
    }

    fn held_bytes(&self) -> usize {
        self.held.bytes + self.current.as_ref().map_or(0, Event::len)
    }

    fn update(&mut self, now: Duration, attributes: &Attributes) {
        if let Attributes::Bandwidth(attributes) = attributes {
            self.attributes = *attributes;
            // Time spent under the old rate earns nothing under the new one.
            self.free_since = now;
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
        BandwidthToxic::new(Bandwidth { rate }, Duration::ZERO)
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
        toxic.update(ms(1_000_000), &Attributes::Bandwidth(Bandwidth { rate: 1 }));
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
}
