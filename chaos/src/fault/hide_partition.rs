//! `hide-partition`: the files of a finished result partition are out of reach, as on a disk that is not mounted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::{Description, Effect, Fault, FaultError};
use crate::journal::Undo;

/// Moves the files of result partitions aside; healing puts them back.
///
/// The folders stay. A folder that is gone when the fault is healed was released meanwhile: then nobody wants its files
/// any more, and they are deleted. A file whose name is taken meanwhile is deleted as well.
#[derive(Debug)]
pub struct HidePartition {
    name: String,
    hidden: Vec<Hidden>,
}

#[derive(Debug)]
struct Hidden {
    place: PathBuf,
    aside: PathBuf,
}

impl HidePartition {
    /// `name` is for people, e.g. `read[0]`; `folders` are where the partition's files lie; `aside` is a folder of our
    /// own on the same file system.
    #[must_use]
    pub fn new(name: impl Into<String>, folders: Vec<PathBuf>, aside: &Path) -> Self {
        let hidden = folders.into_iter().map(|place| {
            let aside = aside.join(place.file_name().unwrap_or_default());
            Hidden { place, aside }
        });
        Self { name: name.into(), hidden: hidden.collect() }
    }
}

#[async_trait]
impl Fault for HidePartition {
    fn describe(&self) -> Description {
        Description::new("hide-partition", &self.name)
    }

    fn undo(&self) -> Vec<Undo> {
        let undo = |hidden: &Hidden| Undo::PutBack { place: hidden.place.clone(), aside: hidden.aside.clone() };
        self.hidden.iter().map(undo).collect()
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        let mut moved = 0;
        for hidden in &self.hidden {
            moved += move_aside(hidden)?;
        }
        if moved == 0 {
            return Err(FaultError::no_partition(&self.name));
        }
        Ok(())
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        let away = self.hidden.iter().filter_map(|hidden| fs::read_dir(&hidden.aside).ok()).map(Iterator::count);
        Ok(Effect::of("files_hidden", away.sum::<usize>() as u64))
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        self.hidden.iter().rev().try_for_each(|hidden| put_back(&hidden.place, &hidden.aside))
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        Ok(self.hidden.iter().all(|hidden| !hidden.aside.exists()))
    }
}

/// Moves all complete files; how many there were.
fn move_aside(hidden: &Hidden) -> Result<u64, FaultError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| FaultError::File { action, path, source }
    };
    fs::create_dir_all(&hidden.aside).map_err(failed("create folder", &hidden.aside))?;
    let mut moved = 0;
    for file in super::complete_files(&hidden.place)? {
        let to = hidden.aside.join(file.file_name().unwrap_or_default());
        match fs::rename(&file, &to) {
            Ok(()) => moved += 1,
            // Released meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("move aside", &file)(error)),
        }
    }
    Ok(moved)
}

/// Puts the files in `aside` back to `place`, deletes those that cannot go back, and removes `aside`.
///
/// # Errors
/// When some may still lie aside.
pub(crate) fn put_back(place: &Path, aside: &Path) -> Result<(), FaultError> {
    let entries = match fs::read_dir(aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries,
    };
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| FaultError::File { action, path, source }
    };
    for entry in entries.map_err(failed("list", aside))? {
        let file = entry.map_err(failed("list", aside))?.path();
        // A link never replaces: what took the name meanwhile is newer. It is removed with `aside`.
        match fs::hard_link(&file, place.join(file.file_name().unwrap_or_default())) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {
                return Err(failed("put back", &file)(error));
            }
            _ => {}
        }
    }
    match fs::remove_dir_all(aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", aside)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::guardian::undone_by_the_guardian;

    /// A partition of two files, a third being written, and its fault.
    fn partition() -> (TempDir, PathBuf, HidePartition) {
        let folder = tempfile::tempdir().expect("folder");
        let place = folder.path().join("partition");
        fs::create_dir(&place).expect("made");
        for file in ["0", "1", "2.tmp"] {
            fs::write(place.join(file), file).expect("written");
        }
        let fault = HidePartition::new("read[0]", vec![place.clone()], &folder.path().join("hidden"));
        (folder, place, fault)
    }

    #[tokio::test]
    async fn hidden_files_come_back_when_healed() {
        let (folder, place, mut fault) = partition();
        fault.inject().await.expect("hidden");
        assert!(!place.join("0").exists() && !place.join("1").exists() && place.join("2.tmp").exists());
        assert_eq!(fault.effect().await.expect("known").counts["files_hidden"], 2);
        assert!(!fault.is_healed().await.expect("known"));
        fault.heal().await.expect("healed");
        assert!(fault.is_healed().await.expect("known"));
        assert_eq!(fs::read(place.join("1")).expect("there"), b"1");
        fault.heal().await.expect("already back is done");
        let mut nothing = HidePartition::new("read[1]", vec![folder.path().join("none")], folder.path());
        let error = nothing.inject().await.expect_err("nothing there").to_string();
        assert!(error.contains("read[1]"), "{error}");
    }

    #[tokio::test]
    async fn a_taken_name_is_not_taken_back_and_a_released_partition_is_not_brought_back() {
        let (folder, place, mut fault) = partition();
        fault.inject().await.expect("hidden");
        fs::write(place.join("0"), "new").expect("written");
        fault.heal().await.expect("healed");
        assert_eq!(fs::read(place.join("0")).expect("there"), b"new");
        assert_eq!(fs::read(place.join("1")).expect("there"), b"1");

        fault.inject().await.expect("hidden again");
        fs::remove_dir_all(&place).expect("released");
        fault.heal().await.expect("healed");
        assert!(fault.is_healed().await.expect("known"));
        assert!(!place.exists() && !folder.path().join("hidden/partition").exists());
    }

    #[tokio::test]
    async fn the_guardian_puts_files_back() {
        let (_folder, place, mut fault) = partition();
        let undo = fault.undo();
        fault.inject().await.expect("hidden");
        undone_by_the_guardian(undo).await;
        assert!(fault.is_healed().await.expect("known"));
        assert_eq!(fs::read(place.join("1")).expect("there"), b"1");
    }
}
