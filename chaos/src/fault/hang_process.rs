//! `hang-executor`: SIGSTOP. Its sockets stay open and say nothing: only heartbeats can notice.

use async_trait::async_trait;

use super::{Description, Effect, Fault, FaultError};
use crate::journal::Undo;
use crate::process::{ProcessId, gone_is_done};

/// Stops a process; healing continues it.
#[derive(Debug)]
pub struct HangProcess {
    kind: &'static str,
    name: String,
    process: ProcessId,
    /// It was seen stopped.
    has_stopped: bool,
}

impl HangProcess {
    /// `kind` is what reports call it, `name` the process's name in the cluster.
    #[must_use]
    pub fn new(kind: &'static str, name: impl Into<String>, process: ProcessId) -> Self {
        Self { kind, name: name.into(), process, has_stopped: false }
    }
}

#[async_trait]
impl Fault for HangProcess {
    fn describe(&self) -> Description {
        Description::new(self.kind, format!("{} ({})", self.name, self.process))
    }

    fn undo(&self) -> Vec<Undo> {
        vec![Undo::Resume { process: self.process }]
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        Ok(self.process.stop()?)
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        let is_stopped = self.process.is_stopped();
        if (self.has_stopped && !is_stopped) || !self.process.is_alive() {
            let how = "the process is no longer stopped; it was continued or killed";
            return Err(FaultError::Ended { fault: self.describe(), how });
        }
        self.has_stopped = is_stopped;
        Ok(Effect::of("processes_stopped", u64::from(is_stopped)))
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        Ok(gone_is_done(self.process.resume())?)
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        Ok(!self.process.is_stopped())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Lives until it is killed: nobody writes to its pipe.
    fn child() -> Child {
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat starts")
    }

    #[tokio::test]
    async fn a_hung_process_goes_on_when_healed() {
        let mut child = child();
        let process = ProcessId::of(child.id()).expect("it runs");
        let mut fault = HangProcess::new("hang-executor", "executor-1", process);
        assert_eq!(fault.undo(), [Undo::Resume { process }]);
        fault.inject().await.expect("stopped");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !fault.effect().await.expect("known").bites {
            assert!(std::time::Instant::now() < deadline, "it never stops");
            tokio::task::yield_now().await;
        }
        assert!(!fault.is_healed().await.expect("known"));
        // Somebody else continues it: from then on nothing hung.
        process.resume().expect("continued");
        while process.is_stopped() {
            assert!(std::time::Instant::now() < deadline, "it never continues");
            tokio::task::yield_now().await;
        }
        let ended = fault.effect().await.expect_err("told").to_string();
        assert!(ended.contains("before its time: the process is no longer stopped"), "{ended}");
        process.stop().expect("stopped again");
        fault.heal().await.expect("continued");
        while !fault.is_healed().await.expect("known") {
            assert!(std::time::Instant::now() < deadline, "it never continues");
            tokio::task::yield_now().await;
        }
        child.kill().expect("killed");
        child.wait().expect("reaped");
        fault.heal().await.expect("a process that is gone is healed");
    }
}
