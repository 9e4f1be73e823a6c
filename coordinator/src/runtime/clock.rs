//! Wall-clock time, at the one edge where it is asked for.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::core::event::Millis;

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
