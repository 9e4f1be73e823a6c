//! Buckets: create, look, list, delete.

use std::time::SystemTime;

use super::Backend;
use super::disk::Change;
use super::error::BackendError;
use super::state::Bucket;

impl Backend {
    pub(crate) fn create_bucket_at(&self, name: &str, now: SystemTime) -> Result<(), BackendError> {
        if !s3s::path::check_bucket_name(name) {
            return Err(BackendError::InvalidBucketName { bucket: name.to_owned() });
        }
        let mut turn = self.turn()?;
        let mut state = self.lock();
        if state.buckets.contains_key(name) {
            return Err(BackendError::BucketExists { bucket: name.to_owned() });
        }
        state.buckets.insert(name.to_owned(), Bucket::new(now));
        drop(state);
        turn.keep(Change::CreateBucket { bucket: name, created: now })
    }

    /// True if there is such a bucket.
    #[must_use]
    pub fn bucket_exists(&self, name: &str) -> bool {
        self.lock().buckets.contains_key(name)
    }

    /// Names and creation times, by name.
    pub(crate) fn buckets(&self) -> Vec<(String, SystemTime)> {
        self.lock().buckets.iter().map(|(name, bucket)| (name.clone(), bucket.created)).collect()
    }

    /// Deletes a bucket without objects. Open uploads go with it, as in S3.
    ///
    /// # Errors
    /// [`BackendError::NoSuchBucket`], [`BackendError::BucketNotEmpty`], [`BackendError::NotKept`].
    pub fn delete_bucket(&self, name: &str) -> Result<(), BackendError> {
        let mut turn = self.turn()?;
        let mut state = self.lock();
        let bucket = state.bucket(name)?;
        if !bucket.objects.is_empty() {
            let objects = bucket.objects.len();
            return Err(BackendError::BucketNotEmpty { bucket: name.to_owned(), objects });
        }
        let freed = bucket.total_bytes();
        state.buckets.remove(name);
        state.account(0, freed, self.limits().max_total_bytes)?;
        drop(state);
        turn.keep(Change::DeleteBucket { bucket: name })
    }
}
