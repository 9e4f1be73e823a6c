//! `limit_time`, beyond Toxiproxy: passes everything, and closes the connection after a time, whatever the traffic.

use std::time::Duration;

use serde::Serialize;

use super::{Attributes, Event, Output, Toxic, millis};

/// Attributes of `limit_time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LimitTime {
    /// Milliseconds since the toxic began to act on the connection.
    pub time: i64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct LimitTimeToxic {
    attributes: LimitTime,
    began: Duration,
}

impl LimitTimeToxic {
    pub(super) fn new(attributes: LimitTime, now: Duration) -> Self {
        Self { attributes, began: now }
    }
}

impl Toxic for LimitTimeToxic {
    fn start(&mut self, now: Duration) {
        self.began = now;
    }

    fn on_event(&mut self, _now: Duration, event: Event, out: &mut Output) {
        out.events.push(event);
    }

    fn on_tick(&mut self, now: Duration, out: &mut Output) {
        if self.deadline().is_some_and(|due| due <= now) {
            out.act(Event::Close);
        }
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.began.saturating_add(millis(self.attributes.time)))
    }

    fn update(&mut self, _now: Duration, attributes: &Attributes) {
        if let Attributes::LimitTime(attributes) = attributes {
            self.attributes = *attributes;
        }
    }

    fn release(&mut self, _now: Duration, _out: &mut Output) {}
}

#[cfg(test)]
mod tests {
    use super::super::probe::{chunk, feed, ms, tick};
    use super::*;

    fn toxic(time: i64) -> LimitTimeToxic {
        LimitTimeToxic::new(LimitTime { time }, Duration::ZERO)
    }

    #[test]
    fn traffic_passes_until_the_time_is_over_and_does_not_put_it_off() {
        let mut toxic = toxic(100);
        assert_eq!(feed(&mut toxic, 99, chunk(99, b"a")), [chunk(99, b"a")]);
        assert_eq!(tick(&mut toxic, 99), []);
        assert_eq!(tick(&mut toxic, 100), [Event::Close]);
        assert_eq!(feed(&mut toxic, 0, Event::End), [Event::End], "an end that comes first is passed on");
    }

    #[test]
    fn an_update_counts_from_the_same_beginning() {
        let mut toxic = toxic(1_000);
        toxic.start(ms(50));
        toxic.update(ms(60), &Attributes::LimitTime(LimitTime { time: 20 }));
        assert_eq!(toxic.deadline(), Some(ms(70)));
    }
}
