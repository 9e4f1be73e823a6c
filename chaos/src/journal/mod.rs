//! The write-ahead journal: the undo of a fault is on disk, synced, before the fault is done.
//!
//! A line of JSON each: `{"open": …}` before the injection, with the time at which the lease ends; `{"renewed": …}` while
//! the runner lives; `{"expired": …}` by the [guardian](crate::guardian), if it does not renew in time; `{"closed": …}`
//! after a *verified* heal. Whatever is not closed when the runner is gone is undone by the guardian, newest first.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `line` | what a line says |
//! | `read` | what is open |
//! | `write` | leases as their holder records them |

mod line;
mod read;
mod write;

use std::io;
use std::path::PathBuf;

pub use line::Undo;
pub use read::{OpenEntry, open_entries};
pub use write::{DEFAULT_TTL, Journal, unix_ms};
pub(crate) use write::{record_expired, unix_ms_after};

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
    #[error("line {line} of the fault journal {} cannot be read; undo by hand what it says, then empty it", path.display())]
    Malformed {
        /// Which journal.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn undo(name: &str) -> Vec<Undo> {
        vec![Undo::RemoveFile { path: name.into() }]
    }

    #[test]
    fn what_was_closed_is_not_open() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        let journal = Journal::open(&path).expect("open");
        let first = journal.record_open("first", undo("a")).expect("record");
        let second = journal.record_open("second", undo("b")).expect("record");
        journal.record_closed(first).expect("record");
        let open = open_entries(&path).expect("read");
        let [entry] = open.as_slice() else { panic!("{open:?}") };
        assert_eq!((entry.id, entry.what.as_str(), &entry.undo), (second, "second", &undo("b")));
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
        // What is written next must not become a part of it.
        Journal::open(&path).expect("open").record_open("second", undo("b")).expect("record");
        assert_eq!(open_entries(&path).expect("read").len(), 2);
        std::fs::write(&path, format!("{whole}nonsense\n")).expect("write");
        let error = open_entries(&path).expect_err("refused").to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn no_journal_means_nothing_is_open() {
        let folder = tempfile::tempdir().expect("folder");
        assert_eq!(open_entries(&folder.path().join("absent")).expect("read"), []);
    }

    /// Waits for the wall clock.
    fn until_after(unix: u64) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while unix_ms() <= unix {
            assert!(Instant::now() < deadline, "the clock stands still");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_lease_ends_unless_it_is_renewed_in_time() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        let journal = Journal::open(&path).expect("open").with_ttl(Duration::from_secs(3600));
        let until = |id| {
            let open = open_entries(&path).expect("read");
            open.iter().find(|entry| entry.id == id).expect("open").until_unix_ms
        };
        let id = journal.record_open("first", undo("a")).expect("record");
        let first_end = until(id);
        until_after(unix_ms());
        journal.renew().expect("renew");
        assert!(until(id) > first_end);
        assert!(!journal.is_lost(id));
        let brief = journal.clone().with_ttl(Duration::ZERO);
        let late = brief.record_open("late", undo("b")).expect("record");
        assert!(brief.is_lost(late), "it had ended when it began");
        journal.renew().expect("renew");
        assert!(brief.is_lost(late), "a renewal that comes too late brings nothing back");
        assert!(!journal.is_lost(id), "the other one is held");
    }

    #[test]
    fn a_renewal_writes_nothing_while_nothing_can_end() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        let journal = Journal::open(&path).expect("open");
        let length = || std::fs::metadata(&path).expect("there").len();
        journal.renew().expect("renew");
        assert_eq!(length(), 0);
        // A kill cannot be undone, so its lease cannot end.
        journal.record_open("kill", vec![]).expect("record");
        let before = length();
        journal.renew().expect("renew");
        assert_eq!(length(), before);
    }

    #[test]
    fn what_expired_is_open_until_its_holder_knows_it() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("journal");
        let journal = Journal::open(&path).expect("open");
        let id = journal.record_open("first", undo("a")).expect("record");
        record_expired(&path, id).expect("record");
        let open = open_entries(&path).expect("read");
        assert_eq!(open.iter().map(|entry| entry.expired).collect::<Vec<_>>(), [true]);
        journal.record_closed(id).expect("record");
        assert_eq!(open_entries(&path).expect("read"), []);
    }
}
