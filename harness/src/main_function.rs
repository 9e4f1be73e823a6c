//! The main function of a test binary with `harness = false`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Failed, Trial};
use stormproof_chaos::tag::new_tag;

use crate::args::{self, Args};
use crate::job::{JobGraph, JobGraphError, JobRegistry, Params};
use crate::plan::Plan;
use crate::role;
use crate::run::{RunOptions, run_bundled};

/// Exit code of bad arguments, as libtest's.
const USAGE: u8 = 2;

/// Exit code of failed tests, as libtest's.
const FAILED: u8 = 101;

/// The jobs and suites of a binary.
#[derive(Debug, Default)]
pub struct App {
    registry: JobRegistry,
    suites: Vec<Plan>,
}

impl App {
    /// Registers a job by name.
    pub fn job<F>(&mut self, name: impl Into<String>, factory: F) -> &mut Self
    where
        F: Fn(&Params) -> Result<JobGraph, JobGraphError> + Send + Sync + 'static,
    {
        self.registry.register(name, factory);
        self
    }

    /// Registers many jobs.
    pub fn jobs(&mut self, register: impl FnOnce(&mut JobRegistry)) -> &mut Self {
        register(&mut self.registry);
        self
    }

    /// Adds a suite: one test.
    pub fn suite(&mut self, plan: Plan) -> &mut Self {
        self.suites.push(plan);
        self
    }
}

/// Runs the suites that `build` adds as tests, under `cargo test` and nextest alike.
///
/// In a process that was started as a coordinator, executor or guardian it becomes that instead; so `build` must do
/// nothing but name jobs and suites.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use stormproof::plan::Plan;
///
/// fn main() -> ExitCode {
///     stormproof::main(|app| {
///         app.suite(Plan::new("mine::control", "Nothing is broken.", "my-job"));
///     })
/// }
/// ```
#[must_use]
pub fn main(build: impl FnOnce(&mut App)) -> ExitCode {
    let mut app = App::default();
    build(&mut app);
    if let Some(code) = role::dispatch(&app.registry) {
        return code;
    }
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let args = match args::parse(arguments, |name| std::env::var(name).ok()) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(USAGE);
        }
    };
    if args.help {
        println!("{}", args::HELP);
        return ExitCode::SUCCESS;
    }
    run_tests(app.suites, &args)
}

fn run_tests(suites: Vec<Plan>, args: &Args) -> ExitCode {
    let binary = binary_name();
    let folder = records_folder(&binary);
    let trials = suites
        .into_iter()
        .filter(|plan| args.selects(&plan.name, false))
        .map(|plan| {
            let (folder, binary) = (folder.clone(), binary.clone());
            Trial::test(plan.name.clone(), move || run_one(&plan, &folder, &binary))
        })
        .collect();
    let conclusion = libtest_mimic::run(&args.to_mimic(), trials);
    // Empty unless a red suite has left its record.
    let _ = std::fs::remove_dir(folder);
    if conclusion.has_failed() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
}

/// One suite as a test. The record of a green one is removed, that of a red one is named.
fn run_one(plan: &Plan, folder: &Path, binary: &str) -> Result<(), Failed> {
    let run_dir = folder.join(plan.name.replace("::", "-"));
    let options = RunOptions::new(&run_dir, format!("cargo test --test {binary} -- --exact {}", plan.name));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(run_bundled(plan, &options)).map_err(|error| role::chain(&error))?;
    if outcome.verdict().is_green() {
        // What cannot be removed is only a record.
        let _ = std::fs::remove_dir_all(&run_dir);
        return Ok(());
    }
    Err(outcome.explain().into())
}

/// The binary's name without the hash that cargo adds.
fn binary_name() -> String {
    let path = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match stem.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name.to_owned(),
        _ => stem,
    }
}

/// A folder for the records of this process, in cargo's own folder for such things if there is one.
fn records_folder(binary: &str) -> PathBuf {
    let base = std::env::var_os("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    base.join("stormproof-tests").join(format!("{binary}-{}", new_tag()))
}
