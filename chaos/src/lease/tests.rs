use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::*;
use crate::fault::HangProcess;
use crate::guardian::{GuardianConfig, sweep};
use crate::journal::{Undo, open_entries, unix_ms};
use crate::process::ProcessId;

/// A fault made of switches, which writes down what was asked of it.
#[derive(Clone, Default)]
struct Scripted {
    calls: Arc<Mutex<Vec<&'static str>>>,
    inject_fails: bool,
    /// The call that panics, e.g. `heal`.
    panics_in: &'static str,
    heal_fails: bool,
    never_heals: bool,
    /// Answers of `effect`, one a call; the last one stays.
    bites: Vec<bool>,
}

impl Scripted {
    fn called(&self, what: &'static str) -> usize {
        let mut calls = self.calls.lock().expect("no panic");
        calls.push(what);
        let count = calls.iter().filter(|call| **call == what).count();
        drop(calls);
        assert!(self.panics_in != what, "{what} broke");
        count
    }

    fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().expect("no panic").clone()
    }
}

#[async_trait]
impl Fault for Scripted {
    fn describe(&self) -> Description {
        Description::new("scripted", "nothing")
    }

    fn undo(&self) -> Vec<Undo> {
        vec![Undo::RemoveFile { path: "nothing".into() }]
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        self.called("inject");
        if self.inject_fails { Err(FaultError::Nothing { what: "it".to_owned(), hint: "try again" }) } else { Ok(()) }
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        let asked = self.called("effect");
        let bites = self.bites.get(asked - 1).or(self.bites.last()).copied().unwrap_or(false);
        Ok(Effect { bites, counts: BTreeMap::new() })
    }

    async fn counted(&mut self) -> BTreeMap<String, u64> {
        BTreeMap::from([("calls".to_owned(), self.calls().len() as u64)])
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        self.called("heal");
        if self.heal_fails { Err(FaultError::Nothing { what: "it".to_owned(), hint: "try again" }) } else { Ok(()) }
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
    assert_eq!(effect.counts["calls"], 3, "counted once more before it was healed");
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

/// Holds `fault`, heals it, and tells what went wrong, what was called, and how many faults are open then.
async fn held_and_healed(fault: Scripted) -> (String, Vec<&'static str>, usize) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("journal");
    let journal = Journal::open(&path).expect("open");
    let result = match Lease::inject(Box::new(fault.clone()), &journal).await {
        Ok(lease) => lease.heal(Duration::from_secs(20)).await.map(drop),
        Err(error) => Err(error),
    };
    let Err(LeaseError::Fault { step, source, .. }) = result else { panic!("{result:?}") };
    (format!("{step}: {source}"), fault.calls(), open(&path))
}

#[tokio::test]
async fn a_panic_while_injecting_is_an_error_and_what_was_done_is_healed() {
    let fault = Scripted { panics_in: "inject", ..Scripted::default() };
    let (error, calls, open) = held_and_healed(fault).await;
    assert_eq!(error, "inject: its code panicked: inject broke");
    assert_eq!((calls, open), (vec!["inject", "heal"], 0));
}

#[tokio::test]
async fn a_fault_whose_heal_panics_or_fails_stays_open_for_the_guardian() {
    let panics = Scripted { panics_in: "heal", ..Scripted::default() };
    let (error, _, open) = held_and_healed(panics).await;
    assert_eq!((error.as_str(), open), ("heal: its code panicked: heal broke", 1));
    let fails = Scripted { heal_fails: true, ..Scripted::default() };
    let (error, _, open) = held_and_healed(fails).await;
    assert!(error.starts_with("heal: it does not exist"), "{error}");
    assert_eq!(open, 1);
    let both = Scripted { inject_fails: true, panics_in: "heal", ..Scripted::default() };
    let (error, _, open) = held_and_healed(both).await;
    assert!(error.starts_with("inject: it does not exist"), "{error}");
    assert_eq!(open, 1);
}

#[tokio::test]
async fn a_panic_while_looking_for_its_effect_does_not_keep_it_from_being_healed() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("journal");
    let journal = Journal::open(&path).expect("open");
    let fault = Scripted { panics_in: "effect", ..Scripted::default() };
    let mut lease = Lease::inject(Box::new(fault.clone()), &journal).await.expect("injected");
    assert!(matches!(lease.effect().await, Err(LeaseError::Fault { step: "observe", .. })));
    assert!(!lease.heal(Duration::from_secs(20)).await.expect("healed").bites);
    assert_eq!(open(&path), 0);
}

#[tokio::test]
async fn a_stopped_process_that_vanished_counts_as_healed() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("journal");
    let journal = Journal::open(&path).expect("open");
    let mut command = std::process::Command::new("cat");
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("cat starts");
    let process = ProcessId::of(child.id()).expect("it runs");
    let hang = || Box::new(HangProcess::new("hang-executor", "executor-1", process));
    let lease = Lease::inject(hang(), &journal).await.expect("injected");
    let open_for_ever = Lease::inject(hang(), &journal).await.expect("injected");
    child.kill().expect("killed");
    child.wait().expect("reaped");
    lease.heal(Duration::from_secs(20)).await.expect("healed");
    let late = Lease::inject(hang(), &journal).await;
    assert!(late.is_err(), "there is nothing left to stop");
    drop(open_for_ever);
    let (tag, work_dirs, index) = (format!("lease-test-{}", std::process::id()), vec![], None);
    let config = GuardianConfig { tag, journal: path.clone(), work_dirs, index, own_dir: None };
    let swept = tokio::task::spawn_blocking(move || sweep(&config)).await.expect("no panic").expect("swept");
    assert_eq!((swept.undone.len(), swept.problems), (1, vec![]));
    assert_eq!(open(&path), 0);
}
