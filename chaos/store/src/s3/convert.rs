//! Between the protocol crate's types and ours.

use std::time::{Duration, SystemTime};

use s3s::dto::{ChecksumType, ETag, ETagCondition, Metadata, Owner, Timestamp, TimestampFormat};
use s3s::{S3Result, s3_error};

use crate::backend::checksum::Checksums;
use crate::backend::condition::{EtagMatch, ReadCondition, WriteCondition};

/// The answer's form of an ETag: quoted on the wire.
pub(crate) fn etag(value: &str) -> Option<ETag> {
    Some(ETag::Strong(value.to_owned()))
}

/// `*` or one ETag. Weak ETags are compared like strong ones; S3 has no weak ones.
pub(crate) fn etag_match(condition: ETagCondition) -> EtagMatch {
    match condition {
        ETagCondition::Any => EtagMatch::Any,
        ETagCondition::ETag(etag) => EtagMatch::Value(etag.into_value()),
    }
}

/// Conditions of a write. S3 knows `If-None-Match` only with `*`, and answers anything else with 501.
pub(crate) fn write_condition(
    if_match: Option<ETagCondition>,
    if_none_match: Option<ETagCondition>,
) -> S3Result<WriteCondition> {
    if if_none_match.as_ref().is_some_and(|condition| !condition.is_any()) {
        return Err(s3_error!(NotImplemented, "If-None-Match of a write can only be *"));
    }
    Ok(WriteCondition { absent: if_none_match.is_some(), matches: if_match.map(etag_match) })
}

/// Conditions of a read.
pub(crate) fn read_condition(
    if_match: Option<ETagCondition>,
    if_none_match: Option<ETagCondition>,
    if_modified_since: Option<&Timestamp>,
    if_unmodified_since: Option<&Timestamp>,
) -> ReadCondition {
    ReadCondition {
        if_match: if_match.map(etag_match),
        if_none_match: if_none_match.map(etag_match),
        if_modified_since: if_modified_since.and_then(system_time),
        if_unmodified_since: if_unmodified_since.and_then(system_time),
    }
}

/// Whole seconds of a timestamp; none before 1970.
fn system_time(timestamp: &Timestamp) -> Option<SystemTime> {
    let mut text = Vec::new();
    timestamp.format(TimestampFormat::EpochSeconds, &mut text).ok()?;
    let seconds: f64 = std::str::from_utf8(&text).ok()?.parse().ok()?;
    (seconds >= 0.0).then(|| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds as u64))
}

/// The checksum fields of one of the protocol crate's types, as one value. They are taken out of it.
macro_rules! take_checksums {
    ($from:expr) => {{
        use $crate::backend::checksum::{Algorithm, Checksums};
        let values = [
            (Algorithm::Crc32, $from.checksum_crc32.take()),
            (Algorithm::Crc32c, $from.checksum_crc32c.take()),
            (Algorithm::Crc64Nvme, $from.checksum_crc64nvme.take()),
            (Algorithm::Sha1, $from.checksum_sha1.take()),
            (Algorithm::Sha256, $from.checksum_sha256.take()),
        ];
        values.into_iter().collect::<Checksums>()
    }};
}

/// The other way.
macro_rules! set_checksums {
    ($into:expr, $checksums:expr) => {{
        use $crate::backend::checksum::Algorithm;
        $into.checksum_crc32 = $checksums.get(Algorithm::Crc32);
        $into.checksum_crc32c = $checksums.get(Algorithm::Crc32c);
        $into.checksum_crc64nvme = $checksums.get(Algorithm::Crc64Nvme);
        $into.checksum_sha1 = $checksums.get(Algorithm::Sha1);
        $into.checksum_sha256 = $checksums.get(Algorithm::Sha256);
    }};
}

pub(crate) use {set_checksums, take_checksums};

/// Whether checksums are of the bytes or of the parts' checksums; says nothing if there are none.
pub(crate) fn checksum_type(checksums: &Checksums) -> Option<ChecksumType> {
    let name = if checksums.are_of_all_bytes() { ChecksumType::FULL_OBJECT } else { ChecksumType::COMPOSITE };
    (!checksums.is_empty()).then(|| ChecksumType::from_static(name))
}

/// A timestamp from milliseconds since the epoch.
pub(crate) fn timestamp_ms(ms: u64) -> Timestamp {
    Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_millis(ms))
}

/// User metadata with names in lower case, as they travel.
pub(crate) fn user_metadata(metadata: Option<Metadata>) -> std::collections::BTreeMap<String, String> {
    metadata.unwrap_or_default().into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}

/// Everything belongs to one owner.
pub(crate) fn owner() -> Owner {
    Owner { display_name: Some("stormproof".to_owned()), id: Some("stormproof".to_owned()) }
}

/// A size in the protocol's signed form. Sizes here are bounded by memory, far below `i64::MAX`.
pub(crate) fn size(bytes: u64) -> Option<i64> {
    i64::try_from(bytes).ok()
}
