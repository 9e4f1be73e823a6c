//! The process that undoes what a dead runner left.
//!
//! It is started before anything else of a run, in a process group of its own, and waits for the end of its standard
//! input: a pipe whose other end only the runner holds. Meanwhile it undoes each fault whose lease has ended: a runner
//! that hangs does not renew it. However the runner ends (return, panic, SIGKILL), the pipe ends with it. Then the
//! guardian undoes what the journal has open (newest first), kills every process that carries the run's tag, removes the
//! run's work folders, and ends. Doing it all a second time is harmless.

mod expiry;
mod undo;

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use self::expiry::{Expiry, runtime};
#[cfg(test)]
pub(crate) use self::undo::tests::undone_by_the_guardian;
use self::undo::{undo_again, undo_entry};
use crate::journal::{Journal, JournalError, OpenEntry, open_entries};
use crate::process::{ProcessError, ProcessId, tagged_processes};
use crate::run_record::unfinished;

/// Pause between two looks for leases that have ended: what is not renewed outlives its lease by no more.
const LOOK_FOR_EXPIRED: Duration = Duration::from_millis(200);

/// How long killed processes may take to disappear.
const KILL_DEADLINE: Duration = Duration::from_secs(5);

/// For how long an undo that failed is tried again, all that is open together. A proxy that dies with its runner may
/// still accept a connection, and then reset it.
const UNDO_DEADLINE: Duration = Duration::from_secs(2);

/// How long the removal of one work folder may take.
const REMOVE_DEADLINE: Duration = Duration::from_secs(5);

/// For how long no process of the run must be seen before none is believed to be there.
const QUIET: Duration = Duration::from_millis(50);

/// Pause between two looks for processes of the run.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What a guardian looks after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuardianConfig {
    /// The run's tag: processes with [`RUN_TAG_VARIABLE`](crate::process::RUN_TAG_VARIABLE) set to it are killed.
    pub tag: String,
    /// The run's fault journal.
    pub journal: PathBuf,
    /// The run's work folders: removed.
    pub work_dirs: Vec<PathBuf>,
    /// The run's [record](crate::run_record) among those of all runs: removed once nothing is left.
    pub index: Option<PathBuf>,
    /// The folder of the run's own record, journal and log, if nobody wants to keep it: removed once nothing is left.
    #[serde(default)]
    pub own_dir: Option<PathBuf>,
}

/// What a sweep found and did. All zero and empty: the runner had left nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Faults that were undone.
    pub undone: Vec<String>,
    /// Processes that were killed.
    pub killed: Vec<ProcessId>,
    /// Work folders that were there and are removed.
    pub removed: Vec<PathBuf>,
    /// What could not be done.
    pub problems: Vec<String>,
}

/// A sweep was not complete.
#[derive(Debug, thiserror::Error)]
pub enum GuardianError {
    /// The journal is unreadable: what it holds must be undone by hand.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The runtime for the proxy's admin calls could not be built.
    #[error("could not start the guardian's runtime")]
    Runtime(#[source] io::Error),
    /// The thread that waits for the end of the runner could not be started.
    #[error("could not start the thread that watches the runner")]
    Thread(#[source] io::Error),
}

/// Waits for the end of `pipe`, then sweeps; meanwhile it undoes what was not renewed in time. This is the guardian
/// process's main function. `say` is told what happens.
///
/// # Errors
/// When the journal cannot be read; the rest of the sweep is done all the same.
pub fn watch_and_sweep(
    pipe: impl Read + Send + 'static,
    config: &GuardianConfig,
    say: impl Fn(&str),
) -> Result<Sweep, GuardianError> {
    let (held_by_reader, ended) = mpsc::channel::<()>();
    let reader = std::thread::Builder::new().name("runner".to_owned()).spawn(move || {
        await_end(pipe);
        drop(held_by_reader);
    });
    reader.map_err(GuardianError::Thread)?;
    let mut expiry = Expiry::new(config.journal.clone());
    let mut told = BTreeSet::new();
    while ended.recv_timeout(LOOK_FOR_EXPIRED) == Err(RecvTimeoutError::Timeout) {
        let (undone, problems) = expiry.look();
        undone.iter().for_each(|what| say(&format!("not renewed in time, so it was undone: {what}")));
        // The same problem comes back at each look until it is solved.
        problems.into_iter().filter(|problem| told.insert(problem.clone())).for_each(|problem| say(&problem));
    }
    sweep(config)
}

/// Blocks until `pipe` has ended. Whatever is written to it is ignored; a broken pipe is an end, too, but a read that a
/// signal interrupted is not.
pub fn await_end(mut pipe: impl Read) {
    let mut buffer = [0; 64];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
            _ => {}
        }
    }
}

/// Undoes, kills and removes, in this order. Idempotent.
///
/// # Errors
/// When the journal cannot be read; processes and folder are dealt with all the same.
pub fn sweep(config: &GuardianConfig) -> Result<Sweep, GuardianError> {
    let mut sweep = Sweep::default();
    let undone = undo_open(&config.journal, &mut sweep);
    kill_tagged(&config.tag, &mut sweep);
    config.work_dirs.iter().for_each(|folder| remove_folder(folder, &mut sweep));
    let undone = undone?;
    if !undone.is_empty() {
        let runtime = runtime().map_err(GuardianError::Runtime)?;
        undone.iter().for_each(|entry| runtime.block_on(undo_again(entry)));
    }
    if sweep.problems.is_empty() {
        forget(config, &mut sweep);
    }
    Ok(sweep)
}

/// Removes what only tells of the run. The index comes last: what it names is found until it is gone.
fn forget(config: &GuardianConfig, sweep: &mut Sweep) {
    let GuardianConfig { journal, index, own_dir, .. } = config;
    let unfinished = index.as_deref().map(unfinished);
    let records = [unfinished.as_deref(), index.as_deref()].into_iter().flatten();
    let own_dir = own_dir.iter().map(|folder| (folder.as_path(), remove_own(folder, journal)));
    for (path, removed) in own_dir.chain(records.map(|record| (record, gone_is_removed(std::fs::remove_file(record)))))
    {
        if let Err(error) = removed {
            return sweep.problems.push(format!("could not remove {}: {error}", path.display()));
        }
    }
}

/// Removes the run's own folder, and in it the journal last: whoever finds the folder empty knows that it was about to
/// go, and that nothing was left to undo.
fn remove_own(folder: &Path, journal: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let path = entry?.path();
        if path != journal {
            gone_is_removed(if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) })?;
        }
    }
    gone_is_removed(std::fs::remove_file(journal))?;
    gone_is_removed(std::fs::remove_dir(folder))
}

fn gone_is_removed(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Undoes what is open, newest first, and strikes out what is done. What had expired is undone again: a runner that was
/// stopped at the wrong moment may have done it afterwards. Answers with what is done.
fn undo_open(journal: &Path, sweep: &mut Sweep) -> Result<Vec<OpenEntry>, GuardianError> {
    let entries = open_entries(journal)?;
    let mut undone = vec![];
    if entries.is_empty() {
        return Ok(undone);
    }
    let runtime = runtime().map_err(GuardianError::Runtime)?;
    let journal = Journal::open(journal)?;
    let deadline = Instant::now() + UNDO_DEADLINE;
    for entry in entries.into_iter().rev() {
        let result = loop {
            match runtime.block_on(undo_entry(&entry)) {
                Err(_) if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
                result => break result,
            }
        };
        match result {
            Ok(()) => {
                // A kill that was open is closed, but there was nothing to undo.
                if !entry.undo.is_empty() {
                    sweep.undone.push(entry.what.clone());
                }
                if let Err(error) = journal.record_closed(entry.id) {
                    sweep.problems.push(error.to_string());
                }
                undone.push(entry);
            }
            Err(problems) => sweep.problems.extend(problems),
        }
    }
    Ok(undone)
}

/// Kills until no process has carried the tag for a while: one that is being started has no environment to be found
/// by until the kernel is done with its `exec`.
fn kill_tagged(tag: &str, sweep: &mut Sweep) {
    let deadline = Instant::now() + KILL_DEADLINE;
    let mut quiet_since = Instant::now();
    loop {
        let processes = tagged_processes(tag);
        for process in &processes {
            match process.kill() {
                Ok(()) if !sweep.killed.contains(process) => sweep.killed.push(*process),
                Ok(()) | Err(ProcessError::Gone(_)) => {}
                Err(error) => sweep.problems.push(error.to_string()),
            }
        }
        let now = Instant::now();
        if !processes.is_empty() {
            quiet_since = now;
        } else if now.duration_since(quiet_since) > QUIET {
            return;
        }
        if now > deadline {
            sweep.problems.push(format!("{} processes of run {tag} did not die", processes.len()));
            return;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Removes a folder and what is in it, again if need be: a process that was just killed may have made one more file.
fn remove_folder(folder: &Path, sweep: &mut Sweep) {
    let deadline = Instant::now() + REMOVE_DEADLINE;
    let was_there = folder.exists();
    loop {
        let removed = std::fs::remove_dir_all(folder);
        if !folder.exists() {
            if was_there {
                sweep.removed.push(folder.to_owned());
            }
            return;
        }
        if let Err(error) = removed
            && Instant::now() > deadline
        {
            return sweep.problems.push(format!("could not remove {}: {error}", folder.display()));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests;
