//! What is stored, kept in a folder too: memory stays the truth, and the folder is what the next server begins with.
//!
//! ```text
//! DIR/stormproof-s3                        the mark of such a folder; locked by the server that uses it
//! DIR/buckets/NAME/bucket                  when it was created
//! DIR/buckets/NAME/objects/SHA256-OF-KEY   an object
//! DIR/buckets/NAME/uploads/ID/upload       an open multipart upload
//! DIR/buckets/NAME/uploads/ID/NUMBER       one of its parts
//! DIR/tmp                                  what is being made or removed; emptied at the start
//! ```
//!
//! Changes are made in memory and then, before they are acknowledged, in the folder: one after the other, each by one
//! rename of something complete and synced. So a server that is killed at any moment, and a machine that loses its
//! power, leave every change whole or not there, and none that was acknowledged is missing. If the folder cannot be
//! written, that change is answered with 500 and all later ones are refused, so that memory does not run ahead of it.

mod error;
mod load;
mod record;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

pub use error::DataError;

use self::record::{BucketRecord, ObjectRecord, PartRecord, UploadRecord};
use super::content::Content;
use super::error::BackendError;
use super::object::Object;
use super::state::{Part, Upload};

const MARK: &str = "stormproof-s3";
const BUCKETS: &str = "buckets";
const BUCKET: &str = "bucket";
const OBJECTS: &str = "objects";
const UPLOADS: &str = "uploads";
const UPLOAD: &str = "upload";
const TEMPORARY: &str = "tmp";

/// A folder in use.
#[derive(Debug)]
pub(crate) struct Disk {
    root: PathBuf,
    turn: Mutex<Health>,
    /// Locked as long as it is open.
    _mark: File,
}

#[derive(Debug, Default)]
struct Health {
    /// Makes names in the temporary folder differ.
    changes: u64,
    /// Why nothing can be written any more.
    broken: Option<String>,
}

/// A change of what is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    CreateBucket { bucket: &'a str, created: SystemTime },
    DeleteBucket { bucket: &'a str },
    Put { bucket: &'a str, key: &'a str, object: &'a Object },
    Delete { bucket: &'a str, key: &'a str },
    CreateUpload { bucket: &'a str, key: &'a str, id: &'a str, upload: &'a Upload },
    PutPart { bucket: &'a str, id: &'a str, number: i32, part: &'a Part },
    EndUpload { bucket: &'a str, id: &'a str },
}

/// The right to change what is stored. With a folder there is one at a time, so that its changes have the order of
/// those in memory. Taken before the lock of the state.
#[derive(Debug)]
pub(crate) struct Turn<'a>(Option<(&'a Disk, MutexGuard<'a, Health>)>);

impl<'a> Turn<'a> {
    pub(crate) fn on(disk: Option<&'a Disk>) -> Result<Self, BackendError> {
        let Some(disk) = disk else { return Ok(Self(None)) };
        let health = disk.turn.lock().unwrap_or_else(PoisonError::into_inner);
        match &health.broken {
            Some(reason) => Err(BackendError::NotKept { reason: reason.clone() }),
            None => Ok(Self(Some((disk, health)))),
        }
    }

    /// Makes the change in the folder as well, if there is one; it is there for good on return.
    pub(crate) fn keep(&mut self, change: Change<'_>) -> Result<(), BackendError> {
        let Some((disk, health)) = &mut self.0 else { return Ok(()) };
        health.changes += 1;
        disk.apply(change, &health.changes.to_string()).map_err(|error| {
            let reason = format!("{} cannot be written: {error}", disk.root.display());
            health.broken = Some(reason.clone());
            BackendError::NotKept { reason }
        })
    }
}

impl Disk {
    fn apply(&self, change: Change<'_>, temporary: &str) -> io::Result<()> {
        let temporary = self.root.join(TEMPORARY).join(temporary);
        match change {
            Change::CreateBucket { bucket, created } => {
                fs::create_dir(&temporary)?;
                record::write(&temporary.join(BUCKET), &BucketRecord { created }, &Content::default())?;
                for folder in [OBJECTS, UPLOADS] {
                    fs::create_dir(temporary.join(folder))?;
                }
                move_synced(&temporary, &self.bucket(bucket))
            }
            Change::Put { bucket, key, object } => {
                record::write(&temporary, &ObjectRecord::of(key, object), &object.content)?;
                move_synced(&temporary, &self.object(bucket, key))
            }
            Change::CreateUpload { bucket, key, id, upload } => {
                fs::create_dir(&temporary)?;
                record::write(&temporary.join(UPLOAD), &UploadRecord::of(key, upload), &Content::default())?;
                move_synced(&temporary, &self.upload(bucket, id))
            }
            Change::PutPart { bucket, id, number, part } => {
                record::write(&temporary, &PartRecord::of(part), &part.content)?;
                move_synced(&temporary, &self.upload(bucket, id).join(number.to_string()))
            }
            Change::Delete { bucket, key } => {
                let file = self.object(bucket, key);
                fs::remove_file(&file)?;
                sync_parent(&file)
            }
            Change::DeleteBucket { bucket } => remove_synced(&self.bucket(bucket), &temporary),
            Change::EndUpload { bucket, id } => remove_synced(&self.upload(bucket, id), &temporary),
        }
    }

    fn bucket(&self, bucket: &str) -> PathBuf {
        self.root.join(BUCKETS).join(bucket)
    }

    fn object(&self, bucket: &str, key: &str) -> PathBuf {
        self.bucket(bucket).join(OBJECTS).join(record::file_name(key))
    }

    fn upload(&self, bucket: &str, id: &str) -> PathBuf {
        self.bucket(bucket).join(UPLOADS).join(id)
    }
}

/// Moves something that is synced itself, and syncs that it was moved.
fn move_synced(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        sync(from)?;
    }
    fs::rename(from, to)?;
    sync_parent(to)
}

/// Removes a folder in one step; what is left of it at a crash lies in the temporary folder.
fn remove_synced(folder: &Path, temporary: &Path) -> io::Result<()> {
    fs::rename(folder, temporary)?;
    sync_parent(folder)?;
    fs::remove_dir_all(temporary)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync)
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn is_named(path: &Path, name: &str) -> bool {
    path.file_name() == Some(OsStr::new(name))
}
