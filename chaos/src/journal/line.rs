//! What a line of the journal says.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::process::ProcessId;

/// How one thing that a fault did is undone. Each is idempotent: "already gone" is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "undo")]
pub enum Undo {
    /// Remove one toxic that carries our tag in its name.
    RemoveToxic {
        /// Base URL of the proxy's admin API.
        api: String,
        /// The proxy.
        proxy: String,
        /// The toxic.
        toxic: String,
    },
    /// Enable a proxy that we disabled.
    EnableProxy {
        /// Base URL of the proxy's admin API.
        api: String,
        /// The proxy.
        proxy: String,
    },
    /// Continue a process that we stopped.
    Resume {
        /// Which.
        process: ProcessId,
    },
    /// Give a process the limit of its files' size back that it had.
    LimitFiles {
        /// Which.
        process: ProcessId,
        /// In bytes; none: no limit.
        bytes: Option<u64>,
    },
    /// Remove a file that we made.
    RemoveFile {
        /// Which.
        path: PathBuf,
    },
    /// Put the files of a folder back that we moved aside, where nothing has taken their place.
    PutBack {
        /// The folder they belong to.
        place: PathBuf,
        /// The folder we moved them to; removed.
        aside: PathBuf,
    },
    /// Write back the bytes of a file that we changed, if they are still the ones that we wrote.
    RestoreBytes {
        /// The file.
        path: PathBuf,
        /// Position of the first of them.
        offset: u64,
        /// What they were, in hexadecimal digits.
        was: String,
        /// What we made of them, in hexadecimal digits.
        is: String,
    },
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Line {
    /// About to be injected.
    Open {
        /// Number of the fault within the journal.
        id: u64,
        /// For people.
        what: String,
        /// How to undo it, in the order it was done.
        undo: Vec<Undo>,
        /// When the lease ends unless it is renewed, in milliseconds since 1970.
        until_unix_ms: u64,
    },
    /// Every lease that is held now ends at this time instead.
    Renewed {
        /// In milliseconds since 1970.
        until_unix_ms: u64,
    },
    /// The lease was not renewed in time, so the guardian undid the fault.
    Expired {
        /// The number it was opened with.
        id: u64,
    },
    /// Healed, and that was verified.
    Closed {
        /// The number it was opened with.
        id: u64,
    },
}
