//! Multipart uploads: create, add parts, complete, abort, list.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;

use super::Backend;
use super::checksum::{ChecksumKind, Checksums};
use super::condition::WriteCondition;
use super::content::Content;
use super::disk::Change;
use super::error::BackendError;
use super::object::{Object, ObjectHeaders, epoch_ms, multipart_etag};
use super::objects::{check_key, check_size};
use super::state::{Part, State, Upload};

/// An upload that was neither completed nor aborted: a leftover, if nobody is writing any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenUpload {
    /// The bucket.
    pub bucket: String,
    /// The key it would become.
    pub key: String,
    /// The upload id.
    pub upload: String,
    /// When it was created, milliseconds since the epoch.
    pub initiated_ms: u64,
    /// Parts uploaded so far.
    pub parts: usize,
    /// Bytes these parts hold.
    pub part_bytes: u64,
}

/// One entry of a request to complete an upload: the part number and, if the client sent it, the ETag.
pub(crate) type WantedPart = (i32, Option<String>);

/// A request to complete an upload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion<'a> {
    pub(crate) parts: &'a [WantedPart],
    pub(crate) condition: &'a WriteCondition,
    /// What the client says the whole object's are.
    pub(crate) checksums: &'a Checksums,
    /// What the client says the whole object's size is.
    pub(crate) bytes: Option<u64>,
}

/// What a completion is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Completed {
    /// Without quotes.
    pub(crate) etag: String,
    pub(crate) checksums: Checksums,
}

/// An upload that became an object, which may be gone since.
#[derive(Debug)]
pub(crate) struct PastUpload {
    key: String,
    upload: String,
    /// Hash of the parts that were asked for.
    parts: u64,
    answer: Completed,
}

impl Backend {
    pub(crate) fn create_upload(
        &self,
        bucket: &str,
        key: &str,
        headers: ObjectHeaders,
        checksum: Option<ChecksumKind>,
        now: SystemTime,
    ) -> Result<String, BackendError> {
        check_key(key)?;
        let mut turn = self.turn()?;
        let mut state = self.lock();
        state.bucket(bucket)?;
        state.uploads_created += 1;
        // The time makes ids of two servers differ, should a client keep one across a restart.
        let id = format!("{:011x}-{:08x}", epoch_ms(now), state.uploads_created);
        let upload = Upload { initiated: now, headers, checksum, parts: Default::default() };
        state.bucket_mut(bucket)?.uploads.insert((key.to_owned(), id.clone()), upload.clone());
        drop(state);
        turn.keep(Change::CreateUpload { bucket, key, id: &id, upload: &upload })?;
        Ok(id)
    }

    /// Stores a part, replacing one of the same number.
    pub(crate) fn put_part(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
        number: i32,
        part: Part,
    ) -> Result<(), BackendError> {
        let limits = self.limits();
        check_size(part.content.len(), limits.max_object_bytes)?;
        let mut turn = self.turn()?;
        let mut state = self.lock();
        let replaced = open(&mut state, bucket, key, upload)?.parts.get(&number).map_or(0, |old| old.content.len());
        state.account(part.content.len(), replaced, limits.max_total_bytes)?;
        open(&mut state, bucket, key, upload)?.parts.insert(number, part.clone());
        drop(state);
        turn.keep(Change::PutPart { bucket, id: upload, number, part: &part })
    }

    /// Checks the parts and the condition, and makes the object appear, in one step. A refused completion leaves
    /// the upload open, so that it can be tried again or aborted. One that is repeated word for word is answered as
    /// the first was, and changes nothing.
    pub(crate) fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
        completion: Completion<'_>,
        now: SystemTime,
    ) -> Result<Completed, BackendError> {
        let whole = self.whole_checksums(bucket, key, upload, completion)?;
        let limits = self.limits();
        let mut turn = self.turn()?;
        let mut state = self.lock();
        if let Some(done) = already_completed(&state, bucket, key, upload, completion.parts)? {
            return Ok(done);
        }
        let opened = open(&mut state, bucket, key, upload)?;
        let kind = opened.checksum;
        let chosen = chosen_parts(opened, completion.parts, limits.min_part_bytes)?;
        let content = Content::concat(chosen.iter().map(|part| &part.content));
        check_size(content.len(), limits.max_object_bytes)?;
        if let Some(said_bytes) = completion.bytes.filter(|bytes| *bytes != content.len()) {
            return Err(BackendError::SizeDiffers { said_bytes, size_bytes: content.len() });
        }
        let held = state.bucket_mut(bucket)?;
        completion.condition.check(bucket, key, held.objects.get(key).map(Arc::as_ref))?;
        let done = held
            .uploads
            .remove(&(key.to_owned(), upload.to_owned()))
            .ok_or_else(|| no_such_upload(bucket, key, upload))?;
        let md5s: Vec<[u8; 16]> = chosen.iter().map(|part| part.md5).collect();
        let freed_parts = done.total_bytes();
        let added = content.len();
        let checksums = whole.or_else(|| {
            let parts: Vec<&Checksums> = chosen.iter().map(|part| &part.checksums).collect();
            kind.map(|kind| Checksums::composite(kind.algorithm, &parts))
        });
        let object = Arc::new(Object {
            content,
            etag: multipart_etag(&md5s),
            last_modified: now,
            headers: done.headers,
            part_bytes: chosen.iter().map(|part| part.content.len()).collect(),
            checksums: checksums.unwrap_or_default(),
        });
        let answer = Completed { etag: object.etag.clone(), checksums: object.checksums.clone() };
        held.remember_upload(PastUpload {
            key: key.to_owned(),
            upload: upload.to_owned(),
            parts: fingerprint(completion.parts),
            answer: answer.clone(),
        });
        let replaced = held.replace(key, Arc::clone(&object)).map_or(0, |old| old.content.len());
        // The object's bytes are a subset of the parts' bytes, so this never grows the store.
        state.account(added, freed_parts + replaced, limits.max_total_bytes)?;
        drop(state);
        turn.keep(Change::Put { bucket, key, object: &object })?;
        turn.keep(Change::EndUpload { bucket, id: upload })?;
        Ok(answer)
    }

    /// The checksums of the whole object if somebody asked for such, computed without the lock. (Parts that are
    /// replaced meanwhile are found out by their ETags.)
    fn whole_checksums(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
        completion: Completion<'_>,
    ) -> Result<Option<Checksums>, BackendError> {
        let mut state = self.lock();
        if already_completed(&state, bucket, key, upload, completion.parts)?.is_some() {
            return Ok(None);
        }
        let opened = open(&mut state, bucket, key, upload)?;
        let wanted = opened.checksum.filter(|kind| kind.full_object).map(|kind| kind.algorithm);
        let given = completion.checksums;
        if wanted.is_none() && given.is_empty() {
            return Ok(None);
        }
        let chosen = chosen_parts(opened, completion.parts, self.limits().min_part_bytes)?;
        drop(state);
        let content = Content::concat(chosen.iter().map(|part| &part.content));
        let found = Checksums::compute(&content, given.algorithms().chain(wanted));
        match given.algorithms().find(|algorithm| given.get(*algorithm) != found.get(*algorithm)) {
            Some(algorithm) => Err(BackendError::ChecksumDiffers { algorithm: algorithm.name() }),
            None => Ok(Some(found)),
        }
    }

    pub(crate) fn abort_upload(&self, bucket: &str, key: &str, upload: &str) -> Result<(), BackendError> {
        let mut turn = self.turn()?;
        let mut state = self.lock();
        let gone = state.bucket_mut(bucket)?.uploads.remove(&(key.to_owned(), upload.to_owned()));
        let freed = gone.ok_or_else(|| no_such_upload(bucket, key, upload))?.total_bytes();
        state.account(0, freed, self.limits().max_total_bytes)?;
        drop(state);
        turn.keep(Change::EndUpload { bucket, id: upload })
    }

    /// The parts of an upload by number.
    pub(crate) fn parts(&self, bucket: &str, key: &str, upload: &str) -> Result<Vec<(i32, Part)>, BackendError> {
        let mut state = self.lock();
        let upload = open(&mut state, bucket, key, upload)?;
        Ok(upload.parts.iter().map(|(number, part)| (*number, part.clone())).collect())
    }

    /// Uploads of a bucket that are still open, by key and upload id.
    ///
    /// # Errors
    /// [`BackendError::NoSuchBucket`].
    pub fn open_uploads(&self, bucket: &str) -> Result<Vec<OpenUpload>, BackendError> {
        let state = self.lock();
        let uploads = &state.bucket(bucket)?.uploads;
        Ok(uploads
            .iter()
            .map(|((key, id), upload)| OpenUpload {
                bucket: bucket.to_owned(),
                key: key.clone(),
                upload: id.clone(),
                initiated_ms: epoch_ms(upload.initiated),
                parts: upload.parts.len(),
                part_bytes: upload.total_bytes(),
            })
            .collect())
    }
}

fn no_such_upload(bucket: &str, key: &str, upload: &str) -> BackendError {
    BackendError::NoSuchUpload { bucket: bucket.to_owned(), key: key.to_owned(), upload: upload.to_owned() }
}

/// What the same request was answered with, if it was made before.
fn already_completed(
    state: &State,
    bucket: &str,
    key: &str,
    upload: &str,
    parts: &[WantedPart],
) -> Result<Option<Completed>, BackendError> {
    let past = &state.bucket(bucket)?.past_uploads;
    let same = past.iter().rev().find(|past| past.upload == upload && past.key == key);
    Ok(same.filter(|past| past.parts == fingerprint(parts)).map(|past| past.answer.clone()))
}

fn fingerprint(parts: &[WantedPart]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

fn open<'a>(state: &'a mut State, bucket: &str, key: &str, upload: &str) -> Result<&'a mut Upload, BackendError> {
    state
        .bucket_mut(bucket)?
        .uploads
        .get_mut(&(key.to_owned(), upload.to_owned()))
        .ok_or_else(|| no_such_upload(bucket, key, upload))
}

/// The parts a client lists, if it may: ascending, known, of the same ETag, and all but the last large enough.
fn chosen_parts(upload: &Upload, wanted: &[WantedPart], min_bytes: u64) -> Result<Vec<Part>, BackendError> {
    if wanted.is_empty() {
        return Err(BackendError::NoParts);
    }
    if !wanted.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(BackendError::InvalidPartOrder);
    }
    let mut chosen = Vec::with_capacity(wanted.len());
    for (number, etag) in wanted {
        let part = upload.parts.get(number).ok_or(BackendError::InvalidPart { number: *number })?;
        if etag.as_ref().is_some_and(|etag| *etag != part.etag()) {
            return Err(BackendError::InvalidPart { number: *number });
        }
        chosen.push(part.clone());
    }
    // Only once all are known: one that was never uploaded is the graver mistake.
    let sizes = wanted.iter().zip(&chosen).map(|((number, _), part)| (*number, part.content.len()));
    match sizes.take(wanted.len() - 1).find(|(_, size_bytes)| *size_bytes < min_bytes) {
        Some((number, size_bytes)) => Err(BackendError::PartTooSmall { number, size_bytes, min_bytes }),
        None => Ok(chosen),
    }
}
