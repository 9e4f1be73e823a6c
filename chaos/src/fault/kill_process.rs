//! `kill-executor`, `kill-coordinator`: SIGKILL, as the kernel's memory killer would.

use async_trait::async_trait;

use super::{Description, Effect, Fault, FaultError};
use crate::journal::Undo;
use crate::process::{ProcessError, ProcessId};

/// Kills a process. Cannot be undone: whoever owns the cluster starts another one.
#[derive(Debug)]
pub struct KillProcess {
    kind: &'static str,
    name: String,
    process: ProcessId,
}

impl KillProcess {
    /// `kind` is what reports call it, `name` the process's name in the cluster.
    #[must_use]
    pub fn new(kind: &'static str, name: impl Into<String>, process: ProcessId) -> Self {
        Self { kind, name: name.into(), process }
    }
}

#[async_trait]
impl Fault for KillProcess {
    fn describe(&self) -> Description {
        Description::new(self.kind, format!("{} ({})", self.name, self.process))
    }

    fn undo(&self) -> Vec<Undo> {
        vec![]
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        Ok(self.process.kill()?)
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        Ok(Effect::of("processes_killed", u64::from(!self.process.is_alive())))
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        Ok(())
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        // A dead process needs no healing; one that is still alive was never hit, or is about to die.
        match self.process.kill() {
            Err(ProcessError::Gone(_)) => Ok(true),
            Ok(()) => Ok(!self.process.is_alive()),
            Err(error) => Err(error.into()),
        }
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
    async fn a_killed_process_is_dead_and_needs_no_healing() {
        let mut child = child();
        let process = ProcessId::of(child.id()).expect("it runs");
        let mut fault = KillProcess::new("kill-executor", "executor-1", process);
        assert!(fault.describe().to_string().starts_with("kill-executor on executor-1 (pid "));
        assert!(!fault.effect().await.expect("known").bites);
        fault.inject().await.expect("killed");
        child.wait().expect("reaped");
        assert!(fault.effect().await.expect("known").bites);
        assert!(fault.is_healed().await.expect("known"));
        assert!(fault.inject().await.is_err(), "what is gone cannot be killed");
    }
}
