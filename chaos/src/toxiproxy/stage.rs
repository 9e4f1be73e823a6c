//! One toxic at its place in a chain: whether it acts on this connection, and what it has done to it.

use std::net::IpAddr;
use std::time::Duration;

use super::effects::count;
use super::random::Draws;
use super::spec::ToxicSpec;
use super::toxic::{Event, Output, Toxic};

/// See the module.
#[derive(Debug)]
pub(crate) struct Stage {
    spec: ToxicSpec,
    toxic: Box<dyn Toxic>,
    client: IpAddr,
    /// Drawn once; an update compares it with the new toxicity, nothing draws it again (P74).
    draw: f64,
    active: bool,
    hit: bool,
    /// A close or the end has left: nothing follows.
    finished: bool,
}

impl Stage {
    pub(crate) fn new(spec: &ToxicSpec, client: IpAddr, draws: Draws, now: Duration) -> Self {
        let draw = draws.toxicity();
        let mut toxic = spec.attributes.build(draws, &spec.line, now);
        let active = spec.acts_on(client, draw);
        if active {
            toxic.start(now);
        }
        Self { spec: spec.clone(), toxic, client, draw, active, hit: false, finished: false }
    }

    pub(crate) fn is(&self, spec: &ToxicSpec) -> bool {
        self.spec.id == spec.id
    }

    pub(crate) fn is_current(&self, spec: &ToxicSpec) -> bool {
        self.spec.revision == spec.revision
    }

    pub(crate) fn has_room(&self) -> bool {
        self.toxic.held_bytes() < self.toxic.cap_bytes()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.toxic.held_bytes()
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        if self.active && !self.finished { self.toxic.deadline() } else { None }
    }

    pub(crate) fn on_event(&mut self, now: Duration, event: Event) -> Vec<Event> {
        if self.finished {
            count(&self.spec.counters.dropped_bytes, event.len() as u64);
            return Vec::new();
        }
        let mut out = Output::default();
        if self.active {
            self.toxic.on_event(now, event, &mut out);
        } else {
            out.events.push(event);
        }
        self.settle(out)
    }

    pub(crate) fn on_tick(&mut self, now: Duration) -> Vec<Event> {
        if self.deadline().is_none_or(|due| due > now) {
            return Vec::new();
        }
        let mut out = Output::default();
        self.toxic.on_tick(now, &mut out);
        self.settle(out)
    }

    pub(crate) fn update(&mut self, now: Duration, spec: &ToxicSpec) -> Vec<Event> {
        self.spec = spec.clone();
        self.toxic.update(now, &spec.attributes);
        let active = spec.acts_on(self.client, self.draw);
        if active && !self.active {
            self.toxic.start(now);
        }
        let freed = if self.active && !active { self.release(now) } else { Vec::new() };
        self.active = active;
        freed
    }

    /// The toxic goes: what it held leaves.
    pub(crate) fn release(&mut self, now: Duration) -> Vec<Event> {
        if !self.active || self.finished {
            return Vec::new();
        }
        let mut out = Output::default();
        self.toxic.release(now, &mut out);
        self.settle(out)
    }

    /// Counts what a step did and keeps anything from following a close.
    fn settle(&mut self, mut out: Output) -> Vec<Event> {
        let counters = &self.spec.counters;
        if let Some(last) = out.events.iter().position(|event| !matches!(event, Event::Chunk(_))) {
            self.finished = true;
            out.events.truncate(last + 1);
            // A close that the toxic made itself, rather than passed on.
            if out.acted && !matches!(out.events[last], Event::End) {
                count(&counters.connections_closed, 1);
            }
        }
        if out.acted && !self.hit {
            self.hit = true;
            count(&counters.connections_hit, 1);
        }
        count(&counters.held_bytes, out.held_bytes);
        count(&counters.dropped_bytes, out.dropped_bytes);
        out.events
    }
}
