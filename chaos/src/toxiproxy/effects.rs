//! What a proxy and its toxics really did: the answer to "did it bite?".
//!
//! Counters are live: they count while a connection is open, not only when it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use super::stream::Stream;

/// The answer of `GET /proxies/{proxy}/effects`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyEffects {
    /// Connections accepted since the proxy was created.
    pub connections_accepted: u64,
    /// Accepted connections that still exist.
    pub connections_open: u64,
    /// Accepted connections closed because the upstream could not be reached in time. A disabled proxy refuses in the
    /// kernel, which nobody can count.
    pub connections_refused: u64,
    /// Connections cut because the proxy was disabled, changed or deleted.
    pub connections_cut: u64,
    /// Bytes read from clients.
    pub upstream_received_bytes: u64,
    /// Bytes written to the upstream.
    pub upstream_sent_bytes: u64,
    /// Bytes read from the upstream.
    pub downstream_received_bytes: u64,
    /// Bytes written to clients.
    pub downstream_sent_bytes: u64,
    /// Toxics in order of creation. Removed ones stay listed, so that effects can be read after the heal.
    pub toxics: Vec<ToxicEffects>,
}

impl ProxyEffects {
    /// The effects of the youngest toxic with this name.
    #[must_use]
    pub fn toxic(&self, name: &str) -> Option<&ToxicEffects> {
        self.toxics.iter().rev().find(|toxic| toxic.name == name)
    }
}

/// What one toxic did since it was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToxicEffects {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The direction it acts on.
    pub stream: Stream,
    /// Whether it has been removed.
    pub removed: bool,
    /// Connections that felt it: bytes or a close held back, dropped, or the connection closed or reset.
    pub connections_hit: u64,
    /// Connections it closed or reset.
    pub connections_closed: u64,
    /// Bytes it held back for a while, or still holds.
    pub held_bytes: u64,
    /// Bytes it dropped.
    pub dropped_bytes: u64,
}

/// Live counters of one toxic, over all connections.
#[derive(Debug, Default)]
pub struct ToxicCounters {
    /// See [`ToxicEffects::connections_hit`].
    pub connections_hit: AtomicU64,
    /// See [`ToxicEffects::connections_closed`].
    pub connections_closed: AtomicU64,
    /// See [`ToxicEffects::held_bytes`].
    pub held_bytes: AtomicU64,
    /// See [`ToxicEffects::dropped_bytes`].
    pub dropped_bytes: AtomicU64,
}

impl ToxicCounters {
    /// The counters now.
    #[must_use]
    pub fn snapshot(&self, name: &str, kind: &str, stream: Stream, removed: bool) -> ToxicEffects {
        ToxicEffects {
            name: name.to_owned(),
            kind: kind.to_owned(),
            stream,
            removed,
            connections_hit: self.connections_hit.load(Relaxed),
            connections_closed: self.connections_closed.load(Relaxed),
            held_bytes: self.held_bytes.load(Relaxed),
            dropped_bytes: self.dropped_bytes.load(Relaxed),
        }
    }
}

/// Live counters of one proxy.
#[derive(Debug, Default)]
pub(crate) struct ProxyCounters {
    pub(crate) accepted: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) upstream: Arc<Traffic>,
    pub(crate) downstream: Arc<Traffic>,
}

impl ProxyCounters {
    pub(crate) fn traffic(&self, stream: Stream) -> Arc<Traffic> {
        match stream {
            Stream::Upstream => Arc::clone(&self.upstream),
            Stream::Downstream => Arc::clone(&self.downstream),
        }
    }

    pub(crate) fn snapshot(&self, toxics: Vec<ToxicEffects>) -> ProxyEffects {
        ProxyEffects {
            connections_accepted: self.accepted.load(Relaxed),
            connections_open: self.open.load(Relaxed),
            connections_refused: self.refused.load(Relaxed),
            connections_cut: self.cut.load(Relaxed),
            upstream_received_bytes: self.upstream.received_bytes.load(Relaxed),
            upstream_sent_bytes: self.upstream.sent_bytes.load(Relaxed),
            downstream_received_bytes: self.downstream.received_bytes.load(Relaxed),
            downstream_sent_bytes: self.downstream.sent_bytes.load(Relaxed),
            toxics,
        }
    }
}

/// Bytes in one direction.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Relaxed);
}
