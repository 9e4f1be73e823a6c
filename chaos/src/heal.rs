//! Tidying up after a run that died together with its guardian.
//!
//! Only what the run's own record names is touched, and only if its runner is gone.

use std::path::PathBuf;
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
    /// Not everything could be dealt with.
    #[error(transparent)]
    Guardian(#[from] GuardianError),
}

/// Undoes what a dead run's journal has open, kills its processes and removes its work folders, as its guardian would
/// have. Idempotent. A guardian that lives has the first turn, since two would get in each other's way; one that is
/// stopped is continued for that.
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
    Ok(Healed { guardian, sweep: sweep(&record.guardian)? })
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
