//! Reading a journal, also one that somebody else is writing to.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::JournalError;
use super::line::{Line, Undo};

/// A fault that was opened and not closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenEntry {
    /// Number within the journal.
    pub id: u64,
    /// For people.
    pub what: String,
    /// How to undo it, in the order it was done.
    pub undo: Vec<Undo>,
    /// When its lease ends, in milliseconds since 1970.
    pub until_unix_ms: u64,
    /// The guardian found its lease ended and undid it; whoever held it has not noticed yet.
    pub expired: bool,
}

/// What is open in the journal at `path`, oldest first. No journal: nothing is open. A last line without its end (the
/// runner died while writing) was never acted upon and is ignored.
///
/// # Errors
/// When it cannot be read, or a line in the middle is not ours.
pub fn open_entries(path: &Path) -> Result<Vec<OpenEntry>, JournalError> {
    Ok(read(path)?.open.into_values().collect())
}

/// A journal, as far as its lines are whole.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) open: BTreeMap<u64, OpenEntry>,
    pub(super) next_id: u64,
    /// Length of the whole lines, in bytes.
    pub(super) whole_bytes: u64,
}

impl Contents {
    fn take(&mut self, line: Line) {
        match line {
            Line::Open { id, what, undo, until_unix_ms } => {
                self.next_id = self.next_id.max(id + 1);
                self.open.insert(id, OpenEntry { id, what, undo, until_unix_ms, expired: false });
            }
            // What has expired stays so: whoever renewed it had not noticed yet.
            Line::Renewed { until_unix_ms } => {
                let held = self.open.values_mut().filter(|entry| !entry.expired);
                held.for_each(|entry| entry.until_unix_ms = entry.until_unix_ms.max(until_unix_ms));
            }
            Line::Expired { id } => {
                if let Some(entry) = self.open.get_mut(&id) {
                    entry.expired = true;
                }
            }
            Line::Closed { id } => drop(self.open.remove(&id)),
        }
    }
}

pub(super) fn read(path: &Path) -> Result<Contents, JournalError> {
    let failed = |source| JournalError::Io { action: "read", path: path.to_owned(), source };
    let mut contents = Contents::default();
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(contents),
        other => other.map_err(failed)?,
    };
    let mut reader = BufReader::new(file);
    for number in 1.. {
        let mut text = vec![];
        let bytes = reader.read_until(b'\n', &mut text).map_err(failed)?;
        if bytes == 0 || !text.ends_with(b"\n") {
            break;
        }
        let malformed = |source| JournalError::Malformed { path: path.to_owned(), line: number, source };
        contents.take(serde_json::from_slice(&text).map_err(malformed)?);
        contents.whole_bytes += bytes as u64;
    }
    Ok(contents)
}
