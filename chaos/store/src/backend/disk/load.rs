//! Opening a folder and reading what is in it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::MARK_TEXT;
use super::record::{self, BucketRecord, ObjectRecord, PartRecord, UploadRecord};
use super::{BUCKET, BUCKETS, DataError, Disk, MARK, OBJECTS, TEMPORARY, UPLOAD, UPLOADS, is_named, sync};
use crate::backend::state::{Bucket, State};

impl Disk {
    /// Takes a folder in use, which is made if it is not there, and reads what it holds.
    ///
    /// # Errors
    /// [`DataError`]; nothing in the folder has been changed then.
    pub(crate) fn open(root: &Path) -> Result<(Self, State), DataError> {
        fs::create_dir_all(root).map_err(DataError::io(root))?;
        let found = entries(root)?;
        let known = |entry: &&PathBuf| [MARK, BUCKETS, TEMPORARY].iter().any(|name| is_named(entry, name));
        let foreign = found.iter().find(|entry| !known(entry));
        let foreign = foreign.or_else(|| found.first().filter(|_| !found.iter().any(|entry| is_named(entry, MARK))));
        if let Some(entry) = foreign {
            return Err(DataError::Foreign { folder: root.to_owned(), entry: entry.clone() });
        }
        let mark = take_mark(root)?;
        let [buckets, temporary] = [BUCKETS, TEMPORARY].map(|name| root.join(name));
        let mut state = State::default();
        if buckets.is_dir() {
            for folder in entries(&buckets)? {
                let (name, bucket) = read_bucket(root, &folder)?;
                state.total_bytes += bucket.total_bytes();
                state.buckets.insert(name, bucket);
            }
        }
        // Only now that all of it is known to be good.
        if temporary.is_dir() {
            fs::remove_dir_all(&temporary).map_err(DataError::io(&temporary))?;
        }
        for folder in [&buckets, &temporary] {
            fs::create_dir_all(folder).map_err(DataError::io(folder))?;
        }
        sync(root).map_err(DataError::io(root))?;
        Ok((Self { root: root.to_owned(), turn: Default::default(), _mark: mark }, state))
    }
}

/// Opens, locks and checks the mark. An empty one is of a server that was killed when it made the folder.
fn take_mark(root: &Path) -> Result<File, DataError> {
    let path = root.join(MARK);
    let mut mark = OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(DataError::io(&path))?;
    match mark.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(DataError::InUse { folder: root.to_owned() }),
        Err(TryLockError::Error(source)) => return Err(DataError::Io { path, source }),
    }
    let mut found = String::new();
    mark.read_to_string(&mut found).map_err(DataError::io(&path))?;
    if found.is_empty() {
        writeln!(mark, "{MARK_TEXT}").and_then(|()| mark.sync_all()).map_err(DataError::io(&path))?;
    } else if found.trim_end() != MARK_TEXT {
        return Err(DataError::OtherForm { folder: root.to_owned(), found: found.trim_end().to_owned() });
    }
    Ok(mark)
}

fn read_bucket(root: &Path, folder: &Path) -> Result<(String, Bucket), DataError> {
    let name = name_of(folder);
    if !s3s::path::check_bucket_name(&name) || !folder.is_dir() {
        return Err(DataError::Foreign { folder: root.to_owned(), entry: folder.to_owned() });
    }
    let (BucketRecord { created }, _) = record::read(&folder.join(BUCKET))?;
    let mut bucket = Bucket::new(created);
    for file in entries(&folder.join(OBJECTS))? {
        let (about, content) = record::read::<ObjectRecord>(&file)?;
        if !is_named(&file, &record::file_name(&about.key)) {
            return Err(DataError::damaged(
                file,
                format!("it says that it is {:?}, which has another name", about.key),
            ));
        }
        let key = about.key.clone();
        bucket.objects.insert(key, Arc::new(about.into_object(content)));
    }
    for folder in entries(&folder.join(UPLOADS))? {
        let (about, _) = record::read::<UploadRecord>(&folder.join(UPLOAD))?;
        let place = (about.key.clone(), name_of(&folder));
        let mut upload = about.into_upload();
        for file in entries(&folder)?.into_iter().filter(|file| !is_named(file, UPLOAD)) {
            let number = name_of(&file).parse().map_err(|_| DataError::damaged(&file, "its name is no part number"))?;
            let (about, content) = record::read::<PartRecord>(&file)?;
            upload.parts.insert(number, about.into_part(content));
        }
        bucket.uploads.insert(place, upload);
    }
    Ok((name, bucket))
}

/// What lies in a folder, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let failed = || DataError::io(folder);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        found.push(entry.map_err(failed())?.path());
    }
    found.sort();
    Ok(found)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
