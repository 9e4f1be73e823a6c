//! Leader sessions: who may write.

use serde::{Deserialize, Serialize};

use super::files::{Folder, WriteLock};
use crate::leadership::ha::HaError;

/// One leader session. The number alone would not tell two sessions apart if somebody emptied the folder between
/// them, so the holder is part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::leadership) struct SessionToken {
    /// Rises with every session.
    pub(in crate::leadership) session: u64,
    /// Name of the coordinator that holds it.
    name: String,
    /// Its process id.
    pid: u32,
    /// When it began, nanoseconds since the epoch.
    began_ns: u128,
}

impl SessionToken {
    /// Begins a new session and forgets the old leader's address. The caller must hold `leader.lock`.
    pub(in crate::leadership) fn begin(folder: &Folder, name: &str, began_ns: u128) -> Result<Self, HaError> {
        const OP: &str = "beginning a leader session";
        let _lock = folder.write_lock(OP)?;
        let path = folder.path("session");
        let last: Option<Self> = folder.read(OP, &path)?;
        let session = last.map_or(0, |last| last.session) + 1;
        let token = Self { session, name: name.to_owned(), pid: std::process::id(), began_ns };
        folder.write(OP, &path, &token)?;
        folder.remove(OP, &folder.path("leader.json"))?;
        Ok(token)
    }

    /// Takes the write lock if this session still leads.
    pub(in crate::leadership) fn lock(&self, folder: &Folder, op: &str) -> Result<WriteLock, HaError> {
        let lock = folder.write_lock(op)?;
        let current: Option<Self> = folder.read(op, &folder.path("session"))?;
        if current.as_ref() == Some(self) {
            return Ok(lock);
        }
        let current = current.map(|current| current.session);
        Err(HaError::Fenced { op: op.to_owned(), ours: self.session, current })
    }

    /// What a write meets once its leader has resigned.
    pub(in crate::leadership) fn is_over(&self, op: &str) -> HaError {
        HaError::Fenced { op: op.to_owned(), ours: self.session, current: None }
    }
}
