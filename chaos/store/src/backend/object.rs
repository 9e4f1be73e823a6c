//! What is stored under a key, and the header values that come back with it.

use std::collections::BTreeMap;
use std::time::SystemTime;

use md5::{Digest, Md5};
use s3s::dto::Timestamp;
use serde::{Deserialize, Serialize};

use super::checksum::Checksums;
use super::content::Content;

/// An object as stored. Immutable: a write replaces it, readers keep the one they have.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) content: Content,
    /// Without quotes.
    pub(crate) etag: String,
    pub(crate) last_modified: SystemTime,
    pub(crate) headers: ObjectHeaders,
    /// Sizes of the parts it was completed from, in bytes; empty for a single put.
    pub(crate) part_bytes: Vec<u64>,
    /// Those its writer gave.
    pub(crate) checksums: Checksums,
}

/// Header values a client may set on an object and gets back on reads.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ObjectHeaders {
    pub(crate) content_type: Option<String>,
    pub(crate) cache_control: Option<String>,
    pub(crate) content_disposition: Option<String>,
    pub(crate) content_encoding: Option<String>,
    pub(crate) content_language: Option<String>,
    #[serde(with = "http_date")]
    pub(crate) expires: Option<Timestamp>,
    /// `x-amz-meta-*`, without the prefix.
    pub(crate) user: BTreeMap<String, String>,
}

/// A date as it travels.
mod http_date {
    use s3s::dto::{Timestamp, TimestampFormat};
    use serde::de::{Deserialize, Deserializer, Error as _};
    use serde::ser::{Error as _, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(date: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        let Some(date) = date else { return to.serialize_none() };
        let mut text = Vec::new();
        date.format(TimestampFormat::HttpDate, &mut text).map_err(S::Error::custom)?;
        String::from_utf8_lossy(&text).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let parse = |text: String| Timestamp::parse(TimestampFormat::HttpDate, &text).map_err(D::Error::custom);
        text.map(parse).transpose()
    }
}

/// One line of an object listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObjectInfo {
    /// The key.
    pub key: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// ETag without quotes: the MD5 in hex, or `md5-of-md5s-N` for a multipart upload of N parts.
    pub etag: String,
    /// When it was written, milliseconds since the epoch.
    pub last_modified_ms: u64,
}

impl ObjectInfo {
    pub(crate) fn of(key: &str, object: &Object) -> Self {
        Self {
            key: key.to_owned(),
            size_bytes: object.content.len(),
            etag: object.etag.clone(),
            last_modified_ms: epoch_ms(object.last_modified),
        }
    }
}

/// MD5 of a content.
pub(crate) fn md5_of(content: &Content) -> [u8; 16] {
    let mut hasher = Md5::new();
    for segment in content.segments() {
        hasher.update(segment);
    }
    hasher.finalize().into()
}

/// The ETag S3 gives to a completed upload: the MD5 of the parts' MD5s, then how many there were.
pub(crate) fn multipart_etag(part_md5s: &[[u8; 16]]) -> String {
    let mut hasher = Md5::new();
    for md5 in part_md5s {
        hasher.update(md5);
    }
    format!("{}-{}", hex::encode(hasher.finalize()), part_md5s.len())
}

/// Milliseconds since the epoch; a clock before 1970 reads as 0.
pub(crate) fn epoch_ms(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn etags_are_what_s3_computes() {
        let hello = md5_of(&Content::from(Bytes::from_static(b"hello")));
        assert_eq!(hex::encode(hello), "5d41402abc4b2a76b9719d911017c592");
        // md5(md5("hello") ++ md5("hello")), computed elsewhere.
        assert_eq!(multipart_etag(&[hello, hello]), "616b22817b80eed9f65c3aa38cd29054-2");
    }
}
