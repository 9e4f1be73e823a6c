//! Things that can be broken, one file each.
//!
//! Every fault goes through the same steps: **describe** it, write its undo to the journal, **inject** it, wait until
//! it **takes effect**, **heal** it, wait until it **is healed**. A fault that took no effect makes a run vacuous, not
//! green; a heal is believed only after a probe.

mod corrupt_partition;
mod drop_partition;
mod exit_process;
mod hang_process;
mod hide_partition;
mod in_proxy;
mod kill_process;
mod limit_files;
mod partition_network;
mod proxy_down;
mod proxy_toxics;
mod slow_process;
mod store_link;
mod user_code;
mod user_code_rule;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
pub use corrupt_partition::CorruptPartition;
pub(crate) use corrupt_partition::restore_bytes;
pub use drop_partition::DropPartition;
pub use exit_process::ExitProcess;
pub use hang_process::HangProcess;
pub use hide_partition::HidePartition;
pub(crate) use hide_partition::put_back;
pub use kill_process::KillProcess;
pub use limit_files::LimitFiles;
pub use partition_network::{PartitionNetwork, SilentLink};
pub use proxy_down::ProxyDown;
pub use proxy_toxics::ProxyToxics;
pub use slow_process::SlowProcess;
pub use store_link::{BlackholeStore, RefuseStore, StoreLink};
pub use user_code::{FailUserCode, HoldUserCode, fault_file_name};
pub use user_code_rule::{FailUserCodeByRule, FailureKind, UserCodeRule};

use crate::journal::Undo;
use crate::process::ProcessError;
use crate::toxiproxy::ClientError;

/// What a fault is, for people, journals and reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its kind, e.g. `kill-executor`.
    pub kind: &'static str,
    /// What it acts on, e.g. `executor-2 (pid 4711)`: the same text for every fault on the same thing.
    pub target: String,
    /// How, for people, as it stands behind the target, e.g. `, 20 %`; often nothing.
    pub detail: String,
}

impl Description {
    /// A fault of this kind on this target.
    #[must_use]
    pub fn new(kind: &'static str, target: impl Into<String>) -> Self {
        Self { kind, target: target.into(), detail: String::new() }
    }

    /// The same with a detail.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}{}", self.kind, self.target, self.detail)
    }
}

/// What a fault did so far: the effect ledger's entry. The default is that nothing is known of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effect {
    /// It did what it is for: the process died, the connection was held.
    pub bites: bool,
    /// Counters by name, e.g. `partitions_dropped`. None: nothing could be counted.
    pub counts: BTreeMap<String, u64>,
}

impl Effect {
    /// True if it is not known whether it did anything.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        !self.bites && self.counts.is_empty()
    }

    /// Takes a later look in: what has bitten has bitten, and each counter keeps its highest value.
    pub(crate) fn take(&mut self, later: Self) {
        self.bites |= later.bites;
        for (name, count) in later.counts {
            let highest = self.counts.entry(name).or_default();
            *highest = count.max(*highest);
        }
    }

    /// An effect that bites, counted under `name`.
    fn of(name: &str, count: u64) -> Self {
        Self { bites: count > 0, counts: BTreeMap::from([(name.to_owned(), count)]) }
    }
}

/// A fault could not be injected, looked at or healed.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// A process.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The proxy's admin API.
    #[error("the proxy did not do what was asked")]
    Proxy(#[from] ClientError),
    /// A file.
    #[error("could not {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Its code panicked.
    #[error("its code panicked: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },
    /// What was to be hurt would not have it.
    #[error("it was refused")]
    Refused {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The proxy ended the fault by itself.
    #[error("the proxy was not asked in time to keep {fault}, so it has ended by itself")]
    LeaseLost {
        /// Which.
        fault: Description,
    },
    /// It ended before it was healed.
    #[error("{fault} has ended before its time: {how}")]
    Ended {
        /// Which.
        fault: Description,
        /// What was seen instead, and who may have done it.
        how: &'static str,
    },
    /// There is nothing to break.
    #[error("{what} does not exist, so there is nothing to break; {hint}")]
    Nothing {
        /// What was looked for.
        what: String,
        /// What to do.
        hint: &'static str,
    },
}

impl FaultError {
    /// There is no partition of that name.
    fn no_partition(name: &str) -> Self {
        let hint = "its producer has not finished, or it was released already";
        Self::Nothing { what: format!("partition {name}"), hint }
    }
}

/// The files of a result partition that are complete: one that is still being written is called `*.tmp`. None if it
/// does not exist.
fn complete_files(folder: &Path) -> Result<Vec<PathBuf>, FaultError> {
    let list = || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
    match list() {
        Ok(mut files) => {
            files.retain(|file| file.extension().is_none_or(|extension| extension != "tmp"));
            Ok(files)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        Err(source) => Err(FaultError::File { action: "list", path: folder.to_owned(), source }),
    }
}

/// One thing that can be broken.
///
/// The calls come in the order of the [module's](self) steps. `effect` and `is_healed` are asked repeatedly, until
/// they say yes or the caller's deadline passes; each call is bounded by itself (at most a second).
#[async_trait]
pub trait Fault: Send + Sync {
    /// What it is.
    fn describe(&self) -> Description;

    /// How to undo it, for the journal; empty if it cannot be undone (a kill) or undoes itself.
    fn undo(&self) -> Vec<Undo>;

    /// Does it.
    ///
    /// # Errors
    /// When it could not be done; then nothing is left half done.
    async fn inject(&mut self) -> Result<(), FaultError>;

    /// What it did so far.
    ///
    /// # Errors
    /// When that could not be found out.
    async fn effect(&mut self) -> Result<Effect, FaultError>;

    /// Counters as they stand now, of a fault that goes on counting after it has bitten; asked once more before it is
    /// healed.
    async fn counted(&mut self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// Takes it back. "Already gone" is done.
    ///
    /// # Errors
    /// When it may still be there.
    async fn heal(&mut self) -> Result<(), FaultError>;

    /// True once a probe shows that nothing of it is left.
    ///
    /// # Errors
    /// When the probe itself failed.
    async fn is_healed(&mut self) -> Result<bool, FaultError>;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::process::ProcessId;

    // Budgets count targets by this text.
    #[test]
    fn one_process_is_one_target_whatever_is_done_to_it() {
        let process = ProcessId::of(std::process::id()).expect("we run");
        let folder = tempfile::tempdir().expect("folder");
        let ttl = Duration::from_secs(1);
        let faults: [Box<dyn Fault>; 5] = [
            Box::new(KillProcess::new("kill-executor", "executor-1", process)),
            Box::new(HangProcess::new("hang-executor", "executor-1", process)),
            Box::new(SlowProcess::new("slow-executor", "executor-1", process, 20)),
            Box::new(ExitProcess::new(folder.path(), "executor-1", process, 137, ttl)),
            Box::new(LimitFiles::new(folder.path(), "executor-1", process, 4096).expect("its limit is known")),
        ];
        for fault in faults {
            assert_eq!(fault.describe().target, format!("executor-1 ({process})"), "{}", fault.describe());
        }
    }
}
