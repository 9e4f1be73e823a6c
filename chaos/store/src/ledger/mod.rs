//! The request ledger: what was asked, when, and what became of it.
//!
//! A fault that no request met did nothing, and a recovery that reads the store a thousand times is not one: both are
//! judged from here. Every request is recorded twice, when its head has been read and when it is over, so a request
//! that hangs is visible while it hangs. Requests that are refused (wrong key, no signature, nonsense) are recorded
//! like any other.
//!
//! The ledger keeps the last [`Limits::ledger_entries`](crate::Limits::ledger_entries) requests and counts those it
//! dropped.

mod entry;
mod ticket;

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

pub use entry::{Entry, LedgerEvent, Outcome};
pub(crate) use ticket::{RequestProgress, Ticket};

use crate::edge::operation::Target;

/// A handle to the ledger of one server. Clones are handles to the same ledger; it outlives the server.
#[derive(Debug, Clone)]
pub struct Ledger {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    ring: Mutex<Ring>,
    events: broadcast::Sender<LedgerEvent>,
}

#[derive(Debug)]
struct Ring {
    entries: VecDeque<Entry>,
    bound: usize,
    /// Number of the last request.
    last_seq: u64,
    dropped: u64,
    in_flight: usize,
}

impl Ring {
    /// The entry of that number, if it was not dropped: numbers in the ring have no gaps.
    fn entry_mut(&mut self, seq: u64) -> Option<&mut Entry> {
        let first = self.entries.front()?.seq;
        self.entries.get_mut(usize::try_from(seq.checked_sub(first)?).ok()?)
    }
}

impl Ledger {
    pub(crate) fn new(bound: usize, backlog_events: usize) -> Self {
        let ring = Ring { entries: VecDeque::new(), bound, last_seq: 0, dropped: 0, in_flight: 0 };
        Self { inner: Arc::new(Inner { ring: Mutex::new(ring), events: broadcast::Sender::new(backlog_events) }) }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // Nothing panics under this lock.
        self.inner.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a request began. `connection_cut` tells later who broke the connection.
    pub(crate) fn begin(
        &self,
        target: Target,
        connection: u64,
        started_ms: u64,
        connection_cut: Arc<AtomicBool>,
    ) -> Ticket {
        let mut ring = self.ring();
        ring.last_seq += 1;
        let entry = Entry {
            seq: ring.last_seq,
            started_ms,
            connection,
            operation: target.operation,
            bucket: target.bucket,
            key: target.key,
            request_bytes: 0,
            response_bytes: 0,
            status: None,
            duration_us: None,
            outcome: Outcome::InFlight,
            rule: None,
        };
        if ring.entries.len() == ring.bound {
            ring.entries.pop_front();
            ring.dropped += 1;
        }
        ring.entries.push_back(entry.clone());
        ring.in_flight += 1;
        // Sent under the lock, so that subscribers see starts in the order of their numbers.
        // An error says that nobody listens.
        let _ = self.inner.events.send(LedgerEvent::Started(entry.clone()));
        drop(ring);
        Ticket::new(self.clone(), entry, connection_cut)
    }

    fn update(&self, entry: &Entry) {
        if let Some(kept) = self.ring().entry_mut(entry.seq) {
            kept.clone_from(entry);
        }
    }

    fn ended(&self, entry: &Entry) {
        let mut ring = self.ring();
        ring.in_flight = ring.in_flight.saturating_sub(1);
        if let Some(kept) = ring.entry_mut(entry.seq) {
            kept.clone_from(entry);
        }
        let _ = self.inner.events.send(LedgerEvent::Ended(entry.clone()));
    }

    /// Requests with a number above `seq`, in order; 0 gives all that are remembered. An entry that is in flight now
    /// can be asked for again later.
    #[must_use]
    pub fn entries_since(&self, seq: u64) -> Vec<Entry> {
        self.ring().entries.iter().filter(|entry| entry.seq > seq).cloned().collect()
    }

    /// Number of the last request that began; 0 if none did.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.ring().last_seq
    }

    /// How many remembered requests satisfy `wanted`, which must not call the ledger itself.
    #[must_use]
    pub fn count(&self, wanted: impl Fn(&Entry) -> bool) -> usize {
        self.ring().entries.iter().filter(|entry| wanted(entry)).count()
    }

    /// Requests that have begun and not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.ring().in_flight
    }

    /// Requests that were forgotten because the bound was reached. A judgement from counts needs this to be 0.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.ring().dropped
    }

    /// Starts and ends from now on. A subscriber that lags more than
    /// [`Limits::ledger_backlog_events`](crate::Limits::ledger_backlog_events) behind is told how many it lost.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<LedgerEvent> {
        self.inner.events.subscribe()
    }

    /// Waits for a request with a number above `seq` that satisfies `wanted`, be it in the ledger already or still to
    /// come. `wanted` is asked when a request starts and again when it ends. Put a deadline around it.
    pub async fn wait_for(&self, seq: u64, wanted: impl Fn(&Entry) -> bool) -> Entry {
        loop {
            // Subscribed before looking, so nothing falls in between.
            let mut events = self.subscribe();
            if let Some(found) = self.ring().entries.iter().find(|entry| entry.seq > seq && wanted(entry)) {
                return found.clone();
            }
            // Having lagged, look at the ring again. The channel cannot be closed: we hold its sender.
            while let Ok(event) = events.recv().await {
                if event.entry().seq > seq && wanted(event.entry()) {
                    return event.entry().clone();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::operation::Operation;

    fn target(key: &str) -> Target {
        Target { operation: Operation::GetObject, bucket: Some("b".to_owned()), key: Some(key.to_owned()) }
    }

    fn begin(ledger: &Ledger, key: &str) -> Ticket {
        ledger.begin(target(key), 1, 5, Arc::default())
    }

    #[test]
    fn a_request_is_seen_in_flight_and_then_ended() {
        let ledger = Ledger::new(10, 10);
        let mut events = ledger.subscribe();
        let mut ticket = begin(&ledger, "x/_metadata");
        let seen = ledger.entries_since(0);
        assert!(seen[0].in_flight() && seen[0].is(Operation::GetObject, "_metadata"), "{seen:?}");
        ticket.set_status(200);
        ticket.add_response_bytes(7);
        assert_eq!(ledger.entries_since(0)[0].status, Some(200));
        ticket.answered();
        let entry = ledger.entries_since(0).remove(0);
        assert_eq!((entry.outcome, entry.response_bytes), (Outcome::Answered, 7));
        assert!(matches!(events.try_recv(), Ok(LedgerEvent::Started(started)) if started.in_flight()));
        assert_eq!(events.try_recv(), Ok(LedgerEvent::Ended(entry)));
    }

    #[test]
    fn a_dropped_ticket_names_who_cut() {
        let ledger = Ledger::new(10, 10);
        drop(begin(&ledger, "a"));
        let mut ours = begin(&ledger, "b");
        ours.server_cuts();
        drop(ours);
        let outcomes: Vec<Outcome> = ledger.entries_since(0).into_iter().map(|entry| entry.outcome).collect();
        assert_eq!(outcomes, [Outcome::ClientCut, Outcome::ServerCut]);
        assert_eq!(ledger.in_flight(), 0);
    }

    #[test]
    fn the_bound_drops_the_oldest_and_counts() {
        let ledger = Ledger::new(3, 10);
        let oldest = begin(&ledger, "0");
        for key in ["1", "2", "3"] {
            begin(&ledger, key).answered();
        }
        assert_eq!((ledger.dropped(), ledger.last_seq(), ledger.in_flight()), (1, 4, 1));
        // Its end must not be written over a younger entry.
        oldest.answered();
        let keys: Vec<Option<String>> = ledger.entries_since(2).into_iter().map(|entry| entry.key).collect();
        assert_eq!(keys, [Some("2".to_owned()), Some("3".to_owned())]);
        assert_eq!(ledger.count(|entry| entry.outcome == Outcome::Answered), 3);
    }

    #[tokio::test]
    async fn waiting_finds_the_past_and_the_future() {
        let ledger = Ledger::new(10, 1);
        begin(&ledger, "past").answered();
        assert_eq!(ledger.wait_for(0, |entry| entry.key.as_deref() == Some("past")).await.seq, 1);
        let waiting = ledger.clone();
        let future = tokio::spawn(async move { waiting.wait_for(1, |e| e.is(Operation::GetObject, "future")).await });
        // A backlog of one event makes the waiter lag; it must not lose the request.
        for key in ["x", "y", "z", "future", "after"] {
            begin(&ledger, key).answered();
        }
        assert_eq!(future.await.expect("the waiter ends").seq, 5);
    }
}
