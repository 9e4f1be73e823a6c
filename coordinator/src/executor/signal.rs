//! How a task's thread is woken, whatever it waits for.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::graph::TaskError;

/// Locks `mutex`. A panic of user code never holds one of our locks midway, so a poisoned one is still good.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the task was cancelled")]
pub(crate) struct Canceled;

impl From<Canceled> for TaskError {
    fn from(canceled: Canceled) -> Self {
        Self::new(canceled)
    }
}

/// The one thing a task's thread ever waits on: input, room in an output, a message, its cancellation.
#[derive(Debug, Default)]
pub(crate) struct TaskSignal {
    /// Counts wake-ups, so that none is lost between looking and waiting.
    epoch: Mutex<u64>,
    changed: Condvar,
    cancelled: CancellationToken,
}

impl TaskSignal {
    /// Something changed: look again.
    pub(crate) fn wake(&self) {
        *lock(&self.epoch) += 1;
        self.changed.notify_all();
    }

    /// Asks the task to stop; every wait of it ends with [`Canceled`] from now on.
    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
        self.wake();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// Resolves once the task was asked to stop, for waits on the runtime.
    pub(crate) fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// [`Canceled`] if the task was asked to stop.
    pub(crate) fn check(&self) -> Result<(), Canceled> {
        if self.is_cancelled() { Err(Canceled) } else { Ok(()) }
    }

    /// Waits until `ready` gives something; `None` once `deadline` has passed.
    pub(crate) fn wait_until<T>(
        &self,
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Canceled> {
        loop {
            let seen = *lock(&self.epoch);
            self.check()?;
            if let Some(found) = ready() {
                return Ok(Some(found));
            }
            let epoch = lock(&self.epoch);
            if *epoch != seen {
                continue;
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => drop(self.changed.wait(epoch)),
                Some(left) if left.is_zero() => return Ok(None),
                Some(left) => drop(self.changed.wait_timeout(epoch, left)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[test]
    fn waits_end_by_fact_deadline_or_cancellation() {
        let signal = Arc::new(TaskSignal::default());
        let now = Instant::now();
        assert_eq!(signal.wait_until(Some(now), || None::<()>), Ok(None));
        assert_eq!(signal.wait_until(Some(now + Duration::from_millis(5)), || None::<()>), Ok(None));

        let value = Arc::new(AtomicU32::new(0));
        let waiter = {
            let (signal, value) = (signal.clone(), value.clone());
            std::thread::spawn(move || {
                let found = signal.wait_until(None, || Some(value.load(Ordering::SeqCst)).filter(|value| *value == 3));
                let then = signal.wait_until(None, || None::<()>);
                (found, then)
            })
        };
        for _ in 0..3 {
            value.fetch_add(1, Ordering::SeqCst);
            signal.wake();
        }
        signal.cancel();
        let (found, then) = waiter.join().unwrap();
        // The cancellation may win over the fact, never the other way round.
        assert!(found == Ok(Some(3)) || found == Err(Canceled));
        assert_eq!(then, Err(Canceled));
    }
}
