//! What is stored: buckets, objects and uploads in memory, behind one lock.
//!
//! The lock is held across a precondition *and* the write it guards, never across an `await`, hashing or
//! body bytes. So of any number of create-only writers of a key exactly one wins, which is what leader election and
//! exactly-once commits are built on. With a data folder, `disk` keeps each change before it is acknowledged.

mod buckets;
pub(crate) mod checksum;
pub(crate) mod condition;
pub(crate) mod content;
pub(crate) mod disk;
pub(crate) mod error;
pub(crate) mod list;
pub(crate) mod object;
pub(crate) mod objects;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod uploads;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;

use crate::config::Limits;
use condition::WriteCondition;
use content::Content;
use disk::{DataError, Disk, Turn};
use error::BackendError;
use object::{ObjectHeaders, ObjectInfo};
use objects::NewObject;
use state::State;

/// The stored data, for tests to look at and to prepare without going through HTTP. Clones are handles to the same
/// store. Nothing done here is in the ledger, and no rule applies to it.
#[derive(Debug, Clone)]
pub struct Backend {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    limits: Limits,
    /// Where it is kept as well.
    disk: Option<Disk>,
}

impl Backend {
    /// Empty, and in memory only.
    #[cfg(test)]
    pub(crate) fn new(limits: Limits) -> Self {
        Self::of(limits, State::default(), None)
    }

    /// With what the folder holds, if one is given, and kept there.
    ///
    /// # Errors
    /// [`DataError`] if the folder is not fit for it.
    pub(crate) fn open(limits: Limits, data: Option<&Path>) -> Result<Self, DataError> {
        let Some(data) = data else { return Ok(Self::of(limits, State::default(), None)) };
        let (disk, state) = Disk::open(data)?;
        Ok(Self::of(limits, state, Some(disk)))
    }

    fn of(limits: Limits, state: State, disk: Option<Disk>) -> Self {
        Self { inner: Arc::new(Inner { state: Mutex::new(state), limits, disk }) }
    }

    /// The right to change something. Taken before the lock.
    pub(crate) fn turn(&self) -> Result<Turn<'_>, BackendError> {
        Turn::on(self.inner.disk.as_ref())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic halfway through a change, so the state is whole even then.
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// [`BackendError::InvalidBucketName`], [`BackendError::BucketExists`], [`BackendError::NotKept`].
    pub fn create_bucket(&self, name: &str) -> Result<(), BackendError> {
        self.create_bucket_at(name, SystemTime::now())
    }

    /// Writes an object and gives back its ETag, without quotes.
    ///
    /// # Errors
    /// [`BackendError::NoSuchBucket`], [`BackendError::InvalidKey`], [`BackendError::TooLarge`],
    /// [`BackendError::Full`], [`BackendError::NotKept`].
    pub fn put(&self, bucket: &str, key: &str, bytes: impl Into<Bytes>) -> Result<String, BackendError> {
        let new = NewObject::single(Content::from(bytes.into()), ObjectHeaders::default());
        let object = self.put_object(bucket, key, new, &WriteCondition::default(), None, SystemTime::now())?;
        Ok(object.etag.clone())
    }

    /// The bytes of an object.
    ///
    /// # Errors
    /// [`BackendError::NoSuchBucket`], [`BackendError::NoSuchKey`].
    pub fn get(&self, bucket: &str, key: &str) -> Result<Bytes, BackendError> {
        Ok(self.object(bucket, key)?.content.to_bytes())
    }

    /// Deletes an object and says whether there was one.
    ///
    /// # Errors
    /// [`BackendError::NoSuchBucket`], [`BackendError::NotKept`].
    pub fn delete(&self, bucket: &str, key: &str) -> Result<bool, BackendError> {
        self.delete_object(bucket, key, &WriteCondition::default(), |_| Ok(()))
    }

    /// All objects whose key starts with `prefix`, by key.
    ///
    /// # Errors
    /// [`BackendError::NoSuchBucket`].
    pub fn list_objects(&self, bucket: &str, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        let query = list::ListQuery { prefix, max_entries: usize::MAX, ..Default::default() };
        Ok(self.list(bucket, query)?.objects)
    }

    /// Bytes of all objects and all open parts. Copies count in full although they share memory.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.lock().total_bytes
    }
}

#[cfg(test)]
mod tests;
