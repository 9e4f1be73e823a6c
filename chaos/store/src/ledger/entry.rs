//! One request as the ledger remembers it.

use serde::{Deserialize, Serialize};

use crate::edge::operation::Operation;

/// A request: from the moment its head was read to the moment its answer was handed over or the connection was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// 1 for the first request of the server, then one more each; the order in which request heads arrived.
    pub seq: u64,
    /// When the head of the request had been read, milliseconds since the epoch.
    pub started_ms: u64,
    /// Number of the connection it came over, counted from 1 per server.
    pub connection: u64,
    /// What was asked for, told from the request line even if the request is then refused.
    pub operation: Operation,
    /// The bucket, if the request names one.
    pub bucket: Option<String>,
    /// The key, if the request names one.
    pub key: Option<String>,
    /// Bytes of the request's body that were read; known when the request has ended.
    pub request_bytes: u64,
    /// Bytes of the answer's body that were handed to the connection; known when the request has ended.
    pub response_bytes: u64,
    /// HTTP status; none until the head of the answer is ready, and for ever if it never was.
    pub status: Option<u16>,
    /// From the request's head to its end, in microseconds; none while it is in flight.
    pub duration_us: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// The rule that acted on it.
    pub rule: Option<String>,
}

impl Entry {
    /// True while no end is recorded.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.outcome == Outcome::InFlight
    }

    /// True if it asks for `operation` and its key ends with `suffix`.
    #[must_use]
    pub fn is(&self, operation: Operation, suffix: &str) -> bool {
        self.operation == operation && self.key.as_deref().unwrap_or_default().ends_with(suffix)
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Outcome {
    /// It has not.
    InFlight,
    /// The whole answer was handed to the connection. (Whether the client read it, only the client knows.)
    Answered,
    /// The client closed the connection before that.
    ClientCut,
    /// The server closed the connection before that: a shutdown, or a rule that cuts or truncates.
    ServerCut,
}

/// What a subscriber hears.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LedgerEvent {
    /// The head of a request was read; nothing has been done for it yet.
    Started(Entry),
    /// The request is over.
    Ended(Entry),
}

impl LedgerEvent {
    /// The request.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        match self {
            Self::Started(entry) | Self::Ended(entry) => entry,
        }
    }
}
