//! The edge: what wraps the S3 service on every connection, so that every request is seen, also refused ones.

pub(crate) mod body;
pub(crate) mod operation;
pub(crate) mod service;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Handed from the edge to a list operation: answer as the bucket was this many writes and deletes ago.
#[derive(Debug, Clone)]
pub(crate) struct StaleList {
    pub(crate) changes_ago: usize,
    /// Set by the operation if that makes another answer than the present would.
    pub(crate) differs: Arc<AtomicBool>,
}
