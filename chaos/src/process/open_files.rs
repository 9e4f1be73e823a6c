//! How many files this process may have open: each connection through a proxy is two.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of this process on open files to its hard one, as Go's programs do by themselves. Children
/// inherit it. Where the system refuses, the limit stays what it is.
pub fn raise_open_files_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

/// How many files this process may have open; none if there is no limit.
pub(crate) fn open_files_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// How many files this process has open.
pub(crate) fn open_files() -> u64 {
    // What lists them is one of them.
    std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64)
}
