//! Processes and sockets, read from `/proc`.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// A process that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) pid: u32,
    /// The role that its environment names; none for the command itself.
    pub(crate) role: Option<String>,
}

impl Found {
    /// Sends a signal; one that is gone meanwhile is no error.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).unwrap();
        let _ = kill_process(pid, signal);
    }

    pub(crate) fn is_guardian(&self) -> bool {
        self.role.as_deref() == Some("guardian")
    }
}

/// State of a process as `/proc` has it; none once it is gone.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Processes whose environment holds `entry`. A zombie has none.
pub(super) fn with_environment(entry: &str) -> Vec<Found> {
    let mut found = vec![];
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // Gone meanwhile, or another user's.
        let Ok(environment) = fs::read(process.path().join("environ")) else { continue };
        let entries: Vec<_> = environment.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
        if entries.iter().any(|other| other == entry) {
            let role = entries.iter().find_map(|other| other.strip_prefix("STORMPROOF_ROLE="));
            found.push(Found { pid, role: role.map(ToOwned::to_owned) });
        }
    }
    found
}

/// Inodes of the sockets that process `pid` listens with.
pub(crate) fn listening_sockets(pid: u32) -> BTreeSet<String> {
    let listening = all_listening(|_| true);
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    let inode =
        |target: std::path::PathBuf| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    targets.filter_map(inode).filter(|inode| listening.contains(inode)).collect()
}

/// True while the socket with this inode listens.
pub(crate) fn is_listening(inode: &str) -> bool {
    all_listening(|_| true).contains(inode)
}

/// True if one of the sockets that process `pid` listens on has this port.
pub(crate) fn listens_on(pid: u32, port: u16) -> bool {
    let on_port =
        all_listening(|at| at.rsplit_once(':').and_then(|(_, hex)| u16::from_str_radix(hex, 16).ok()) == Some(port));
    !listening_sockets(pid).is_disjoint(&on_port)
}

/// Inodes of the sockets that listen at an address, in the kernel's words, that `is_wanted`.
fn all_listening(is_wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
    /// `TCP_LISTEN` of the kernel.
    const LISTEN: &str = "0A";
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    let inode = |row: &str| {
        let columns: Vec<&str> = row.split_whitespace().collect();
        let is_here = columns.get(1).is_some_and(|at| is_wanted(at));
        (is_here && columns.get(3) == Some(&LISTEN)).then(|| columns.get(9).copied().unwrap_or_default().to_owned())
    };
    rows.filter_map(inode).collect()
}
