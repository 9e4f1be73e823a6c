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
    type Remove = fn(&Path) -> io::Result<()>;
    let unfinished = config.index.as_deref().map(unfinished);
    let in_order: [(Option<&Path>, Remove); 3] = [
        (config.own_dir.as_deref(), |path| std::fs::remove_dir_all(path)),
        (unfinished.as_deref(), |path| std::fs::remove_file(path)),
        (config.index.as_deref(), |path| std::fs::remove_file(path)),
    ];
    for (path, remove) in in_order {
        if let Some(path) = path
            && let Err(error) = remove(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return sweep.problems.push(format!("could not remove {}: {error}", path.display()));
        }
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
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::journal::Undo;
    use crate::process::RUN_TAG_VARIABLE;

    /// A run that has left nothing yet; its journal lies in `folder`.
    fn config(test: &str, folder: &Path) -> GuardianConfig {
        let tag = format!("{test}-{}", std::process::id());
        GuardianConfig { tag, journal: folder.join("journal"), work_dirs: vec![], index: None, own_dir: None }
    }

    #[test]
    fn a_proxy_that_dies_while_it_is_asked_has_nothing_left_to_undo() {
        let folder = tempfile::tempdir().expect("folder");
        let config = GuardianConfig {
            index: Some(folder.path().join("index.json")),
            ..config("guardian-test-proxy", folder.path())
        };
        std::fs::write(folder.path().join("index.json"), b"{}").expect("written");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let api = format!("http://{}", listener.local_addr().expect("known"));
        let undo = Undo::RemoveToxic { api, proxy: "store".to_owned(), toxic: "blackhole".to_owned() };
        Journal::open(&config.journal).expect("open").record_open("blackhole", vec![undo]).expect("record");
        // One connection is accepted and cut; then nobody listens.
        let proxy = std::thread::spawn(move || drop(listener.accept().expect("asked")));
        let sweep = sweep(&config).expect("swept");
        proxy.join().expect("no panic");
        assert_eq!((sweep.undone, sweep.problems), (vec!["blackhole".to_owned()], vec![]));
        assert!(!folder.path().join("index.json").exists());
    }

    #[test]
    fn a_call_of_the_dead_runner_that_came_late_is_undone_as_well() {
        let folder = tempfile::tempdir().expect("folder");
        let config = config("guardian-test-late", folder.path());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let api = format!("http://{}", listener.local_addr().expect("known"));
        let undo = Undo::RemoveToxic { api, proxy: "store".to_owned(), toxic: "late".to_owned() };
        Journal::open(&config.journal).expect("open").record_open("late", vec![undo]).expect("record");
        // The toxic arrives only after the guardian's first call.
        let proxy = std::thread::spawn(move || {
            for answer in ["404 Not Found\r\ncontent-length: 2\r\n\r\n{}", "204 No Content\r\n\r\n"] {
                let (mut stream, _) = listener.accept().expect("asked");
                let mut request = [0; 1024];
                let length = stream.read(&mut request).expect("a request");
                assert!(request[..length].starts_with(b"DELETE /proxies/store/toxics/late "));
                let answer = format!("HTTP/1.1 {answer}").replacen("\r\n", "\r\nconnection: close\r\n", 1);
                io::Write::write_all(&mut stream, answer.as_bytes()).expect("answered");
            }
        });
        let sweep = sweep(&config).expect("swept");
        assert_eq!((sweep.undone, sweep.problems), (vec!["late".to_owned()], vec![]));
        let deadline = Instant::now() + Duration::from_secs(20);
        while !proxy.is_finished() {
            assert!(Instant::now() < deadline, "it was asked once only");
            std::thread::yield_now();
        }
        proxy.join().expect("asked as it should be");
    }

    #[test]
    fn a_sweep_undoes_kills_and_removes_and_a_second_one_finds_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        let work_dir = folder.path().join("work");
        std::fs::create_dir_all(work_dir.join("executor-1/partitions")).expect("made");
        let fault_file = folder.path().join("fail-count-0");
        std::fs::write(&fault_file, b"").expect("written");
        let config = GuardianConfig { work_dirs: vec![work_dir.clone()], ..config("guardian-test", folder.path()) };
        let journal = Journal::open(&config.journal).expect("open");
        let healed = journal.record_open("healed", vec![Undo::RemoveFile { path: "/nonexistent".into() }]);
        journal.record_closed(healed.expect("record")).expect("record");
        journal.record_open("fail", vec![Undo::RemoveFile { path: fault_file.clone() }]).expect("record");
        let mut child = Command::new("cat")
            .env(RUN_TAG_VARIABLE, &config.tag)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("cat starts");
        // A stopped process must be killed as well.
        ProcessId::of(child.id()).expect("it runs").stop().expect("stopped");

        let first = sweep(&config).expect("swept");
        assert_eq!(first.undone, ["fail"]);
        assert_eq!(first.killed.iter().map(|process| process.pid).collect::<Vec<_>>(), [child.id()]);
        assert_eq!(first.removed, [work_dir.as_path()]);
        assert_eq!(first.problems, Vec::<String>::new());
        assert!(!fault_file.exists() && !work_dir.exists());
        child.wait().expect("reaped");

        let second = sweep(&config).expect("swept");
        assert_eq!((second.killed.len(), second.removed.len(), second.problems.len()), (0, 0, 0));
    }

    #[test]
    fn the_runs_own_folder_stays_until_nothing_is_left() {
        let folder = tempfile::tempdir().expect("folder");
        let own_dir = folder.path().join("own");
        std::fs::create_dir(&own_dir).expect("made");
        let journal = own_dir.join("journal");
        let config = GuardianConfig {
            journal: journal.clone(),
            index: Some(folder.path().join("index.json")),
            own_dir: Some(own_dir.clone()),
            ..config("guardian-own-test", folder.path())
        };
        let records = ["index.json", "index.unfinished"].map(|name| folder.path().join(name));
        // One that was killed while it wrote leaves both.
        records.iter().for_each(|record| std::fs::write(record, b"{}").expect("written"));
        // A folder cannot be removed as a file.
        let stuck = folder.path().join("stuck");
        std::fs::create_dir(&stuck).expect("made");
        let undo = vec![Undo::RemoveFile { path: stuck.clone() }];
        Journal::open(&journal).expect("open").record_open("stuck", undo).expect("record");
        assert_eq!(sweep(&config).expect("swept").problems.len(), 1);
        assert!(journal.exists() && folder.path().join("index.json").exists(), "whoever heals by hand needs them");
        std::fs::remove_dir(&stuck).expect("removed");
        assert_eq!(sweep(&config).expect("swept").undone, ["stuck"]);
        assert!(!own_dir.exists() && !records.iter().any(|record| record.exists()));
    }

    #[test]
    fn a_signal_is_not_the_end_of_the_pipe() {
        struct Signalled {
            reads: u32,
        }
        impl Read for &mut Signalled {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                self.reads += 1;
                if self.reads == 1 { Err(io::ErrorKind::Interrupted.into()) } else { Ok(0) }
            }
        }
        let mut pipe = Signalled { reads: 0 };
        await_end(&mut pipe);
        assert_eq!(pipe.reads, 2);
    }

    #[test]
    fn the_end_of_the_pipe_starts_the_sweep() {
        let folder = tempfile::tempdir().expect("folder");
        let work_dir = folder.path().join("work");
        std::fs::create_dir(&work_dir).expect("made");
        let config =
            GuardianConfig { work_dirs: vec![work_dir.clone()], ..config("guardian-pipe-test", folder.path()) };
        let swept = watch_and_sweep(&b"anything"[..], &config, |_| ()).expect("swept");
        assert_eq!(swept.removed, [work_dir]);
    }

    #[test]
    fn what_is_not_renewed_is_undone_although_the_runner_lives() {
        let folder = tempfile::tempdir().expect("folder");
        let config = config("guardian-lease-test", folder.path());
        let (held, lost) = (folder.path().join("hold-a-0"), folder.path().join("hold-b-0"));
        for file in [&held, &lost] {
            std::fs::write(file, b"").expect("written");
        }
        let journal = Journal::open(&config.journal).expect("open");
        let long = journal.clone().with_ttl(Duration::from_secs(3600));
        long.record_open("held", vec![Undo::RemoveFile { path: held.clone() }]).expect("record");
        let brief = journal.clone().with_ttl(Duration::from_millis(300));
        let id = brief.record_open("lost", vec![Undo::RemoveFile { path: lost.clone() }]).expect("record");

        let (reader, writer) = io::pipe().expect("a pipe");
        let watched = config.clone();
        let guardian = std::thread::spawn(move || watch_and_sweep(reader, &watched, |_| ()));
        let deadline = Instant::now() + Duration::from_secs(20);
        let expired = || {
            let open = open_entries(&config.journal).expect("read");
            open.iter().filter(|entry| entry.expired).map(|entry| entry.what.clone()).collect::<Vec<_>>()
        };
        while expired().is_empty() {
            assert!(Instant::now() < deadline, "the lease never ends");
            std::thread::yield_now();
        }
        assert_eq!(expired(), ["lost"]);
        assert!(held.exists() && !lost.exists());
        assert!(brief.is_lost(id));
        drop(writer);
        let swept = guardian.join().expect("no panic").expect("swept");
        assert_eq!(swept.undone, ["lost", "held"], "newest first; what expired may have been done afterwards");
        assert!(!held.exists());
        assert_eq!(open_entries(&config.journal).expect("read"), []);
    }

    #[test]
    fn a_folder_that_is_still_being_filled_is_removed_all_the_same() {
        let folder = tempfile::tempdir().expect("folder");
        let work_dir = folder.path().join("work");
        std::fs::create_dir(&work_dir).expect("made");
        let config =
            GuardianConfig { work_dirs: vec![work_dir.clone()], ..config("guardian-folder-test", folder.path()) };
        let filled = work_dir.clone();
        let (began, begins) = mpsc::channel();
        // Ends when its folder is gone, or after a while: then the sweep must still be trying.
        let filler = std::thread::spawn(move || {
            let mut number = 0;
            let mut end = None;
            let is_over = |end: Option<Instant>| end.is_some_and(|end| Instant::now() > end);
            while !is_over(end) && std::fs::write(filled.join(number.to_string()), b"").is_ok() {
                number += 1;
                if number == 500 {
                    end = Some(Instant::now() + Duration::from_millis(500));
                    began.send(()).expect("somebody waits");
                }
            }
        });
        begins.recv_timeout(Duration::from_secs(20)).expect("it fills");
        let swept = sweep(&config).expect("swept");
        filler.join().expect("no panic");
        assert_eq!((swept.removed, swept.problems), (vec![work_dir.clone()], vec![]));
        assert!(!work_dir.exists());
    }
}
