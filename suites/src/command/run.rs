//! `stormproof run`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use stormproof::plan::Plan;
use stormproof::report::summary::Summary;
use stormproof::report::{RunFolder, RunReport};
use stormproof::run::{Outcome, RunOptions, run_bundled};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::progress::Board;
use super::{CommandError, INTERRUPTED, interrupted, runtime};
use crate::suites;

/// Arguments of `stormproof run`.
#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// Run only suites whose name contains one of these
    filter: Vec<String>,
    /// List the suites and start nothing
    #[arg(long)]
    list: bool,
    /// Show what each suite would do and start nothing
    #[arg(long)]
    dry_run: bool,
    /// The cluster to test
    #[arg(long, default_value = "bundled", value_parser = ["bundled"])]
    target: String,
    /// Folder of text that the batch job counts [default: this workspace's sources]
    #[arg(long, value_name = "DIR")]
    input: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Folder for the report [default: stormproof-report/<time>]
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Suites that run at the same time, each on a cluster of its own
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    jobs: u32,
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
    let plans = selected(suites::headline(&input), &arguments.filter)?;
    if arguments.list {
        plans.iter().for_each(|plan| println!("{}", plan.name));
        return Ok(0);
    }
    if arguments.dry_run {
        plans.iter().for_each(print_plan);
        return Ok(0);
    }
    let folder = report_folder(arguments.report.as_deref())?;
    let runtime = runtime()?;
    let outcomes = runtime.block_on(run_all(arguments, plans, &folder));
    let Some(outcomes) = outcomes? else {
        eprintln!("interrupted; everything is healed, what was recorded is in {}", folder.path().display());
        return Ok(INTERRUPTED);
    };
    conclude(arguments, &outcomes, &folder)
}

fn check_input(input: &Path) -> Result<(), CommandError> {
    let files = crate::jobs::word_count::text_files(input)
        .map_err(|error| CommandError::usage(format!("cannot read input folder {}: {error}", input.display())))?;
    if files.is_empty() {
        return Err(CommandError::usage(format!(
            "input folder {} holds no text file; name another with --input",
            input.display()
        )));
    }
    Ok(())
}

fn selected(plans: Vec<Plan>, filter: &[String]) -> Result<Vec<Plan>, CommandError> {
    if filter.is_empty() {
        return Ok(plans);
    }
    let names: Vec<String> = plans.iter().map(|plan| plan.name.clone()).collect();
    if let Some(unknown) = filter.iter().find(|part| !names.iter().any(|name| name.contains(part.as_str()))) {
        return Err(CommandError::usage(format!(
            "no suite's name contains `{unknown}`; there are {}",
            names.join(", ")
        )));
    }
    Ok(plans.into_iter().filter(|plan| filter.iter().any(|part| plan.name.contains(part.as_str()))).collect())
}

fn print_plan(plan: &Plan) {
    println!("{}\n  {}", plan.name, plan.about);
    println!("  job {} {:?}", plan.job.name, plan.job.params);
    for fault in &plan.faults {
        println!("  fault {}: {} {}, healed {}", fault.name, fault.spec, fault.begin, fault.heal);
    }
}

/// A folder that is new: an earlier report is never written over.
fn report_folder(wanted: Option<&Path>) -> Result<RunFolder, CommandError> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let path =
        wanted.map_or_else(|| Path::new("stormproof-report").join(since_epoch.as_millis().to_string()), Path::to_owned);
    if path.join("summary.json").exists() {
        let message = format!("{} holds a report already; name another folder with --report", path.display());
        return Err(CommandError::usage(message));
    }
    RunFolder::create(path).map_err(|error| CommandError::bad_input(&error))
}

/// Runs all plans, a few at a time; `None` if interrupted, once every cluster is torn down.
async fn run_all(
    arguments: &RunArguments,
    plans: Vec<Plan>,
    folder: &RunFolder,
) -> Result<Option<Vec<Outcome>>, CommandError> {
    let board = Arc::new(Board::new());
    let places = Arc::new(Semaphore::new(arguments.jobs as usize));
    let mut running = JoinSet::new();
    for (position, plan) in plans.into_iter().enumerate() {
        let (board, places) = (Arc::clone(&board), Arc::clone(&places));
        let timeline = folder.suite(&plan.name).map_err(|error| CommandError::bad_input(&error))?;
        let options = RunOptions {
            run_dir: timeline.parent().unwrap_or(&timeline).to_owned(),
            seed: arguments.seed,
            repeat: repeat_command(arguments, &plan.name),
            progress: Arc::<Board>::clone(&board),
        };
        running.spawn(async move {
            // Closed only if this task is gone as well.
            let _place = places.acquire_owned().await;
            board.started(&plan.name);
            let result = run_bundled(&plan, &options).await;
            if let Ok(outcome) = &result {
                board.ended(outcome);
            }
            (position, result)
        });
    }
    let mut outcomes = vec![];
    loop {
        tokio::select! {
            ended = running.join_next() => match ended {
                None => break,
                Some(Ok((position, Ok(outcome)))) => outcomes.push((position, outcome)),
                Some(Ok((_, Err(error)))) => return Err(CommandError::internal(&error)),
                Some(Err(error)) => return Err(CommandError::internal(&error)),
            },
            () = interrupted() => {
                // Dropping the clusters ends their processes; their guardians undo what is open and tidy up.
                running.shutdown().await;
                return Ok(None);
            }
        }
    }
    outcomes.sort_by_key(|(position, _)| *position);
    Ok(Some(outcomes.into_iter().map(|(_, outcome)| outcome).collect()))
}

fn repeat_command(arguments: &RunArguments, suite: &str) -> String {
    let input = arguments.input.as_ref().map(|input| format!(" --input {}", input.display())).unwrap_or_default();
    format!("cargo run -- run {suite} --target {} --seed {}{input}", arguments.target, arguments.seed)
}

fn conclude(arguments: &RunArguments, outcomes: &[Outcome], folder: &RunFolder) -> Result<u8, CommandError> {
    let report = RunReport { suites: outcomes.iter().map(|outcome| outcome.report.clone()).collect() };
    folder.write(&report).map_err(|error| CommandError::internal(&error))?;
    let verdict = report.verdict();
    if arguments.json {
        println!("{}", Summary::of(&report).to_json());
    } else {
        for outcome in outcomes.iter().filter(|outcome| !outcome.verdict().is_green()) {
            println!("{}\n", outcome.explain());
        }
        let path = folder.path().join("report.md");
        println!("{} suites: {verdict}; report: {}", outcomes.len(), path.display());
    }
    if arguments.timings {
        print_timings(outcomes);
    }
    Ok(verdict.exit_code())
}

/// How long each cluster took to come up, and each job to recover.
fn print_timings(outcomes: &[Outcome]) {
    eprintln!("{:34} {:>16} {:>10}  recovery", "suite", "store and proxy", "ready");
    for outcome in outcomes {
        let Some(start) = outcome.start else { continue };
        let judgements = &outcome.report.judgements;
        let recovery = judgements.iter().find(|judgement| judgement.oracle == "recovery-time");
        eprintln!(
            "{:34} {:>13} ms {:>7} ms  {}",
            outcome.suite(),
            start.store_and_proxy.as_millis(),
            start.ready.as_millis(),
            recovery.map_or("-", |judgement| judgement.summary.as_str()),
        );
    }
}
