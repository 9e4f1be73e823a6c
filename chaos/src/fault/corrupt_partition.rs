//! `corrupt-partition`: some bytes of a finished result partition are not what was written, as on a bad disk.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::{Description, Effect, Fault, FaultError};
use crate::journal::Undo;

/// So many bytes are changed in the middle of each file.
const BYTES: u64 = 8;

/// Turns every bit of some bytes in the middle of each file of result partitions; healing turns them back.
///
/// A place that holds other bytes when the fault is healed has been written anew, and is left as it is.
#[derive(Debug)]
pub struct CorruptPartition {
    name: String,
    spots: Vec<Spot>,
}

/// Bytes of one file.
#[derive(Debug)]
struct Spot {
    path: PathBuf,
    offset: u64,
    was: Vec<u8>,
    is: Vec<u8>,
}

impl CorruptPartition {
    /// `name` is for people, e.g. `read[0]`; `folders` are where the partition's files lie. Reads what is to be
    /// changed, so that it is known before it is.
    ///
    /// # Errors
    /// When there is no file, or one cannot be read.
    pub fn new(name: impl Into<String>, folders: &[PathBuf]) -> Result<Self, FaultError> {
        let (name, mut spots) = (name.into(), vec![]);
        for folder in folders {
            for path in super::complete_files(folder)? {
                spots.extend(Spot::in_the_middle_of(path)?);
            }
        }
        if spots.is_empty() { Err(FaultError::no_partition(&name)) } else { Ok(Self { name, spots }) }
    }

    /// Files that have our bytes now.
    fn corrupt(&self) -> Result<u64, FaultError> {
        let mut corrupt = 0;
        for spot in &self.spots {
            let now = read(&spot.path, spot.offset, spot.is.len()).map_err(|source| spot.failed("read", source))?;
            corrupt += u64::from(now.as_ref() == Some(&spot.is));
        }
        Ok(corrupt)
    }
}

impl Spot {
    fn in_the_middle_of(path: PathBuf) -> Result<Option<Self>, FaultError> {
        let read_spot = || {
            let size = fs::metadata(&path)?.len();
            let count = size.min(BYTES);
            let offset = (size - count) / 2;
            Ok((offset, read(&path, offset, usize::try_from(count).unwrap_or_default())?))
        };
        match read_spot() {
            Ok((offset, Some(was))) if !was.is_empty() => {
                let is = was.iter().map(|byte| !byte).collect();
                Ok(Some(Self { path, offset, was, is }))
            }
            Ok(_) => Ok(None),
            Err(source) => Err(FaultError::File { action: "read", path, source }),
        }
    }

    fn failed(&self, action: &'static str, source: io::Error) -> FaultError {
        FaultError::File { action, path: self.path.clone(), source }
    }
}

#[async_trait]
impl Fault for CorruptPartition {
    fn describe(&self) -> Description {
        Description::new("corrupt-partition", &self.name)
    }

    fn undo(&self) -> Vec<Undo> {
        let undo = |spot: &Spot| Undo::RestoreBytes {
            path: spot.path.clone(),
            offset: spot.offset,
            was: hex::encode(&spot.was),
            is: hex::encode(&spot.is),
        };
        self.spots.iter().map(undo).collect()
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        let mut changed = 0;
        for spot in &self.spots {
            let done = exchange(&spot.path, spot.offset, &spot.was, &spot.is);
            changed += u64::from(done.map_err(|source| spot.failed("write", source))?);
        }
        if changed == 0 { Err(FaultError::no_partition(&self.name)) } else { Ok(()) }
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        Ok(Effect::of("files_corrupt", self.corrupt()?))
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        for spot in self.spots.iter().rev() {
            exchange(&spot.path, spot.offset, &spot.is, &spot.was).map_err(|source| spot.failed("write", source))?;
        }
        Ok(())
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        Ok(self.corrupt()? == 0)
    }
}

/// What lies there; nothing if there is no such file or it is too short.
fn read(path: &Path, offset: u64, count: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; count];
    let done = File::open(path).and_then(|file| file.read_exact_at(&mut bytes, offset));
    match done {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes `to` where `from` lies; false if something else does, or there is no such file any more.
fn exchange(path: &Path, offset: u64, from: &[u8], to: &[u8]) -> io::Result<bool> {
    if read(path, offset, from.len())?.as_deref() != Some(from) {
        return Ok(false);
    }
    match OpenOptions::new().write(true).open(path).and_then(|file| file.write_all_at(to, offset)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes back what a [`CorruptPartition`] has changed; `was` and `is` are hexadecimal digits.
///
/// # Errors
/// When the file may still be corrupt.
pub(crate) fn restore_bytes(path: &Path, offset: u64, was: &str, is: &str) -> Result<(), FaultError> {
    let failed = |source| FaultError::File { action: "write", path: path.to_owned(), source };
    let decode = |digits: &str| hex::decode(digits).map_err(io::Error::other);
    let (was, is) = (decode(was).map_err(failed)?, decode(is).map_err(failed)?);
    exchange(path, offset, &is, &was).map(drop).map_err(failed)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::guardian::undone_by_the_guardian;

    /// A partition of one good file, one of a single byte, an empty one, and one that is being written.
    fn partition() -> (TempDir, CorruptPartition) {
        let folder = tempfile::tempdir().expect("folder");
        for (file, content) in [("0", "0123456789abcdef"), ("1", "x"), ("2", ""), ("3.tmp", "unfinished")] {
            fs::write(folder.path().join(file), content).expect("written");
        }
        let fault = CorruptPartition::new("read[0]", &[folder.path().to_owned()]).expect("there is something");
        (folder, fault)
    }

    #[tokio::test]
    async fn a_few_bytes_in_the_middle_change_and_come_back() {
        let (folder, mut fault) = partition();
        let content = |file: &str| fs::read(folder.path().join(file)).expect("there");
        assert!(!fault.effect().await.expect("known").bites, "not injected yet");
        fault.inject().await.expect("corrupted");
        assert_eq!(fault.effect().await.expect("known").counts["files_corrupt"], 2);
        assert!(!fault.is_healed().await.expect("known"));
        assert_eq!(content("0")[..4], *b"0123");
        assert_eq!(content("0")[4..12], b"456789ab".map(|byte| !byte));
        assert_eq!(content("0")[12..], *b"cdef");
        assert_eq!(content("1"), [!b'x']);
        assert_eq!(content("3.tmp"), b"unfinished");
        fault.heal().await.expect("healed");
        assert!(fault.is_healed().await.expect("known"));
        assert_eq!(content("0"), b"0123456789abcdef");
        fault.heal().await.expect("healing twice is harmless");
        assert_eq!(content("1"), b"x");
    }

    #[tokio::test]
    async fn what_was_written_anew_or_released_is_left_alone() {
        let (folder, mut fault) = partition();
        fault.inject().await.expect("corrupted");
        fs::write(folder.path().join("0"), "another attempt wrote this").expect("written");
        fs::remove_file(folder.path().join("1")).expect("released");
        fault.heal().await.expect("healed");
        assert!(fault.is_healed().await.expect("known"));
        assert_eq!(fs::read(folder.path().join("0")).expect("there"), b"another attempt wrote this");
        assert!(!folder.path().join("1").exists());
    }

    #[tokio::test]
    async fn the_guardian_restores_bytes() {
        let (folder, mut fault) = partition();
        let undo = fault.undo();
        fault.inject().await.expect("corrupted");
        undone_by_the_guardian(undo).await;
        assert!(fault.is_healed().await.expect("known"));
        assert_eq!(fs::read(folder.path().join("0")).expect("there"), b"0123456789abcdef");
    }

    #[test]
    fn nothing_to_corrupt_is_refused() {
        let folder = tempfile::tempdir().expect("folder");
        for folder in [folder.path().to_owned(), folder.path().join("none")] {
            let error = CorruptPartition::new("read[1]", &[folder]).expect_err("refused").to_string();
            assert!(error.contains("read[1]"), "{error}");
        }
    }
}
