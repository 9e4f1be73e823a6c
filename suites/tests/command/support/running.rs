//! A command that runs, and one that has ended.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{JoinHandle, spawn};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{DEADLINE, eventually};

/// A command that runs. Killed if the test ends before it does.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
}

/// How a command ended, and all that it said.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, mut errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (send, lines) = channel();
        spawn(move || BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let errors = spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            text
        });
        Self { child, lines, errors: Some(errors) }
    }

    /// The next line of its standard output.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(DEADLINE).expect("it should have said something")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end, and for the end of its output: nothing that it started may hold that.
    pub(crate) fn finish(mut self) -> Finished {
        let status = eventually("the command has ended", DEADLINE, || self.child.try_wait().unwrap());
        let errors = self.errors.take().unwrap();
        eventually("its standard error has ended", DEADLINE, || errors.is_finished().then_some(()));
        let mut stdout = String::new();
        // The sender is gone once standard output has ended.
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            stdout.push_str(&line);
            stdout.push('\n');
        }
        Finished { status, stdout, stderr: errors.join().unwrap() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already in a test that passes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Finished {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// It ended with `code` and said nothing on stderr.
    pub(crate) fn ended_quietly(&self, code: i32) -> &Self {
        assert_eq!((self.code(), self.stderr.as_str()), (Some(code), ""), "{self:?}");
        self
    }

    /// Its standard output as one JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// It refused with code 2 and one sentence that holds `parts`, and no result.
    pub(crate) fn refused(&self, parts: &[&str]) {
        assert_eq!((self.code(), self.stdout.as_str()), (Some(2), ""), "{self:?}");
        let sentence = self.stderr.strip_prefix("stormproof: ").unwrap_or_else(|| panic!("{self:?}"));
        assert_eq!(sentence.trim_end_matches('\n').lines().count(), 1, "one sentence: {self:?}");
        for part in parts {
            assert!(sentence.contains(part), "`{part}` is missing: {sentence}");
        }
    }
}
