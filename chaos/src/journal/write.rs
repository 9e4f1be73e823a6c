//! Writing a journal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::line::{Line, Undo};
use super::{JournalError, read};

/// For how long a fault is held without being renewed, unless told otherwise.
pub const DEFAULT_TTL: Duration = Duration::from_secs(10);

/// The wall clock, in milliseconds since 1970. Runner and guardian are on one machine, so they share it.
#[must_use]
pub fn unix_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

/// The wall clock when so long has passed.
pub(crate) fn unix_ms_after(time: Duration) -> u64 {
    unix_ms().saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// An open journal file. Clones write to the same one.
#[derive(Debug, Clone)]
pub struct Journal {
    writer: Arc<Mutex<Writer>>,
    ttl: Duration,
}

#[derive(Debug)]
struct Writer {
    path: PathBuf,
    file: File,
    next_id: u64,
    /// Ends of the leases that are held, in milliseconds since 1970. Only those that something can be undone of.
    held: BTreeMap<u64, u64>,
    /// Leases that ended before they were renewed.
    lost: BTreeSet<u64>,
}

impl Journal {
    /// Opens or creates the journal at `path`, with leases of [`DEFAULT_TTL`]; new entries are numbered after the ones
    /// it has. A torn last line is cut off.
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let path = path.into();
        let contents = read::read(&path)?;
        let failed = |source| JournalError::Io { action: "open", path: path.clone(), source };
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() > contents.whole_bytes {
            file.set_len(contents.whole_bytes).map_err(failed)?;
        }
        let (held, lost) = (BTreeMap::new(), BTreeSet::new());
        let writer = Writer { path, file, next_id: contents.next_id, held, lost };
        Ok(Self { writer: Arc::new(Mutex::new(writer)), ttl: DEFAULT_TTL })
    }

    /// The same journal with leases that last `ttl` unless renewed.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// For how long a lease lasts unless it is renewed.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Records, synced to disk, that a fault is about to be injected. Inject only after this returned.
    ///
    /// # Errors
    /// When the disk refuses; the fault must not be injected then.
    pub fn record_open(&self, what: &str, undo: Vec<Undo>) -> Result<u64, JournalError> {
        let mut writer = self.lock();
        let (id, until_unix_ms) = (writer.next_id, self.end_of_lease());
        let can_end = !undo.is_empty();
        writer.append(&Line::Open { id, what: what.to_owned(), undo, until_unix_ms })?;
        writer.sync()?;
        writer.next_id += 1;
        if can_end {
            writer.held.insert(id, until_unix_ms);
        }
        Ok(id)
    }

    /// Renews every lease that is held and has not ended. Writes nothing if there is none.
    ///
    /// It is not synced: a page that is written survives its writer, and if the machine dies so do the faults.
    ///
    /// # Errors
    /// When the disk refuses; the leases then end when they were going to.
    pub fn renew(&self) -> Result<(), JournalError> {
        let mut writer = self.lock();
        writer.note_lost();
        if writer.held.is_empty() {
            return Ok(());
        }
        let until_unix_ms = self.end_of_lease();
        writer.append(&Line::Renewed { until_unix_ms })?;
        // We may have been stopped since the look at the clock: what ended before the line was there has ended, since
        // the guardian looks at the clock first and reads then.
        writer.note_lost();
        writer.held.values_mut().for_each(|end| *end = until_unix_ms);
        Ok(())
    }

    /// True if the lease ended before it was renewed: what it held may have been undone by then.
    #[must_use]
    pub fn is_lost(&self, id: u64) -> bool {
        let mut writer = self.lock();
        writer.note_lost();
        writer.lost.contains(&id)
    }

    /// Records that a fault is healed and that this was verified.
    ///
    /// # Errors
    /// When the disk refuses; the fault will be undone once more, which is harmless.
    pub fn record_closed(&self, id: u64) -> Result<(), JournalError> {
        let mut writer = self.lock();
        writer.note_lost();
        writer.held.remove(&id);
        writer.append(&Line::Closed { id })?;
        writer.sync()
    }

    fn end_of_lease(&self) -> u64 {
        unix_ms_after(self.ttl)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    fn note_lost(&mut self) {
        let now = unix_ms();
        let ended: Vec<u64> = self.held.iter().filter(|(_, end)| **end <= now).map(|(id, _)| *id).collect();
        for id in ended {
            self.held.remove(&id);
            self.lost.insert(id);
        }
    }

    fn append(&mut self, line: &Line) -> Result<(), JournalError> {
        append(&mut self.file, &self.path, line)
    }

    fn sync(&self) -> Result<(), JournalError> {
        let failed = |source| JournalError::Io { action: "append to", path: self.path.clone(), source };
        self.file.sync_data().map_err(failed)
    }
}

/// One write for the whole line: lines of two writers never mix.
fn append(file: &mut File, path: &Path, line: &Line) -> Result<(), JournalError> {
    let failed = |source| JournalError::Io { action: "append to", path: path.to_owned(), source };
    let mut text = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
    text.push(b'\n');
    file.write_all(&text).map_err(failed)
}

/// Records, synced, that the guardian undid a fault whose lease had ended. Its runner may have the journal open.
pub(crate) fn record_expired(path: &Path, id: u64) -> Result<(), JournalError> {
    let failed = |source| JournalError::Io { action: "append to", path: path.to_owned(), source };
    let mut file = OpenOptions::new().append(true).open(path).map_err(failed)?;
    append(&mut file, path, &Line::Expired { id })?;
    file.sync_data().map_err(failed)
}
