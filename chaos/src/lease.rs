//! How a fault is held: journalled before it is done, renewed while its holder lives, healed and verified before it is
//! forgotten.

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
        if let Err(source) = fault.inject().await {
            let failed = LeaseError::Fault { step: "inject", fault: fault.describe(), source };
            if fault.heal().await.is_ok() {
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
        if self.is_lost() {
            return Err(LeaseError::Lost { fault: self.describe() });
        }
        if !self.last.bites {
            let effect = self.fault.effect().await;
            self.last = effect.map_err(|source| self.failed("observe", source))?;
        }
        Ok(&self.last)
    }

    /// True if it was not renewed in time, so that the fault may have ended by itself.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.journal.is_lost(self.entry)
    }

    /// Heals the fault, waits until a probe says so, and strikes it out of the journal.
    ///
    /// # Errors
    /// When it may still be there after `deadline`; the journal then keeps it open. When it is healed, but the lease had
    /// ended before: nobody knows since when it was gone.
    pub async fn heal(mut self, deadline: Duration) -> Result<Effect, LeaseError> {
        let last = self.effect().await.cloned().unwrap_or_default();
        let lost = self.is_lost();
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
        self.journal.record_closed(self.entry)?;
        if lost { Err(LeaseError::Lost { fault: self.describe() }) } else { Ok(last) }
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
    use crate::journal::{Undo, open_entries, unix_ms};

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
        let journal = Journal::open(&path).expect("open");
        let fault = Scripted { bites: vec![false, true, false], ..Scripted::default() };
        let mut lease = Lease::inject(Box::new(fault.clone()), &journal).await.expect("injected");
        assert_eq!(open(&path), 1);
        assert!(!lease.effect().await.expect("known").bites);
        assert!(lease.effect().await.expect("known").bites);
        assert!(lease.effect().await.expect("known").bites, "once it has bitten it has bitten");
        let effect = lease.heal(Duration::from_secs(20)).await.expect("healed");
        assert!(effect.bites);
        assert_eq!(open(&path), 0);
        // The first probe still saw it, so it was asked again.
        assert_eq!(fault.calls(), ["inject", "effect", "effect", "heal", "is_healed", "is_healed"]);
    }

    #[tokio::test]
    async fn what_a_failed_injection_left_is_healed_at_once() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        let journal = Journal::open(&path).expect("open");
        let fault = Scripted { inject_fails: true, ..Scripted::default() };
        let Err(error) = Lease::inject(Box::new(fault.clone()), &journal).await else {
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
        let journal = Journal::open(&path).expect("open");
        let fault = Scripted { never_heals: true, ..Scripted::default() };
        let lease = Lease::inject(Box::new(fault), &journal).await.expect("injected");
        let healed = lease.heal(Duration::from_secs(2)).await;
        assert!(matches!(healed, Err(LeaseError::NotHealed { .. })), "{healed:?}");
        assert_eq!(open(&path), 1);
    }

    #[tokio::test]
    async fn a_lease_that_ended_is_healed_all_the_same_and_is_no_success() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        let journal = Journal::open(&path).expect("open").with_ttl(Duration::from_millis(100));
        let fault = Scripted::default();
        let mut lease = Lease::inject(Box::new(fault.clone()), &journal).await.expect("injected");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !lease.is_lost() {
            assert!(Instant::now() < deadline, "it never ends");
            tokio::task::yield_now().await;
        }
        assert!(matches!(lease.effect().await, Err(LeaseError::Lost { .. })));
        let healed = lease.heal(Duration::from_secs(20)).await;
        assert!(matches!(healed, Err(LeaseError::Lost { .. })), "{healed:?}");
        assert!(fault.calls().contains(&"heal"));
        assert_eq!(open(&path), 0);
    }

    #[tokio::test]
    async fn a_fault_that_was_done_after_its_lease_had_ended_is_healed_at_once() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        let journal = Journal::open(&path).expect("open").with_ttl(Duration::ZERO);
        let fault = Scripted::default();
        let Err(error) = Lease::inject(Box::new(fault.clone()), &journal).await else {
            panic!("the lease had ended");
        };
        assert!(matches!(error, LeaseError::Lost { .. }), "{error}");
        assert_eq!(fault.calls()[..2], ["inject", "heal"]);
        assert_eq!(open(&path), 0);
    }

    #[tokio::test]
    async fn a_lease_lasts_while_it_is_renewed_and_ends_when_that_ends() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        let journal = Journal::open(&path).expect("open").with_ttl(Duration::from_secs(2));
        let renewal = Renewal::start(journal.clone());
        let lease = Lease::inject(Box::new(Scripted::default()), &journal).await.expect("injected");
        let first_end = open_entries(&path).expect("readable")[0].until_unix_ms;
        let deadline = Instant::now() + Duration::from_secs(20);
        while unix_ms() <= first_end {
            assert!(Instant::now() < deadline, "the clock stands still");
            sleep(ASK_AGAIN).await;
        }
        assert!(!lease.is_lost(), "it was renewed");
        drop(renewal);
        while !lease.is_lost() {
            assert!(Instant::now() < deadline, "it is held for ever");
            sleep(ASK_AGAIN).await;
        }
    }
}
