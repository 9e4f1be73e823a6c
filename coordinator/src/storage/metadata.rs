//! The format of `_metadata`: what a completed checkpoint consists of, in one object.
//!
//! ```text
//! bytes 0..8    magic, `SPRFCKPT`
//! bytes 8..12   format version, big-endian
//! bytes 12..20  length of the body, big-endian
//! bytes 20..24  CRC-32 of the body, big-endian
//! bytes 24..    body: the `CompletedCheckpoint`, postcard
//! ```
//!
//! Postcard because small state lies inline: bytes in JSON are four times as long. It does not describe itself, so
//! any change of [`CompletedCheckpoint`] or of what is in it raises [`VERSION`].

use bytes::{BufMut, Bytes, BytesMut};

use crate::core::checkpoint::CompletedCheckpoint;

/// First bytes of every metadata object.
pub const MAGIC: [u8; 8] = *b"SPRFCKPT";

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

const HEADER_BYTES: usize = 24;

/// First four bytes of Flink's `_metadata`.
const FLINK_MAGIC: [u8; 4] = 0x4960_672d_u32.to_be_bytes();

/// The bytes are not a checkpoint's metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// Ends inside the header or the body.
    #[error("truncated: it has {actual} bytes of {expected}")]
    Truncated {
        /// Length it should have, bytes.
        expected: u64,
        /// Length it has, bytes.
        actual: u64,
    },
    /// Made by Apache Flink.
    #[error("it was written by Apache Flink, whose checkpoints cannot be restored here")]
    Flink,
    /// Something else altogether.
    #[error("it is not checkpoint metadata: it starts with {}", hex::encode(.0))]
    Foreign(Vec<u8>),
    /// Made by another version of this crate.
    #[error("it has format version {0}, and this binary reads version {VERSION}")]
    Version(u32),
    /// Bytes after the end of the body.
    #[error("it has {0} bytes too many")]
    TooLong(u64),
    /// The body is not what was written.
    #[error("its checksum is {actual:08x} where the header says {expected:08x}")]
    Checksum {
        /// CRC-32 in the header.
        expected: u32,
        /// CRC-32 of the body.
        actual: u32,
    },
    /// The checksum is right, the body cannot be read: a bug, or two formats under one version.
    #[error("its body cannot be read: {0}")]
    Body(String),
}

/// Encodes a checkpoint. The same checkpoint always gives the same bytes.
///
/// # Errors
///
/// [`MetadataError::Body`] if it cannot be encoded.
pub fn encode(checkpoint: &CompletedCheckpoint) -> Result<Bytes, MetadataError> {
    let body = postcard::to_stdvec(checkpoint).map_err(|error| MetadataError::Body(error.to_string()))?;
    let mut bytes = BytesMut::with_capacity(HEADER_BYTES + body.len());
    bytes.put_slice(&MAGIC);
    bytes.put_u32(VERSION);
    bytes.put_u64(body.len() as u64);
    bytes.put_u32(crc32fast::hash(&body));
    bytes.put_slice(&body);
    Ok(bytes.freeze())
}

/// Decodes a checkpoint.
///
/// # Errors
///
/// See [`MetadataError`].
pub fn decode(bytes: &[u8]) -> Result<CompletedCheckpoint, MetadataError> {
    let start = &bytes[..bytes.len().min(MAGIC.len())];
    if start != &MAGIC[..start.len()] {
        let flink = bytes.starts_with(&FLINK_MAGIC);
        return Err(if flink { MetadataError::Flink } else { MetadataError::Foreign(start.to_vec()) });
    }
    let actual = bytes.len() as u64;
    let Some((header, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(MetadataError::Truncated { expected: HEADER_BYTES as u64, actual });
    };
    let version = u32::from_be_bytes(field(header, 8));
    if version != VERSION {
        return Err(MetadataError::Version(version));
    }
    let expected = u64::from_be_bytes(field(header, 12)).saturating_add(HEADER_BYTES as u64);
    match actual.checked_sub(expected) {
        None => return Err(MetadataError::Truncated { expected, actual }),
        Some(0) => {}
        Some(extra) => return Err(MetadataError::TooLong(extra)),
    }
    let (expected, actual) = (u32::from_be_bytes(field(header, 20)), crc32fast::hash(body));
    if expected != actual {
        return Err(MetadataError::Checksum { expected, actual });
    }
    match postcard::take_from_bytes(body) {
        Ok((checkpoint, [])) => Ok(checkpoint),
        Ok((_, rest)) => Err(MetadataError::Body(format!("{} bytes are left over", rest.len()))),
        Err(error) => Err(MetadataError::Body(error.to_string())),
    }
}

fn field<const N: usize>(header: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[at..at + N]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::checkpoint::TaskSnapshotHandle;
    use crate::graph::{JobId, TaskId, VertexId};

    fn checkpoint() -> CompletedCheckpoint {
        let task = |subtask| TaskId { vertex: VertexId([7; 16]), subtask };
        CompletedCheckpoint {
            job: JobId([1; 16]),
            id: 42,
            trigger_ms: 1_700_000_000_000,
            completed_ms: 1_700_000_000_250,
            tasks: vec![
                (task(0), TaskSnapshotHandle::Inline(vec![0, 1, 2, 255])),
                (task(1), TaskSnapshotHandle::File { key: "j/chk-42/x".into(), size: 99_999 }),
            ],
            is_final: true,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = encode(&checkpoint()).unwrap();
        assert_eq!(decode(&bytes).unwrap(), checkpoint());
        assert_eq!(bytes, encode(&checkpoint()).unwrap(), "a retry must write the same bytes");
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_noticed() {
        let bytes = encode(&checkpoint()).unwrap();
        for length in 0..bytes.len() {
            let error = decode(&bytes[..length]).unwrap_err();
            assert!(matches!(error, MetadataError::Truncated { .. }), "{length}: {error}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged).is_err(), "bit {bit} flipped unnoticed");
        }
    }

    #[test]
    fn foreign_content_is_named_in_one_sentence() {
        let with = |at: usize, value: u8| {
            let mut bytes = encode(&checkpoint()).unwrap().to_vec();
            bytes[at] = value;
            decode(&bytes).unwrap_err().to_string()
        };
        assert_eq!(with(11, 9), "it has format version 9, and this binary reads version 1");
        assert_eq!(
            decode(b"<html>").unwrap_err().to_string(),
            "it is not checkpoint metadata: it starts with 3c68746d6c3e"
        );
        assert_eq!(decode(&[0x49, 0x60, 0x67, 0x2d, 0, 0, 0, 4]).unwrap_err(), MetadataError::Flink);
        assert_eq!(decode(b"SPRFCKPT").unwrap_err().to_string(), "truncated: it has 8 bytes of 24");
        let mut longer = encode(&checkpoint()).unwrap().to_vec();
        longer.push(0);
        assert_eq!(decode(&longer).unwrap_err(), MetadataError::TooLong(1));
    }
}
