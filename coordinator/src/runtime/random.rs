//! Randomness, at the one edge where it is drawn: job identifiers and the seeds of jobs.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use super::clock::now_ms;
use crate::graph::JobId;

/// A number that differs from draw to draw and from process to process: the standard library's random hash keys over
/// a counter, the time and the process id. Not for secrets.
pub(crate) fn number() -> u64 {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one((DRAWN.fetch_add(1, Ordering::Relaxed), now_ms(), std::process::id()))
}

/// A new job identifier.
pub(crate) fn job_id() -> JobId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number().to_be_bytes());
    bytes[8..].copy_from_slice(&number().to_be_bytes());
    JobId(bytes)
}
