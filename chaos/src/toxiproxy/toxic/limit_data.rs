//! `limit_data`: passes the first `bytes` of a connection, then closes it. 0 closes at the first byte, not before.

use std::time::Duration;

use serde::Serialize;

use super::{Attributes, Chunk, Event, Output, Toxic};

/// Attributes of `limit_data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LimitData {
    /// Bytes in total per connection, in this direction.
    pub bytes: i64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct LimitDataToxic {
    attributes: LimitData,
    /// Survives updates.
    passed_bytes: u64,
}

impl LimitDataToxic {
    pub(super) fn new(attributes: LimitData) -> Self {
        Self { attributes, passed_bytes: 0 }
    }

    fn left_bytes(&self) -> u64 {
        u64::try_from(self.attributes.bytes).unwrap_or(0).saturating_sub(self.passed_bytes)
    }
}

impl Toxic for LimitDataToxic {
    fn on_event(&mut self, _now: Duration, event: Event, out: &mut Output) {
        let Event::Chunk(Chunk { mut bytes, stamp }) = event else {
            out.events.push(event);
            return;
        };
        let pass = usize::try_from(self.left_bytes()).unwrap_or(usize::MAX).min(bytes.len());
        let passed = bytes.split_to(pass);
        self.passed_bytes += pass as u64;
        out.dropped_bytes += bytes.len() as u64;
        if !passed.is_empty() {
            out.events.push(Event::Chunk(Chunk { bytes: passed, stamp }));
        }
        if self.left_bytes() == 0 {
            out.act(Event::Close);
        }
    }

    fn update(&mut self, _now: Duration, attributes: &Attributes) {
        if let Attributes::LimitData(attributes) = attributes {
            self.attributes = *attributes;
        }
    }

    fn release(&mut self, _now: Duration, _out: &mut Output) {}
}

#[cfg(test)]
mod tests {
    use super::super::probe::{chunk, feed, ms};
    use super::*;

    fn toxic(bytes: i64) -> LimitDataToxic {
        LimitDataToxic::new(LimitData { bytes })
    }

    #[test]
    fn below_equal_and_above() {
        // P52
        assert_eq!(feed(&mut toxic(4), 0, chunk(0, b"abc")), [chunk(0, b"abc")]);
        assert_eq!(feed(&mut toxic(3), 0, chunk(0, b"abc")), [chunk(0, b"abc"), Event::Close]);
        assert_eq!(feed(&mut toxic(2), 0, chunk(0, b"abc")), [chunk(0, b"ab"), Event::Close]);
        assert_eq!(feed(&mut toxic(0), 0, chunk(0, b"abc")), [Event::Close]);
        assert_eq!(feed(&mut toxic(0), 0, Event::End), [Event::End]);
    }

    #[test]
    fn over_several_chunks() {
        // P52: exact over four chunks, crossing on the second
        let mut exact = toxic(8);
        for _ in 0..3 {
            assert_eq!(feed(&mut exact, 0, chunk(0, b"ab")), [chunk(0, b"ab")]);
        }
        assert_eq!(feed(&mut exact, 0, chunk(0, b"ab")), [chunk(0, b"ab"), Event::Close]);
        let mut crossing = toxic(3);
        assert_eq!(feed(&mut crossing, 0, chunk(0, b"ab")), [chunk(0, b"ab")]);
        assert_eq!(feed(&mut crossing, 0, chunk(0, b"ab")), [chunk(0, b"a"), Event::Close]);
    }

    #[test]
    fn an_update_goes_on_counting() {
        // P52
        let mut toxic = toxic(100);
        assert_eq!(feed(&mut toxic, 0, chunk(0, b"abcd")).len(), 1);
        toxic.update(ms(1), &Attributes::LimitData(LimitData { bytes: 5 }));
        assert_eq!(feed(&mut toxic, 1, chunk(1, b"ef")), [chunk(1, b"e"), Event::Close]);
    }
}
