//! How a fault is held: journalled before it is done, renewed while its holder lives, healed and verified before it is
//! forgotten.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::fault::{Description, Effect, Fault, FaultError};
use crate::journal::{Journal, JournalError};

/// Pause between two questions whether a fault bites or is healed.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// How long the heal of a fault may take whose lease had ended before it was done.
const HEAL_AT_ONCE: Duration = Duration::from_secs(5);

/// A fault could not be held as it should.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The journal refused; the fault was not injected.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A step of the fault failed.
    #[error("could not {step} {fault}")]
    Fault {
        /// `inject`, `observe`, `heal` or `probe`.
        step: &'static str,
        /// Which.
        fault: Description,
        /// Why.
        source: FaultError,
    },
    /// It was healed, but a probe still sees it.
    #[error("{fault} was healed, but {}s later a probe still sees it", waited.as_secs())]
    NotHealed {
        /// Which.
        fault: Description,
        /// For how long it was asked.
        waited: Duration,
    },
    /// It was not renewed in time.
    #[error("the lease on {fault} was not renewed in time, so it may have ended by itself; was this process stopped?")]
    Lost {
        /// Which.
        fault: Description,
    },
}

/// Renews the leases of a journal until it is dropped, each three times in its time to live.
#[derive(Debug)]
pub struct Renewal {
    task: JoinHandle<()>,
}

impl Renewal {
    /// Renews on the current runtime: if that hangs, leases end.
    #[must_use = "renewal ends when it is dropped"]
    pub fn start(journal: Journal) -> Self {
        let task = tokio::spawn(async move {
            let mut beats = interval(journal.ttl() / 3);
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                beats.tick().await;
                if let Err(error) = journal.renew() {
                    tracing::warn!(%error, "leases could not be renewed; they end by themselves");
                }
            }
        });
        Self { task }
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A fault that is being held. Heal it; a lease that is dropped stays open in the journal and is undone by the
/// guardian.
#[must_use = "a fault must be healed"]
pub struct Lease {
    fault: Box<dyn Fault>,
    journal: Journal,
    entry: u64,
    last: Effect,
}

impl Lease {
    /// Writes the undo to the journal, synced, and injects the fault.
    ///
    /// # Errors
    /// When the journal refuses (nothing was injected), the injection fails (what was done of it is healed again), or the
    /// lease ended meanwhile.
    pub async fn inject(mut fault: Box<dyn Fault>, journal: &Journal) -> Result<Self, LeaseError> {
        let entry = journal.record_open(&fault.describe().to_string(), fault.undo())?;
        if let Err(source) = caught(fault.inject()).await {
            let failed = LeaseError::Fault { step: "inject", fault: fault.describe(), source };
            if caught(fault.heal()).await.is_ok() {
                journal.record_closed(entry)?;
            }
            return Err(failed);
        }
        let lease = Self { fault, journal: journal.clone(), entry, last: Effect::default() };
        if lease.is_lost() {
            // Stopped between the record and the deed: whoever undid it was too early.
            let fault = lease.describe();
            lease.heal(HEAL_AT_ONCE).await?;
            return Err(LeaseError::Lost { fault });
        }
        Ok(lease)
    }

    /// What is held.
    #[must_use]
    pub fn describe(&self) -> Description {
        self.fault.describe()
    }

    /// What it did so far. Once it has bitten it has bitten.
    ///
    /// # Errors
    /// When that could not be found out, or the lease has ended.
    pub async fn effect(&mut self) -> Result<&Effect, LeaseError> {
        if self.last.bites && !self.is_lost() { Ok(&self.last) } else { self.measure().await }
    }

    /// The same, asked again although it has bitten: its counters go on.
    ///
    /// # Errors
    /// As for [`effect`](Self::effect).
    pub async fn measure(&mut self) -> Result<&Effect, LeaseError> {
        if self.is_lost() {
            return Err(LeaseError::Lost { fault: self.describe() });
        }
        let effect = caught(self.fault.effect()).await;
        let effect = effect.map_err(|source| self.failed("observe", source))?;
        self.last.take(effect);
        Ok(&self.last)
    }

    /// True if it was not renewed in time, so that the fault may have ended by itself.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.journal.is_lost(self.entry)
    }

    /// Heals the fault, waits until a probe says so, and strikes it out of the journal; gives what it did in the end.
    ///
    /// # Errors
    /// When it may still be there after `deadline`; the journal then keeps it open. When it is healed, but the lease had
    /// ended before: nobody knows since when it was gone.
    pub async fn heal(mut self, deadline: Duration) -> Result<Effect, LeaseError> {
        let mut last = self.effect().await.cloned().unwrap_or_default();
        last.counts.extend(caught(async { Ok(self.fault.counted().await) }).await.unwrap_or_default());
        let lost = self.is_lost();
        let healed = timeout(deadline, caught(self.fault.heal())).await;
        match healed {
            Ok(Ok(())) => {}
            Ok(Err(source)) => return Err(self.failed("heal", source)),
            Err(_) => return Err(LeaseError::NotHealed { fault: self.describe(), waited: deadline }),
        }
        let end = Instant::now() + deadline;
        while !caught(self.fault.is_healed()).await.map_err(|source| self.failed("probe", source))? {
            if Instant::now() >= end {
                return Err(LeaseError::NotHealed { fault: self.describe(), waited: deadline });
            }
            sleep(ASK_AGAIN).await;
        }
        self.journal.record_closed(self.entry)?;
        if lost { Err(LeaseError::Lost { fault: self.describe() }) } else { Ok(last) }
    }

    fn failed(&self, step: &'static str, source: FaultError) -> LeaseError {
        LeaseError::Fault { step, fault: self.fault.describe(), source }
    }
}

/// A fault's code is anybody's; a panic in it must not keep the other faults from being healed.
async fn caught<T>(step: impl Future<Output = Result<T, FaultError>>) -> Result<T, FaultError> {
    let mut step = pin!(step);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| step.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(FaultError::Panicked { message: message_of(&*panic) })))
    })
    .await
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests;
