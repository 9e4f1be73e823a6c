//! `slicer`: cuts chunks into pieces of about `average_size`, with a pause after each.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::{Attributes, Chunk, Event, Held, Output, Toxic};
use crate::toxiproxy::random::{Draws, Numbers};

/// Attributes of `slicer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Slicer {
    /// Bytes; at least 1.
    pub average_size: i64,
    /// Bytes; below `average_size`.
    pub size_variation: i64,
    /// **Micro**seconds after each piece.
    pub delay: i64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct SlicerToxic {
    attributes: Slicer,
    draws: Draws,
    chunks: u64,
    held: Held,
    /// When the next piece may leave: a timer that fires late does not push the later pieces back.
    free_at: Duration,
}

impl SlicerToxic {
    pub(super) fn new(attributes: Slicer, draws: Draws) -> Self {
        Self { attributes, draws, chunks: 0, held: Held::default(), free_at: Duration::ZERO }
    }

    fn pause(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.attributes.delay).unwrap_or(0))
    }
}

/// Cuts at random points near the middle until every piece is small enough. `variation` must be below `average`: then
/// no piece is empty and the depth is logarithmic.
fn cut(bytes: Bytes, average: usize, variation: usize, numbers: &mut Numbers, pieces: &mut Vec<Bytes>) {
    if bytes.len() <= average.saturating_add(variation) || bytes.len() < 2 {
        pieces.push(bytes);
        return;
    }
    // `middle` in [half - variation, half + variation)
    let shift = numbers.below(variation as u64 * 2) as usize;
    let middle = (bytes.len() / 2 + shift).saturating_sub(variation).clamp(1, bytes.len() - 1);
    let right = bytes.slice(middle..);
    cut(bytes.slice(..middle), average, variation, numbers, pieces);
    cut(right, average, variation, numbers, pieces);
}

impl Toxic for SlicerToxic {
    fn on_event(&mut self, now: Duration, event: Event, out: &mut Output) {
        if self.held.is_empty() {
            self.free_at = self.free_at.max(now);
        }
        match event {
            Event::Chunk(Chunk { bytes, stamp }) => {
                let mut numbers = self.draws.chunk(self.chunks);
                self.chunks += 1;
                let average = usize::try_from(self.attributes.average_size).unwrap_or(0).max(1);
                let variation = usize::try_from(self.attributes.size_variation).unwrap_or(0).min(average - 1);
                let mut pieces = Vec::new();
                cut(bytes, average, variation, &mut numbers, &mut pieces);
                for bytes in pieces {
                    let piece = Event::Chunk(Chunk { bytes, stamp });
                    out.hold(&piece);
                    self.held.push(piece);
                }
            }
            other => self.held.push(other),
        }
        self.on_tick(now, out);
    }

    fn on_tick(&mut self, now: Duration, out: &mut Output) {
        while self.deadline().is_some_and(|due| due <= now) {
            let Some(event) = self.held.pop() else { return };
            if !event.is_empty() {
                self.free_at = self.free_at.saturating_add(self.pause());
            }
            out.events.push(event);
        }
    }

    fn deadline(&self) -> Option<Duration> {
        (!self.held.is_empty()).then_some(self.free_at)
    }

    fn held_bytes(&self) -> usize {
        self.held.bytes
    }

    fn update(&mut self, now: Duration, attributes: &Attributes) {
        if let Attributes::Slicer(attributes) = attributes {
            self.attributes = *attributes;
            self.free_at = self.free_at.min(now);
        }
    }

    fn release(&mut self, _now: Duration, out: &mut Output) {
        self.held.drain_into(out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::probe::{chunk, feed, joined, release, tick};
    use super::*;

    fn toxic(average_size: i64, size_variation: i64, delay: i64) -> SlicerToxic {
        SlicerToxic::new(Slicer { average_size, size_variation, delay }, Draws::new(1, "p", 1, "slicer"))
    }

    #[test]
    fn pieces_are_about_as_many_as_asked() {
        // P54: 1024 ± 512 on 480 KB: 240 to 720 pieces.
        let mut toxic = toxic(1_024, 512, 0);
        let data: Vec<u8> = (0..480 * 1024_u32).map(|n| (n / 7) as u8).collect();
        let mut seen = Vec::new();
        for part in data.chunks(32 * 1024) {
            seen.extend(feed(&mut toxic, 0, chunk(0, part)));
        }
        assert!((240..=720).contains(&seen.len()), "{} pieces", seen.len());
        assert!(joined(&seen) == data);
    }

    #[test]
    fn two_chunks_are_cut_in_different_places() {
        let mut toxic = toxic(100, 50, 0);
        let sizes = |events: Vec<Event>| events.iter().map(Event::len).collect::<Vec<_>>();
        let first = sizes(feed(&mut toxic, 0, chunk(0, &[1; 3_000])));
        assert_ne!(first, sizes(feed(&mut toxic, 0, chunk(0, &[1; 3_000]))));
    }

    #[test]
    fn no_variation_works_and_pieces_are_spaced() {
        // P55
        let mut toxic = toxic(1, 0, 2_000);
        assert_eq!(feed(&mut toxic, 0, chunk(0, b"abc")), [chunk(0, b"a")]);
        assert_eq!(feed(&mut toxic, 0, Event::End), []);
        assert_eq!(tick(&mut toxic, 1), []);
        assert_eq!(tick(&mut toxic, 2), [chunk(0, b"b")]);
        // Late by 1 ms: the next piece is on time all the same.
        assert_eq!(tick(&mut toxic, 5), [chunk(0, b"c")]);
        assert_eq!(tick(&mut toxic, 6), [Event::End]);
    }

    proptest! {
        #[test]
        fn no_piece_is_empty_or_too_large(
            length in 1_usize..5_000, average in 1_i64..600, share in 0.0_f64..1.0, data in any::<u8>()
        ) {
            let variation = (average as f64 * share) as i64;
            let mut toxic = toxic(average, variation.min(average - 1), 1_000);
            let mut seen = feed(&mut toxic, 0, chunk(0, &vec![data; length]));
            seen.extend(release(&mut toxic, 0));
            let largest = (average + variation) as usize;
            prop_assert!(seen.iter().all(|event| (1..=largest.max(1)).contains(&event.len())));
            prop_assert_eq!(joined(&seen), vec![data; length]);
        }
    }
}
