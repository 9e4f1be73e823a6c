//! The run's tag, journal and work folder, and the guardian that looks after them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stormproof_chaos::guardian::GuardianConfig;
use stormproof_chaos::heal::WORK_FOLDER_PREFIX;
use stormproof_chaos::process::ProcessId;
use stormproof_chaos::run_record::{RUN_RECORD, RunRecord, index_folder};

use crate::role::{Child, Launcher, Role};
use crate::target::TargetError;

/// How long the guardian's sweep may take at the end of a run.
const SWEEP_DEADLINE: Duration = Duration::from_secs(10);

/// A run that has a name and nothing else yet.
pub(super) struct Prepared {
    config: GuardianConfig,
    log: PathBuf,
}

/// Where Linux keeps files in memory.
const MEMORY_DIR: &str = "/dev/shm";

/// The guardian of a run, started.
pub(super) struct Guard {
    config: GuardianConfig,
    guardian: Child,
}

impl Guard {
    /// Names the run.
    pub(super) fn prepare(run_dir: &Path) -> Result<Prepared, TargetError> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let tag = format!("{}-{:x}", std::process::id(), since_epoch.as_nanos());
        let name = format!("{WORK_FOLDER_PREFIX}{tag}");
        let mut work_dirs = vec![std::env::temp_dir().join(&name)];
        if Path::new(MEMORY_DIR).is_dir() {
            work_dirs.push(Path::new(MEMORY_DIR).join(name));
        }
        let journal = absolute(run_dir)?.join("faults.journal");
        let index = index_folder().map(|folder| folder.join(format!("{tag}.json")));
        let config = GuardianConfig { tag, journal, work_dirs, index };
        Ok(Prepared { config, log: run_dir.join("guardian.log") })
    }

    /// The run's fault journal.
    pub(super) fn journal(&self) -> &Path {
        &self.config.journal
    }

    /// The run's work folder, on disk.
    pub(super) fn work_dir(&self) -> &Path {
        &self.config.work_dirs[0]
    }

    /// A folder in memory if there can be one here, else the one on disk: for what must survive the death of a
    /// process, but not of the machine.
    pub(super) fn quick_dir(&self) -> &Path {
        self.config.work_dirs.iter().rfind(|folder| folder.is_dir()).unwrap_or(&self.config.work_dirs[0])
    }

    /// Ends the guardian, which sweeps once more and finds nothing, or what we missed.
    pub(super) async fn finish(self) -> Result<(), TargetError> {
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

impl Prepared {
    pub(super) fn tag(&self) -> &str {
        &self.config.tag
    }

    /// Starts the guardian, then makes the work folder: one that is killed in between leaves no folder behind.
    pub(super) async fn start(self, launcher: &Launcher) -> Result<Guard, TargetError> {
        let runner = ProcessId::of(std::process::id()).map_err(TargetError::Process)?;
        let record = RunRecord { runner, guardian: self.config.clone() };
        // For `stormproof heal`, should runner and guardian die before anybody else knows of them.
        record.write(&self.config.journal.with_file_name(RUN_RECORD)).map_err(TargetError::Record)?;
        let guardian = launcher.launch(Role::Guardian, "guardian", &record, &self.log).await?;
        let (work_dir, others) = (&self.config.work_dirs[0], &self.config.work_dirs[1..]);
        // Not with its parents: a temporary folder that is not there is a mistake to be told.
        match std::fs::create_dir(work_dir) {
            Ok(()) => {
                // One that cannot be made is done without.
                let _ = others.iter().try_for_each(std::fs::create_dir);
                Ok(Guard { config: self.config, guardian })
            }
            Err(source) => {
                let failed = TargetError::File { action: "create folder", path: work_dir.clone(), source };
                guardian.end(SWEEP_DEADLINE).await;
                Err(failed)
            }
        }
    }
}

/// The guardian's current folder need not be ours for ever.
fn absolute(path: &Path) -> Result<PathBuf, TargetError> {
    std::path::absolute(path).map_err(|source| TargetError::File { action: "find", path: path.to_owned(), source })
}
