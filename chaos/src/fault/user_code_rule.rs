//! `fail-user-code` by a rule: after so many records, by chance, as an error or a panic, so many times.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use super::user_code::remove;
use super::{Description, Effect, Fault, FaultError, fault_file_name};
use crate::journal::{Undo, unix_ms_after};
use crate::whole_file;

/// Every record: the whole of [`UserCodeRule::per_million`].
const MILLION: u32 = 1_000_000;

/// By which rule user code fails. The default: once, before the next record, with an error that a restart gets over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserCodeRule {
    /// Not before an attempt has read (a source: written) this many records.
    pub after_records: u64,
    /// Of a million records, before how many an attempt fails: from 1 to 1 000 000.
    pub per_million: u32,
    /// Decides which records those are: the same seed and attempt number, the same records.
    pub seed: u64,
    /// How it fails.
    pub kind: FailureKind,
    /// How often it fails, all attempts together: at least 1.
    pub times: u64,
}

/// How user code fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// With an error that a restart gets over.
    #[default]
    Recoverable,
    /// With an error that fails the job at once.
    NonRecoverable,
    /// With a panic.
    Panic,
}

impl Default for UserCodeRule {
    fn default() -> Self {
        Self { after_records: 0, per_million: MILLION, seed: 0, kind: FailureKind::default(), times: 1 }
    }
}

impl fmt::Display for UserCodeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after_records, per_million, seed, kind, times } = self;
        let how = match kind {
            FailureKind::Recoverable => "",
            FailureKind::NonRecoverable => "for good, ",
            FailureKind::Panic => "with a panic, ",
        };
        write!(f, "{how}{times} times, after {after_records} records")?;
        if *per_million < MILLION { write!(f, ", before {per_million} of a million (seed {seed})") } else { Ok(()) }
    }
}

/// The rule as its file says it.
#[derive(Serialize)]
struct Told<'a> {
    after_records: u64,
    per_million: u32,
    seed: u64,
    kind: &'a FailureKind,
    times: u64,
    until_unix_ms: u64,
}

/// User code of one subtask fails by a rule for as long as the fault lasts.
///
/// The file that tells the task holds the moment at which the rule ends, and is renewed while its holder lives: if that
/// dies or hangs, and the guardian too, the fault ends all the same.
#[derive(Debug)]
pub struct FailUserCodeByRule {
    target: String,
    file: RuleFile,
    /// A byte for each failure; the tasks write it.
    thrown: PathBuf,
    /// Writes the file again and again.
    renewal: Option<AbortOnDropHandle<()>>,
}

#[derive(Debug, Clone)]
struct RuleFile {
    path: PathBuf,
    /// What is written here is renamed to `path`, so that no half of it is read.
    fresh: PathBuf,
    rule: UserCodeRule,
    ttl: Duration,
}

impl RuleFile {
    /// In one go: a renewal that is aborted has written all of it, or nothing.
    fn write(&self) -> Result<(), FaultError> {
        let failed = |source| FaultError::File { action: "write", path: self.path.clone(), source };
        let UserCodeRule { after_records, per_million, seed, ref kind, times } = self.rule;
        let told = Told { after_records, per_million, seed, kind, times, until_unix_ms: unix_ms_after(self.ttl) };
        let text = serde_json::to_vec(&told).map_err(|error| failed(error.into()))?;
        whole_file::replace(&self.path, &self.fresh, text).map_err(failed)
    }

    /// Three times in its time to live, for as long as it is there: if it was removed, the guardian has ended it.
    fn renew(self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut beats = interval(self.ttl / 3);
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            beats.tick().await;
            loop {
                beats.tick().await;
                if !self.path.exists() {
                    return;
                }
                if let Err(error) = self.write() {
                    tracing::warn!(%error, "a fault of user code could not be renewed; it ends by itself");
                }
            }
        }))
    }
}

impl FailUserCodeByRule {
    /// `folder` is where the cluster's tasks look for fault files; a rule that nobody renews ends after `ttl`.
    #[must_use]
    pub fn new(folder: &Path, vertex: &str, subtask: u32, rule: UserCodeRule, ttl: Duration) -> Self {
        let path = |what| folder.join(fault_file_name(what, vertex, subtask));
        let file = RuleFile { path: path("fail"), fresh: path("new-fail"), rule, ttl };
        Self { target: format!("{vertex}[{subtask}]"), file, thrown: path("thrown"), renewal: None }
    }

    fn paths(&self) -> [&PathBuf; 3] {
        [&self.thrown, &self.file.fresh, &self.file.path]
    }

    fn failures(&self) -> u64 {
        let written = std::fs::metadata(&self.thrown).map_or(0, |metadata| metadata.len());
        written.min(self.file.rule.times)
    }
}

#[async_trait]
impl Fault for FailUserCodeByRule {
    fn describe(&self) -> Description {
        Description::new("fail-user-code", &self.target).with_detail(format!(" {}", self.file.rule))
    }

    fn undo(&self) -> Vec<Undo> {
        self.paths().map(|path| Undo::RemoveFile { path: path.clone() }).into()
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        // Of an earlier fault on the same task.
        remove(&self.thrown).await?;
        self.file.write()?;
        self.renewal = Some(self.file.clone().renew());
        Ok(())
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        Ok(Effect::of("failures_thrown", self.failures()))
    }

    async fn counted(&mut self) -> BTreeMap<String, u64> {
        BTreeMap::from([("failures_thrown".to_owned(), self.failures())])
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        if let Some(renewal) = self.renewal.take() {
            renewal.abort();
            // Its last write must not come after the removal.
            let _ = renewal.await;
        }
        for path in self.paths().into_iter().rev() {
            remove(path).await?;
        }
        Ok(())
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        Ok(self.paths().into_iter().all(|path| !path.exists()))
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::journal::unix_ms;

    fn fault(folder: &TempDir, ttl: Duration) -> FailUserCodeByRule {
        let rule = UserCodeRule { after_records: 100, times: 3, ..UserCodeRule::default() };
        FailUserCodeByRule::new(folder.path(), "count words", 1, rule, ttl)
    }

    fn until(folder: &TempDir) -> u64 {
        let text = std::fs::read(folder.path().join("fail-count_words-1")).expect("there");
        let told: serde_json::Value = serde_json::from_slice(&text).expect("whole");
        assert_eq!(
            (&told["after_records"], &told["times"], &told["kind"]),
            (&100.into(), &3.into(), &"recoverable".into())
        );
        told["until_unix_ms"].as_u64().expect("a time")
    }

    #[tokio::test]
    async fn a_rule_counts_its_failures_until_it_is_healed() {
        let folder = tempfile::tempdir().expect("folder");
        let mut fault = fault(&folder, Duration::from_secs(60));
        let described = fault.describe().to_string();
        assert_eq!(described, "fail-user-code on count words[1] 3 times, after 100 records");
        std::fs::write(folder.path().join("thrown-count_words-1"), "..").expect("left by another");
        fault.inject().await.expect("injected");
        let left = until(&folder).saturating_sub(unix_ms());
        assert!((1..=60_000).contains(&left), "{left}");
        assert!(!fault.effect().await.expect("known").bites);
        // Two tasks that came at the same time: one byte too many.
        std::fs::write(folder.path().join("thrown-count_words-1"), "....").expect("the tasks write it");
        assert_eq!(fault.effect().await.expect("known"), Effect::of("failures_thrown", 3));
        fault.heal().await.expect("healed");
        assert!(fault.is_healed().await.expect("known"));
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
    }

    #[tokio::test]
    async fn a_rule_is_renewed_while_it_is_held_and_not_brought_back_once_it_is_undone() {
        let folder = tempfile::tempdir().expect("folder");
        let mut fault = fault(&folder, Duration::from_millis(150));
        fault.inject().await.expect("injected");
        let first = until(&folder);
        let deadline = Instant::now() + Duration::from_secs(20);
        while until(&folder) == first {
            assert!(Instant::now() < deadline, "it is never renewed");
            sleep(Duration::from_millis(5)).await;
        }
        let crate::journal::Undo::RemoveFile { path } = &fault.undo()[2] else { panic!("a file") };
        std::fs::remove_file(path).expect("the guardian undoes it");
        let renewal = fault.renewal.as_mut().expect("held");
        tokio::time::timeout(Duration::from_secs(20), renewal).await.expect("it sees that").expect("no panic");
        assert!(!path.exists());
    }
}
