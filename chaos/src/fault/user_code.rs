//! `fail-user-code` and `hold-user-code`: faults inside a task, asked for by files that the task looks for.
//!
//! The files are the ones that our Flink jobs obey as well, so a plan means the same on every target.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::{Description, Effect, Fault, FaultError};
use crate::journal::Undo;

/// Name of the file that asks subtask `subtask` of `vertex` for `what`, e.g. `fail-count-1`. Characters that a file
/// name should not have become `_`.
#[must_use]
pub fn fault_file_name(what: &str, vertex: &str, subtask: u32) -> String {
    let vertex: String = vertex.chars().map(|c| if c.is_whitespace() || c == '/' { '_' } else { c }).collect();
    format!("{what}-{vertex}-{subtask}")
}

async fn create(path: &Path) -> Result<(), FaultError> {
    tokio::fs::write(path, b"").await.map_err(|source| FaultError::File {
        action: "create",
        path: path.to_owned(),
        source,
    })
}

/// Removes a file; true if it was there.
pub(super) async fn remove(path: &Path) -> Result<bool, FaultError> {
    match tokio::fs::remove_file(path).await {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(FaultError::File { action: "remove", path: path.to_owned(), source }),
    }
}

/// The next call of one subtask's user code fails, once.
#[derive(Debug)]
pub struct FailUserCode {
    target: String,
    path: PathBuf,
    injected: bool,
}

impl FailUserCode {
    /// `folder` is where the cluster's tasks look for fault files.
    #[must_use]
    pub fn new(folder: &Path, vertex: &str, subtask: u32) -> Self {
        let path = folder.join(fault_file_name("fail", vertex, subtask));
        Self { target: format!("{vertex}[{subtask}]"), path, injected: false }
    }
}

#[async_trait]
impl Fault for FailUserCode {
    fn describe(&self) -> Description {
        Description::new("fail-user-code", &self.target)
    }

    fn undo(&self) -> Vec<Undo> {
        vec![Undo::RemoveFile { path: self.path.clone() }]
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        create(&self.path).await?;
        self.injected = true;
        Ok(())
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        // The task removes the file when it fails.
        Ok(Effect::of("failures_thrown", u64::from(self.injected && !self.path.exists())))
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        if remove(&self.path).await? {
            self.injected = false;
        }
        Ok(())
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        Ok(!self.path.exists())
    }
}

/// User code of a vertex waits while the fault lasts: the engine sees a running task that makes no progress.
#[derive(Debug)]
pub struct HoldUserCode {
    vertex: String,
    paths: Vec<PathBuf>,
}

impl HoldUserCode {
    /// Holds the given subtasks of `vertex`.
    #[must_use]
    pub fn new(folder: &Path, vertex: &str, subtasks: impl IntoIterator<Item = u32>) -> Self {
        let paths = subtasks.into_iter().map(|subtask| folder.join(fault_file_name("hold", vertex, subtask))).collect();
        Self { vertex: vertex.to_owned(), paths }
    }
}

#[async_trait]
impl Fault for HoldUserCode {
    fn describe(&self) -> Description {
        Description::new("hold-user-code", &self.vertex).with_detail(format!(" ({} subtasks)", self.paths.len()))
    }

    fn undo(&self) -> Vec<Undo> {
        self.paths.iter().map(|path| Undo::RemoveFile { path: path.clone() }).collect()
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        for path in &self.paths {
            create(path).await?;
        }
        Ok(())
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        let held = self.paths.iter().filter(|path| path.exists()).count();
        Ok(Effect::of("subtasks_held", held as u64))
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        for path in &self.paths {
            remove(path).await?;
        }
        Ok(())
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        Ok(self.paths.iter().all(|path| !path.exists()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_bites_when_the_task_takes_the_file() {
        let folder = tempfile::tempdir().expect("folder");
        let mut fault = FailUserCode::new(folder.path(), "count words", 1);
        let file = folder.path().join("fail-count_words-1");
        assert!(!fault.effect().await.expect("known").bites, "not injected yet");
        fault.inject().await.expect("injected");
        assert!(!fault.effect().await.expect("known").bites, "nobody has taken it");
        std::fs::remove_file(&file).expect("the task takes it");
        assert!(fault.effect().await.expect("known").bites);
        fault.heal().await.expect("healed");
        assert!(fault.is_healed().await.expect("known"));
        assert!(fault.effect().await.expect("known").bites, "healing does not take the effect back");
    }

    #[tokio::test]
    async fn a_failure_that_nobody_took_had_no_effect() {
        let folder = tempfile::tempdir().expect("folder");
        let mut fault = FailUserCode::new(folder.path(), "count", 0);
        fault.inject().await.expect("injected");
        fault.heal().await.expect("healed");
        assert!(!fault.effect().await.expect("known").bites);
    }

    #[tokio::test]
    async fn a_hold_lasts_until_it_is_healed() {
        let folder = tempfile::tempdir().expect("folder");
        let mut fault = HoldUserCode::new(folder.path(), "read", 0..2);
        fault.inject().await.expect("injected");
        assert_eq!(fault.effect().await.expect("known").counts["subtasks_held"], 2);
        fault.heal().await.expect("healed");
        assert!(fault.is_healed().await.expect("known"));
        fault.heal().await.expect("healing twice is harmless");
    }
}
