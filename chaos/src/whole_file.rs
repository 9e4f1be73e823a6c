//! Files that are read by others while they are written: seen whole, or as they were.

use std::io;
use std::path::Path;

/// Puts `contents` in place of the file at `path`. It is written as `fresh` first, a name beside it that nobody reads.
///
/// # Errors
/// When the file system refuses; `fresh` may then be there.
pub fn replace(path: &Path, fresh: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    std::fs::write(fresh, contents)?;
    std::fs::rename(fresh, path)
}
