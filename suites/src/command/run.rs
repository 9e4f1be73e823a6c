//! `stormproof run`.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::json;
use stormproof::chaos::journal::DEFAULT_TTL;
use stormproof::nearest::nearest;
use stormproof::plan::{Plan, PlannedFault};
use stormproof::plural::counted;
use stormproof::report::summary::Summary;
use stormproof::report::{RunFolder, RunReport, TIMELINE, junit};
use stormproof::run::{Outcome, RunError, RunOptions, run_bundled};
use stormproof::target::bundled::PartChoices;
use stormproof::verdict::EXIT_INTERRUPTED;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::output::{note, say};
use super::parts::PartsArguments;
use super::progress::Board;
use super::{CommandError, runtime, stop};
use crate::suites;

/// Arguments of `stormproof run`.
#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// Run only suites whose name contains one of these; a whole name selects that suite alone
    filter: Vec<String>,
    /// Without a filter, run the suites of each fault as well and not only the headline suites
    #[arg(long)]
    all: bool,
    /// A filter must be a whole name
    #[arg(long)]
    exact: bool,
    /// List the suites and start nothing
    #[arg(long)]
    list: bool,
    /// Show what each suite would do and start nothing
    #[arg(long)]
    dry_run: bool,
    /// The cluster to test
    #[arg(long, default_value = "bundled", value_parser = ["bundled"])]
    target: String,
    #[command(flatten)]
    parts: PartsArguments,
    /// Folder of text that the batch job counts [default: this workspace's sources]
    #[arg(long, value_name = "DIR")]
    input: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Folder for the report [default: stormproof-report/<time>]
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Also write the result as JUnit XML, here
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Suites that run at the same time, each on a cluster of its own
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    jobs: u32,
    /// Seconds after which a fault ends by itself, in the proxy as well, if this process no longer renews it
    /// [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    lease: Option<u64>,
    /// Print how long clusters took to come up and tasks to run again
    #[arg(long)]
    timings: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the suites that the arguments name; the exit code.
pub(super) fn run(arguments: &RunArguments) -> Result<u8, CommandError> {
    let input = arguments.input.clone().unwrap_or_else(suites::default_input);
    check_input(&input)?;
    let mut plans = suites::headline(&input);
    if arguments.all || !arguments.filter.is_empty() {
        plans.extend(suites::of_each_fault(&input));
    }
    let plans = selected(plans, &arguments.filter, arguments.exact)?;
    let parts = arguments.parts.choices()?;
    if arguments.list || arguments.dry_run {
        show(arguments, &plans);
        return Ok(0);
    }
    arguments.junit.as_deref().map_or(Ok(()), check_junit)?;
    let folder = report_folder(arguments.report.as_deref())?;
    let outcomes = runtime()?.block_on(async {
        let stop = stop::at_signal()?;
        let outcomes = run_all(arguments, &parts, plans, &folder, &stop).await?;
        Ok((!stop.is_cancelled()).then_some(outcomes))
    })?;
    let Some(outcomes) = outcomes else {
        note(format_args!("interrupted; everything is healed, what was recorded is in {}", folder.path().display()));
        return Ok(EXIT_INTERRUPTED);
    };
    conclude(arguments, &outcomes, &folder)
}

fn check_input(input: &Path) -> Result<(), CommandError> {
    let files = crate::jobs::text::text_files(input)
        .map_err(|error| CommandError::usage(format!("cannot read input folder {}: {error}", input.display())))?;
    if files.is_empty() {
        return Err(CommandError::usage(format!(
            "input folder {} holds no text file; name another with --input",
            input.display()
        )));
    }
    files.iter().try_for_each(|file| check_readable(file))
}

/// Before anything starts: the job would fail at it, and the engine be blamed.
fn check_readable(file: &Path) -> Result<(), CommandError> {
    File::open(file).map(drop).map_err(|error| {
        let file = file.display();
        CommandError::usage(format!("cannot read input file {file}: {error}; make it readable, or move it elsewhere"))
    })
}

fn selected(plans: Vec<Plan>, filters: &[String], exact: bool) -> Result<Vec<Plan>, CommandError> {
    if filters.is_empty() {
        return Ok(plans);
    }
    let names: Vec<String> = plans.iter().map(|plan| plan.name.clone()).collect();
    // The command that repeats a suite names it in full, and must not run another whose name is longer.
    let whole = |filter: &String| exact || names.contains(filter);
    let selects = |filter: &String, name: &String| if whole(filter) { name == filter } else { name.contains(filter) };
    if let Some(unknown) = filters.iter().find(|filter| !names.iter().any(|name| selects(filter, name))) {
        let how = if exact { "is called" } else { "has a name that contains" };
        let nearest = nearest(unknown, names.iter().map(String::as_str));
        return Err(CommandError::usage(format!(
            "no suite {how} `{unknown}`{nearest}; `run --all --list` lists them all"
        )));
    }
    Ok(plans.into_iter().filter(|plan| filters.iter().any(|filter| selects(filter, &plan.name))).collect())
}

/// What would be run.
fn show(arguments: &RunArguments, plans: &[Plan]) {
    if arguments.json {
        let suite = |plan: &Plan| {
            let faults = plan.faults.iter().map(fault_line);
            json!({
                "name": plan.name, "about": plan.about, "job": plan.job.name, "params": plan.job.params,
                "faults": faults.collect::<Vec<_>>(), "budget": plan.budget.to_string(),
            })
        };
        return say(json!({ "suites": plans.iter().map(suite).collect::<Vec<_>>() }));
    }
    for plan in plans {
        say(&plan.name);
        if arguments.dry_run {
            say(format_args!("  {}\n  job {} {:?}", plan.about, plan.job.name, plan.job.params));
            plan.faults.iter().for_each(|fault| say(format_args!("  fault {}", fault_line(fault))));
            say(format_args!("  at most {}", plan.budget));
        }
    }
}

fn fault_line(fault: &PlannedFault) -> String {
    let end = if fault.is_for_good() { "not healed".to_owned() } else { format!("healed {}", fault.heal) };
    format!("{}: {} {}, {end}", fault.name, fault.spec, fault.begin)
}

/// Before anything starts: a result that cannot be written is noticed late. Nothing is left of the attempt.
fn check_junit(file: &Path) -> Result<(), CommandError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() || file.is_dir() {
        return Err(CommandError::usage(format!("--junit {} is no file in a folder that exists", file.display())));
    }
    let mut options = OpenOptions::new();
    let written = match options.append(true).create_new(true).open(file) {
        Ok(_) => std::fs::remove_file(file),
        // A pipe would take the end of this for the end of the result.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !file.is_file() => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => options.create_new(false).open(file).map(drop),
        Err(error) => Err(error),
    };
    written.map_err(|error| CommandError::usage(format!("--junit {} cannot be written: {error}", file.display())))
}

/// A folder that is new: an earlier report, or one that is being written, is never written over.
fn report_folder(wanted: Option<&Path>) -> Result<RunFolder, CommandError> {
    let Some(path) = wanted else {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let folder = RunFolder::create_new(Path::new("stormproof-report"), since_epoch.as_millis());
        return folder.map_err(|error| CommandError::bad_input(&error));
    };
    if holds_report(path) {
        let message = format!("{} holds a report already; name another folder with --report", path.display());
        return Err(CommandError::usage(message));
    }
    RunFolder::create(path).map_err(|error| CommandError::bad_input(&error))
}

/// True for a finished report, and for the records of a run that was killed.
fn holds_report(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    folder.join("summary.json").exists() || entries.into_iter().any(|entry| entry.path().join(TIMELINE).exists())
}

/// Runs all plans, a few at a time. Once `stop` is cancelled, or anything of ours breaks, no more are started and those
/// that run are healed and torn down.
async fn run_all(
    arguments: &RunArguments,
    parts: &PartChoices,
    plans: Vec<Plan>,
    folder: &RunFolder,
    stop: &CancellationToken,
) -> Result<Vec<Outcome>, CommandError> {
    let board = Arc::new(Board::new());
    // Cancelled with `stop`, but not the other way round.
    let end = stop.child_token();
    let mut waiting = VecDeque::new();
    for (position, plan) in plans.into_iter().enumerate() {
        let timeline = folder.suite(&plan.name).map_err(|error| CommandError::bad_input(&error))?;
        let run_dir = timeline.parent().unwrap_or(&timeline);
        let options = RunOptions {
            seed: arguments.seed,
            parts: parts.clone(),
            lease_ttl: arguments.lease.map_or(DEFAULT_TTL, Duration::from_secs),
            progress: Arc::<Board>::clone(&board),
            stop: end.clone(),
            ..RunOptions::new(run_dir, repeat_command(arguments, &plan.name))
        };
        waiting.push_back((position, plan, options));
    }
    let waiting = Arc::new(Mutex::new(waiting));
    let mut running = JoinSet::new();
    for _ in 0..arguments.jobs {
        running.spawn(run_some(Arc::clone(&waiting), Arc::clone(&board), end.clone()));
    }
    let (mut outcomes, mut broken) = (vec![], None);
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok(Ok(some)) => outcomes.extend(some),
            Ok(Err(error)) => broken = broken.or(Some(CommandError::internal(&error))),
            Err(error) => broken = broken.or(Some(CommandError::internal(&error))),
        }
        if broken.is_some() {
            end.cancel();
        }
    }
    outcomes.sort_by_key(|(position, _)| *position);
    broken.map_or_else(|| Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect()), Err)
}

/// Runs what waits, one plan after the other in their order, beside others that do the same.
async fn run_some(
    waiting: Arc<Mutex<VecDeque<(usize, Plan, RunOptions)>>>,
    board: Arc<Board>,
    end: CancellationToken,
) -> Result<Vec<(usize, Outcome)>, RunError> {
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let mut outcomes = vec![];
    while !end.is_cancelled()
        && let Some((position, plan, options)) = next()
    {
        board.started(&plan.name);
        let outcome = run_bundled(&plan, &options).await?;
        if !end.is_cancelled() {
            board.ended(&outcome);
        }
        outcomes.push((position, outcome));
    }
    Ok(outcomes)
}

/// The arguments that chose the suites.
fn chosen(arguments: &RunArguments) -> String {
    let flags = [(arguments.all, "--all"), (arguments.exact, "--exact")];
    let flags = flags.iter().filter(|(given, _)| *given).map(|(_, flag)| (*flag).to_owned());
    flags.chain(arguments.filter.iter().map(|filter| quoted(filter))).collect::<Vec<_>>().join(" ")
}

fn repeat_command(arguments: &RunArguments, suite: &str) -> String {
    let text = |path: &PathBuf| format!(" --input {}", quoted(&path.display().to_string()));
    let input = arguments.input.as_ref().map(text).unwrap_or_default();
    let parts = arguments.parts.repeated(quoted);
    let lease = arguments.lease.map(|seconds| format!(" --lease {seconds}")).unwrap_or_default();
    let suite = if suite.is_empty() { String::new() } else { format!(" {suite}") };
    format!("cargo run -- run{suite} --target {}{parts} --seed {}{lease}{input}", arguments.target, arguments.seed)
}

/// As a shell must read it to get it back.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn conclude(arguments: &RunArguments, outcomes: &[Outcome], folder: &RunFolder) -> Result<u8, CommandError> {
    let suites = outcomes.iter().map(|outcome| outcome.report.clone()).collect();
    let report = RunReport { suites, command: Some(repeat_command(arguments, &chosen(arguments))) };
    folder.write(&report).map_err(|error| CommandError::internal(&error))?;
    if let Some(file) = &arguments.junit {
        std::fs::write(file, junit::render(&report)).map_err(|error| {
            CommandError::usage(format!("the result could not be written to {}: {error}", file.display()))
        })?;
    }
    let verdict = report.verdict();
    if arguments.json {
        say(Summary::of(&report).to_json());
    } else {
        for outcome in outcomes.iter().filter(|outcome| !outcome.verdict().is_green()) {
            say(format_args!("{}\n", outcome.explain()));
        }
        let path = folder.path().join("report.md");
        let suites = counted(outcomes.len(), "suite");
        say(format_args!("{suites}: {verdict}; report: {}", path.display()));
    }
    if arguments.timings {
        print_timings(outcomes);
    }
    Ok(verdict.exit_code())
}

/// How long each cluster took to come up, and each job to recover.
fn print_timings(outcomes: &[Outcome]) {
    note(format_args!("{:34} {:>16} {:>10}  recovery", "suite", "store and proxy", "ready"));
    for outcome in outcomes {
        let Some(start) = outcome.start else { continue };
        let judgements = &outcome.report.judgements;
        let recovery = judgements.iter().find(|judgement| judgement.oracle == "recovery-time");
        note(format_args!(
            "{:34} {:>13} ms {:>7} ms  {}",
            outcome.suite(),
            start.store_and_proxy.as_millis(),
            start.ready.as_millis(),
            recovery.map_or("-", |judgement| judgement.summary.as_str()),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(filters: &[&str], exact: bool) -> Result<Vec<String>, String> {
        let plans = ["batch::kill", "batch::kill_twice", "stream::kill"].map(|name| Plan::new(name, "", "job"));
        let filters: Vec<String> = filters.iter().map(ToString::to_string).collect();
        let selected = selected(plans.to_vec(), &filters, exact).map_err(|error| error.message)?;
        Ok(selected.into_iter().map(|plan| plan.name).collect())
    }

    #[test]
    fn a_whole_name_selects_that_suite_alone() {
        assert_eq!(names(&["batch::kill"], false).as_deref(), Ok(["batch::kill".to_owned()].as_slice()));
        assert_eq!(names(&["kill"], false).map(|names| names.len()), Ok(3));
        assert_eq!(names(&["batch::kill", "twice"], false).map(|names| names.len()), Ok(2));
        assert!(names(&["kill"], true).is_err_and(|message| message.contains("no suite is called `kill`")));
    }

    #[test]
    fn a_name_that_does_not_exist_is_answered_with_the_nearest() {
        let refused = names(&["batch::kil_twice"], false).expect_err("refused");
        assert!(refused.contains("did you mean `batch::kill_twice`?"), "{refused}");
    }

    #[test]
    fn what_cannot_be_read_or_written_is_told_before_the_start() {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("file");
        check_junit(&file).expect("it can be made");
        assert!(
            check_readable(&file).is_err_and(|error| error.message.contains("cannot read input file")),
            "none made"
        );
        std::fs::write(&file, "an earlier result").expect("written");
        check_junit(&file).expect("it can be written");
        check_readable(&file).expect("it can be read");
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "an earlier result");
        let refused = check_junit(Path::new("/proc/stormproof-result")).expect_err("refused");
        assert!(refused.message.contains("--junit /proc/stormproof-result cannot be written"), "{refused}");
    }

    #[test]
    fn a_path_with_a_space_is_quoted_in_the_repeat_command() {
        assert_eq!(quoted("/data/texts"), "/data/texts");
        assert_eq!(quoted("my texts"), "'my texts'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
