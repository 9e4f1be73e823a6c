//! The one structure behind the one lock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use super::checksum::{ChecksumKind, Checksums};
use super::content::Content;
use super::error::BackendError;
use super::object::{Object, ObjectHeaders, ObjectInfo, md5_of};
use super::uploads::PastUpload;

/// Changes a bucket remembers so that a listing can be answered as it was some writes ago.
pub(crate) const MAX_HISTORY_CHANGES: usize = 1_024;
/// Completed uploads a bucket remembers, for clients that lost the answer and ask again.
const MAX_PAST_UPLOADS: usize = 1_024;

/// All that is stored. Guarded by one mutex: a check and the write that depends on it are one step.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) buckets: BTreeMap<String, Bucket>,
    /// Bytes of all objects and all open parts. Copies count in full although they share memory.
    pub(crate) total_bytes: u64,
    /// Uploads created so far; makes upload ids unique.
    pub(crate) uploads_created: u64,
}

impl State {
    pub(crate) fn bucket(&self, name: &str) -> Result<&Bucket, BackendError> {
        self.buckets.get(name).ok_or_else(|| BackendError::NoSuchBucket { bucket: name.to_owned() })
    }

    pub(crate) fn bucket_mut(&mut self, name: &str) -> Result<&mut Bucket, BackendError> {
        self.buckets.get_mut(name).ok_or_else(|| BackendError::NoSuchBucket { bucket: name.to_owned() })
    }

    /// Counts `added_bytes` in and `removed_bytes` out, or refuses and changes nothing.
    pub(crate) fn account(&mut self, added_bytes: u64, removed_bytes: u64, max_bytes: u64) -> Result<(), BackendError> {
        let total_bytes = self.total_bytes.saturating_sub(removed_bytes).saturating_add(added_bytes);
        // Shrinking always goes: a full store must be able to recover.
        if total_bytes > max_bytes && added_bytes > removed_bytes {
            return Err(BackendError::Full { total_bytes, max_bytes });
        }
        self.total_bytes = total_bytes;
        Ok(())
    }
}

/// One bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) created: SystemTime,
    pub(crate) objects: BTreeMap<String, Arc<Object>>,
    /// Open multipart uploads by (key, upload id), the order in which S3 lists them.
    pub(crate) uploads: BTreeMap<(String, String), Upload>,
    /// Uploads that became objects, newest last.
    pub(crate) past_uploads: VecDeque<PastUpload>,
    /// Keys with conditional writes under way.
    pub(crate) windows: BTreeMap<String, Window>,
    /// What each change replaced, newest last: (key, the line a listing would have shown).
    pub(crate) history: VecDeque<(String, Option<ObjectInfo>)>,
}

impl Bucket {
    pub(crate) fn new(created: SystemTime) -> Self {
        Self {
            created,
            objects: BTreeMap::new(),
            uploads: BTreeMap::new(),
            past_uploads: VecDeque::new(),
            windows: BTreeMap::new(),
            history: VecDeque::new(),
        }
    }

    /// Puts an object and gives back the one it replaced.
    pub(crate) fn replace(&mut self, key: &str, object: Arc<Object>) -> Option<Arc<Object>> {
        let old = self.objects.insert(key.to_owned(), object);
        self.remember(key, old.as_deref());
        old
    }

    /// Removes an object; a conditional write that is under way for the key learns of it.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<Object>> {
        let old = self.objects.remove(key)?;
        if let Some(window) = self.windows.get_mut(key) {
            window.deletes += 1;
        }
        self.remember(key, Some(&old));
        Some(old)
    }

    fn remember(&mut self, key: &str, old: Option<&Object>) {
        if self.history.len() == MAX_HISTORY_CHANGES {
            self.history.pop_front();
        }
        self.history.push_back((key.to_owned(), old.map(|object| ObjectInfo::of(key, object))));
    }

    /// Keeps what a repeated completion is answered with.
    pub(crate) fn remember_upload(&mut self, past: PastUpload) {
        if self.past_uploads.len() == MAX_PAST_UPLOADS {
            self.past_uploads.pop_front();
        }
        self.past_uploads.push_back(past);
    }

    /// Bytes of objects and open parts.
    pub(crate) fn total_bytes(&self) -> u64 {
        let objects: u64 = self.objects.values().map(|object| object.content.len()).sum();
        let parts: u64 = self.uploads.values().map(Upload::total_bytes).sum();
        objects + parts
    }
}

/// Conditional writes under way for one key: who began before a delete must not succeed after it (409).
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Writes that have begun and not ended.
    pub(crate) open: usize,
    /// Deletes since the first of them began.
    pub(crate) deletes: u64,
}

/// An open multipart upload.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    pub(crate) initiated: SystemTime,
    pub(crate) headers: ObjectHeaders,
    /// If the object is to have a checksum.
    pub(crate) checksum: Option<ChecksumKind>,
    pub(crate) parts: BTreeMap<i32, Part>,
}

impl Upload {
    pub(crate) fn total_bytes(&self) -> u64 {
        self.parts.values().map(|part| part.content.len()).sum()
    }
}

/// An uploaded part.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) content: Content,
    pub(crate) md5: [u8; 16],
    pub(crate) last_modified: SystemTime,
    /// Those its sender gave.
    pub(crate) checksums: Checksums,
}

impl Part {
    /// Hashes the content; do this before taking the lock.
    pub(crate) fn new(content: Content, checksums: Checksums, last_modified: SystemTime) -> Self {
        Self { md5: md5_of(&content), content, last_modified, checksums }
    }

    /// Without quotes.
    pub(crate) fn etag(&self) -> String {
        hex::encode(self.md5)
    }
}
