//! Why a folder cannot be used.

use std::io;
use std::path::PathBuf;

/// A data folder is not fit for use. Nothing in it has been changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Another server uses it.
    #[error("the data folder {} is in use by another server; stop that one, or name another folder", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// It holds something that no server put there.
    #[error("{} is no data folder of this server: it holds {}; name an empty or a new folder", folder.display(), entry.display())]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// What does not belong there.
        entry: PathBuf,
    },
    /// It was written by a version that does not know this one's form, or the other way round.
    #[error("the data folder {} has another form: {MARK_TEXT:?} was expected, {found:?} is in its mark", folder.display())]
    OtherForm {
        /// The folder.
        folder: PathBuf,
        /// What its mark says.
        found: String,
    },
    /// One of its files is damaged.
    #[error("{} is damaged: {why}; bring back a whole copy, or delete it to go on without what it holds", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// How one sees that.
        why: String,
    },
    /// It cannot be read or made.
    #[error("cannot use {} for data", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What the mark of a data folder says.
pub(super) const MARK_TEXT: &str = "stormproof-s3 1";

impl DataError {
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::Io { path, source }
    }

    pub(super) fn damaged(file: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Self::Damaged { file: file.into(), why: why.into() }
    }
}
