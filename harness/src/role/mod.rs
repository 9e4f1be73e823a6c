//! Roles: what a process of the user's own binary becomes instead of running tests.
//!
//! Executors, coordinators, guardians and real parts are started by executing the current binary again with
//! [`ROLE_VARIABLE`] set; [`dispatch`] looks at it before anything else. So test jobs are ordinary functions of the
//! user's binary, no extra binary has to be found, and `kill -9` is real.
//!
//! A role's configuration comes as the first line of its standard input (secrets never reach the environment, the
//! command line or a file); the end of that pipe means that the runner is gone or wants a clean end.

mod launch;
mod lifeline;
mod part;

use std::fmt;
use std::io::{self, BufRead, Write};
use std::pin::Pin;
use std::process::ExitCode;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use launch::last_line;
pub use launch::{Child, LaunchError, Launcher};
pub use part::PartConfig;
use stormproof_chaos::guardian::watch_and_sweep;
use stormproof_chaos::process::ProcessId;
use stormproof_chaos::run_record::{RUN_RECORD, RunRecord};
use stormproof_coordinator::config::{CoordinatorConfig, ExecutorConfig};
use stormproof_coordinator::graph::JobRegistry;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use lifeline::Lifeline;

/// Environment variable that names the role.
pub const ROLE_VARIABLE: &str = "STORMPROOF_ROLE";

/// What a process of this binary can become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The control plane.
    Coordinator,
    /// Runs tasks.
    Executor,
    /// Undoes what a dead runner left.
    Guardian,
    /// A program of others: a real store or a real proxy.
    Part,
}

impl Role {
    const ALL: [Self; 4] = [Self::Coordinator, Self::Executor, Self::Guardian, Self::Part];

    /// Its name, the value of [`ROLE_VARIABLE`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Executor => "executor",
            Self::Guardian => "guardian",
            Self::Part => "part",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Becomes the role that the environment names, until it ends; `None` if it names none and the program should go on.
///
/// Call it before anything else, with all jobs registered: nothing may be printed or started before.
#[must_use]
pub fn dispatch(registry: &JobRegistry) -> Option<ExitCode> {
    let name = std::env::var(ROLE_VARIABLE).ok()?;
    let Some(role) = Role::ALL.into_iter().find(|role| role.name() == name) else {
        eprintln!("{ROLE_VARIABLE} is set to `{name}`, which is no role; unset it");
        return Some(ExitCode::from(2));
    };
    Some(match become_role(role, registry) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{role} stopped: {}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    })
}

/// An error and its sources in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

fn become_role(role: Role, registry: &JobRegistry) -> Result<(), Box<dyn std::error::Error>> {
    if role == Role::Guardian {
        outlive_signals()?;
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    match role {
        // The guardian outlives its parent, so it must not be tied to it.
        Role::Guardian => {
            let record: RunRecord = serde_json::from_str(&line)?;
            let process = ProcessId::of(std::process::id());
            note_guardian(RunRecord { guardian_process: process.as_ref().ok().copied(), ..record.clone() });
            announce(process?.pid);
            let sweep = watch_and_sweep(io::stdin(), &record.guardian, |line| eprintln!("{line}"))?;
            for problem in &sweep.problems {
                eprintln!("{problem}");
            }
            if sweep.problems.is_empty() { Ok(()) } else { Err("the sweep was not complete".into()) }
        }
        Role::Part => Err(part::become_part(&serde_json::from_str(&line)?).into()),
        Role::Coordinator => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            serve(&line, runtime, |config: CoordinatorConfig, ended| {
                stormproof_coordinator::runtime::run(config, registry.clone(), announce, ended)
            })
        }
        Role::Executor => {
            serve(&line, stormproof_coordinator::executor::runtime()?, |config: ExecutorConfig, ended| {
                stormproof_coordinator::executor::run(config, registry.clone(), announce, ended)
            })
        }
    }
}

/// Writes down, among all runs and in the run's own folder, who guards it. What cannot be written is no reason not to
/// run.
fn note_guardian(record: RunRecord) {
    if let Err(error) = record.write(&record.guardian.journal.with_file_name(RUN_RECORD)) {
        eprintln!("`stormproof heal` does not know of this guardian: {}", chain(&error));
    }
    if let Some(index) = &record.guardian.index
        && let Err(error) = record.write(index)
    {
        eprintln!("`stormproof heal` must be told of this run's folder: {}", chain(&error));
    }
}

/// Runs a role that is tied to its parent, until it ends or its lifeline does.
fn serve<C, F, E>(
    line: &str,
    runtime: tokio::runtime::Runtime,
    run: impl FnOnce(C, Pin<Box<dyn Future<Output = ()> + Send>>) -> F,
) -> Result<(), Box<dyn std::error::Error>>
where
    C: DeserializeOwned,
    F: Future<Output = Result<(), E>>,
    E: std::error::Error + 'static,
{
    start_logging();
    let config = serde_json::from_str(line)?;
    let lifeline = Lifeline::tie()?;
    let result = runtime.block_on(run(config, Box::pin(lifeline.ended())));
    // A store call that hangs must not keep the process.
    runtime.shutdown_background();
    Ok(result?)
}

/// A guardian that a signal ended would leave everything behind: a service manager sends SIGTERM to all processes of a
/// service, and a process group that is orphaned while stopped is sent SIGHUP. Only the end of the pipe counts.
fn outlive_signals() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _context = runtime.enter();
    for kind in [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()] {
        // The handler stays for the life of the process, though nobody listens to what it tells.
        drop(signal(kind)?);
    }
    Ok(())
}

/// Tells the runner, through the pipe that is our standard output, that we can be used.
fn announce(ready: impl Serialize) {
    let line = serde_json::to_string(&ready).unwrap_or_default();
    let mut out = io::stdout().lock();
    // If nobody listens any more the lifeline ends us.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Logs to standard error, which the launcher points at the process's own log file.
fn start_logging() {
    // Plain targets and levels: a filter that needs regular expressions takes 50 ms to build in a debug build.
    let text = std::env::var("STORMPROOF_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter = text.parse::<Targets>().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(io::stderr);
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
}
