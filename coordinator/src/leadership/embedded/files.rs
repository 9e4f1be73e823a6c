//! Atomic files in one folder, and its write lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::leadership::ha::HaError;

/// Longest wait for the write lock. It is held for milliseconds, unless its holder was stopped.
const WRITE_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause between two looks at a taken write lock.
const WRITE_LOCK_PAUSE: Duration = Duration::from_millis(1);

const TEMPORARY_PREFIX: &str = ".tmp-";

/// The folder of an embedded HA store. All calls block.
#[derive(Debug, Clone)]
pub(in crate::leadership) struct Folder {
    root: PathBuf,
    write_lock_timeout: Duration,
}

/// The write lock; released when dropped.
#[derive(Debug)]
pub(in crate::leadership) struct WriteLock {
    _file: File,
}

impl Folder {
    /// Opens or makes the folder.
    pub(in crate::leadership) fn open(root: PathBuf) -> Result<Self, HaError> {
        let folder = Self { root, write_lock_timeout: WRITE_LOCK_TIMEOUT };
        for sub in ["jobs", "results", "checkpoints"] {
            folder.make("opening the HA folder", &folder.path(sub))?;
        }
        Ok(folder)
    }

    /// A path within the folder.
    pub(in crate::leadership) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// Makes a folder and those above it.
    pub(in crate::leadership) fn make(&self, op: &str, path: &Path) -> Result<(), HaError> {
        fs::create_dir_all(path).map_err(|source| failed(op, path, source))
    }

    /// Opens a lock file, without locking it.
    pub(in crate::leadership) fn lock_file(&self, op: &str, name: &str) -> Result<File, HaError> {
        let path = self.path(name);
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|source| failed(op, &path, source))
    }

    /// Takes the write lock.
    pub(in crate::leadership) fn write_lock(&self, op: &str) -> Result<WriteLock, HaError> {
        let (path, start) = (self.path("write.lock"), Instant::now());
        let file = self.lock_file(op, "write.lock")?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(WriteLock { _file: file }),
                Err(TryLockError::WouldBlock) => {
                    let waited = start.elapsed();
                    if waited >= self.write_lock_timeout {
                        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                        return Err(HaError::Busy { op: op.to_owned(), path, waited_ms });
                    }
                    std::thread::sleep(WRITE_LOCK_PAUSE);
                }
                Err(TryLockError::Error(source)) => return Err(failed(op, &path, source)),
            }
        }
    }

    /// The content of an entry, or none if there is no such file.
    pub(in crate::leadership) fn read<T: DeserializeOwned>(&self, op: &str, path: &Path) -> Result<Option<T>, HaError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed(op, path, source)),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            let problem = if bytes.is_empty() { "it is empty".to_owned() } else { error.to_string() };
            HaError::Corrupt { op: op.to_owned(), path: path.to_owned(), problem }
        })
    }

    /// Puts an entry in place: all of it or nothing, durable when this returns.
    pub(in crate::leadership) fn write<T: Serialize>(&self, op: &str, path: &Path, value: &T) -> Result<(), HaError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let bytes = serde_json::to_vec(value).map_err(|error| failed(op, path, error.into()))?;
        let folder = path.parent().unwrap_or(&self.root);
        let name = format!("{TEMPORARY_PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let temporary = folder.join(name);
        let written = (|| {
            let mut file = File::create(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_data()?;
            fs::rename(&temporary, path)
        })();
        if let Err(source) = written {
            // Best effort: a leftover temporary file is ignored by every reader.
            let _ = fs::remove_file(&temporary);
            return Err(failed(op, path, source));
        }
        sync_folder(op, path, folder)
    }

    /// Removes an entry, if it is there.
    pub(in crate::leadership) fn remove(&self, op: &str, path: &Path) -> Result<(), HaError> {
        match fs::remove_file(path) {
            Ok(()) => sync_folder(op, path, path.parent().unwrap_or(&self.root)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(failed(op, path, source)),
        }
    }

    /// Removes a folder with all it holds, if it is there.
    pub(in crate::leadership) fn remove_folder(&self, op: &str, path: &Path) -> Result<(), HaError> {
        match fs::remove_dir_all(path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(failed(op, path, source)),
        }
    }

    /// Entries of a folder whose name without `.json` is accepted by `parse`, by name. Others are ignored.
    pub(in crate::leadership) fn entries<K>(
        &self,
        op: &str,
        folder: &Path,
        parse: impl Fn(&str) -> Option<K>,
    ) -> Result<Vec<(K, PathBuf)>, HaError> {
        let listing = match fs::read_dir(folder) {
            Ok(listing) => listing,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed(op, folder, source)),
        };
        let mut names = Vec::new();
        for entry in listing {
            let entry = entry.map_err(|source| failed(op, folder, source))?;
            names.extend(entry.file_name().into_string());
        }
        names.sort_unstable();
        let entry = |name: String| Some((parse(name.strip_suffix(".json")?)?, folder.join(&name)));
        Ok(names.into_iter().filter_map(entry).collect())
    }
}

/// An I/O failure before anything took effect.
fn failed(op: &str, path: &Path, source: io::Error) -> HaError {
    HaError::Io { op: op.to_owned(), path: path.to_owned(), maybe_written: false, source }
}

/// Makes a rename or removal durable. If that fails, the change is visible but may not survive a power cut.
fn sync_folder(op: &str, path: &Path, folder: &Path) -> Result<(), HaError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|source| HaError::Io {
        op: op.to_owned(),
        path: path.to_owned(),
        maybe_written: true,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &tempfile::TempDir) -> Folder {
        Folder::open(dir.path().join("ha")).unwrap()
    }

    #[test]
    fn an_entry_is_replaced_whole_and_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let folder = open(&dir);
        let path = folder.path("jobs/a.json");
        assert_eq!(folder.read::<u32>("reading", &path).unwrap(), None);
        for value in [1_u32, 2] {
            folder.write("writing", &path, &value).unwrap();
            assert_eq!(folder.read("reading", &path).unwrap(), Some(value));
        }
        assert_eq!(fs::read_dir(folder.path("jobs")).unwrap().count(), 1);
        folder.remove("removing", &path).unwrap();
        folder.remove("removing", &path).unwrap();
        assert_eq!(folder.read::<u32>("reading", &path).unwrap(), None);
    }

    #[test]
    fn a_write_that_cannot_be_placed_changed_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = open(&dir);
        let error = folder.write("writing", &folder.path("jobs/gone/a.json"), &1).unwrap_err();
        assert!(!error.maybe_written(), "{error:?}");
        assert!(error.to_string().starts_with("writing: "), "{error}");
    }

    #[test]
    fn a_write_lock_that_is_never_released_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let held = open(&dir).write_lock("holding").unwrap();
        let hasty = Folder { write_lock_timeout: Duration::from_millis(20), ..open(&dir) };
        let error = hasty.write_lock("recording a job").unwrap_err();
        assert!(matches!(error, HaError::Busy { .. }) && error.is_transient(), "{error:?}");
        assert!(error.to_string().contains("is it stopped?"), "{error}");
        drop(held);
        hasty.write_lock("recording a job").unwrap();
    }

    #[test]
    fn foreign_names_are_no_entries() {
        let dir = tempfile::tempdir().unwrap();
        let folder = open(&dir);
        for name in ["10.json", "2.json", ".tmp-1-1", "x.json", "3", "notes.txt"] {
            fs::write(folder.path("jobs").join(name), "1").unwrap();
        }
        let found = folder.entries("listing", &folder.path("jobs"), |name| name.parse::<u64>().ok()).unwrap();
        assert_eq!(found.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [10, 2]);
        assert!(folder.entries("listing", &folder.path("nothing"), |_| Some(())).unwrap().is_empty());
    }
}
