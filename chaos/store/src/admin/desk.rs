//! What can be asked of the admin port, and the answers.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /ledger`, `GET /ledger?since=SEQ` | the requests that are remembered, those above a number |
//! | `GET /leftovers` | every object, open upload and byte that is in the store |
//! | `GET /rules` | what each rule matched and acted on |
//! | `PUT /rules` | takes a set of rules in the place of all there are |
//! | `DELETE /rules`, `DELETE /rules/NAME` | heals: removes all rules, or one; their counts stay |
//! | `GET /snapshots` | the snapshots that are kept |
//! | `POST /snapshots` with `{"name": …, "bucket": …}` | keeps the objects of a bucket as they are |
//! | `POST /snapshots/NAME/restore` | makes the bucket hold these objects again |
//! | `DELETE /snapshots/NAME` | forgets it |
//!
//! A refusal is `{"error": "…"}` with a status of 400 or more.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyper::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::backend::error::BackendError;
use crate::backend::snapshot::BucketSnapshot;
use crate::ledger::Ledger;
use crate::rules::{RuleSet, Rules};

/// Snapshots kept at once. They share memory with the store, but keep what it would let go.
const MAX_SNAPSHOTS: usize = 64;

/// Answers from the parts of one server.
pub(crate) struct Desk {
    ledger: Ledger,
    backend: Backend,
    rules: Rules,
    /// By name.
    snapshots: Mutex<BTreeMap<String, Kept>>,
}

struct Kept {
    bucket: String,
    snapshot: BucketSnapshot,
}

/// What was asked is done.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) value: Value,
}

/// What was asked is not done.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) error: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into() }
    }
}

impl From<BackendError> for Refusal {
    fn from(error: BackendError) -> Self {
        let status = match &error {
            BackendError::NoSuchBucket { .. } => StatusCode::NOT_FOUND,
            BackendError::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

/// The body of `POST /snapshots`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewSnapshot {
    name: String,
    bucket: String,
}

impl Desk {
    pub(crate) fn new(ledger: Ledger, backend: Backend, rules: Rules) -> Self {
        Self { ledger, backend, rules, snapshots: Mutex::default() }
    }

    fn snapshots(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        // Nothing panics under this lock.
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `body` may be empty.
    pub(super) fn answer(
        &self,
        method: &Method,
        path: &str,
        query: Option<&str>,
        body: &[u8],
    ) -> Result<Answer, Refusal> {
        let decode = |segment| percent_decode_str(segment).decode_utf8_lossy().into_owned();
        let segments: Vec<String> = path.trim_start_matches('/').split('/').map(decode).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match (method.as_str(), &*segments) {
            ("GET", ["ledger"]) => Ok(ok(self.ledger_since(query)?)),
            ("GET", ["leftovers"]) => Ok(ok(json!(self.backend.leftovers()))),
            ("GET", ["rules"]) => Ok(self.rule_counts()),
            ("PUT", ["rules"]) => {
                let refused = |error: &dyn std::fmt::Display| Refusal::new(StatusCode::BAD_REQUEST, error.to_string());
                self.rules.set(read::<RuleSet>(body)?).map_err(|error| refused(&error))?;
                Ok(self.rule_counts())
            }
            ("DELETE", ["rules"]) => {
                self.rules.clear();
                Ok(self.rule_counts())
            }
            ("DELETE", ["rules", name]) if self.rules.remove(name) => Ok(self.rule_counts()),
            ("DELETE", ["rules", name]) => Err(absent("rule", name)),
            ("GET", ["snapshots"]) => {
                let kept = self.snapshots();
                let list: Vec<Value> = kept.iter().map(|(name, kept)| kept.describe(name)).collect();
                Ok(ok(json!({ "snapshots": list })))
            }
            ("POST", ["snapshots"]) => self.keep(read(body)?),
            ("POST", ["snapshots", name, "restore"]) => {
                let kept = self.snapshots();
                let one = kept.get(*name).ok_or_else(|| absent("snapshot", name))?;
                self.backend.restore(&one.bucket, &one.snapshot)?;
                Ok(ok(one.describe(name)))
            }
            ("DELETE", ["snapshots", name]) => match self.snapshots().remove(*name) {
                Some(kept) => Ok(ok(kept.describe(name))),
                None => Err(absent("snapshot", name)),
            },
            (_, ["ledger" | "leftovers" | "rules" | "snapshots"] | ["rules" | "snapshots", _]) => {
                let error = format!("{method} cannot be asked of {path}");
                Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error))
            }
            _ => {
                let error = format!("there is no {path}; there are /ledger, /leftovers, /rules and /snapshots");
                Err(Refusal::new(StatusCode::NOT_FOUND, error))
            }
        }
    }

    fn ledger_since(&self, query: Option<&str>) -> Result<Value, Refusal> {
        let wrong = |what: &str| {
            let error = format!("{what:?} cannot be asked of the ledger; ask for since=SEQ, a number, or for nothing");
            Refusal::new(StatusCode::BAD_REQUEST, error)
        };
        let since = match query.filter(|query| !query.is_empty()) {
            None => 0,
            Some(query) => {
                let number = query.strip_prefix("since=").and_then(|number| number.parse().ok());
                number.ok_or_else(|| wrong(query))?
            }
        };
        // Asked first: what begins meanwhile is in the next answer.
        let last_seq = self.ledger.last_seq();
        let mut entries = self.ledger.entries_since(since);
        entries.retain(|entry| entry.seq <= last_seq);
        let (in_flight, dropped) = (self.ledger.in_flight(), self.ledger.dropped());
        Ok(json!({ "entries": entries, "last_seq": last_seq, "in_flight": in_flight, "dropped": dropped }))
    }

    fn rule_counts(&self) -> Answer {
        ok(json!({ "rules": self.rules.counts() }))
    }

    fn keep(&self, NewSnapshot { name, bucket }: NewSnapshot) -> Result<Answer, Refusal> {
        if name.is_empty() {
            return Err(Refusal::new(StatusCode::BAD_REQUEST, "the snapshot needs a name"));
        }
        let mut kept = self.snapshots();
        if kept.contains_key(&name) {
            let error = format!("there is a snapshot {name:?} already; choose another name, or delete it");
            return Err(Refusal::new(StatusCode::CONFLICT, error));
        }
        if kept.len() == MAX_SNAPSHOTS {
            let error = format!("{MAX_SNAPSHOTS} snapshots are kept already; delete one");
            return Err(Refusal::new(StatusCode::CONFLICT, error));
        }
        let one = Kept { snapshot: self.backend.snapshot(&bucket)?, bucket };
        let value = one.describe(&name);
        kept.insert(name, one);
        Ok(Answer { status: StatusCode::CREATED, value })
    }
}

impl Kept {
    fn describe(&self, name: &str) -> Value {
        let objects = self.snapshot.objects();
        let bytes: u64 = objects.iter().map(|object| object.size_bytes).sum();
        json!({ "name": name, "bucket": self.bucket, "objects": objects.len(), "total_bytes": bytes })
    }
}

fn ok(value: Value) -> Answer {
    Answer { status: StatusCode::OK, value }
}

fn absent(what: &str, name: &str) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, format!("there is no {what} {name:?}"))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let wrong = |error| Refusal::new(StatusCode::BAD_REQUEST, format!("the body is not what is wanted here: {error}"));
    serde_json::from_slice(body).map_err(wrong)
}
