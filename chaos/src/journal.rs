//! The write-ahead journal: the undo of a fault is on disk, synced, before the fault is done.
//!
//! A line of JSON each: `{"open": …}` before the injection, `{"closed": …}` after a *verified* heal. Whatever is open
//! when the runner is gone is undone by the [guardian](crate::guardian), newest first.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

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
    /// Remove a file that we made.
    RemoveFile {
        /// Which.
        path: PathBuf,
    },
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// About to be injected.
    Open {
        /// Number of the fault within the journal.
        id: u64,
        /// For people.
        what: String,
        /// How to undo it, in the order it was done.
        undo: Vec<Undo>,
    },
    /// Healed, and that was verified.
    Closed {
        /// The number it was opened with.
        id: u64,
    },
}

/// A fault that was opened and not closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenEntry {
    /// Number within the journal.
    pub id: u64,
    /// For people.
    pub what: String,
    /// How to undo it, in the order it was done.
    pub undo: Vec<Undo>,
}

/// A journal could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// I/O.
    #[error("could not {action} the fault journal {}", path.display())]
    Io {
        /// `open`, `append to` or `read`.
        action: &'static str,
        /// Which journal.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line in the middle that is not ours.
    #[error("line {line} of the fault journal {} cannot be read; undo by hand what it says, then delete it", path.display())]
    Malformed {
        /// Which journal.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
}

/// An open journal file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    next_id: u64,
}

impl Journal {
    /// Opens or creates the journal at `path`; new entries are numbered after the ones it has.
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let path = path.into();
        let next_id = match lines(&path) {
            Ok(lines) => lines
                .iter()
                .map(|line| match line {
                    Line::Open { id, .. } | Line::Closed { id } => id + 1,
                })
                .max()
                .unwrap_or(0),
            Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(|source| JournalError::Io {
            action: "open",
            path: path.clone(),
            source,
        })?;
        Ok(Self { path, file, next_id })
    }

    /// Records, synced to disk, that a fault is about to be injected. Inject only after this returned.
    ///
    /// # Errors
    /// When the disk refuses; the fault must not be injected then.
    pub fn record_open(&mut self, what: &str, undo: Vec<Undo>) -> Result<u64, JournalError> {
        let id = self.next_id;
        self.append(&Line::Open { id, what: what.to_owned(), undo })?;
        self.next_id += 1;
        Ok(id)
    }

    /// Records that a fault is healed and that this was verified.
    ///
    /// # Errors
    /// When the disk refuses; the fault will be undone once more, which is harmless.
    pub fn record_closed(&mut self, id: u64) -> Result<(), JournalError> {
        self.append(&Line::Closed { id })
    }

    fn append(&mut self, line: &Line) -> Result<(), JournalError> {
        let failed = |source| JournalError::Io { action: "append to", path: self.path.clone(), source };
        let mut text = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        self.file.write_all(&text).and_then(|()| self.file.sync_data()).map_err(failed)
    }
}

/// What is open in the journal at `path`, oldest first. No journal: nothing is open. A last line without its end (the
/// runner died while writing) was never acted upon and is ignored.
///
/// # Errors
/// When it cannot be read, or a line in the middle is not ours.
pub fn open_entries(path: &Path) -> Result<Vec<OpenEntry>, JournalError> {
    let lines = match lines(path) {
        Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        other => other?,
    };
    let mut open = BTreeMap::new();
    for line in lines {
        match line {
            Line::Open { id, what, undo } => {
                open.insert(id, OpenEntry { id, what, undo });
            }
            Line::Closed { id } => {
                open.remove(&id);
            }
        }
    }
    Ok(open.into_values().collect())
}

fn lines(path: &Path) -> Result<Vec<Line>, JournalError> {
    let failed = |source| JournalError::Io { action: "read", path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let mut lines = vec![];
    for number in 1.. {
        let mut text = String::new();
        if reader.read_line(&mut text).map_err(failed)? == 0 || !text.ends_with('\n') {
            break;
        }
        let line = serde_json::from_str(&text).map_err(|source| JournalError::Malformed {
            path: path.to_owned(),
            line: number,
            source,
        })?;
        lines.push(line);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undo(name: &str) -> Vec<Undo> {
        vec![Undo::RemoveFile { path: name.into() }]
    }

    #[test]
    fn what_was_closed_is_not_open() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        let mut journal = Journal::open(&path).expect("open");
        let first = journal.record_open("first", undo("a")).expect("record");
        let second = journal.record_open("second", undo("b")).expect("record");
        journal.record_closed(first).expect("record");
        let open = open_entries(&path).expect("read");
        assert_eq!(open, [OpenEntry { id: second, what: "second".into(), undo: undo("b") }]);
    }

    #[test]
    fn numbers_go_on_after_a_restart() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        let first = Journal::open(&path).expect("open").record_open("first", vec![]).expect("record");
        let second = Journal::open(&path).expect("open").record_open("second", vec![]).expect("record");
        assert!(second > first);
        assert_eq!(open_entries(&path).expect("read").len(), 2);
    }

    #[test]
    fn a_torn_last_line_is_ignored_and_a_foreign_one_is_not() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        Journal::open(&path).expect("open").record_open("first", undo("a")).expect("record");
        let whole = std::fs::read_to_string(&path).expect("read");
        std::fs::write(&path, format!("{whole}{{\"open\":{{\"id\":7")).expect("write");
        assert_eq!(open_entries(&path).expect("read").len(), 1);
        std::fs::write(&path, format!("{whole}nonsense\n")).expect("write");
        let error = open_entries(&path).expect_err("refused").to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn no_journal_means_nothing_is_open() {
        let folder = tempfile::tempdir().expect("folder");
        assert_eq!(open_entries(&folder.path().join("absent")).expect("read"), []);
    }
}
