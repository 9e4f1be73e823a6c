//! Starting roles as child processes.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child as StdChild, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde::Serialize;
use stormproof_chaos::process::{ProcessError, ProcessId, RUN_TAG_VARIABLE};
use stormproof_coordinator::config::Ready;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{ROLE_VARIABLE, Role};

/// How long a child may take to say that it is ready.
const READY_DEADLINE: Duration = Duration::from_secs(30);

/// A child could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Our own binary cannot be found.
    #[error("could not find the current binary, which {role} processes are made of")]
    Binary {
        /// What was to be started.
        role: Role,
        /// Why.
        source: io::Error,
    },
    /// The operating system refused.
    #[error("could not start {role} `{name}`")]
    Spawn {
        /// What was to be started.
        role: Role,
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// It started and ended, or said nothing.
    #[error("{role} `{name}` did not become ready ({problem}); its log, {}, ends with: {log_tail}", log.display())]
    NotReady {
        /// What was started.
        role: Role,
        /// Its name.
        name: String,
        /// `it ended`, `30 s passed`.
        problem: String,
        /// Its log file.
        log: PathBuf,
        /// The last line of it.
        log_tail: String,
    },
    /// It vanished at once.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The launcher's thread is gone.
    #[error("the launcher has been shut down")]
    Closed,
}

struct Request {
    command: Command,
    answer: oneshot::Sender<io::Result<StdChild>>,
}

/// Starts children, all from one thread of its own: the parent-death signal that ties them to us is sent when the
/// *thread* that started them ends. Dropping the launcher therefore kills every child it started (guardians apart).
#[derive(Debug)]
pub struct Launcher {
    requests: mpsc::SyncSender<Request>,
    tag: String,
}

/// A running child.
#[derive(Debug)]
pub struct Child {
    /// What it is.
    pub role: Role,
    /// Its name.
    pub name: String,
    /// Its process.
    pub process: ProcessId,
    /// Where it can be reached; guardians and parts do not say.
    pub ready: Option<Ready>,
    child: StdChild,
    /// Held open: its end asks the child to end.
    lifeline: Option<ChildStdin>,
}

impl Launcher {
    /// A launcher whose children carry `tag`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn new(tag: impl Into<String>) -> io::Result<Self> {
        let (requests, queue) = mpsc::sync_channel::<Request>(16);
        std::thread::Builder::new().name("launcher".to_owned()).spawn(move || {
            while let Ok(mut request) = queue.recv() {
                // An asker that gave up leaves a child without a lifeline, which ends by itself.
                let _ = request.answer.send(request.command.spawn());
            }
        })?;
        Ok(Self { requests, tag: tag.into() })
    }

    /// Starts a child, hands it `config` and waits until it is ready. `log` is its own log file.
    ///
    /// # Errors
    /// When it cannot be started or does not become ready.
    pub async fn launch(
        &self,
        role: Role,
        name: &str,
        config: &impl Serialize,
        log: &Path,
    ) -> Result<Child, LaunchError> {
        let failed = |source| LaunchError::Spawn { role, name: name.to_owned(), source };
        let binary = std::env::current_exe().map_err(|source| LaunchError::Binary { role, source })?;
        let log_file = OpenOptions::new().create(true).append(true).open(log).map_err(failed)?;
        let log_copy = log_file.try_clone().map_err(failed)?;
        let command = self.command(role, binary.into_os_string(), log_file).map_err(failed)?;
        let (answer, started) = oneshot::channel();
        self.requests.try_send(Request { command, answer }).map_err(|_| LaunchError::Closed)?;
        let mut child = started.await.map_err(|_| LaunchError::Closed)?.map_err(failed)?;
        let mut line = serde_json::to_vec(config).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let mut lifeline = child.stdin.take();
        // A child that has ended already shows below, with its log.
        let _ = lifeline.as_mut().map(|pipe| pipe.write_all(&line));
        let ready = match child.stdout.take() {
            Some(out) => match first_line(out, log_copy).await.and_then(|line| understood(role, &line)) {
                Ok(ready) => ready,
                Err(problem) => {
                    let _ = child.kill().and_then(|()| child.wait());
                    let (log, log_tail) = (log.to_owned(), last_line(log));
                    return Err(LaunchError::NotReady { role, name: name.to_owned(), problem, log, log_tail });
                }
            },
            None => None,
        };
        let process = ProcessId::of(child.id())?;
        Ok(Child { role, name: name.to_owned(), process, ready, child, lifeline })
    }

    fn command(&self, role: Role, binary: OsString, log: File) -> io::Result<Command> {
        let out = match role {
            Role::Coordinator | Role::Executor | Role::Guardian => Stdio::piped(),
            Role::Part => log.try_clone()?.into(),
        };
        let mut command = Command::new(binary);
        command
            .env(ROLE_VARIABLE, role.name())
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(log)
            // A group of its own: a Ctrl-C at the terminal reaches the runner only, which then ends its children.
            .process_group(0);
        if role == Role::Guardian {
            // It must survive the sweep it does.
            command.env_remove(RUN_TAG_VARIABLE);
        } else {
            command.env(RUN_TAG_VARIABLE, &self.tag);
        }
        Ok(command)
    }
}

/// The child's first line, read on a thread: pipes of `std` know no deadline. What user code prints later goes to the
/// child's log; a closed pipe would make it panic.
async fn first_line(out: ChildStdout, mut log: File) -> Result<String, String> {
    let (send, line) = oneshot::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let mut out = BufReader::new(out);
        let result = out.read_line(&mut text).map(|_| text);
        let _ = send.send(result);
        let _ = io::copy(&mut out, &mut log);
    });
    let text = match timeout(READY_DEADLINE, line).await {
        Err(_) => return Err(format!("{} s passed", READY_DEADLINE.as_secs())),
        Ok(Err(_)) => return Err("its output could not be read".to_owned()),
        Ok(Ok(result)) => result.map_err(|error| error.to_string())?,
    };
    if text.is_empty() { Err("it ended".to_owned()) } else { Ok(text) }
}

/// What a child says when it is ready. That of a guardian says only that it is.
fn understood(role: Role, line: &str) -> Result<Option<Ready>, String> {
    if role == Role::Guardian {
        return Ok(None);
    }
    serde_json::from_str(line).map(Some).map_err(|error| format!("it said `{}`: {error}", line.trim()))
}

/// The last line of a log that is not empty.
pub(crate) fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("(empty)").to_owned()
}

impl Child {
    /// SIGKILL, and waits for the end.
    pub fn kill(mut self) {
        // Already dead is fine; so is a kernel that refuses, the guardian comes after us.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Reaps the process if it has ended; true if it has.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Asks the child to end, and kills it if it has not ended by `deadline`. True if it ended by itself, well.
    pub async fn end(mut self, deadline: Duration) -> bool {
        drop(self.lifeline.take());
        let Child { mut child, process, .. } = self;
        let waiter = tokio::task::spawn_blocking(move || child.wait());
        match timeout(deadline, waiter).await {
            Ok(Ok(Ok(status))) => status.success(),
            _ => {
                // The waiter reaps it.
                let _ = process.kill();
                false
            }
        }
    }
}
