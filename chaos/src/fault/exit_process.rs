//! `exit-executor`: a process ends by itself and at once, as one that has run out of memory does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::user_code::remove;
use super::{Description, Effect, Fault, FaultError};
use crate::journal::{Undo, unix_ms_after};
use crate::process::ProcessId;
use crate::whole_file;

/// Asks a process, by a file that it looks for, to exit with a code. Cannot be undone once it has; until then, healing
/// takes the file away.
///
/// Unlike [`KillProcess`](super::KillProcess) it says in its own log that it ends, and its parent sees an exit code and
/// no signal.
#[derive(Debug)]
pub struct ExitProcess {
    name: String,
    process: ProcessId,
    code: u8,
    path: PathBuf,
    /// What is written here is renamed to `path`, so that no half of it is read.
    fresh: PathBuf,
    ttl: Duration,
}

impl ExitProcess {
    /// `folder` is where the cluster's processes look for fault files, `name` the process's name in the cluster. A file
    /// that is older than `ttl` when it is found means nothing.
    #[must_use]
    pub fn new(folder: &Path, name: impl Into<String>, process: ProcessId, code: u8, ttl: Duration) -> Self {
        let name = name.into();
        let (path, fresh) = (folder.join(format!("exit-{name}")), folder.join(format!("new-exit-{name}")));
        Self { name, process, code, path, fresh, ttl }
    }

    /// True if it has ended as it was asked to, as far as anybody can tell.
    fn has_exited(&self) -> bool {
        let as_asked = |status: std::process::ExitStatus| status.code() == Some(i32::from(self.code));
        !self.process.is_alive() && self.process.exit_status().is_none_or(as_asked) && !self.path.exists()
    }
}

#[async_trait]
impl Fault for ExitProcess {
    fn describe(&self) -> Description {
        Description::new("exit-executor", format!("{} ({})", self.name, self.process))
            .with_detail(format!(", code {}", self.code))
    }

    fn undo(&self) -> Vec<Undo> {
        [&self.path, &self.fresh].map(|path| Undo::RemoveFile { path: path.clone() }).into()
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        if !self.process.is_alive() {
            return Err(crate::process::ProcessError::Gone(self.process.pid).into());
        }
        let text = json!({ "code": self.code, "until_unix_ms": unix_ms_after(self.ttl) }).to_string();
        whole_file::replace(&self.path, &self.fresh, text).map_err(|source| FaultError::File {
            action: "write",
            path: self.path.clone(),
            source,
        })
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        let mut effect = Effect::of("processes_exited", u64::from(self.has_exited()));
        let code = self.process.exit_status().and_then(|status| status.code());
        effect.counts.extend(code.map(|code| ("exit_code".to_owned(), u64::try_from(code).unwrap_or_default())));
        Ok(effect)
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        remove(&self.fresh).await?;
        remove(&self.path).await?;
        Ok(())
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        Ok(!self.path.exists())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use tempfile::TempDir;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::guardian::undone_by_the_guardian;
    use crate::journal::unix_ms;

    /// A process that exits with a code as soon as it is given a line, and its fault.
    fn process(folder: &TempDir, code: u8) -> (Child, ExitProcess) {
        let command = format!("read line; exit {code}");
        let child = Command::new("sh").args(["-c", &command]).stdin(Stdio::piped()).spawn().expect("sh starts");
        let process = ProcessId::of(child.id()).expect("it runs");
        (child, ExitProcess::new(folder.path(), "executor-1", process, 137, Duration::from_secs(60)))
    }

    async fn ended(process: ProcessId) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while process.is_alive() {
            assert!(Instant::now() < deadline, "it never ends");
            sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn a_process_that_exits_as_asked_has_bitten_and_no_other_end_counts() {
        for (code, bites) in [(137, true), (1, false)] {
            let folder = tempfile::tempdir().expect("folder");
            let (mut child, mut fault) = process(&folder, code);
            fault.inject().await.expect("asked");
            let file = folder.path().join("exit-executor-1");
            let asked: serde_json::Value =
                serde_json::from_slice(&std::fs::read(&file).expect("there")).expect("whole");
            assert_eq!(asked["code"], 137);
            assert!(asked["until_unix_ms"].as_u64().expect("a time") > unix_ms());
            assert!(!fault.effect().await.expect("known").bites);
            std::fs::remove_file(&file).expect("it takes the file");
            // The end of its input is a line as well.
            drop(child.stdin.take());
            ended(fault.process).await;
            let effect = fault.effect().await.expect("known");
            assert_eq!((effect.bites, effect.counts["exit_code"]), (bites, u64::from(code)));
            child.wait().expect("reaped");
            assert!(matches!(fault.inject().await, Err(FaultError::Process(_))), "nobody is there to be asked");
        }
    }

    #[tokio::test]
    async fn a_request_that_nobody_has_heard_is_taken_back() {
        let folder = tempfile::tempdir().expect("folder");
        let (mut child, mut fault) = process(&folder, 137);
        for guardian in [false, true] {
            fault.inject().await.expect("asked");
            assert!(!fault.is_healed().await.expect("known"));
            if guardian {
                undone_by_the_guardian(fault.undo()).await;
            } else {
                fault.heal().await.expect("healed");
            }
            assert!(fault.is_healed().await.expect("known"));
            assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
        }
        child.kill().expect("killed");
        child.wait().expect("reaped");
    }
}
