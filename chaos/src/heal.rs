//! Tidying up after a run that died together with its guardian.
//!
//! Only what the run's own record names is touched, and only if its runner is gone.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::guardian::{GuardianConfig, GuardianError, Sweep, sweep};
use crate::process::ProcessId;
use crate::run_record::RunRecord;

/// What the names of all our work folders begin with; the run's tag follows.
pub const WORK_FOLDER_PREFIX: &str = "stormproof-";

/// How long a guardian that lives may take to do its work: the sum of the deadlines of its sweep, and some more.
const GUARDIAN_DEADLINE: Duration = Duration::from_secs(15);

/// Pause between two looks whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What was found and done.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Healed {
    /// The guardian, if it lived.
    pub guardian: Option<GuardianFound>,
    /// What was left for us.
    pub sweep: Sweep,
}

/// A guardian that outlived its runner and was not done yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardianFound {
    /// Its process.
    pub process: ProcessId,
    /// It was stopped (SIGSTOP), so it was continued.
    pub was_stopped: bool,
    /// It has done its work and ended. If not, we did it.
    pub has_ended: bool,
}

/// A run was not touched.
#[derive(Debug, thiserror::Error)]
pub enum HealError {
    /// It is at work.
    #[error("run {tag} is alive ({runner}); end it instead, it heals by itself")]
    Alive {
        /// The run's tag.
        tag: String,
        /// Its process.
        runner: ProcessId,
    },
    /// Its record names a folder that no run makes: removing that would hurt somebody else.
    #[error("run {tag} names {} as its work folder, which is not named after it; nothing of it was touched", folder.display())]
    NotOurs {
        /// The run's tag.
        tag: String,
        /// The folder.
        folder: PathBuf,
    },
    /// It never became a run, but what tells of it stays.
    #[error("could not remove {}", path.display())]
    Unfinished {
        /// Its record, as far as it was written.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Not everything could be dealt with.
    #[error(transparent)]
    Guardian(#[from] GuardianError),
}

/// Undoes what a dead run's journal has open, kills its processes and removes its work folders, as its guardian would
/// have. Idempotent. A guardian that lives has the first turn, since two would get in each other's way; one that is
/// stopped is continued for that.
///
/// A journal that is gone is a problem: what was still to be undone is not known, so what tells of the run is kept.
///
/// # Errors
/// When the run lives, or its record is not to be trusted: then nothing is touched. When its journal cannot be read.
pub fn heal(record: &RunRecord) -> Result<Healed, HealError> {
    let GuardianConfig { tag, work_dirs, own_dir, .. } = &record.guardian;
    if record.runner.is_alive() {
        return Err(HealError::Alive { tag: tag.clone(), runner: record.runner });
    }
    let name = format!("{WORK_FOLDER_PREFIX}{tag}");
    let is_named_after_it = |folder: &&PathBuf| tag.is_empty() || folder.file_name().is_none_or(|end| end != &*name);
    if let Some(folder) = work_dirs.iter().chain(own_dir).find(is_named_after_it) {
        return Err(HealError::NotOurs { tag: tag.clone(), folder: folder.clone() });
    }
    let guardian = record.guardian_process.and_then(wait_for);
    if !has_lost_its_journal(record) {
        return Ok(Healed { guardian, sweep: sweep(&record.guardian)? });
    }
    let mut sweep = sweep(&GuardianConfig { index: None, own_dir: None, ..record.guardian.clone() })?;
    sweep.problems.push(format!(
        "the fault journal {} is gone, so nobody can know whether anything is still broken; look for it, undo it by \
         hand, then put an empty file there",
        record.guardian.journal.display()
    ));
    Ok(Healed { guardian, sweep })
}

/// The journal is there before the guardian, and goes only with the run's own folder, as the last thing in it.
fn has_lost_its_journal(record: &RunRecord) -> bool {
    let GuardianConfig { journal, own_dir, .. } = &record.guardian;
    let is_empty = |folder: &PathBuf| std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    let was_removed = own_dir.as_ref().is_some_and(|folder| !folder.exists() || is_empty(folder));
    record.guardian_process.is_some() && !journal.exists() && !was_removed
}

/// Removes a record that never became whole (see [`indexed_unfinished`](crate::run_record::indexed_unfinished)), once
/// its run is dead. There is nothing else of it: whatever a run does, it does after that.
///
/// # Errors
/// When the run lives, or the file system refuses.
pub fn heal_unfinished(path: &Path) -> Result<Healed, HealError> {
    // A tag begins with the runner's pid, and there may be no more of the record than that.
    let tag = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let pid = tag.split('-').next().and_then(|pid| pid.parse().ok());
    if let Some(runner) = pid.and_then(|pid| ProcessId::of(pid).ok()).filter(ProcessId::is_alive) {
        return Err(HealError::Alive { tag, runner });
    }
    match std::fs::remove_file(path) {
        // It became whole meanwhile, or somebody else heals.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Healed::default()),
        Err(source) => Err(HealError::Unfinished { path: path.to_owned(), source }),
        Ok(()) => Ok(Healed { sweep: Sweep { removed: vec![path.to_owned()], ..Sweep::default() }, guardian: None }),
    }
}

/// Lets a guardian finish; `None` if it is gone.
fn wait_for(process: ProcessId) -> Option<GuardianFound> {
    if !process.is_alive() {
        return None;
    }
    let end = Instant::now() + GUARDIAN_DEADLINE;
    let mut was_stopped = false;
    while process.is_alive() && Instant::now() < end {
        // One that cannot be continued is not waited for any longer than one that does not end.
        was_stopped |= process.is_stopped() && process.resume().is_ok();
        std::thread::sleep(LOOK_AGAIN);
    }
    Some(GuardianFound { process, was_stopped, has_ended: !process.is_alive() })
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::journal::{Journal, Undo};
    use crate::process::RUN_TAG_VARIABLE;
    use crate::run_record::{indexed, indexed_unfinished};

    fn child(tag: &str) -> Child {
        let mut command = Command::new("cat");
        command.env(RUN_TAG_VARIABLE, tag).stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().expect("cat starts")
    }

    /// A run with everything that it can leave, in `folder`.
    fn record(folder: &std::path::Path, runner: ProcessId, tag: &str) -> RunRecord {
        let work_dir = folder.join(format!("{WORK_FOLDER_PREFIX}{tag}"));
        std::fs::create_dir_all(work_dir.join("executor-1")).expect("made");
        let journal = folder.join("journal");
        let file = folder.join("hold-a-0");
        std::fs::write(&file, b"").expect("written");
        Journal::open(&journal)
            .expect("open")
            .record_open("hold", vec![Undo::RemoveFile { path: file }])
            .expect("open");
        let index = Some(folder.join("index.json"));
        let guardian = GuardianConfig { tag: tag.to_owned(), journal, work_dirs: vec![work_dir], index, own_dir: None };
        let record = RunRecord { runner, guardian, guardian_process: None };
        record.write(&folder.join("index.json")).expect("written");
        record
    }

    #[test]
    fn a_dead_run_is_healed_and_a_living_one_is_left_alone() {
        let folder = tempfile::tempdir().expect("folder");
        let tag = format!("heal-test-{}", std::process::id());
        let mut runner = child("another");
        let mut left = child(&tag);
        let id = ProcessId::of(runner.id()).expect("it runs");
        let record = record(folder.path(), id, &tag);
        let there = || ["hold-a-0", "index.json"].map(|name| folder.path().join(name).exists());

        let alive = heal(&record).expect_err("refused");
        assert!(matches!(alive, HealError::Alive { runner, .. } if runner == id), "{alive}");
        assert_eq!((there(), record.guardian.work_dirs[0].exists()), ([true; 2], true));
        assert!(ProcessId::of(left.id()).expect("it runs").is_alive());

        runner.kill().expect("killed");
        // Not reaped yet: a zombie holds nothing.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while id.is_alive() {
            assert!(std::time::Instant::now() < deadline, "it does not die");
            std::thread::yield_now();
        }
        let healed = heal(&record).expect("healed");
        assert_eq!(healed.guardian, None);
        assert_eq!((healed.sweep.undone, healed.sweep.problems), (vec!["hold".to_owned()], vec![]));
        assert_eq!(healed.sweep.killed.iter().map(|process| process.pid).collect::<Vec<_>>(), [left.id()]);
        assert_eq!(healed.sweep.removed, record.guardian.work_dirs);
        assert_eq!((there(), record.guardian.work_dirs[0].exists()), ([false; 2], false));
        assert_eq!(heal(&record).expect("again"), Healed::default(), "a second time finds nothing");
        for child in [&mut runner, &mut left] {
            child.wait().expect("reaped");
        }
    }

    #[test]
    fn a_journal_that_is_gone_leaves_everything_unknown() {
        let folder = tempfile::tempdir().expect("folder");
        let (mut runner, mut guardian) = (child("another"), child("another"));
        let [id, process] = [&runner, &guardian].map(|child| ProcessId::of(child.id()).expect("it runs"));
        let guarded = record(folder.path(), id, &format!("heal-unknown-test-{}", std::process::id()));
        let guarded = RunRecord { guardian_process: Some(process), ..guarded };
        for child in [&mut runner, &mut guardian] {
            child.kill().expect("killed");
            child.wait().expect("reaped");
        }
        std::fs::remove_file(&guarded.guardian.journal).expect("removed");
        let healed = heal(&guarded).expect("as far as it goes");
        assert!(healed.sweep.problems[0].contains("is gone, so nobody can know"), "{healed:?}");
        assert_eq!(healed.sweep.removed, guarded.guardian.work_dirs, "what is known is done");
        assert!(folder.path().join("index.json").exists(), "it is asked about again");
        std::fs::write(&guarded.guardian.journal, b"").expect("written");
        assert_eq!(heal(&guarded).expect("healed"), Healed::default());
        assert!(!folder.path().join("index.json").exists());
        // Nothing was done before the guardian was at work, nor after the run's own folder was emptied.
        let unguarded = RunRecord { guardian_process: None, ..guarded.clone() };
        let own_dir = folder.path().join(format!("{WORK_FOLDER_PREFIX}{}", guarded.guardian.tag));
        std::fs::create_dir(&own_dir).expect("made");
        let config = GuardianConfig { own_dir: Some(own_dir), ..guarded.guardian.clone() };
        let emptied = RunRecord { guardian: config, ..guarded };
        std::fs::remove_file(&emptied.guardian.journal).expect("removed");
        for record in [emptied, unguarded] {
            assert_eq!(heal(&record).expect("healed").sweep.problems, Vec::<String>::new(), "{record:?}");
        }
    }

    #[test]
    fn a_record_that_never_became_whole_is_removed_once_its_run_is_dead() {
        let folder = tempfile::tempdir().expect("folder");
        let mut runner = child("another");
        let path = folder.path().join(format!("{}-1a.unfinished", runner.id()));
        std::fs::write(&path, b"{\"runn").expect("written");
        let only = std::slice::from_ref(&path);
        assert_eq!(indexed_unfinished(folder.path()).expect("listed"), only);
        assert!(matches!(heal_unfinished(&path), Err(HealError::Alive { .. })));
        runner.kill().expect("killed");
        runner.wait().expect("reaped");
        assert_eq!(heal_unfinished(&path).expect("healed").sweep.removed, only);
        assert_eq!(heal_unfinished(&path).expect("healed"), Healed::default());
        let whole = path.with_extension("json");
        for written in [&path, &whole] {
            std::fs::write(written, b"{}").expect("written");
        }
        assert_eq!(
            indexed_unfinished(folder.path()).expect("listed"),
            Vec::<PathBuf>::new(),
            "the record goes with it"
        );
        assert_eq!(indexed(folder.path()).expect("listed"), [whole]);
    }

    #[test]
    fn a_guardian_that_is_stopped_is_continued_and_has_the_first_turn() {
        let folder = tempfile::tempdir().expect("folder");
        let (mut runner, mut guardian) = (child("another"), child("another"));
        let [id, process] = [&runner, &guardian].map(|child| ProcessId::of(child.id()).expect("it runs"));
        let record = record(folder.path(), id, &format!("heal-stopped-test-{}", std::process::id()));
        let record = RunRecord { guardian_process: Some(process), ..record };
        runner.kill().expect("killed");
        runner.wait().expect("reaped");
        process.stop().expect("stopped");
        // The end of its pipe would end it, but it cannot notice.
        drop(guardian.stdin.take());
        let healed = heal(&record).expect("healed");
        assert_eq!(healed.guardian, Some(GuardianFound { process, was_stopped: true, has_ended: true }));
        assert_eq!(healed.sweep.undone, ["hold"], "this one left everything to us");
        guardian.wait().expect("reaped");
        assert_eq!(heal(&record).expect("again"), Healed::default());
    }

    #[test]
    fn a_folder_that_is_not_named_after_the_run_is_not_removed() {
        let folder = tempfile::tempdir().expect("folder");
        let mut runner = child("another");
        let id = ProcessId::of(runner.id()).expect("it runs");
        let mut record = record(folder.path(), id, "heal-foreign-test");
        runner.kill().expect("killed");
        runner.wait().expect("reaped");
        let foreign = folder.path().join("precious");
        std::fs::create_dir(&foreign).expect("made");
        let own_dir = RunRecord {
            guardian: GuardianConfig { own_dir: Some(foreign.clone()), ..record.guardian.clone() },
            ..record.clone()
        };
        record.guardian.work_dirs.push(foreign.clone());
        for record in [record, own_dir] {
            let refused = heal(&record).expect_err("refused");
            assert!(matches!(&refused, HealError::NotOurs { folder, .. } if *folder == foreign), "{refused}");
        }
        assert!(foreign.exists() && folder.path().join("hold-a-0").exists(), "nothing was touched");
    }
}
