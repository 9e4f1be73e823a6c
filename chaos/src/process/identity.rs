//! One process, named so that the name cannot come to mean another one.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// A process: its pid and the moment the kernel started it. Two processes never share both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// The pid.
    pub pid: u32,
    /// Start time in clock ticks since boot (field 22 of `/proc/<pid>/stat`).
    pub started_ticks: u64,
}

/// A process could not be looked at or signalled.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It has ended, or its pid now belongs to another process.
    #[error("process {0} is gone")]
    Gone(u32),
    /// The kernel refused.
    #[error("could not {action} process {pid}")]
    Refused {
        /// What was tried, e.g. `kill`.
        action: &'static str,
        /// On which process.
        pid: u32,
        /// Why not.
        source: io::Error,
    },
    /// `/proc` did not say what it should.
    #[error("could not read the state of process {pid}")]
    Unreadable {
        /// Which process.
        pid: u32,
        /// Why.
        source: io::Error,
    },
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {}", self.pid)
    }
}

/// What `/proc/<pid>/stat` tells.
struct Stat {
    state: char,
    started_ticks: u64,
    /// As `wait` tells it; 0 while it runs, and if it is none of our business.
    wait_status: i32,
}

fn stat(pid: u32) -> Result<Stat, ProcessError> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ProcessError::Gone(pid),
        // Reading the file of a process that ends meanwhile gives ESRCH.
        _ if source.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => ProcessError::Gone(pid),
        _ => ProcessError::Unreadable { pid, source },
    })?;
    // The second field is the command in parentheses and may hold anything; the rest follows the last ')'.
    let malformed = || ProcessError::Unreadable { pid, source: io::Error::other("malformed stat line") };
    let (_, rest) = text.rsplit_once(')').ok_or_else(malformed)?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let state = fields.first().and_then(|field| field.chars().next()).ok_or_else(malformed)?;
    let started_ticks = fields.get(19).and_then(|field| field.parse().ok()).ok_or_else(malformed)?;
    let wait_status = fields.get(49).and_then(|field| field.parse().ok()).unwrap_or(0);
    Ok(Stat { state, started_ticks, wait_status })
}

impl ProcessId {
    /// Names the process that has `pid` now.
    ///
    /// # Errors
    /// When there is none.
    pub fn of(pid: u32) -> Result<Self, ProcessError> {
        Ok(Self { pid, started_ticks: stat(pid)?.started_ticks })
    }

    /// True while the process runs or is stopped; a zombie counts as dead.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.state().is_ok_and(|state| !matches!(state, 'Z' | 'X'))
    }

    /// True while the process is stopped (SIGSTOP).
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.state().is_ok_and(|state| state == 'T')
    }

    /// How it ended, while it is a zombie: nobody has asked its parent's question yet.
    #[must_use]
    pub fn exit_status(&self) -> Option<ExitStatus> {
        let now = self.stat().ok()?;
        (now.state == 'Z').then(|| ExitStatus::from_raw(now.wait_status))
    }

    /// What the kernel calls it, for people: the program's name, cut off after 15 bytes. A process that is gone is
    /// called `process`.
    #[must_use]
    pub fn name(&self) -> String {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.pid)).ok().filter(|_| self.state().is_ok());
        name.map_or_else(|| "process".to_owned(), |name| name.trim_end().to_owned())
    }

    fn state(&self) -> Result<char, ProcessError> {
        Ok(self.stat()?.state)
    }

    fn stat(&self) -> Result<Stat, ProcessError> {
        let now = stat(self.pid)?;
        if now.started_ticks == self.started_ticks { Ok(now) } else { Err(ProcessError::Gone(self.pid)) }
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// When it is gone or the kernel refuses.
    pub fn kill(&self) -> Result<(), ProcessError> {
        self.signal("kill", Signal::KILL)
    }

    /// SIGTERM.
    ///
    /// # Errors
    /// When it is gone or the kernel refuses.
    pub fn terminate(&self) -> Result<(), ProcessError> {
        self.signal("terminate", Signal::TERM)
    }

    /// SIGSTOP.
    ///
    /// # Errors
    /// When it is gone or the kernel refuses.
    pub fn stop(&self) -> Result<(), ProcessError> {
        self.signal("stop", Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// When it is gone or the kernel refuses.
    pub fn resume(&self) -> Result<(), ProcessError> {
        self.signal("continue", Signal::CONT)
    }

    fn signal(&self, action: &'static str, signal: Signal) -> Result<(), ProcessError> {
        self.state()?;
        kill_process(self.kernel_pid()?, signal).map_err(|errno| match errno {
            rustix::io::Errno::SRCH => ProcessError::Gone(self.pid),
            _ => ProcessError::Refused { action, pid: self.pid, source: errno.into() },
        })
    }

    pub(super) fn kernel_pid(&self) -> Result<Pid, ProcessError> {
        i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or(ProcessError::Gone(self.pid))
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// A child that lives until it is killed: `cat` on a pipe that nobody writes to.
    fn child() -> Child {
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat starts")
    }

    fn wait_until(what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !condition() {
            assert!(Instant::now() < deadline, "still waiting until {what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn stops_continues_and_kills() {
        let mut child = child();
        let process = ProcessId::of(child.id()).expect("it runs");
        assert_eq!(process.name(), "cat");
        process.stop().expect("stop");
        wait_until("it is stopped", || process.is_stopped());
        process.resume().expect("continue");
        wait_until("it runs again", || !process.is_stopped());
        process.kill().expect("kill");
        wait_until("it is dead", || !process.is_alive());
        child.wait().expect("reaped");
        assert!(matches!(process.kill(), Err(ProcessError::Gone(pid)) if pid == child.id()));
    }

    #[test]
    fn tells_how_a_zombie_ended() {
        let mut child = child();
        let process = ProcessId::of(child.id()).expect("it runs");
        assert_eq!(process.exit_status(), None, "it runs");
        process.kill().expect("kill");
        wait_until("it is dead", || !process.is_alive());
        assert_eq!(process.exit_status().and_then(|status| status.signal()), Some(9));
        child.wait().expect("reaped");
        assert_eq!(process.exit_status(), None, "nobody knows any more");
        let mut child = Command::new("sh").args(["-c", "exit 137"]).spawn().expect("sh starts");
        let process = ProcessId::of(child.id()).expect("it was started");
        wait_until("it has ended", || !process.is_alive());
        assert_eq!(process.exit_status().and_then(|status| status.code()), Some(137));
        child.wait().expect("reaped");
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let mut child = child();
        let process = ProcessId::of(child.id()).expect("it runs");
        let other = ProcessId { started_ticks: process.started_ticks + 1, ..process };
        assert!(!other.is_alive());
        assert!(matches!(other.kill(), Err(ProcessError::Gone(_))), "must not be hit");
        assert!(process.is_alive());
        child.kill().expect("kill");
        child.wait().expect("reaped");
    }
}
