//! The `stormproof` command: arguments in, exit code out.
//!
//! Results go to stdout, progress and logs to stderr; the exit codes of all commands stand in the help.

mod doctor;
mod explain;
mod heal;
mod inject;
mod jobs;
mod output;
mod parity;
mod parts;
mod progress;
mod proxy;
mod run;
mod s3;
mod settings;
mod stop;
mod submit;
mod up;
mod usage;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::process::Signal;
use stormproof::job::JobRegistry;
use stormproof::verdict::{EXIT_USAGE, Verdict};
use tokio::signal::unix::{SignalKind, signal};

/// As in the README, which says more.
const EXIT_CODES: &str = "Exit codes: 0 pass · 1 fail · 2 usage or bad input · 3 invalid · 4 vacuous · \
    5 inconclusive · 6 precondition · 7 refused · 130 interrupted";

/// Proves that a batch-and-stream engine recovers as it promises.
#[derive(Debug, Parser)]
#[command(name = "stormproof", version, about, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run suites: start a cluster for each, break things, judge, report
    Run(run::RunArguments),
    /// Start a bundled cluster and stay until interrupted
    Up(up::UpArguments),
    /// Run a job on a cluster and wait for its end
    Submit(submit::SubmitArguments),
    /// List the jobs of a cluster
    Jobs(jobs::JobsArguments),
    /// Cancel a job
    Cancel(jobs::CancelArguments),
    /// Hold one fault for a while on what is there already: a proxy, a process
    Inject(Box<inject::InjectArguments>),
    /// Undo what runs and injections have left that died together with their guardian
    Heal(heal::HealArguments),
    /// What restarts if a task or an executor fails, and why
    Explain(Box<explain::ExplainArguments>),
    /// Run the Toxiproxy-compatible proxy on its own
    Proxy(proxy::ProxyArguments),
    /// Run the S3 server on its own
    S3(s3::S3Arguments),
    /// Say what this machine can do, and what is missing
    Doctor(doctor::DoctorArguments),
}

/// A command that could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// One clear sentence: what was tried, on what, what to do.
    pub message: String,
    /// The exit code.
    pub code: u8,
}

impl CommandError {
    /// Bad usage or input.
    fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: EXIT_USAGE }
    }

    /// The same, for an error with sources.
    fn bad_input(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::usage(chain(error))
    }

    /// What is needed is not there or does not work.
    fn precondition(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::not_there(chain(error))
    }

    /// What is to be hurt is not there, or not as it must be.
    fn not_there(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: Verdict::Precondition.exit_code() }
    }

    /// It would hurt what it must not hurt.
    fn refused(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: Verdict::Refused.exit_code() }
    }

    /// Something of ours broke.
    fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        Self { message: chain(error), code: Verdict::Invalid.exit_code() }
    }
}

/// An error and its sources in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The command's main function.
#[must_use]
pub fn main() -> ExitCode {
    let mut registry = JobRegistry::default();
    crate::jobs::register(&mut registry);
    if let Some(code) = stormproof::role::dispatch(&registry) {
        return code;
    }
    let arguments = match Arguments::try_parse_from(proxy::with_two_dashes(std::env::args_os())) {
        Ok(arguments) => arguments,
        Err(error) => return usage::report(&error),
    };
    match execute(arguments.command) {
        Ok(code) => ExitCode::from(output::exit_code(code)),
        Err(error) => {
            output::note(format_args!("stormproof: {error}"));
            ExitCode::from(error.code)
        }
    }
}

fn execute(command: Command) -> Result<u8, CommandError> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Up(arguments) => up::up(&arguments),
        Command::Submit(arguments) => submit::submit(&arguments),
        Command::Jobs(arguments) => jobs::jobs(&arguments),
        Command::Cancel(arguments) => jobs::cancel(&arguments),
        Command::Inject(arguments) => inject::inject(&arguments),
        Command::Heal(arguments) => heal::heal(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Proxy(arguments) => proxy::proxy(&arguments),
        Command::S3(arguments) => s3::s3(&arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
    }
}

/// A runtime for one command.
fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = built.map_err(|error| CommandError::internal(&error))?;
    {
        let _inside = runtime.enter();
        // The handler stays: a write beyond the largest size of a file fails, and does not end us without a word.
        let handled = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()));
        handled.map(drop).map_err(|error| CommandError::internal(&error))?;
    }
    Ok(runtime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_readme_and_verdicts_name_the_same_exit_codes() {
        let codes: Vec<(&str, &str)> = EXIT_CODES
            .trim_start_matches("Exit codes: ")
            .split(" · ")
            .map(|code| code.split_once(' ').expect("a number and a name"))
            .collect();
        for (code, name) in &codes {
            assert!(include_str!("../../../README.md").contains(&format!("| {code} | {name} |")), "{code} {name}");
        }
        for verdict in Verdict::ALL.into_iter().filter(|verdict| *verdict != Verdict::Skipped) {
            let code = verdict.exit_code().to_string();
            assert!(codes.contains(&(code.as_str(), verdict.name())), "{code} {verdict:?}");
        }
    }
}
