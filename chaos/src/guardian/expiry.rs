//! Leases that were not renewed: their faults end although the runner is there.

use std::path::PathBuf;

use tokio::runtime::Runtime;

use super::undo::undo_entry;
use crate::journal::{OpenEntry, open_entries, record_expired, unix_ms};

/// Looks at a journal again and again.
pub(super) struct Expiry {
    journal: PathBuf,
    /// Its length at the last look; it only grows.
    seen_bytes: Option<u64>,
    open: Vec<OpenEntry>,
}

impl Expiry {
    pub(super) fn new(journal: PathBuf) -> Self {
        Self { journal, seen_bytes: None, open: vec![] }
    }

    /// Undoes every fault whose lease has ended, newest first, and records that. Answers with what it undid, and with
    /// what it could not undo: that is tried again at the next look.
    pub(super) fn look(&mut self) -> (Vec<String>, Vec<String>) {
        let (mut undone, mut problems) = (vec![], vec![]);
        // Before the journal is read: a renewal that was written in time is then seen.
        let now = unix_ms();
        if let Err(problem) = self.read() {
            return (undone, vec![problem]);
        }
        let ended: Vec<OpenEntry> =
            self.open.iter().filter(|entry| !entry.expired && entry.until_unix_ms <= now).rev().cloned().collect();
        let runtime =
            if ended.iter().any(|entry| !entry.undo.is_empty()) { runtime() } else { return (undone, problems) };
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return (undone, vec![error.to_string()]),
        };
        for entry in ended.iter().filter(|entry| !entry.undo.is_empty()) {
            match runtime.block_on(undo_entry(entry)) {
                Ok(()) => match record_expired(&self.journal, entry.id) {
                    Ok(()) => undone.push(entry.what.clone()),
                    Err(error) => problems.push(error.to_string()),
                },
                Err(failed) => problems.extend(failed),
            }
        }
        (undone, problems)
    }

    fn read(&mut self) -> Result<(), String> {
        let length = std::fs::metadata(&self.journal).ok().map(|metadata| metadata.len());
        if length != self.seen_bytes {
            self.open = open_entries(&self.journal).map_err(|error| error.to_string())?;
            self.seen_bytes = length;
        }
        Ok(())
    }
}

/// For the calls to a proxy's API.
pub(super) fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
