//! `limit-files`: no file of a process grows beyond a size; the kernel fails its writes, as on a disk that is full.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::user_code::remove;
use super::{Description, Effect, Fault, FaultError};
use crate::journal::Undo;
use crate::process::{ProcessError, ProcessId, gone_is_done};

/// Limits the size of all files that a process writes, its log included; healing gives it the old limit back.
///
/// That it is limited is no effect yet: it acts when a write meets the limit, which the process tells.
///
/// The error that it meets is `EFBIG` and not `ENOSPC`: a disk of our own, which could really be full, needs root.
#[derive(Debug)]
pub struct LimitFiles {
    name: String,
    process: ProcessId,
    bytes: u64,
    before: Option<u64>,
    /// The process makes it when a write has met the limit.
    met: PathBuf,
}

impl LimitFiles {
    /// `folder` is where the cluster's processes tell what they meet: an empty file `full-<name>` says that a write of
    /// this one failed. `name` is the process's name in the cluster.
    ///
    /// # Errors
    /// When its present limit cannot be read: then it could not be given back.
    pub fn new(folder: &Path, name: impl Into<String>, process: ProcessId, bytes: u64) -> Result<Self, FaultError> {
        let (name, before) = (name.into(), process.file_size_limit()?);
        let met = folder.join(format!("full-{name}"));
        Ok(Self { name, process, bytes, before, met })
    }

    /// What it may write now; gone: as much as it likes.
    fn limit(&self) -> Result<Option<u64>, FaultError> {
        match self.process.file_size_limit() {
            Err(ProcessError::Gone(_)) => Ok(self.before),
            limit => Ok(limit?),
        }
    }
}

#[async_trait]
impl Fault for LimitFiles {
    fn describe(&self) -> Description {
        Description::new("limit-files", format!("{} ({})", self.name, self.process))
            .with_detail(format!(", {} bytes", self.bytes))
    }

    fn undo(&self) -> Vec<Undo> {
        let limit = Undo::LimitFiles { process: self.process, bytes: self.before };
        vec![Undo::RemoveFile { path: self.met.clone() }, limit]
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        // Of an earlier fault on the same process.
        remove(&self.met).await?;
        Ok(self.process.limit_file_size(Some(self.bytes))?)
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        Ok(Effect::of("processes_out_of_room", u64::from(self.met.exists())))
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        gone_is_done(self.process.limit_file_size(self.before))?;
        remove(&self.met).await?;
        Ok(())
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        Ok(self.limit()? == self.before)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::guardian::undone_by_the_guardian;

    /// Writes 10 000 bytes to a file for each line it is given, and the exit code of that to another; `trap` makes it
    /// outlive the signal, and tell that it came.
    fn writer(folder: &Path) -> Child {
        let script = "trap ': > full-executor-1' XFSZ; n=0; while read line; do n=$((n+1)); \
                      if printf '%10000s' x > data; then echo ok > result-$n; else echo failed > result-$n; fi; done";
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder).stdin(Stdio::piped()).stderr(Stdio::null());
        command.spawn().expect("sh starts")
    }

    fn result(child: &mut Child, folder: &Path, number: u32) -> String {
        child.stdin.as_mut().expect("piped").write_all(b"go\n").expect("told");
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let text = std::fs::read_to_string(folder.join(format!("result-{number}"))).unwrap_or_default();
            if text.ends_with('\n') {
                return text.trim_end().to_owned();
            }
            assert!(Instant::now() < deadline, "it says nothing");
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn writes_fail_in_the_kernel_until_the_limit_is_given_back() {
        let folder = tempfile::tempdir().expect("folder");
        let mut child = writer(folder.path());
        let process = ProcessId::of(child.id()).expect("it runs");
        assert_eq!(result(&mut child, folder.path(), 1), "ok");
        let mut fault = LimitFiles::new(folder.path(), "executor-1", process, 4096).expect("its limit is known");
        for (number, by_guardian) in [(2, false), (4, true)] {
            assert!(!fault.effect().await.expect("known").bites);
            fault.inject().await.expect("limited");
            // Whoever writes little never meets it.
            assert!(!fault.effect().await.expect("known").bites && !fault.is_healed().await.expect("known"));
            assert_eq!(result(&mut child, folder.path(), number), "failed");
            assert!(fault.effect().await.expect("known").bites);
            assert_eq!(std::fs::metadata(folder.path().join("data")).expect("there").len(), 4096);
            if by_guardian {
                undone_by_the_guardian(fault.undo()).await;
            } else {
                fault.heal().await.expect("healed");
            }
            assert!(fault.is_healed().await.expect("known") && !folder.path().join("full-executor-1").exists());
            assert_eq!(result(&mut child, folder.path(), number + 1), "ok");
        }
        child.kill().expect("killed");
        child.wait().expect("reaped");
        fault.heal().await.expect("a process that is gone is healed");
        assert!(fault.is_healed().await.expect("known"));
    }
}
