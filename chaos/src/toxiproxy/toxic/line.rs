//! The line that all connections of a toxic share, if it is shared.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Booked piece by piece, in the order in which the pieces come. Times are since the epoch of the proxy.
#[derive(Debug, Default)]
pub struct SharedLine(Mutex<Booked>);

#[derive(Debug, Default)]
struct Booked {
    /// When the line will be free again.
    until: Duration,
    /// The rate that the last update brought, KB/s.
    rate: Option<i64>,
}

impl SharedLine {
    /// Books the line for as long as it needs, but not before `earliest`; when it will be over.
    pub(super) fn book(&self, earliest: Duration, needs: Duration) -> Duration {
        let mut booked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        booked.until = booked.until.max(earliest).saturating_add(needs);
        booked.until
    }

    /// Forgets what was booked under another rate. The update reaches each connection; the first one clears the line.
    pub(super) fn renew(&self, now: Duration, rate: i64) {
        let mut booked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if booked.rate.replace(rate) != Some(rate) {
            booked.until = now;
        }
    }
}
