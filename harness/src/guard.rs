//! A run's tag, journal and work folders, and the guardian that looks after them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stormproof_chaos::guardian::{GuardianConfig, Sweep, sweep};
use stormproof_chaos::heal::WORK_FOLDER_PREFIX;
use stormproof_chaos::process::ProcessId;
use stormproof_chaos::run_record::{FolderClaim, RUN_RECORD, RunRecord, index_folder};
use stormproof_chaos::tag::new_tag;

use crate::role::{Child, Launcher, Role, chain};
use crate::target::TargetError;

/// How long the guardian's sweep may take at the end of a run.
const SWEEP_DEADLINE: Duration = Duration::from_secs(10);

/// A run that has a name and nothing else yet.
pub(crate) struct Prepared {
    config: GuardianConfig,
    log: PathBuf,
}

/// Name of the fault journal in the folder of its run.
const JOURNAL: &str = "faults.journal";

/// Name of the guardian's log.
const LOG: &str = "guardian.log";

/// Where Linux keeps files in memory.
pub(crate) const MEMORY_DIR: &str = "/dev/shm";

/// The guardian of a run, started.
pub(crate) struct Guard {
    config: GuardianConfig,
    guardian: Child,
    _folder: FolderClaim,
}

impl Guard {
    /// Names the run.
    pub(crate) fn prepare(run_dir: &Path) -> Result<Prepared, TargetError> {
        let tag = new_tag();
        let name = format!("{WORK_FOLDER_PREFIX}{tag}");
        let mut work_dirs = vec![std::env::temp_dir().join(&name)];
        if Path::new(MEMORY_DIR).is_dir() {
            work_dirs.push(Path::new(MEMORY_DIR).join(name));
        }
        let journal = absolute(run_dir)?.join(JOURNAL);
        let index = index_of(&tag);
        let config = GuardianConfig { tag, journal, work_dirs, index, own_dir: None };
        Ok(Prepared { config, log: run_dir.join(LOG) })
    }

    /// Names a run that starts nothing, only breaks something, and writes down at once that it is there: whoever wants
    /// to heal it has no report to look into. Its record, journal and log lie around `journal`, to be kept; without
    /// one, in a folder of its own until nothing is left.
    ///
    /// `None`: without a journal there is no place for it, since the environment names no home.
    pub(crate) fn prepare_alone(journal: Option<&Path>) -> Result<Option<Prepared>, TargetError> {
        let tag = new_tag();
        let index = index_of(&tag);
        let (journal, own_dir) = match journal {
            Some(journal) => (absolute(journal)?, None),
            None => {
                let Some(state) = index.as_deref().and_then(Path::parent).and_then(Path::parent) else {
                    return Ok(None);
                };
                let own_dir = state.join("injections").join(format!("{WORK_FOLDER_PREFIX}{tag}"));
                (own_dir.join(JOURNAL), Some(own_dir))
            }
        };
        let log = journal.with_file_name(LOG);
        let prepared = Prepared { config: GuardianConfig { tag, journal, work_dirs: vec![], index, own_dir }, log };
        if let Some(index) = &prepared.config.index {
            prepared.record()?.write(index).map_err(TargetError::Record)?;
        }
        Ok(Some(prepared))
    }

    /// The run's fault journal.
    pub(crate) fn journal(&self) -> &Path {
        &self.config.journal
    }

    /// The run's work folder, on disk.
    pub(crate) fn work_dir(&self) -> &Path {
        &self.config.work_dirs[0]
    }

    /// A folder in memory if there can be one here, else the one on disk: for what must survive the death of a
    /// process, but not of the machine.
    pub(crate) fn quick_dir(&self) -> &Path {
        self.config.work_dirs.iter().rfind(|folder| folder.is_dir()).unwrap_or(&self.config.work_dirs[0])
    }

    /// Ends the guardian, which sweeps once more and finds nothing, or what we missed.
    pub(crate) async fn finish(self) -> Result<(), TargetError> {
        let ended = self.guardian.end(SWEEP_DEADLINE).await;
        let GuardianConfig { journal, work_dirs, .. } = self.config;
        let left: Vec<_> = work_dirs.iter().filter(|folder| folder.exists()).collect();
        if ended && left.is_empty() {
            return Ok(());
        }
        Err(TargetError::Deadline {
            what: format!("the guardian's sweep (left: {left:?})"),
            seconds: SWEEP_DEADLINE.as_secs(),
            logs: journal.parent().unwrap_or(&journal).to_owned(),
        })
    }
}

impl Guard {
    /// The same for a run that started nothing: if the guardian is dead or stopped we do its work. Says what may still
    /// be there.
    pub(crate) async fn finish_alone(self) -> Option<String> {
        let config = self.config.clone();
        if self.finish().await.is_ok() {
            return None;
        }
        let swept = tokio::task::spawn_blocking(move || sweep(&config)).await;
        match swept {
            Ok(Ok(Sweep { problems, .. })) => (!problems.is_empty()).then(|| problems.join("; ")),
            Ok(Err(error)) => Some(chain(&error)),
            Err(error) => Some(error.to_string()),
        }
    }
}

impl Prepared {
    pub(crate) fn tag(&self) -> &str {
        &self.config.tag
    }

    fn record(&self) -> Result<RunRecord, TargetError> {
        let runner = ProcessId::of(std::process::id()).map_err(TargetError::Process)?;
        Ok(RunRecord { runner, guardian: self.config.clone(), guardian_process: None })
    }

    /// Starts the guardian, then makes the work folders: one that is killed in between leaves no folder behind.
    pub(crate) async fn start(self, launcher: &Launcher) -> Result<Guard, TargetError> {
        let GuardianConfig { index, own_dir, .. } = self.config.clone();
        let started = self.started(launcher).await;
        if started.is_err() {
            // What was written down of a run that never was; what is not there need not be removed.
            let _ = index.map(std::fs::remove_file);
            let _ = own_dir.map(std::fs::remove_dir_all);
        }
        started
    }

    async fn started(self, launcher: &Launcher) -> Result<Guard, TargetError> {
        let record = self.record()?;
        let folder = self.config.journal.parent().unwrap_or(&self.config.journal);
        let claim = FolderClaim::take(folder).map_err(TargetError::Record)?;
        // From here on a run without a journal is one that has lost it.
        let journal = &self.config.journal;
        std::fs::OpenOptions::new().create(true).append(true).open(journal).map_err(|source| TargetError::File {
            action: "create",
            path: journal.clone(),
            source,
        })?;
        // For `stormproof heal`, should runner and guardian die before anybody else knows of them.
        record.write(&self.config.journal.with_file_name(RUN_RECORD)).map_err(TargetError::Record)?;
        let guardian = launcher.launch(Role::Guardian, "guardian", &record, &self.log).await?;
        let Some((work_dir, others)) = self.config.work_dirs.split_first() else {
            return Ok(Guard { config: self.config, guardian, _folder: claim });
        };
        // Not with its parents: a temporary folder that is not there is a mistake to be told.
        match std::fs::create_dir(work_dir) {
            Ok(()) => {
                // One that cannot be made is done without.
                let _ = others.iter().try_for_each(std::fs::create_dir);
                Ok(Guard { config: self.config, guardian, _folder: claim })
            }
            Err(source) => {
                let failed = TargetError::File { action: "create folder", path: work_dir.clone(), source };
                guardian.end(SWEEP_DEADLINE).await;
                Err(failed)
            }
        }
    }
}

/// Where the run is to be written down among all of this user.
fn index_of(tag: &str) -> Option<PathBuf> {
    index_folder().map(|folder| folder.join(format!("{tag}.json")))
}

/// The guardian's current folder need not be ours for ever.
fn absolute(path: &Path) -> Result<PathBuf, TargetError> {
    std::path::absolute(path).map_err(|source| TargetError::File { action: "find", path: path.to_owned(), source })
}
