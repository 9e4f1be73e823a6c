//! The run's tag, journal and work folder, and the guardian that looks after them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stormproof_chaos::guardian::GuardianConfig;

use crate::role::{Child, Launcher, Role};
use crate::target::TargetError;

/// How long the guardian's sweep may take at the end of a run.
const SWEEP_DEADLINE: Duration = Duration::from_secs(10);

/// A run that has a name and nothing else yet.
pub(super) struct Prepared {
    config: GuardianConfig,
    log: PathBuf,
}

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
        let work_dir = std::env::temp_dir().join(format!("stormproof-{tag}"));
        let journal = absolute(run_dir)?.join("faults.journal");
        let config = GuardianConfig { tag, journal, work_dir };
        Ok(Prepared { config, log: run_dir.join("guardian.log") })
    }

    /// The run's fault journal.
    pub(super) fn journal(&self) -> &Path {
        &self.config.journal
    }

    /// The run's work folder.
    pub(super) fn work_dir(&self) -> &Path {
        &self.config.work_dir
    }

    /// Ends the guardian, which sweeps once more and finds nothing, or what we missed.
    pub(super) async fn finish(self) -> Result<(), TargetError> {
        let work_dir = self.config.work_dir.clone();
        if self.guardian.end(SWEEP_DEADLINE).await && !work_dir.exists() {
            return Ok(());
        }
        Err(TargetError::Deadline {
            what: format!("removal of {}", work_dir.display()),
            seconds: SWEEP_DEADLINE.as_secs(),
            logs: self.config.journal.parent().unwrap_or(&work_dir).to_owned(),
        })
    }
}

impl Prepared {
    pub(super) fn tag(&self) -> &str {
        &self.config.tag
    }

    /// Starts the guardian, then makes the work folder: one that is killed in between leaves no folder behind.
    pub(super) async fn start(self, launcher: &Launcher) -> Result<Guard, TargetError> {
        let guardian = launcher.launch(Role::Guardian, "guardian", &self.config, &self.log).await?;
        let work_dir = &self.config.work_dir;
        // Not with its parents: a temporary folder that is not there is a mistake to be told.
        match std::fs::create_dir(work_dir) {
            Ok(()) => Ok(Guard { config: self.config, guardian }),
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
