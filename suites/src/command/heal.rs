//! `stormproof heal`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use stormproof::chaos::heal::{GuardianFound, HealError, Healed, heal as heal_run, heal_unfinished};
use stormproof::chaos::run_record::{RunRecord, RunRecordError, index_folder, indexed, indexed_unfinished, records_at};
use stormproof::verdict::Verdict;

use super::output::say;
use super::{CommandError, chain};

/// Arguments of `stormproof heal`.
#[derive(Debug, Args)]
pub(super) struct HealArguments {
    /// Reports, folders of runs, or fault journals [default: all runs of this user that left something]
    path: Vec<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What became of one run.
enum Outcome {
    Healed(Healed),
    /// Somebody is at work there.
    Alive(String),
    Failed(String),
}

struct Run {
    tag: String,
    outcome: Outcome,
}

/// Undoes what runs have left whose runner and guardian are dead; the exit code.
pub(super) fn heal(arguments: &HealArguments) -> Result<u8, CommandError> {
    let runs = heal_all(&arguments.path).map_err(|error| CommandError::bad_input(&error))?;
    if arguments.json {
        say(json!({ "runs": runs.iter().map(document).collect::<Vec<_>>() }));
    } else {
        runs.iter().flat_map(lines).for_each(say);
        if runs.is_empty() {
            say("no run has left anything");
        }
    }
    // A run that lives is passed over, unless it was named.
    let named = !arguments.path.is_empty();
    Ok(runs.iter().map(|run| verdict(run, named)).max().unwrap_or(Verdict::Pass).exit_code())
}

/// Heals what `paths` mean; all runs that left something, if there are none.
fn heal_all(paths: &[PathBuf]) -> Result<Vec<Run>, RunRecordError> {
    if !paths.is_empty() {
        let records: Result<Vec<_>, _> = paths.iter().map(|path| records_at(path)).collect();
        return Ok(records?.concat().iter().map(|record| heal_one(record)).collect());
    }
    let Some(folder) = index_folder() else { return Ok(vec![]) };
    // Listed first: healing a run removes its record, whole or not.
    let (unfinished, whole) = (indexed_unfinished(&folder)?, indexed(&folder)?);
    let unfinished = unfinished.iter().map(|path| {
        let tag = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Run { tag, outcome: outcome(heal_unfinished(path)) }
    });
    Ok(whole.iter().map(|record| heal_one(record)).chain(unfinished).collect())
}

fn heal_one(path: &Path) -> Run {
    let unnamed = || path.display().to_string();
    let record = match RunRecord::read(path) {
        Ok(record) => record,
        Err(error) => return Run { tag: unnamed(), outcome: Outcome::Failed(chain(&error)) },
    };
    Run { outcome: outcome(heal_run(&record)), tag: record.guardian.tag }
}

fn outcome(healed: Result<Healed, HealError>) -> Outcome {
    match healed {
        Ok(healed) => Outcome::Healed(healed),
        Err(error @ HealError::Alive { .. }) => Outcome::Alive(error.to_string()),
        Err(error) => Outcome::Failed(chain(&error)),
    }
}

fn verdict(run: &Run, named: bool) -> Verdict {
    match &run.outcome {
        Outcome::Healed(healed) if healed.sweep.problems.is_empty() => Verdict::Pass,
        Outcome::Alive(_) => {
            if named {
                Verdict::Refused
            } else {
                Verdict::Pass
            }
        }
        Outcome::Healed(_) | Outcome::Failed(_) => Verdict::Invalid,
    }
}

fn lines(run: &Run) -> Vec<String> {
    let tag = &run.tag;
    match &run.outcome {
        Outcome::Alive(why) | Outcome::Failed(why) => vec![why.clone()],
        Outcome::Healed(healed) if *healed == Healed::default() => vec![format!("run {tag} had left nothing")],
        Outcome::Healed(Healed { guardian, sweep }) => {
            let guardian = guardian.iter().map(|found| format!("run {tag}: {}", guardian_line(found)));
            let undone = sweep.undone.iter().map(|what| format!("run {tag}: undone: {what}"));
            let killed = sweep.killed.iter().map(|process| format!("run {tag}: killed: {process}"));
            let removed = sweep.removed.iter().map(|folder| format!("run {tag}: removed: {}", folder.display()));
            let problems = sweep.problems.iter().map(|problem| format!("run {tag}: not healed: {problem}"));
            guardian.chain(undone).chain(killed).chain(removed).chain(problems).collect()
        }
    }
}

fn guardian_line(found: &GuardianFound) -> String {
    let process = found.process;
    let was = if found.was_stopped { "was stopped, so it was continued" } else { "was still at work" };
    let end = if found.has_ended { "it has tidied up" } else { "it does not end, so its work was done here" };
    format!("its guardian ({process}) {was}; {end}")
}

fn document(run: &Run) -> Value {
    match &run.outcome {
        Outcome::Healed(Healed { guardian, sweep }) => json!({
            "run": run.tag,
            "guardian": guardian.map(|found| json!({
                "pid": found.process.pid,
                "was-stopped": found.was_stopped,
                "has-ended": found.has_ended,
            })),
            "state": if sweep.problems.is_empty() { "healed" } else { "not-healed" },
            "undone": sweep.undone,
            "killed": sweep.killed.iter().map(|process| process.pid).collect::<Vec<_>>(),
            "removed": sweep.removed,
            "problems": sweep.problems,
        }),
        Outcome::Alive(why) => json!({ "run": run.tag, "state": "alive", "problems": [why] }),
        Outcome::Failed(why) => json!({ "run": run.tag, "state": "not-healed", "problems": [why] }),
    }
}
