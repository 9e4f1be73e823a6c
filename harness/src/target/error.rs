//! What can go wrong with a target.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use stormproof_chaos::fault::FaultError;
use stormproof_chaos::process::ProcessError;
use stormproof_chaos::run_record::RunRecordError;
use stormproof_coordinator::storage::BlobError;

use crate::flink::RestError;
use crate::role::{LaunchError, last_line};

/// A target could not be brought up, asked or hurt.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The cluster's configuration.
    #[error(transparent)]
    Settings(#[from] stormproof_coordinator::config::ConfigError),
    /// Another process listens where REST was to be served.
    #[error("REST address {0} is in use; stop what listens there, or choose another, port 0 takes any free one")]
    AddressInUse(SocketAddr),
    /// REST cannot be served there for another reason.
    #[error("REST cannot be served on {address}")]
    Address {
        /// As asked for.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Another cluster works with the HA folder.
    #[error("HA folder {} is in use: {leader} leads there; end that cluster, or name another folder", folder.display())]
    HaInUse {
        /// The folder.
        folder: PathBuf,
        /// Who leads.
        leader: String,
    },
    /// It was told to stop before it was up.
    #[error("the start was given up because it was told to stop")]
    Stopped,
    /// A folder or file of the run.
    #[error("could not {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A process of the cluster.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A thread of ours.
    #[error("could not start the launcher's thread")]
    Launcher(#[source] io::Error),
    /// Who runs could not be written down.
    #[error(transparent)]
    Record(RunRecordError),
    /// A program of others ended when it should have started.
    #[error("{part} ended at its start; its log, {}, ends with: {log_tail}", log.display())]
    PartEnded {
        /// Which.
        part: &'static str,
        /// Its log file.
        log: PathBuf,
        /// The last line of it.
        log_tail: String,
    },
    /// A store that is not ours would not do what was asked.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// The embedded store.
    #[error("could not start the embedded S3 server")]
    Store(#[from] stormproof_store::StoreError),
    /// The embedded store would not do what was asked.
    #[error("the embedded S3 server refused")]
    Backend(#[from] stormproof_store::BackendError),
    /// The embedded store would not have a rule.
    #[error(transparent)]
    StoreRule(#[from] stormproof_store::RuleError),
    /// The embedded proxy.
    #[error("could not start the embedded proxy")]
    Proxy(#[from] stormproof_chaos::toxiproxy::ServerError),
    /// The proxy's admin API.
    #[error("could not set up the proxy in front of the store")]
    ProxyClient(#[from] stormproof_chaos::toxiproxy::ClientError),
    /// The cluster's REST API.
    #[error("the cluster did not {what}")]
    Rest {
        /// What it was asked.
        what: String,
        /// Why not.
        source: RestError,
    },
    /// A fault.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// A process to be hurt.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// No such victim.
    #[error("{what}: {hint}")]
    NoVictim {
        /// What was looked for.
        what: String,
        /// What there is, or what to do.
        hint: String,
    },
    /// Something did not come about in time.
    #[error("{what} did not happen within {seconds} s; see the logs in {}", logs.display())]
    Deadline {
        /// What was waited for.
        what: String,
        /// For how long.
        seconds: u64,
        /// Where to look.
        logs: PathBuf,
    },
}

impl TargetError {
    /// `part`, whose log is `log`, has ended.
    pub(super) fn part_ended(part: &'static str, log: &Path) -> Self {
        Self::PartEnded { part, log: log.to_owned(), log_tail: last_line(log) }
    }
}
