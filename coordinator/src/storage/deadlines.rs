//! How long a call to the store may take.

use std::time::Duration;

/// Limits of one call. The `minio` client has none of its own: without them a silent server holds a caller for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// One attempt, until the response's headers are there. Uploads get longer, by [`Self::min_bytes_per_s`].
    pub attempt: Duration,
    /// Longest silence while a body is read. A slow body is fine, a stalled one is not.
    pub body_idle: Duration,
    /// The whole call with its retries and pauses.
    pub total: Duration,
    /// Further attempts after the first.
    pub retries: u32,
    /// Pause before the first retry; doubles, with jitter, up to one second.
    pub backoff: Duration,
    /// Slowest upload that still counts as alive: an attempt (and the call) may take longer by size divided by this.
    pub min_bytes_per_s: u64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(5),
            body_idle: Duration::from_secs(5),
            total: Duration::from_secs(20),
            retries: 3,
            backoff: Duration::from_millis(50),
            min_bytes_per_s: 256 * 1024,
        }
    }
}

impl Deadlines {
    /// The defaults, cut down so that a call is over after `total`.
    #[must_use]
    pub fn within(total: Duration) -> Self {
        let default = Self::default();
        let attempt = default.attempt.min(total / 2);
        Self { attempt, body_idle: default.body_idle.min(attempt), total, ..default }
    }

    /// What `bytes` to upload add to [`Self::attempt`] and [`Self::total`].
    #[must_use]
    pub fn upload_allowance(&self, bytes: usize) -> Duration {
        Duration::from_millis((bytes as u64).saturating_mul(1000) / self.min_bytes_per_s.max(1))
    }

    /// Pause before retry number `retry` (from 1); `jitter` in 0..=1000 takes up to half of it away.
    #[must_use]
    pub fn pause(&self, retry: u32, jitter: u32) -> Duration {
        const LONGEST: Duration = Duration::from_secs(1);
        let full = self.backoff.saturating_mul(1 << retry.saturating_sub(1).min(16)).min(LONGEST);
        full - full * jitter.min(1000) / 2000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second_and_jitter_shortens_them_by_half_at_most() {
        let deadlines = Deadlines { backoff: Duration::from_millis(50), ..Deadlines::default() };
        let full: Vec<_> = [1, 2, 3, 9, u32::MAX].map(|retry| deadlines.pause(retry, 0).as_millis()).to_vec();
        assert_eq!(full, [50, 100, 200, 1000, 1000]);
        assert_eq!(deadlines.pause(2, 1000), Duration::from_millis(50));
    }

    #[test]
    fn large_uploads_get_time_by_their_size() {
        let deadlines = Deadlines { min_bytes_per_s: 1024, ..Deadlines::default() };
        assert_eq!(deadlines.upload_allowance(10 * 1024), Duration::from_secs(10));
        assert_eq!(Deadlines { min_bytes_per_s: 0, ..deadlines }.upload_allowance(1), Duration::from_secs(1));
    }
}
