//! The ordered toxics of one direction of one connection, as a pure state machine.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use super::random::Draws;
use super::spec::ToxicSpec;
use super::stage::Stage;
use super::toxic::{Event, QUEUE_CAP_BYTES};

/// Which connection a chain belongs to: the key of all its random choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionKey {
    /// The server's seed.
    pub seed: u64,
    /// The proxy's name.
    pub proxy: String,
    /// The connection's number, counted from 1 per proxy in order of accept.
    pub number: u64,
    /// Where the client is.
    pub client: IpAddr,
}

/// See the module. Events go in with [`Chain::push`], time with [`Chain::tick`], and what is due for the sink comes out
/// of [`Chain::front`].
#[derive(Debug)]
pub struct Chain {
    key: ConnectionKey,
    stages: Vec<Stage>,
    out: VecDeque<Event>,
    out_bytes: usize,
}

impl Chain {
    /// A chain without toxics.
    #[must_use]
    pub fn new(key: ConnectionKey) -> Self {
        Self { key, stages: Vec::new(), out: VecDeque::new(), out_bytes: 0 }
    }

    /// Something arrives from the source.
    pub fn push(&mut self, now: Duration, event: Event) {
        self.feed(0, now, vec![event]);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration) {
        // In order, so that what one toxic lets go is due at the next one within the same tick.
        for index in 0..self.stages.len() {
            let freed = self.stages[index].on_tick(now);
            self.feed(index + 1, now, freed);
        }
    }

    /// When [`Chain::tick`] has work next.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.stages.iter().filter_map(Stage::deadline).min()
    }

    /// Whether the source may be read: no queue is full.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.out_bytes < QUEUE_CAP_BYTES && self.stages.iter().all(Stage::has_room)
    }

    /// Bytes inside, held back or due.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.out_bytes + self.stages.iter().map(Stage::held_bytes).sum::<usize>()
    }

    /// Whether all it holds is the source's end, and no toxic will let it go by itself.
    #[must_use]
    pub fn keeps_only_the_end(&self) -> bool {
        self.out.is_empty() && self.deadline().is_none() && self.held_bytes() == 0
    }

    /// Makes the chain's toxics the wanted ones, in that order: gone ones release what they hold, changed ones are
    /// updated in place, new ones (which always come last) are appended. Nothing else is touched.
    pub fn reconcile<'a>(&mut self, now: Duration, wanted: impl Iterator<Item = &'a ToxicSpec>) {
        let wanted: Vec<_> = wanted.collect();
        for index in (0..self.stages.len()).rev() {
            let stage = &mut self.stages[index];
            let freed = match wanted.iter().find(|spec| stage.is(spec)) {
                Some(spec) if stage.is_current(spec) => continue,
                Some(spec) => stage.update(now, spec),
                None => stage.release(now),
            };
            let gone = !wanted.iter().any(|spec| self.stages[index].is(spec));
            self.feed(index + 1, now, freed);
            if gone {
                self.stages.remove(index);
            }
        }
        for spec in wanted {
            if !self.stages.iter().any(|stage| stage.is(spec)) {
                let draws = Draws::new(self.key.seed, &self.key.proxy, self.key.number, &spec.name);
                self.stages.push(Stage::new(spec, self.key.client, draws, now));
            }
        }
        self.tick(now);
    }

    /// What is to go to the sink first.
    #[must_use]
    pub fn front(&self) -> Option<&Event> {
        self.out.front()
    }

    /// Whether a close of the whole connection waits for the bytes before it.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        matches!(self.out.back(), Some(Event::Close | Event::Reset))
    }

    /// The sink has taken this many bytes of the first chunk.
    pub fn advance(&mut self, bytes: usize) {
        let Some(Event::Chunk(chunk)) = self.out.front_mut() else { return };
        let taken = bytes.min(chunk.bytes.len());
        let _ = chunk.bytes.split_to(taken);
        self.out_bytes -= taken;
        if chunk.bytes.is_empty() {
            self.out.pop_front();
        }
    }

    /// Hands `events` to the stage at `index` and all that follows from it down the chain.
    fn feed(&mut self, index: usize, now: Duration, mut events: Vec<Event>) {
        for stage in self.stages.iter_mut().skip(index) {
            if events.is_empty() {
                return;
            }
            events = events.into_iter().flat_map(|event| stage.on_event(now, event)).collect();
        }
        for event in events {
            if matches!(event, Event::Reset) {
                // A reset overtakes: the kernel would throw unsent bytes away as well.
                self.out.clear();
                self.out_bytes = 0;
            }
            self.out_bytes += event.len();
            self.out.push_back(event);
        }
    }
}

#[cfg(test)]
mod tests;
