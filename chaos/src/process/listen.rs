//! Where a process listens, as the kernel tells.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use super::ProcessId;

/// State of a listening socket in `/proc/<pid>/net/tcp`.
const LISTEN: &str = "0A";

impl ProcessId {
    /// The IPv4 TCP addresses this process listens on; none if it is gone.
    ///
    /// So a program of others can be told to take any free port: nobody can take the port in between, and an answer
    /// from it is an answer of this process and no other.
    #[must_use]
    pub fn listens_on(&self) -> Vec<SocketAddr> {
        let sockets = self.sockets();
        let table = fs::read_to_string(format!("/proc/{}/net/tcp", self.pid)).unwrap_or_default();
        let found =
            listening(&table).filter(|(_, inode)| sockets.contains(inode)).map(|(address, _)| address).collect();
        // Asked last: what was read above is of this process only if it still is the same one.
        if self.is_alive() { found } else { vec![] }
    }

    /// Inodes of its open sockets.
    fn sockets(&self) -> BTreeSet<u64> {
        let Ok(entries) = fs::read_dir(format!("/proc/{}/fd", self.pid)) else { return BTreeSet::new() };
        let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        links.filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
    }
}

/// Addresses and inodes of the listening sockets in a table of the kernel.
fn listening(table: &str) -> impl Iterator<Item = (SocketAddr, u64)> {
    table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let (host, port) = local.split_once(':').filter(|_| *state == LISTEN)?;
        // The address is in network order and printed as if it were a number of this machine.
        let host = Ipv4Addr::from(u32::from_str_radix(host, 16).ok()?.to_ne_bytes());
        let port = u16::from_str_radix(port, 16).ok()?;
        Some((SocketAddr::V4(SocketAddrV4::new(host, port)), inode.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn own_listeners_are_found_and_connections_are_not() {
        let me = ProcessId::of(std::process::id()).expect("this process");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let open = TcpStream::connect(address).expect("connected");
        let found = me.listens_on();
        assert!(found.contains(&address), "{address} is not among {found:?}");
        assert!(!found.contains(&open.local_addr().expect("bound")));
        drop(listener);
        assert!(!me.listens_on().contains(&address));
    }

    #[test]
    fn listeners_of_others_are_not_a_childs() {
        let _listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat starts");
        let process = ProcessId::of(child.id()).expect("it runs");
        assert_eq!(process.listens_on(), []);
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert_eq!(process.listens_on(), []);
    }
}
