//! What a fault came to: for people, as JSON, as an exit code.

use serde_json::{Value, json};
use stormproof::chaos::fault::{Description, FaultError};
use stormproof::chaos::lease::LeaseError;
use stormproof::chaos::process::ProcessError;
use stormproof::inject::Held;
use stormproof::plural::effects;
use stormproof::verdict::{EXIT_INTERRUPTED, Verdict};

use crate::command::{CommandError, chain};

/// The exit code of what was done; an error if nothing was, because of what was asked for.
pub(super) fn exit_code(held: &Held) -> Result<u8, CommandError> {
    if let (false, None, Some(error)) = (held.injected, &held.left, &held.broke)
        && let LeaseError::Fault { source, .. } = error
    {
        match source {
            FaultError::Process(ProcessError::Gone(_)) => return Err(CommandError::not_there(chain(error))),
            FaultError::Proxy(refused) if refused.is_not_found() => {
                return Err(CommandError::not_there(chain(error)));
            }
            FaultError::Refused { .. } => return Err(CommandError::bad_input(error)),
            FaultError::Proxy(refused) if matches!(refused.status(), Some(400 | 409)) => {
                return Err(CommandError::bad_input(error));
            }
            _ => {}
        }
    }
    Ok(match held.verdict() {
        Verdict::Invalid => Verdict::Invalid.exit_code(),
        _ if held.interrupted => EXIT_INTERRUPTED,
        verdict => verdict.exit_code(),
    })
}

/// What went wrong, and what to do about it.
fn problems(held: &Held) -> Vec<String> {
    let broke = held.broke.as_ref().map(|error| chain(error));
    let next = match (&held.broke, &held.left) {
        (_, Some(left)) => {
            Some(format!("it may still be there ({left}); `stormproof heal {}` tries again", held.journal.display()))
        }
        (Some(_), None) if held.is_out_of_reach() => Some(
            "nobody answers there any more, so nobody has seen whether it is gone; a proxy server that has ended took it along"
                .to_owned(),
        ),
        (Some(_), None) => Some("what there was of it is undone, but it proves nothing; inject it again".to_owned()),
        (None, None) => None,
    };
    broke.into_iter().chain(next).collect()
}

/// For people: what was done, what it did, what it comes to.
pub(super) fn lines(held: &Held) -> Vec<String> {
    let what = &held.what;
    let how = if held.interrupted { ", and healed early because of a signal" } else { "" };
    let course = match (held.verdict(), held.held_for.map(|time| time.as_secs_f64())) {
        (Verdict::Invalid, _) if !held.injected => "could not be injected".to_owned(),
        _ if !held.injected => "not injected, because of a signal".to_owned(),
        (Verdict::Invalid, Some(seconds)) => format!("held for {seconds:.1} s"),
        (_, Some(seconds)) => format!("held for {seconds:.1} s{how}; the heal is verified"),
        (_, None) => "done".to_owned(),
    };
    let ledger = held.effect.counts.iter().map(|(name, count)| format!("  {}", effects(*count, name)));
    let verdict = match held.verdict() {
        Verdict::Vacuous if held.injected => "vacuous: nobody felt it".to_owned(),
        Verdict::Inconclusive => "inconclusive: who felt it cannot be known there".to_owned(),
        verdict => verdict.name().to_owned(),
    };
    let problems = problems(held).into_iter().map(|problem| format!("  {problem}"));
    let first = std::iter::once(format!("{what}: {course}"));
    first.chain(ledger).chain(problems).chain([verdict]).collect()
}

/// As JSON; `way` is where the proxy listens and where it leads to.
pub(super) fn document(held: &Held, way: Option<(&str, &str)>) -> Value {
    json!({
        "fault": held.what.kind,
        "target": format!("{}{}", held.what.target, held.what.detail),
        "listen": way.map(|(listen, _)| listen),
        "upstream": way.map(|(_, upstream)| upstream),
        "verdict": held.verdict().name(),
        "injected": held.injected,
        "held-ms": held.held_for.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        "interrupted": held.interrupted,
        // Nothing where there was nothing to heal.
        "heal-verified": held.healed,
        // Nothing where nobody can know.
        "effects": if held.effect.is_unknown() { Value::Null } else { json!(held.effect.counts) },
        "problems": problems(held),
        "journal": held.journal.exists().then(|| held.journal.display().to_string()),
    })
}

/// As JSON, of a fault that nobody waited for: how far it had come is not known.
pub(super) fn unverified(what: &Description, way: Option<(&str, &str)>) -> Value {
    json!({
        "fault": what.kind,
        "target": format!("{}{}", what.target, what.detail),
        "listen": way.map(|(listen, _)| listen),
        "upstream": way.map(|(_, upstream)| upstream),
        "verdict": Verdict::Invalid.name(),
        "injected": null,
        "held-ms": null,
        "interrupted": true,
        "heal-verified": false,
        "effects": null,
        "problems": ["ended at the second signal without waiting for the heal; the guardian does it"],
        "journal": null,
    })
}
