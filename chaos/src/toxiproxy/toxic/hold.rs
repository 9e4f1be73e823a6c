//! `hold`, beyond Toxiproxy: a black hole without loss. Bytes and closes are held until the toxic is removed, then
//! arrive in order; the connection lives on. `timeout` with 0 loses the bytes and so must close. (A connection whose
//! ends have both finished, or are gone, with nothing held that could still arrive, ends all the same.)

use std::time::Duration;

use serde::Serialize;

use super::{Attributes, Event, Held, Output, Toxic};

/// No attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Hold {}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HoldToxic {
    held: Held,
}

impl Toxic for HoldToxic {
    fn on_event(&mut self, _now: Duration, event: Event, out: &mut Output) {
        out.hold(&event);
        self.held.push(event);
    }

    fn held_bytes(&self) -> usize {
        self.held.bytes
    }

    fn update(&mut self, _now: Duration, _attributes: &Attributes) {}

    fn release(&mut self, _now: Duration, out: &mut Output) {
        self.held.drain_into(out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::{chunk, feed, release, tick};
    use super::*;

    #[test]
    fn nothing_passes_and_nothing_is_lost() {
        let mut toxic = HoldToxic::default();
        assert_eq!(feed(&mut toxic, 0, chunk(0, b"ab")), []);
        assert_eq!(feed(&mut toxic, 1, Event::End), []);
        assert_eq!(tick(&mut toxic, 1_000_000), []);
        assert_eq!(toxic.held_bytes(), 2);
        assert_eq!(release(&mut toxic, 2), [chunk(0, b"ab"), Event::End]);
        assert_eq!(toxic.held_bytes(), 0);
    }
}
