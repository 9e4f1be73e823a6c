//! Exponential delay (FLIP-364, reference 3.2).

use crate::core::event::Millis;

/// What Flink prints for "no limit".
const UNLIMITED: u32 = i32::MAX as u32;

#[derive(Debug, Clone)]
pub(super) struct Exponential {
    pub(super) initial_ms: u64,
    pub(super) max_ms: u64,
    pub(super) multiplier: f64,
    pub(super) reset_threshold_ms: u64,
    pub(super) jitter: f64,
    pub(super) attempts: Option<u32>,
    /// Failures that were not merged, since the last reset.
    pub(super) failures: u32,
    /// When the newest planned restart is or was due.
    pub(super) next_restart: Option<Millis>,
}

impl Exponential {
    pub(super) fn notify_failure(&mut self, now: Millis, random: u64) -> bool {
        match self.next_restart {
            Some(planned) if now <= planned => return false,
            // Quiet is measured from the planned restart, not from the failure before it.
            Some(planned) if now - planned < self.reset_threshold_ms => {}
            _ => self.failures = 0,
        }
        self.next_restart = Some(now.saturating_add(self.pause(random)));
        self.failures = self.failures.saturating_add(1);
        true
    }

    pub(super) fn can_restart(&self) -> bool {
        self.attempts.is_none_or(|attempts| self.failures <= attempts)
    }

    /// The pause after `failures` earlier ones. The bounds come last, so jitter never leaves them.
    ///
    /// Casts from floating point saturate, and the sum has room: Flink's overflows after about 90 failures without a
    /// quiet time and then waits `initial_ms` instead of `max_ms`.
    fn pause(&self, random: u64) -> u64 {
        let base = (self.initial_ms as f64 * self.multiplier.powf(f64::from(self.failures))).floor() as u64;
        let widest = u128::from((base as f64 * self.jitter) as u64);
        let shifted = u128::from(base) + u128::from(random) % (2 * widest + 1);
        u64::try_from(shifted.saturating_sub(widest)).unwrap_or(u64::MAX).min(self.max_ms).max(self.initial_ms)
    }

    pub(super) fn describe(&self) -> String {
        let Self { initial_ms, max_ms, multiplier, reset_threshold_ms, jitter, .. } = self;
        format!(
            "ExponentialDelayRestartBackoffTimeStrategy(initialBackoffMS={initial_ms}, maxBackoffMS={max_ms}, \
             backoffMultiplier={multiplier:?}, resetBackoffThresholdMS={reset_threshold_ms}, jitterFactor={jitter:?}, \
             attemptsBeforeResetBackoff={}, currentRestartAttempt={}, nextRestartTimestamp={})",
            self.attempts.unwrap_or(UNLIMITED),
            self.failures,
            self.next_restart.map_or_else(|| i32::MIN.to_string(), |at| at.to_string()),
        )
    }
}
