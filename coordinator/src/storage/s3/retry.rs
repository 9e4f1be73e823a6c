//! Retries within a deadline.

use std::hash::{BuildHasher, RandomState};

use tokio::time::{Instant, sleep};

use super::classify::Failure;
use crate::storage::blob::{BlobError, BlobErrorKind, BlobOp};
use crate::storage::deadlines::Deadlines;

/// One call with its retries: makes attempts until one succeeds, makes no sense any more, or time or retries are used
/// up.
///
/// All calls may be repeated: reads change nothing, deletes of what is gone are fine, and a put repeats the same
/// bytes.
pub(super) struct Call<'a> {
    deadlines: &'a Deadlines,
    op: BlobOp,
    key: &'a str,
    end: Instant,
    attempts: u32,
    maybe_done: bool,
}

impl<'a> Call<'a> {
    /// Begins a call; `upload` bytes make it longer.
    pub(super) fn begin(deadlines: &'a Deadlines, op: BlobOp, key: &'a str, upload: usize) -> Self {
        let end = Instant::now() + deadlines.total + deadlines.upload_allowance(upload);
        Self { deadlines, op, key, end, attempts: 0, maybe_done: false }
    }

    /// When the whole call must be over. Attempts keep to it by themselves.
    pub(super) fn end(&self) -> Instant {
        self.end
    }

    /// An attempt failed: waits until the next one is due, or gives up.
    pub(super) async fn failed(&mut self, failure: Failure) -> Result<(), BlobError> {
        self.attempts += 1;
        self.maybe_done |= failure.kind == BlobErrorKind::Ambiguous;
        let jitter = u32::try_from(RandomState::new().hash_one(self.attempts) % 1001).unwrap_or(0);
        let pause = self.deadlines.pause(self.attempts, jitter);
        let last = !failure.kind.is_transient()
            || self.attempts > self.deadlines.retries
            || Instant::now() + pause >= self.end;
        let (op, key, attempt) = (self.op, self.key, self.attempts);
        tracing::debug!(%op, key, attempt, last, kind = ?failure.kind, detail = failure.detail, "store call failed");
        if last {
            return Err(self.give_up(failure));
        }
        sleep(pause).await;
        Ok(())
    }

    fn give_up(&self, failure: Failure) -> BlobError {
        // One attempt of unknown outcome makes the call's outcome unknown, whatever came after it. Only a taken key
        // is told as it is: the caller must look whether the content is its own.
        let kind = match failure.kind {
            BlobErrorKind::PreconditionFailed => BlobErrorKind::PreconditionFailed,
            _ if self.maybe_done => BlobErrorKind::Ambiguous,
            kind => kind,
        };
        let detail = match self.attempts {
            1 => failure.detail,
            attempts => format!("{}, attempt {attempts} was the last", failure.detail),
        };
        BlobError { kind, op: self.op, key: self.key.to_owned(), detail, source: failure.source }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use BlobErrorKind::{Ambiguous, Fatal, PreconditionFailed, Throttled, Timeout, Unreachable};

    const DEADLINES: Deadlines = Deadlines {
        attempt: Duration::from_secs(1),
        body_idle: Duration::from_secs(1),
        total: Duration::from_secs(10),
        retries: 3,
        backoff: Duration::from_millis(100),
        min_bytes_per_s: 1024,
    };

    /// Fails with these kinds one after the other, then succeeds; gives the outcome and the number of attempts.
    async fn run(kinds: &[BlobErrorKind]) -> (Result<(), BlobErrorKind>, usize) {
        let mut call = Call::begin(&DEADLINES, BlobOp::Put, "k", 0);
        for (number, kind) in kinds.iter().enumerate() {
            if let Err(error) = call.failed(Failure::new(*kind, "injected")).await {
                return (Err(error.kind), number + 1);
            }
        }
        (Ok(()), kinds.len() + 1)
    }

    #[tokio::test(start_paused = true)]
    async fn transient_failures_are_retried_a_bounded_number_of_times() {
        assert_eq!(run(&[Throttled, Unreachable, Timeout]).await, (Ok(()), 4));
        assert_eq!(run(&[Unreachable; 9]).await, (Err(Unreachable), 4));
        assert_eq!(run(&[Fatal]).await, (Err(Fatal), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_outcome_stays_unknown() {
        assert_eq!(run(&[Ambiguous, Unreachable, Unreachable, Unreachable]).await, (Err(Ambiguous), 4));
        assert_eq!(run(&[Ambiguous, Fatal]).await, (Err(Ambiguous), 2));
        assert_eq!(run(&[Ambiguous, PreconditionFailed]).await, (Err(PreconditionFailed), 2));
        assert_eq!(run(&[Ambiguous]).await, (Ok(()), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn the_call_ends_by_its_deadline() {
        let start = Instant::now();
        let slow = Deadlines { retries: 1000, ..DEADLINES };
        let mut call = Call::begin(&slow, BlobOp::Get, "k", 0);
        let error = loop {
            tokio::time::sleep_until(call.end().min(Instant::now() + slow.attempt)).await;
            if let Err(error) = call.failed(Failure::timeout(BlobOp::Get, "no answer came")).await {
                break error;
            }
        };
        assert_eq!(error.kind, Timeout);
        assert!(start.elapsed() > slow.total / 2, "it gave up early: {:?}", start.elapsed());
        assert!(start.elapsed() <= slow.total, "{:?}", start.elapsed());
    }
}
