//! One file: a line of JSON that says what it is and how long, then the bytes.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::SystemTime;

use bytes::Bytes;
use s3s::crypto::{Checksum as _, Sha256};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::DataError;
use crate::backend::checksum::{Algorithm, ChecksumKind, Checksums};
use crate::backend::content::Content;
use crate::backend::object::{Object, ObjectHeaders};
use crate::backend::state::{Part, Upload};

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head<T> {
    /// How many bytes follow.
    bytes: u64,
    /// Their CRC32 in base64.
    crc32: Option<String>,
    about: T,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BucketRecord {
    pub(super) created: SystemTime,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ObjectRecord {
    pub(super) key: String,
    etag: String,
    last_modified: SystemTime,
    headers: ObjectHeaders,
    part_bytes: Vec<u64>,
    checksums: Checksums,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct UploadRecord {
    pub(super) key: String,
    initiated: SystemTime,
    headers: ObjectHeaders,
    checksum: Option<ChecksumKind>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PartRecord {
    last_modified: SystemTime,
    checksums: Checksums,
}

impl ObjectRecord {
    pub(super) fn of(key: &str, object: &Object) -> Self {
        Self {
            key: key.to_owned(),
            etag: object.etag.clone(),
            last_modified: object.last_modified,
            headers: object.headers.clone(),
            part_bytes: object.part_bytes.clone(),
            checksums: object.checksums.clone(),
        }
    }

    pub(super) fn into_object(self, content: Content) -> Object {
        let Self { key: _, etag, last_modified, headers, part_bytes, checksums } = self;
        Object { content, etag, last_modified, headers, part_bytes, checksums }
    }
}

impl UploadRecord {
    pub(super) fn of(key: &str, upload: &Upload) -> Self {
        let (initiated, headers, checksum) = (upload.initiated, upload.headers.clone(), upload.checksum);
        Self { key: key.to_owned(), initiated, headers, checksum }
    }

    pub(super) fn into_upload(self) -> Upload {
        let Self { key: _, initiated, headers, checksum } = self;
        Upload { initiated, headers, checksum, parts: Default::default() }
    }
}

impl PartRecord {
    pub(super) fn of(part: &Part) -> Self {
        Self { last_modified: part.last_modified, checksums: part.checksums.clone() }
    }

    pub(super) fn into_part(self, content: Content) -> Part {
        Part::new(content, self.checksums, self.last_modified)
    }
}

/// The file of a key. Keys may be longer than file names, and hold anything.
pub(super) fn file_name(key: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(key.as_bytes());
    hex::encode(hasher.finalize())
}

/// Writes and syncs a new file.
pub(super) fn write<T: Serialize>(path: &Path, about: &T, content: &Content) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Head { bytes: content.len(), crc32: crc32(content), about })?;
    line.push(b'\n');
    let mut file = File::create_new(path)?;
    file.write_all(&line)?;
    for segment in content.segments() {
        file.write_all(segment)?;
    }
    file.sync_all()
}

/// Reads a file that [`write`] wrote.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<(T, Content), DataError> {
    let file = Bytes::from(fs::read(path).map_err(DataError::io(path))?);
    let end = file.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| DataError::damaged(path, "it ends within its first line"))?;
    let head: Head<T> = serde_json::from_slice(&file[..end])
        .map_err(|error| DataError::damaged(path, format!("its first line cannot be read: {error}")))?;
    let content = Content::from(file.slice(end + 1..));
    if content.len() != head.bytes {
        let why = format!("it should hold {} bytes and holds {}", head.bytes, content.len());
        return Err(DataError::damaged(path, why));
    }
    if crc32(&content) != head.crc32 {
        return Err(DataError::damaged(path, "its bytes have another CRC32 than they were written with"));
    }
    Ok((head.about, content))
}

fn crc32(content: &Content) -> Option<String> {
    Checksums::compute(content, [Algorithm::Crc32]).get(Algorithm::Crc32)
}
