//! `slow_close`: passes bytes, holds back only the close.

use std::time::Duration;

use serde::Serialize;

use super::{Attributes, Event, Output, Toxic, millis};

/// Attributes of `slow_close`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SlowClose {
    /// Milliseconds.
    pub delay: i64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct SlowCloseToxic {
    attributes: SlowClose,
    /// The close, and when it came.
    close: Option<(Event, Duration)>,
}

impl SlowCloseToxic {
    pub(super) fn new(attributes: SlowClose) -> Self {
        Self { attributes, close: None }
    }
}

impl Toxic for SlowCloseToxic {
    fn on_event(&mut self, now: Duration, event: Event, out: &mut Output) {
        // A close that need not wait has felt nothing.
        if matches!(event, Event::Chunk(_)) || self.attributes.delay == 0 {
            out.events.push(event);
            return;
        }
        out.hold(&event);
        self.close = Some((event, now));
        self.on_tick(now, out);
    }

    fn on_tick(&mut self, now: Duration, out: &mut Output) {
        if self.deadline().is_some_and(|due| due <= now) {
            out.events.extend(self.close.take().map(|(event, _)| event));
        }
    }

    fn deadline(&self) -> Option<Duration> {
        self.close.as_ref().map(|(_, since)| since.saturating_add(millis(self.attributes.delay)))
    }

    fn update(&mut self, _now: Duration, attributes: &Attributes) {
        if let Attributes::SlowClose(attributes) = attributes {
            self.attributes = *attributes;
        }
    }

    fn release(&mut self, _now: Duration, out: &mut Output) {
        out.events.extend(self.close.take().map(|(event, _)| event));
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::{chunk, feed, release, tick};
    use super::*;

    #[test]
    fn bytes_pass_and_the_close_waits() {
        let mut toxic = SlowCloseToxic::new(SlowClose { delay: 100 });
        assert_eq!(feed(&mut toxic, 0, chunk(0, b"a")), [chunk(0, b"a")]);
        assert_eq!(feed(&mut toxic, 10, Event::End), []);
        assert_eq!(tick(&mut toxic, 109), []);
        assert_eq!(tick(&mut toxic, 110), [Event::End]);
        assert_eq!(tick(&mut toxic, 500), []);
    }

    #[test]
    fn without_a_delay_nothing_is_felt() {
        let mut out = Output::default();
        SlowCloseToxic::new(SlowClose { delay: 0 }).on_event(Duration::ZERO, Event::End, &mut out);
        assert_eq!((out.events, out.acted), (vec![Event::End], false));
    }

    #[test]
    fn removal_lets_the_close_go() {
        let mut toxic = SlowCloseToxic::new(SlowClose { delay: 100_000 });
        assert_eq!(feed(&mut toxic, 0, Event::Close), []);
        assert_eq!(release(&mut toxic, 1), [Event::Close]);
        assert_eq!(toxic.deadline(), None);
    }
}
