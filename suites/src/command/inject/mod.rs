//! `stormproof inject`: one fault on what is there already, held as a lease.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `arguments` | the command line |
//! | `toxic` | the toxic that was asked for, checked
//! | `victim` | what is to be broken, and what must not be |
//! | `progress` | the time left |
//! | `result` | what the fault did, and what that comes to |

mod arguments;
mod progress;
mod result;
mod toxic;
mod victim;

pub(super) use arguments::InjectArguments;

use std::sync::{Arc, OnceLock};

use serde_json::json;
use stormproof::chaos::journal::DEFAULT_TTL;
use stormproof::inject::{HoldError, HoldOptions, hold};
use stormproof::target::TargetError;

use self::arguments::{HoldArguments, OutputArguments};
use self::progress::Watch;
use self::result::{document, exit_code, lines, unverified};
use self::victim::Victim;
use super::output::say;
use super::{CommandError, runtime, stop};

/// In place of the run's tag where there is no run.
const ANY_TAG: &str = "RUN";

/// Injects a fault, holds it, heals it, and says what it did; the exit code.
pub(super) fn inject(arguments: &InjectArguments) -> Result<u8, CommandError> {
    let OutputArguments { journal, json, dry_run } = arguments.fault.output();
    let hold_arguments = arguments.fault.hold();
    runtime()?.block_on(async {
        let unfinished = Arc::new(OnceLock::new());
        let abandoned = Arc::clone(&unfinished);
        let stop = stop::at_signal_with(move || abandoned.get().into_iter().for_each(say))?;
        let victim = Victim::find(&arguments.fault).await?;
        let hold_for = hold_arguments.map(|hold| hold.hold_for);
        if *dry_run {
            show(&victim, hold_arguments, *json);
            return Ok(0);
        }
        if *json {
            unfinished.get_or_init(|| unverified(&victim.fault(ANY_TAG).describe(), victim.way()));
        }
        let lease_ttl = hold_arguments.map_or(DEFAULT_TTL, HoldArguments::lease_ttl);
        let options = HoldOptions { hold_for, lease_ttl, journal: journal.clone(), stop };
        let watch = Watch::new(victim.fault(ANY_TAG).describe().to_string(), hold_for);
        let held = hold(|tag| victim.fault(tag), &options, |moment| watch.told(moment)).await;
        watch.ended();
        let held = held.map_err(|error| not_held(&error))?;
        let code = exit_code(&held)?;
        if *json {
            say(document(&held, victim.way()));
        } else {
            lines(&held).into_iter().for_each(say);
        }
        Ok(code)
    })
}

/// What would be touched, and how that would be undone.
fn show(victim: &Victim, hold: Option<&HoldArguments>, json: bool) {
    let fault = victim.fault(ANY_TAG);
    let what = fault.describe();
    let steps = victim.steps(ANY_TAG);
    if json {
        let ms = |hold: &HoldArguments| u64::try_from(hold.hold_for.as_millis()).unwrap_or(u64::MAX);
        say(json!({
            "fault": what.kind,
            "target": format!("{}{}", what.target, what.detail),
            "listen": victim.way().map(|(listen, _)| listen),
            "upstream": victim.way().map(|(_, upstream)| upstream),
            "for-ms": hold.map(ms),
            "steps": steps,
            "undo": fault.undo(),
        }));
        return;
    }
    match hold {
        Some(hold) => say(format_args!("{what}, for {} s:", hold.hold_for.as_secs_f64())),
        None => say(format_args!("{what}, for good:")),
    }
    steps.iter().for_each(|step| say(format_args!("  {step}")));
}

fn not_held(error: &HoldError) -> CommandError {
    match error {
        HoldError::Taken(_)
        | HoldError::NoPlace
        | HoldError::Journal(_)
        | HoldError::Guard(TargetError::Record(_) | TargetError::File { .. }) => CommandError::bad_input(error),
        HoldError::Guard(_) => CommandError::precondition(error),
    }
}
