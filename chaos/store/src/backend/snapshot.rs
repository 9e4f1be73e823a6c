//! Snapshots of a bucket, and what is left in the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::Backend;
use super::disk::Change;
use super::error::BackendError;
use super::object::{Object, ObjectInfo};
use super::uploads::OpenUpload;

/// The objects of a bucket at one moment, sharing memory with the store. Open uploads are not part of it.
#[derive(Debug, Clone)]
pub struct BucketSnapshot {
    objects: BTreeMap<String, Arc<Object>>,
}

impl BucketSnapshot {
    /// What the snapshot holds, by key.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectInfo> {
        self.objects.iter().map(|(key, object)| ObjectInfo::of(key, object)).collect()
    }
}

/// Everything that is still in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Leftovers {
    /// Objects by bucket; a bucket without objects is listed with none.
    pub objects: BTreeMap<String, Vec<ObjectInfo>>,
    /// Multipart uploads that are neither completed nor aborted.
    pub uploads: Vec<OpenUpload>,
    /// Bytes of all of it.
    pub total_bytes: u64,
}

impl Backend {
    /// Keeps a bucket's objects as they are now, for a test that starts over from the same bytes.
    ///
    /// # Errors
    /// [`BackendError::NoSuchBucket`].
    pub fn snapshot(&self, bucket: &str) -> Result<BucketSnapshot, BackendError> {
        Ok(BucketSnapshot { objects: self.lock().bucket(bucket)?.objects.clone() })
    }

    /// Makes a bucket hold exactly what the snapshot holds, times and ETags included, in one step.
    /// Open uploads stay.
    ///
    /// # Errors
    /// [`BackendError::NoSuchBucket`], [`BackendError::Full`], [`BackendError::NotKept`].
    pub fn restore(&self, bucket: &str, snapshot: &BucketSnapshot) -> Result<(), BackendError> {
        let mut turn = self.turn()?;
        // With a data folder the lock is held while files are written: nobody may see half of it.
        let mut state = self.lock();
        let bytes = |objects: &BTreeMap<String, Arc<Object>>| objects.values().map(|o| o.content.len()).sum::<u64>();
        let before = bytes(&state.bucket(bucket)?.objects);
        state.account(bytes(&snapshot.objects), before, self.limits().max_total_bytes)?;
        let held = state.bucket_mut(bucket)?;
        let gone: Vec<String> =
            held.objects.keys().filter(|key| !snapshot.objects.contains_key(*key)).cloned().collect();
        for key in gone {
            held.remove(&key);
            turn.keep(Change::Delete { bucket, key: &key })?;
        }
        for (key, object) in &snapshot.objects {
            if !held.objects.get(key).is_some_and(|current| Arc::ptr_eq(current, object)) {
                held.replace(key, Arc::clone(object));
                turn.keep(Change::Put { bucket, key, object })?;
            }
        }
        Ok(())
    }

    /// Everything that is still in the store: the leak check at the end of a test.
    #[must_use]
    pub fn leftovers(&self) -> Leftovers {
        let names: Vec<String> = self.lock().buckets.keys().cloned().collect();
        let mut left = Leftovers { total_bytes: self.total_bytes(), ..Default::default() };
        for name in names {
            // A bucket that is deleted in between has nothing left.
            if let (Ok(objects), Ok(uploads)) = (self.list_objects(&name, ""), self.open_uploads(&name)) {
                left.objects.insert(name, objects);
                left.uploads.extend(uploads);
            }
        }
        left
    }
}
