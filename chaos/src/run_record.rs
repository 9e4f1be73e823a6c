//! Who runs, and what it may leave: enough for somebody else to tidy up after it.
//!
//! A run writes its record into its own folder before it starts anything. Its guardian writes it again when it starts,
//! with its own process in it, there and into a folder of all runs of this user, and takes it out of the latter once
//! nothing is left; what is still there belongs to a run that lives, or to one that died together with its guardian, see
//! [`heal`](crate::heal). A fault that is injected by itself has no report in which it would be looked for, so it is in
//! the folder of all runs from the start.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::guardian::GuardianConfig;
use crate::process::ProcessId;
use crate::whole_file;

/// Name of the record in the folder of its run.
pub const RUN_RECORD: &str = "guardian.json";

/// The record of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// The process that holds the run's faults.
    pub runner: ProcessId,
    /// What its guardian looks after.
    pub guardian: GuardianConfig,
    /// The guardian, once it is at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guardian_process: Option<ProcessId>,
}

/// A record could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RunRecordError {
    /// I/O.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is not a record.
    #[error("{} is no record of a run", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: serde_json::Error,
    },
    /// Another run is at work there.
    #[error("{} is in use by another run ({}); name another folder, or end that run", folder.display(), who.as_deref().unwrap_or("it has just begun"))]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// Its tag, if it is written down yet.
        who: Option<String>,
    },
    /// There is none.
    #[error("{} belongs to no run: there is no {RUN_RECORD} in it, beside it or in a folder in it", .0.display())]
    None(PathBuf),
}

impl RunRecordError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// Where the records of all runs of this user are: `stormproof/runs` below `$XDG_STATE_HOME` or `~/.local/state`. None
/// if the environment names neither.
#[must_use]
pub fn index_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("stormproof").join("runs"))
}

/// The right to write a run's files into a folder, until it is dropped or its holder dies.
#[derive(Debug)]
pub struct FolderClaim {
    _locked: File,
}

impl FolderClaim {
    /// Takes `folder` for a run; makes it if it is not there.
    ///
    /// # Errors
    /// When another run has it: each would write over the other's record, and number its faults in the same journal.
    /// When it cannot be made.
    pub fn take(folder: &Path) -> Result<Self, RunRecordError> {
        std::fs::create_dir_all(folder).map_err(RunRecordError::io("create", folder))?;
        let file = File::open(folder).map_err(RunRecordError::io("open", folder))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let record = RunRecord::read(&folder.join(RUN_RECORD)).ok();
                let who = record.map(|record| format!("{}, {}", record.guardian.tag, record.runner));
                Err(RunRecordError::InUse { folder: folder.to_owned(), who })
            }
            // Where nothing can be locked we go without.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self { _locked: file }),
        }
    }
}

impl RunRecord {
    /// Writes the record to `path`, whole or not at all; makes the folder that it is in.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, path: &Path) -> Result<(), RunRecordError> {
        let folder = path.parent().unwrap_or(path);
        std::fs::create_dir_all(folder).map_err(RunRecordError::io("create", folder))?;
        let unfinished = unfinished(path);
        let text = serde_json::to_vec(self).map_err(|error| RunRecordError::Io {
            action: "write",
            path: path.to_owned(),
            source: error.into(),
        })?;
        let written = whole_file::replace(path, &unfinished, text);
        written.map_err(|error| {
            // Nobody will come back for it.
            let _ = std::fs::remove_file(&unfinished);
            RunRecordError::io("write", path)(error)
        })
    }

    /// Reads a record.
    ///
    /// # Errors
    /// When it cannot be read or is none.
    pub fn read(path: &Path) -> Result<Self, RunRecordError> {
        let text = std::fs::read(path).map_err(RunRecordError::io("read", path))?;
        serde_json::from_slice(&text).map_err(|source| RunRecordError::Malformed { path: path.to_owned(), source })
    }
}

/// What the name of a record ends in until it is whole.
const UNFINISHED: &str = "unfinished";

/// Where a record is until it is whole. Nobody takes a name that does not end in `.json` for a record; whoever removes
/// the record removes this as well, since its writer may have been killed.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    path.with_extension(UNFINISHED)
}

/// All records in the index folder `folder`, in order of their names. No folder: none.
///
/// # Errors
/// When it cannot be listed.
pub fn indexed(folder: &Path) -> Result<Vec<PathBuf>, RunRecordError> {
    ending_in(folder, "json")
}

/// Records in the index folder `folder` that never became whole, in order of their names: their writers are at it, or
/// were killed.
///
/// # Errors
/// When it cannot be listed.
pub fn indexed_unfinished(folder: &Path) -> Result<Vec<PathBuf>, RunRecordError> {
    let mut found = ending_in(folder, UNFINISHED)?;
    found.retain(|path| !path.with_extension("json").exists());
    Ok(found)
}

/// No folder: none.
fn ending_in(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, RunRecordError> {
    match entries(folder) {
        Err(RunRecordError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        other => Ok(other?.into_iter().filter(|path| path.extension().is_some_and(|end| end == extension)).collect()),
    }
}

/// The records that `path` means: a run's folder, a folder of such folders (a report), or a file in a run's folder.
///
/// # Errors
/// When there is none.
pub fn records_at(path: &Path) -> Result<Vec<PathBuf>, RunRecordError> {
    let of_folder = |folder: &Path| Some(folder.join(RUN_RECORD)).filter(|record| record.is_file());
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    if let Some(record) = of_folder(folder).filter(|_| path.exists()) {
        return Ok(vec![record]);
    }
    let inside = if path.is_dir() { entries(path)? } else { vec![] };
    let found: Vec<PathBuf> = inside.iter().filter_map(|folder| of_folder(folder)).collect();
    if found.is_empty() { Err(RunRecordError::None(path.to_owned())) } else { Ok(found) }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, RunRecordError> {
    let listed = std::fs::read_dir(folder).map_err(RunRecordError::io("list", folder))?;
    let mut paths: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    Ok(paths)
}
