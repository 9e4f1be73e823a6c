//! One fault by itself, held as a lease for a while: what `stormproof inject` does.
//!
//! As in a run, a guardian is there first, the undo is on disk before the deed, and the heal is verified. Where a
//! [plan](crate::plan)'s faults hurt a cluster of ours, this one hurts what is there already: a proxy, a process.

mod outcome;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use outcome::Held;
use stormproof_chaos::fault::Fault;
use stormproof_chaos::journal::{Journal, JournalError};
use stormproof_chaos::lease::{Lease, LeaseError, Renewal};
use stormproof_chaos::run_record::RUN_RECORD;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::guard::{Guard, Prepared};
use crate::role::Launcher;
use crate::run::HEAL_DEADLINE;
use crate::target::TargetError;

/// Pause between two looks at what the fault does.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// For how long a fault that only has to bite may take to.
const BITE_DEADLINE: Duration = Duration::from_secs(10);

/// How a fault is held.
#[derive(Debug, Clone)]
pub struct HoldOptions {
    /// For how long; without it until it has bitten, for what cannot be held (a kill).
    pub hold_for: Option<Duration>,
    /// For how long it stays once this process no longer renews its lease.
    pub lease_ttl: Duration,
    /// Where its journal goes, to be kept with the record and the guardian's log around it; without it, into a folder
    /// of its own that is removed once nothing is left.
    pub journal: Option<PathBuf>,
    /// Once it is cancelled the fault is healed at once.
    pub stop: CancellationToken,
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It is in place.
    Injected,
    /// It has bitten.
    Bites,
    /// It is being healed.
    Healing,
}

/// Nothing was injected, because its undo could not be looked after.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// The journal would be mixed with another one.
    #[error("{} holds another run's journal or record; name a file in a folder of its own", .0.display())]
    Taken(PathBuf),
    /// There is no place for the journal.
    #[error("neither XDG_STATE_HOME nor HOME says where the fault journal may lie; name a file for it")]
    NoPlace,
    /// The record or the guardian.
    #[error(transparent)]
    Guard(#[from] TargetError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Injects the fault that `make` makes from the run's tag, holds it and heals it. `told` hears how far it has come.
///
/// # Errors
/// When nothing could be injected at all. What breaks afterwards is in [`Held`].
pub async fn hold(
    make: impl FnOnce(&str) -> Box<dyn Fault>,
    options: &HoldOptions,
    told: impl Fn(Moment),
) -> Result<Held, HoldError> {
    let prepared = prepare(options.journal.as_deref())?;
    let fault = make(prepared.tag());
    let launcher = Launcher::new(prepared.tag()).map_err(TargetError::Launcher)?;
    let guard = prepared.start(&launcher).await?;
    let held = hold_guarded(fault, &guard, options, told).await;
    let left = guard.finish_alone().await;
    Ok(Held { left, ..held? })
}

fn prepare(journal: Option<&Path>) -> Result<Prepared, HoldError> {
    if let Some(journal) = journal
        && let Some(taken) = [journal.to_owned(), journal.with_file_name(RUN_RECORD)].into_iter().find(|it| it.exists())
    {
        return Err(HoldError::Taken(taken));
    }
    Guard::prepare_alone(journal)?.ok_or(HoldError::NoPlace)
}

async fn hold_guarded(
    fault: Box<dyn Fault>,
    guard: &Guard,
    options: &HoldOptions,
    told: impl Fn(Moment),
) -> Result<Held, HoldError> {
    let mut held = Held::nothing_done(fault.describe(), guard.journal().to_owned());
    let journal = Journal::open(guard.journal())?.with_ttl(options.lease_ttl);
    let _renewal = Renewal::start(journal.clone());
    if options.stop.is_cancelled() {
        held.interrupted = true;
        return Ok(held);
    }
    let mut lease = match Lease::inject(fault, &journal).await {
        Ok(lease) => lease,
        Err(error) => return Ok(Held { broke: Some(error), healed: Some(false), ..held }),
    };
    told(Moment::Injected);
    let injected = Instant::now();
    held.injected = true;
    held.broke = watch(&mut lease, options, &told).await.err();
    held.interrupted = options.stop.is_cancelled();
    told(Moment::Healing);
    held.held_for = options.hold_for.map(|_| injected.elapsed());
    let healed = lease.heal(HEAL_DEADLINE).await;
    // One whose lease was lost is gone as well; only nobody knows since when.
    let is_gone = matches!(healed, Ok(_) | Err(LeaseError::Lost { .. }));
    held.healed = options.hold_for.map(|_| is_gone);
    match healed {
        Ok(effect) => held.effect = effect,
        // What broke first says more.
        Err(error) => held.broke = held.broke.or(Some(error)),
    }
    Ok(held)
}

/// Looks at what the fault does until it has been held for long enough or has to end.
async fn watch(lease: &mut Lease, options: &HoldOptions, told: &impl Fn(Moment)) -> Result<(), LeaseError> {
    let end = Instant::now() + options.hold_for.unwrap_or(BITE_DEADLINE);
    let mut has_bitten = false;
    loop {
        let bites = tokio::select! {
            measured = lease.measure() => measured?.bites,
            // A proxy that does not answer must not put the heal off.
            () = options.stop.cancelled() => return Ok(()),
        };
        if bites && !has_bitten {
            told(Moment::Bites);
        }
        has_bitten = bites;
        let is_done = has_bitten && options.hold_for.is_none();
        let left = end.saturating_duration_since(Instant::now());
        if is_done || left.is_zero() {
            return Ok(());
        }
        tokio::select! {
            () = sleep(left.min(LOOK_EVERY)) => {}
            () = options.stop.cancelled() => {}
        }
    }
}
