//! Which processes a person may hurt by naming their pids.

use std::fs;
use std::io;

use rustix::process::geteuid;

use super::{ProcessError, ProcessId};

/// A process that must not be hurt.
#[derive(Debug, thiserror::Error)]
pub enum OffLimits {
    /// Everything on this machine ends with it.
    #[error("pid 1 runs this machine")]
    Init,
    /// The one that asks.
    #[error("pid {0} is this process itself")]
    Ourselves(u32),
    /// One that this process would end with, or wait for in vain.
    #[error("pid {0} started this process")]
    Ancestor(u32),
    /// Somebody else's.
    #[error("pid {pid} belongs to user {owner}, and you are user {you}")]
    Foreign {
        /// The process.
        pid: u32,
        /// Its user.
        owner: u32,
        /// Who asks.
        you: u32,
    },
    /// A signal to one thread hits them all.
    #[error("{pid} is a thread of process {process}; name that one if you mean it")]
    Thread {
        /// The thread.
        pid: u32,
        /// What it belongs to.
        process: u32,
    },
    /// It cannot be looked at.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// What `/proc/<pid>/status` says about where a process belongs.
struct Status {
    process: u32,
    parent: u32,
    owner: u32,
}

/// The process with `pid`, if it may be hurt: it is the user's own, and this process does not depend on it.
///
/// # Errors
/// [`OffLimits`]: why not, or that there is none.
pub fn victim(pid: u32) -> Result<ProcessId, OffLimits> {
    if pid == 1 {
        return Err(OffLimits::Init);
    }
    // Named first: whatever has the pid later is not what was looked at.
    let named = ProcessId::of(pid)?;
    let status = status(pid)?;
    if status.process != pid {
        return Err(OffLimits::Thread { pid, process: status.process });
    }
    let ourselves = std::process::id();
    if pid == ourselves {
        return Err(OffLimits::Ourselves(pid));
    }
    let mut ancestor = parent(ourselves)?;
    while ancestor > 1 {
        if ancestor == pid {
            return Err(OffLimits::Ancestor(pid));
        }
        ancestor = parent(ancestor)?;
    }
    let you = geteuid().as_raw();
    if status.owner != you {
        return Err(OffLimits::Foreign { pid, owner: status.owner, you });
    }
    Ok(named)
}

fn parent(pid: u32) -> Result<u32, ProcessError> {
    match status(pid) {
        // It has ended since, and whoever it left is now the child of pid 1.
        Err(ProcessError::Gone(_)) => Ok(1),
        other => Ok(other?.parent),
    }
}

fn status(pid: u32) -> Result<Status, ProcessError> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ProcessError::Gone(pid),
        _ => ProcessError::Unreadable { pid, source },
    })?;
    parse(&text).ok_or_else(|| ProcessError::Unreadable { pid, source: io::Error::other("malformed status") })
}

fn parse(text: &str) -> Option<Status> {
    let field = |name: &str, position: usize| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(position)?.parse().ok()
    };
    // Of the user ids the second one is the effective one.
    Some(Status { process: field("Tgid:", 0)?, parent: field("PPid:", 0)?, owner: field("Uid:", 1)? })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::mpsc;

    use super::*;
    use rustix::process::getppid;

    #[test]
    fn a_child_may_be_hurt_and_neither_we_nor_our_parents_may() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat starts");
        assert_eq!(victim(child.id()).expect("ours").pid, child.id());
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert!(matches!(victim(child.id()), Err(OffLimits::Process(ProcessError::Gone(_)))));
        assert!(matches!(victim(1), Err(OffLimits::Init)));
        assert!(matches!(victim(std::process::id()), Err(OffLimits::Ourselves(_))));
        let parent = u32::try_from(getppid().expect("a test has one").as_raw_nonzero().get()).expect("positive");
        assert!(parent == 1 || matches!(victim(parent), Err(OffLimits::Ancestor(_))));
    }

    #[test]
    fn a_thread_is_named_with_its_process() {
        let (tell, told) = mpsc::channel();
        let (end, until) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let own = fs::read_link("/proc/thread-self").expect("it runs");
            let id = own.file_name().and_then(|id| id.to_str()?.parse::<u32>().ok());
            tell.send(id.expect("a number")).expect("somebody waits");
            until.recv().expect_err("ended by its drop");
        });
        let id = told.recv().expect("it runs");
        let refused = victim(id);
        assert!(
            matches!(refused, Err(OffLimits::Thread { process, .. }) if process == std::process::id()),
            "{refused:?}"
        );
        drop(end);
        thread.join().expect("no panic");
    }

    #[test]
    fn the_owner_is_the_effective_user() {
        let status = parse("Name:\tsu\nTgid:\t7\nPid:\t7\nPPid:\t3\nUid:\t1000\t0\t0\t0\n").expect("whole");
        assert_eq!((status.process, status.parent, status.owner), (7, 3, 0));
        assert!(parse("Tgid:\t7\n").is_none());
    }
}
