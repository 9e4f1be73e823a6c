//! Objects: put, get, copy, delete; each condition is checked under the lock that also guards the write.

use std::sync::Arc;
use std::time::SystemTime;

use super::Backend;
use super::checksum::Checksums;
use super::condition::WriteCondition;
use super::content::Content;
use super::disk::Change;
use super::error::BackendError;
use super::object::{Object, ObjectHeaders, md5_of};

/// A write that is ready: its bytes are complete and hashed.
#[derive(Debug)]
pub(crate) struct NewObject {
    pub(crate) content: Content,
    /// Without quotes.
    pub(crate) etag: String,
    pub(crate) headers: ObjectHeaders,
    pub(crate) checksums: Checksums,
}

impl NewObject {
    /// Hashes the content; do this before taking the lock.
    pub(crate) fn single(content: Content, headers: ObjectHeaders) -> Self {
        let etag = hex::encode(md5_of(&content));
        Self { content, etag, headers, checksums: Checksums::default() }
    }
}

/// A conditional write between its first byte and its decision. Dropping it ends the window.
#[derive(Debug)]
pub(crate) struct WriteWindow {
    backend: Backend,
    bucket: String,
    key: String,
    deletes_before: u64,
}

impl Drop for WriteWindow {
    fn drop(&mut self) {
        let mut state = self.backend.lock();
        // The bucket may have been deleted, and even created again, in the meantime.
        let Some(bucket) = state.buckets.get_mut(&self.bucket) else { return };
        if let Some(window) = bucket.windows.get_mut(&self.key) {
            window.open = window.open.saturating_sub(1);
            if window.open == 0 {
                bucket.windows.remove(&self.key);
            }
        }
    }
}

impl Backend {
    /// Announces a conditional write, so that a delete that overtakes it is noticed (409).
    pub(crate) fn open_window(&self, bucket: &str, key: &str) -> Result<WriteWindow, BackendError> {
        let mut state = self.lock();
        let window = state.bucket_mut(bucket)?.windows.entry(key.to_owned()).or_default();
        window.open += 1;
        let deletes_before = window.deletes;
        Ok(WriteWindow { backend: self.clone(), bucket: bucket.to_owned(), key: key.to_owned(), deletes_before })
    }

    /// Checks the condition and writes, in one step.
    pub(crate) fn put_object(
        &self,
        bucket: &str,
        key: &str,
        new: NewObject,
        condition: &WriteCondition,
        window: Option<&WriteWindow>,
        now: SystemTime,
    ) -> Result<Arc<Object>, BackendError> {
        check_key(key)?;
        let limits = self.limits();
        check_size(new.content.len(), limits.max_object_bytes)?;
        let mut turn = self.turn()?;
        let mut state = self.lock();
        let held = state.bucket(bucket)?;
        let current = held.objects.get(key);
        condition.check(bucket, key, current.map(Arc::as_ref))?;
        if condition.absent
            && let (Some(mine), Some(now)) = (window, held.windows.get(key))
            && mine.deletes_before != now.deletes
        {
            return Err(BackendError::ConditionalConflict);
        }
        let replaced = current.map_or(0, |object| object.content.len());
        state.account(new.content.len(), replaced, limits.max_total_bytes)?;
        let object = Arc::new(Object {
            content: new.content,
            etag: new.etag,
            last_modified: now,
            headers: new.headers,
            part_bytes: Vec::new(),
            checksums: new.checksums,
        });
        state.bucket_mut(bucket)?.replace(key, Arc::clone(&object));
        drop(state);
        turn.keep(Change::Put { bucket, key, object: &object })?;
        Ok(object)
    }

    /// The object as it is now. What is returned never changes, so a slow reader sees one version.
    pub(crate) fn object(&self, bucket: &str, key: &str) -> Result<Arc<Object>, BackendError> {
        let state = self.lock();
        let object = state.bucket(bucket)?.objects.get(key);
        object.cloned().ok_or_else(|| BackendError::NoSuchKey { bucket: bucket.to_owned(), key: key.to_owned() })
    }

    /// Deletes, and says whether there was anything. Without a condition "nothing there" is a success, as in S3.
    pub(crate) fn delete_object(
        &self,
        bucket: &str,
        key: &str,
        condition: &WriteCondition,
        extra: impl FnOnce(&Object) -> Result<(), BackendError>,
    ) -> Result<bool, BackendError> {
        let mut turn = self.turn()?;
        let mut state = self.lock();
        let held = state.bucket_mut(bucket)?;
        let current = held.objects.get(key);
        condition.check(bucket, key, current.map(Arc::as_ref))?;
        if let Some(object) = current {
            extra(object)?;
        }
        let Some(old) = held.remove(key) else { return Ok(false) };
        state.account(0, old.content.len(), self.limits().max_total_bytes)?;
        drop(state);
        turn.keep(Change::Delete { bucket, key })?;
        Ok(true)
    }
}

/// Keys have 1 to 1024 bytes.
pub(crate) fn check_key(key: &str) -> Result<(), BackendError> {
    if key.is_empty() || !s3s::path::check_key(key) {
        return Err(BackendError::InvalidKey { length: key.len() });
    }
    Ok(())
}

/// The bound of objects and parts.
pub(crate) fn check_size(size_bytes: u64, max_bytes: u64) -> Result<(), BackendError> {
    if size_bytes > max_bytes {
        return Err(BackendError::TooLarge { size_bytes, max_bytes });
    }
    Ok(())
}
