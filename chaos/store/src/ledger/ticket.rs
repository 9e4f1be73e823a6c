//! The open end of a ledger entry: whoever holds it must say how the request ended, or its drop does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::Ledger;
use super::entry::{Entry, Outcome};

/// What is known of a request's body so far.
#[derive(Debug, Default)]
pub(crate) struct RequestProgress {
    bytes: AtomicU64,
    broken: AtomicBool,
}

impl RequestProgress {
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The client left in the middle of the body.
    pub(crate) fn broke_off(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }
}

/// A request in flight. Dropping it unanswered records that the connection was lost.
#[derive(Debug)]
pub(crate) struct Ticket {
    ledger: Ledger,
    entry: Entry,
    started: Instant,
    request: Arc<RequestProgress>,
    /// Set when this side breaks the connection.
    connection_cut: Arc<AtomicBool>,
    /// Set when this side breaks off this answer.
    answer_cut: bool,
}

impl Ticket {
    pub(super) fn new(ledger: Ledger, entry: Entry, connection_cut: Arc<AtomicBool>) -> Self {
        let started = Instant::now();
        Self { ledger, entry, started, request: Arc::default(), connection_cut, answer_cut: false }
    }

    pub(crate) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Shared with the body that is being read.
    pub(crate) fn request_progress(&self) -> Arc<RequestProgress> {
        Arc::clone(&self.request)
    }

    /// Names the rule that acts on this request.
    pub(crate) fn set_rule(&mut self, rule: &str) {
        self.entry.rule = Some(rule.to_owned());
        self.ledger.update(&self.entry);
    }

    /// The head of the answer is ready.
    pub(crate) fn set_status(&mut self, status: u16) {
        self.entry.status = Some(status);
        self.ledger.update(&self.entry);
    }

    pub(crate) fn add_response_bytes(&mut self, bytes: u64) {
        self.entry.response_bytes += bytes;
    }

    /// From now on a lost connection is our doing.
    pub(crate) fn server_cuts(&mut self) {
        self.answer_cut = true;
    }

    /// The whole answer is with the connection. If the request's body broke off, nobody is there to read it.
    pub(crate) fn answered(mut self) {
        let broken = self.request.broken.load(Ordering::Relaxed);
        self.end(if broken { Outcome::ClientCut } else { Outcome::Answered });
    }

    fn end(&mut self, outcome: Outcome) {
        self.entry.outcome = outcome;
        self.entry.request_bytes = self.request.bytes.load(Ordering::Relaxed);
        self.entry.duration_us = Some(self.started.elapsed().as_micros() as u64);
        self.ledger.ended(&self.entry);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.entry.in_flight() {
            let ours = self.answer_cut || self.connection_cut.load(Ordering::Relaxed);
            self.end(if ours { Outcome::ServerCut } else { Outcome::ClientCut });
        }
    }
}
