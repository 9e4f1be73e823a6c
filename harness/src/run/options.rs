//! How a plan is run.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stormproof_chaos::journal::DEFAULT_TTL;
use tokio_util::sync::CancellationToken;

use crate::plan::is_remote_allowed;
use crate::target::bundled::PartChoices;

/// Told what a run is doing.
pub trait Progress: Send + Sync {
    /// The job of suite `suite` is in this state now. Called often.
    fn status(&self, suite: &str, status: &str);
}

/// Nobody is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn status(&self, _suite: &str, _status: &str) {}
}

/// How a plan is run.
#[derive(Clone)]
pub struct RunOptions {
    /// Folder of this run: timeline, logs, journal, output. Must not hold an earlier run.
    pub run_dir: PathBuf,
    /// Seed of everything random.
    pub seed: u64,
    /// Store and proxy of the bundled cluster: embedded or real ones.
    pub parts: PartChoices,
    /// The command that repeats the run.
    pub repeat: String,
    /// For how long a fault stays once this process no longer renews its lease.
    pub lease_ttl: Duration,
    /// Hosts other than this machine may be hurt, if the plan names them; as the environment says unless set.
    pub is_remote_allowed: bool,
    /// Who is told.
    pub progress: Arc<dyn Progress>,
    /// Once it is cancelled the run ends early: everything is healed and torn down, and the verdict is *invalid*.
    pub stop: CancellationToken,
}

impl RunOptions {
    /// Runs in `run_dir` and tells nobody.
    #[must_use]
    pub fn new(run_dir: impl Into<PathBuf>, repeat: impl Into<String>) -> Self {
        Self {
            run_dir: run_dir.into(),
            seed: 0,
            parts: PartChoices::default(),
            repeat: repeat.into(),
            lease_ttl: DEFAULT_TTL,
            is_remote_allowed: is_remote_allowed(),
            progress: Arc::new(Silent),
            stop: CancellationToken::new(),
        }
    }

    /// Where the job puts its output.
    #[must_use]
    pub fn output_dir(&self) -> PathBuf {
        let folder = self.run_dir.join("output");
        std::path::absolute(&folder).unwrap_or(folder)
    }
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOptions")
            .field("run_dir", &self.run_dir)
            .field("seed", &self.seed)
            .field("parts", &self.parts)
            .field("lease_ttl", &self.lease_ttl)
            .field("repeat", &self.repeat)
            .finish_non_exhaustive()
    }
}
