//! Waits that end when they should. Those of the runtime have whole milliseconds, rounded up by its wheel and once more
//! by the kernel's poll, which made a latency of 50 ms one of 51.5; these are late by about a tenth of a millisecond.
//!
//! One thread of this process keeps them all, from the first wait on.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

static ALARM: LazyLock<Arc<Alarm>> = LazyLock::new(|| {
    let alarm = Arc::new(Alarm::default());
    let rings = Arc::clone(&alarm);
    std::thread::spawn(move || rings.ring_for_ever());
    alarm
});

#[derive(Default)]
struct Alarm {
    waits: Mutex<Waits>,
    /// The first wait is another one.
    changed: Condvar,
}

#[derive(Default)]
struct Waits {
    /// By time, then by number.
    wakers: BTreeMap<(Instant, u64), Waker>,
    begun: u64,
}

/// Ends at `due`, never before it.
pub(crate) fn sleep_until(due: Instant) -> Sleep {
    Sleep { due, number: None }
}

/// See [`sleep_until`].
pub(crate) struct Sleep {
    due: Instant,
    /// Its number, once it has waited.
    number: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.due <= Instant::now() {
            return Poll::Ready(());
        }
        let mut waits = ALARM.lock();
        let number = *self.number.get_or_insert_with(|| {
            waits.begun += 1;
            waits.begun
        });
        let place = (self.due, number);
        waits.wakers.insert(place, cx.waker().clone());
        if waits.wakers.first_key_value().is_some_and(|(first, _)| *first == place) {
            ALARM.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            ALARM.lock().wakers.remove(&(self.due, number));
        }
    }
}

impl Alarm {
    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring_for_ever(&self) {
        let mut waits = self.lock();
        loop {
            let now = Instant::now();
            let later = waits.wakers.split_off(&(now, u64::MAX));
            let due = std::mem::replace(&mut waits.wakers, later);
            if !due.is_empty() {
                // A waker may do anything, so it is called without the lock.
                drop(waits);
                due.into_values().for_each(Waker::wake);
                waits = self.lock();
                continue;
            }
            let first = waits.wakers.first_key_value().map(|((due, _), _)| *due);
            waits = match first {
                None => self.changed.wait(waits).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let waited = self.changed.wait_timeout(waits, due.saturating_duration_since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn waits_end_and_never_early() {
        let begin = Instant::now();
        let waits: Vec<_> = [30, 10, 20, 0]
            .map(|ms| begin + Duration::from_millis(ms))
            .map(|due| {
                tokio::spawn(async move {
                    sleep_until(due).await;
                    assert!(Instant::now() >= due);
                })
            })
            .into();
        for wait in waits {
            tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it ends").expect("and not early");
        }
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_is_forgotten() {
        let due = Instant::now() + Duration::from_secs(3_600);
        let mut wait = Box::pin(sleep_until(due));
        let given_up = tokio::select! {
            biased;
            () = &mut wait => false,
            () = tokio::task::yield_now() => true,
        };
        let is_there = || ALARM.lock().wakers.keys().any(|(time, _)| *time == due);
        assert!(given_up && is_there());
        drop(wait);
        assert!(!is_there());
    }
}
