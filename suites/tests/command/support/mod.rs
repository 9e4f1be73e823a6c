//! Sandboxes, commands in them, and facts about what belongs to them.

mod bystander;
mod chance;
mod processes;
mod proxy;
mod running;

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

pub(crate) use self::bystander::Bystander;
pub(crate) use self::chance::{rounds, share};
pub(crate) use self::processes::{Found, is_listening, listening_sockets, listens_on, state};
pub(crate) use self::proxy::{NAME, ProxyServer, answer};
pub(crate) use self::running::{Finished, Running};

/// How long a fact may take to become true. Only ever waited for in full by a test that fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(150);

/// Waits until `fact` gives something.
pub(crate) fn eventually<T>(what: &str, limit: Duration, fact: impl FnMut() -> Option<T>) -> T {
    within(limit, fact).unwrap_or_else(|| panic!("after {limit:?} it is still not true that {what}"))
}

/// What `fact` gives as soon as it gives something, or nothing when `limit` has passed.
fn within<T>(limit: Duration, mut fact: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        let value = fact();
        if value.is_some() || began.elapsed() >= limit {
            return value;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// A current folder and a temporary folder that nothing else uses.
pub(crate) struct Sandbox {
    root: TempDir,
    /// Pids of its commands: folders that they keep in memory carry them in their names.
    started: RefCell<Vec<u32>>,
}

impl Drop for Sandbox {
    /// Only a test that failed leaves anything; a process that it stopped would stay for ever.
    fn drop(&mut self) {
        self.processes().iter().for_each(|left| left.signal(Signal::KILL));
        self.in_memory().iter().for_each(|folder| drop(fs::remove_dir_all(folder)));
    }
}

/// Where a run keeps what need not lie on a disk.
const MEMORY: &str = "/dev/shm";

impl Sandbox {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("tmp")).unwrap();
        fs::create_dir(root.path().join("here")).unwrap();
        Self { root, started: RefCell::default() }
    }

    /// The current folder of its commands.
    pub(crate) fn here(&self) -> PathBuf {
        self.root.path().join("here")
    }

    /// The temporary folder of its commands.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.root.path().join("tmp")
    }

    /// Where its commands write down which runs there are.
    pub(crate) fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    /// Writes a file below the current folder.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.here().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.at_home(Command::new(env!("CARGO_BIN_EXE_stormproof")), arguments)
    }

    fn at_home(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.args(arguments).current_dir(self.here()).env("TMPDIR", self.temporary());
        command.env("XDG_STATE_HOME", self.state());
        command
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        self.started(self.command(arguments))
    }

    /// Starts it under the limit of open files that the shell's `ulimit` is told.
    pub(crate) fn start_limited(&self, limit: &str, arguments: &[&str]) -> Running {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_stormproof")]);
        self.started(self.at_home(shell, arguments))
    }

    fn started(&self, command: Command) -> Running {
        let running = Running::start(command);
        self.started.borrow_mut().push(running.pid());
        running
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.start(arguments).finish()
    }

    /// Processes that were started in this sandbox, guardians too: all of them have its temporary folder.
    pub(crate) fn processes(&self) -> Vec<processes::Found> {
        processes::with_environment(&format!("TMPDIR={}", self.temporary().display()))
    }

    /// What lies in the temporary folder, what its commands keep in memory, and what they say is still running.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut left = names(&self.temporary());
        left.extend(self.in_memory());
        let runs = self.state().join("stormproof/runs");
        left.extend(if runs.is_dir() { names(&runs) } else { vec![] });
        left
    }

    /// Folders that its commands keep in memory.
    pub(crate) fn in_memory(&self) -> Vec<String> {
        if !Path::new(MEMORY).is_dir() {
            return vec![];
        }
        let started = self.started.borrow();
        let is_ours = |name: &String| started.iter().any(|pid| name.starts_with(&format!("stormproof-{pid}-")));
        names(Path::new(MEMORY)).into_iter().filter(is_ours).map(|name| format!("{MEMORY}/{name}")).collect()
    }

    /// Nothing is left, now and not a moment later.
    pub(crate) fn assert_nothing_left(&self) {
        assert_eq!(self.processes(), [], "processes");
        assert_eq!(self.leftovers(), Vec::<String>::new(), "files in the temporary folder or in memory");
    }

    /// Waits until nothing is left.
    pub(crate) fn wait_until_nothing_left(&self, limit: Duration) {
        eventually("no process is left", limit, || self.processes().is_empty().then_some(()));
        // Not `eventually`, which could not say what is left.
        let gone = within(limit, || self.leftovers().is_empty().then_some(()));
        assert!(gone.is_some(), "after {limit:?} there still is {:?}", self.leftovers());
    }
}

/// Names of the entries of `folder`, in order.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
