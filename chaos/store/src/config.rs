//! What a server is told when it starts: address, keys, bounds.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::error::StoreError;

/// Everything an [`S3Server`](crate::S3Server) is told at its start.
#[derive(Debug, Clone)]
pub struct S3ServerConfig {
    /// Where to listen. Port 0 takes a free port; ask [`S3Server::address`](crate::S3Server::address) which.
    pub listen: SocketAddr,
    /// The only access key that is known. Any other is answered with 403.
    pub access_key: String,
    /// The secret that belongs to `access_key`.
    pub secret_key: String,
    /// Bounds on memory, sizes and waits.
    pub limits: Limits,
    /// Where the [admin port](crate#from-outside-of-the-process) listens: a loopback address, port 0 takes a free port.
    /// None: there is none.
    pub admin: Option<SocketAddr>,
    /// Folder in which everything is kept, so that it survives the server; made if it is not there. None: memory only.
    pub data: Option<PathBuf>,
}

impl Default for S3ServerConfig {
    /// Loopback, a free port, and the keys `stormproof` / `stormproof-secret`.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            access_key: "stormproof".to_owned(),
            secret_key: "stormproof-secret".to_owned(),
            limits: Limits::default(),
            admin: None,
            data: None,
        }
    }
}

impl S3ServerConfig {
    /// Refuses what could never serve a request.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.access_key.is_empty() {
            return Err(StoreError::EmptyCredential { which: "access key" });
        }
        if self.secret_key.is_empty() {
            return Err(StoreError::EmptyCredential { which: "secret key" });
        }
        if let Some(address) = self.admin.filter(|address| !address.ip().is_loopback()) {
            return Err(StoreError::AdminNotLocal { address });
        }
        let limits = &self.limits;
        for (name, value) in [
            ("ledger_entries", limits.ledger_entries as u64),
            ("ledger_backlog_events", limits.ledger_backlog_events as u64),
            ("max_connections", limits.max_connections as u64),
        ] {
            if value == 0 {
                return Err(StoreError::BadLimit { name, value, want: "at least 1" });
            }
        }
        Ok(())
    }
}

/// Bounds of a server. The defaults suit a test process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Largest object and largest part, in bytes; above it the answer is 400 `EntityTooLarge`.
    pub max_object_bytes: u64,
    /// Bytes of all objects and open parts together; above it the answer is 507 `InsufficientStorage`.
    pub max_total_bytes: u64,
    /// Smallest size of a part that is not the last one, in bytes (S3: 5 MiB); below it completing answers
    /// 400 `EntityTooSmall`. Tests that want many small parts lower it.
    pub min_part_bytes: u64,
    /// Requests the ledger remembers; older ones are dropped and counted.
    pub ledger_entries: usize,
    /// Events a slow ledger subscriber may lag behind before it loses some.
    pub ledger_backlog_events: usize,
    /// Open connections; further ones wait in the listen queue of the kernel.
    pub max_connections: usize,
    /// How long an upload may pause between two pieces of its body before it is answered with 400 `RequestTimeout`.
    pub body_idle: Duration,
    /// How long a connection may stay open without a request.
    pub connection_idle: Duration,
    /// How long a shutdown lets running requests go on before their connections are cut.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_object_bytes: 5 << 30,
            max_total_bytes: 8 << 30,
            min_part_bytes: 5 << 20,
            ledger_entries: 65_536,
            ledger_backlog_events: 16_384,
            max_connections: 1_024,
            body_idle: Duration::from_secs(60),
            connection_idle: Duration::from_secs(600),
            shutdown_grace: Duration::from_secs(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_that_cannot_work_is_refused_by_name() {
        let mut config = S3ServerConfig::default();
        assert!(config.check().is_ok());
        config.limits.ledger_entries = 0;
        let message = config.check().expect_err("a ledger of nothing").to_string();
        assert_eq!(message, "limit ledger_entries is 0, it must be at least 1");
        config.secret_key.clear();
        let message = config.check().expect_err("no secret").to_string();
        assert!(message.starts_with("the secret key is empty"), "{message}");
    }
}
