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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;

    use super::*;
    use crate::journal::{Undo, open_entries};

    /// A fault made of switches, which writes down what was asked of it.
    #[derive(Clone, Default)]
    struct Scripted {
        calls: Arc<Mutex<Vec<&'static str>>>,
        inject_fails: bool,
        never_heals: bool,
        /// Answers of `effect`, one a call; the last one stays.
        bites: Vec<bool>,
    }

    impl Scripted {
        fn called(&self, what: &'static str) -> usize {
            let mut calls = self.calls.lock().expect("no panic");
            calls.push(what);
            calls.iter().filter(|call| **call == what).count()
        }

        fn calls(&self) -> Vec<&'static str> {
            self.calls.lock().expect("no panic").clone()
        }
    }

    #[async_trait]
    impl Fault for Scripted {
        fn describe(&self) -> Description {
            Description { kind: "scripted", target: "nothing".to_owned() }
        }

        fn undo(&self) -> Vec<Undo> {
            vec![Undo::RemoveFile { path: "nothing".into() }]
        }

        async fn inject(&mut self) -> Result<(), FaultError> {
            self.called("inject");
            if self.inject_fails {
                Err(FaultError::Nothing { what: "it".to_owned(), hint: "try again" })
            } else {
                Ok(())
            }
        }

        async fn effect(&mut self) -> Result<Effect, FaultError> {
            let asked = self.called("effect");
            let bites = self.bites.get(asked - 1).or(self.bites.last()).copied().unwrap_or(false);
            Ok(Effect { bites, counts: BTreeMap::new() })
        }

        async fn heal(&mut self) -> Result<(), FaultError> {
            self.called("heal");
            Ok(())
        }

        async fn is_healed(&mut self) -> Result<bool, FaultError> {
            Ok(self.called("is_healed") > 1 && !self.never_heals)
        }
    }

    fn open(path: &Path) -> usize {
        open_entries(path).expect("readable").len()
    }

    #[tokio::test]
    async fn a_fault_is_open_in_the_journal_from_before_it_is_done_until_it_is_healed() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        let mut journal = Journal::open(&path).expect("open");
        let fault = Scripted { bites: vec![false, true, false], ..Scripted::default() };
        let mut lease = Lease::inject(Box::new(fault.clone()), &mut journal).await.expect("injected");
        assert_eq!(open(&path), 1);
        assert!(!lease.effect().await.expect("known").bites);
        assert!(lease.effect().await.expect("known").bites);
        assert!(lease.effect().await.expect("known").bites, "once it has bitten it has bitten");
        let effect = lease.heal(&mut journal, Duration::from_secs(20)).await.expect("healed");
        assert!(effect.bites);
        assert_eq!(open(&path), 0);
        // The first probe still saw it, so it was asked again.
        assert_eq!(fault.calls(), ["inject", "effect", "effect", "heal", "is_healed", "is_healed"]);
    }

    #[tokio::test]
    async fn what_a_failed_injection_left_is_healed_at_once() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        let mut journal = Journal::open(&path).expect("open");
        let fault = Scripted { inject_fails: true, ..Scripted::default() };
        let Err(error) = Lease::inject(Box::new(fault.clone()), &mut journal).await else {
            panic!("the injection failed");
        };
        assert!(error.to_string().contains("could not inject scripted on nothing"), "{error}");
        assert_eq!(fault.calls(), ["inject", "heal"]);
        assert_eq!(open(&path), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_heal_that_no_probe_confirms_stays_open() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        let mut journal = Journal::open(&path).expect("open");
        let fault = Scripted { never_heals: true, ..Scripted::default() };
        let lease = Lease::inject(Box::new(fault), &mut journal).await.expect("injected");
        let healed = lease.heal(&mut journal, Duration::from_secs(2)).await;
        assert!(matches!(healed, Err(LeaseError::NotHealed { .. })), "{healed:?}");
        assert_eq!(open(&path), 1);
    }
}
