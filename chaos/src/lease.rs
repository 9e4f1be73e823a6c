//! How a fault is held: journalled before it is done, healed and verified before it is forgotten.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::fault::{Description, Effect, Fault, FaultError};
use crate::journal::{Journal, JournalError};

/// Pause between two questions whether a fault bites or is healed.
const ASK_AGAIN: Duration = Duration::from_millis(5);

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
}

/// A fault that is being held. Heal it; a lease that is dropped stays open in the journal and is undone by the
/// guardian.
#[must_use = "a fault must be healed"]
pub struct Lease {
    fault: Box<dyn Fault>,
    entry: u64,
    last: Effect,
}

impl Lease {
    /// Writes the undo to the journal, synced, and injects the fault.
    ///
    /// # Errors
    /// When the journal refuses (nothing was injected) or the injection fails (what was done of it is healed again).
    pub async fn inject(mut fault: Box<dyn Fault>, journal: &mut Journal) -> Result<Self, LeaseError> {
        let entry = journal.record_open(&fault.describe().to_string(), fault.undo())?;
        if let Err(source) = fault.inject().await {
            let failed = LeaseError::Fault { step: "inject", fault: fault.describe(), source };
            if fault.heal().await.is_ok() {
                journal.record_closed(entry)?;
            }
            return Err(failed);
        }
        Ok(Self { fault, entry, last: Effect::default() })
    }

    /// What is held.
    #[must_use]
    pub fn describe(&self) -> Description {
        self.fault.describe()
    }

    /// What it did so far. Once it has bitten it has bitten.
    ///
    /// # Errors
    /// When that could not be found out.
    pub async fn effect(&mut self) -> Result<&Effect, LeaseError> {
        if !self.last.bites {
            let effect = self.fault.effect().await;
            self.last = effect.map_err(|source| self.failed("observe", source))?;
        }
        Ok(&self.last)
    }

    /// Heals the fault, waits until a probe says so, and strikes it out of the journal.
    ///
    /// # Errors
    /// When it may still be there after `deadline`; the journal then keeps it open.
    pub async fn heal(mut self, journal: &mut Journal, deadline: Duration) -> Result<Effect, LeaseError> {
        let last = self.effect().await.cloned().unwrap_or_default();
        let healed = timeout(deadline, self.fault.heal()).await;
        match healed {
            Ok(Ok(())) => {}
            Ok(Err(source)) => return Err(self.failed("heal", source)),
            Err(_) => return Err(LeaseError::NotHealed { fault: self.describe(), waited: deadline }),
        }
        let end = Instant::now() + deadline;
        while !self.fault.is_healed().await.map_err(|source| self.failed("probe", source))? {
            if Instant::now() >= end {
                return Err(LeaseError::NotHealed { fault: self.describe(), waited: deadline });
            }
            sleep(ASK_AGAIN).await;
        }
        journal.record_closed(self.entry)?;
        Ok(last)
    }

    fn failed(&self, step: &'static str, source: FaultError) -> LeaseError {
        LeaseError::Fault { step, fault: self.fault.describe(), source }
    }
}
