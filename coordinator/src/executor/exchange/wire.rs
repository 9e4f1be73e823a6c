//! Requests and frames of a data connection.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::graph::{JobId, Record, ResultPartitionId};
use crate::runtime::protocol::MAX_FRAME_BYTES;

/// First bytes of a request.
pub(crate) const MAGIC: [u8; 4] = *b"SPRD";

/// Largest record, bytes of key and value together: it has to fit a frame.
pub(crate) const MAX_RECORD_BYTES: usize = MAX_FRAME_BYTES / 2;

/// What a consumer asks for; sent once, after connecting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartitionRequest {
    /// [`MAGIC`].
    pub(crate) magic: [u8; 4],
    pub(crate) job: JobId,
    pub(crate) partition: ResultPartitionId,
    pub(crate) subpartition: u32,
    /// The consumer reads a complete result: if there is none, the answer comes at once.
    pub(crate) blocking: bool,
}

/// Why a stream ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamError {
    /// No such partition here, or a file of it is missing.
    NotFound,
    /// It is here, but what lies on the disk is not what was written.
    Damaged,
    /// The producer failed or was cancelled.
    ProducerFailed,
}

/// What travels from producer to consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A batch of records, see [`Batch`].
    Records(Bytes),
    /// A checkpoint barrier.
    Barrier(u64),
    /// No more records will come; barriers may.
    EndOfData,
    /// Nothing more will come.
    EndOfPartition,
    /// Nothing to say, but alive.
    Alive,
    /// The stream is of no use.
    Error(StreamError),
}

/// A frame that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed data frame: {0}")]
pub(crate) struct MalformedFrame(&'static str);

const RECORDS: u8 = 1;
const BARRIER: u8 = 2;
const END_OF_DATA: u8 = 3;
const END_OF_PARTITION: u8 = 4;
const ALIVE: u8 = 5;
const NOT_FOUND: u8 = 6;
const PRODUCER_FAILED: u8 = 7;
const DAMAGED: u8 = 8;

impl Frame {
    pub(crate) fn encode(&self) -> Bytes {
        match self {
            Self::Records(batch) => {
                let mut body = BytesMut::with_capacity(batch.len() + 1);
                body.put_u8(RECORDS);
                body.put_slice(batch);
                body.freeze()
            }
            Self::Barrier(id) => {
                let mut body = BytesMut::with_capacity(9);
                body.put_u8(BARRIER);
                body.put_u64(*id);
                body.freeze()
            }
            Self::EndOfData => Bytes::from_static(&[END_OF_DATA]),
            Self::EndOfPartition => Bytes::from_static(&[END_OF_PARTITION]),
            Self::Alive => Bytes::from_static(&[ALIVE]),
            Self::Error(StreamError::NotFound) => Bytes::from_static(&[NOT_FOUND]),
            Self::Error(StreamError::Damaged) => Bytes::from_static(&[DAMAGED]),
            Self::Error(StreamError::ProducerFailed) => Bytes::from_static(&[PRODUCER_FAILED]),
        }
    }

    pub(crate) fn decode(mut body: Bytes) -> Result<Self, MalformedFrame> {
        if body.is_empty() {
            return Err(MalformedFrame("it is empty"));
        }
        let frame = match body.get_u8() {
            RECORDS => return Ok(Self::Records(body)),
            BARRIER => Self::Barrier(body.try_get_u64().map_err(|_| MalformedFrame("a barrier without number"))?),
            END_OF_DATA => Self::EndOfData,
            END_OF_PARTITION => Self::EndOfPartition,
            ALIVE => Self::Alive,
            NOT_FOUND => Self::Error(StreamError::NotFound),
            DAMAGED => Self::Error(StreamError::Damaged),
            PRODUCER_FAILED => Self::Error(StreamError::ProducerFailed),
            _ => return Err(MalformedFrame("unknown tag")),
        };
        if body.has_remaining() { Err(MalformedFrame("bytes left over")) } else { Ok(frame) }
    }

    /// True for the encoded form of [`Frame::EndOfPartition`].
    pub(crate) fn is_end_of_partition(body: &[u8]) -> bool {
        body == [END_OF_PARTITION]
    }
}

/// Bytes that `record` takes in a batch.
pub(crate) fn record_bytes(record: &Record) -> usize {
    record.key.len() + record.value.len() + 8
}

/// Collects records into the body of a [`Frame::Records`].
#[derive(Debug, Default)]
pub(crate) struct Batch {
    body: BytesMut,
}

impl Batch {
    pub(crate) fn push(&mut self, record: &Record) {
        if self.body.is_empty() {
            self.body.put_u8(RECORDS);
        }
        for part in [&record.key, &record.value] {
            // Both are below `MAX_RECORD_BYTES`, checked when the record was emitted.
            self.body.put_u32(part.len() as u32);
            self.body.put_slice(part);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.body.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// The encoded frame, and an empty batch in its place.
    pub(crate) fn take(&mut self) -> Bytes {
        self.body.split().freeze()
    }
}

/// The records of a batch. They are copies: a record that user code keeps must not keep its whole batch in memory.
pub(crate) struct Records(pub(crate) Bytes);

impl Records {
    fn part(&mut self) -> Result<Bytes, MalformedFrame> {
        let size = self.0.try_get_u32().map_err(|_| MalformedFrame("a record without length"))? as usize;
        if size > self.0.remaining() {
            return Err(MalformedFrame("a record beyond its batch"));
        }
        let part = Bytes::copy_from_slice(&self.0[..size]);
        self.0.advance(size);
        Ok(part)
    }
}

impl Iterator for Records {
    type Item = Result<Record, MalformedFrame>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let record = self.part().and_then(|key| Ok(Record { key, value: self.part()? }));
        if record.is_err() {
            self.0.clear();
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_wire() {
        let mut batch = Batch::default();
        let records = [Record::new("a", "1"), Record::new("", ""), Record::new("key", vec![7; 300])];
        records.iter().for_each(|record| batch.push(record));
        assert_eq!(batch.len(), 1 + records.iter().map(record_bytes).sum::<usize>());
        let Frame::Records(body) = Frame::decode(batch.take()).unwrap() else { panic!("not records") };
        assert!(batch.is_empty());
        assert_eq!(Records(body).collect::<Result<Vec<_>, _>>().unwrap(), records);
        for frame in [
            Frame::Barrier(u64::MAX),
            Frame::EndOfData,
            Frame::EndOfPartition,
            Frame::Alive,
            Frame::Error(StreamError::NotFound),
            Frame::Error(StreamError::Damaged),
            Frame::Error(StreamError::ProducerFailed),
            Frame::Records(Bytes::from_static(b"xyz")),
        ] {
            assert_eq!(Frame::decode(frame.encode()), Ok(frame));
        }
        assert!(Frame::is_end_of_partition(&Frame::EndOfPartition.encode()));
    }

    #[test]
    fn malformed_frames_are_refused() {
        for body in [&[][..], &[0], &[99], &[BARRIER, 1], &[END_OF_DATA, 0]] {
            assert!(Frame::decode(Bytes::copy_from_slice(body)).is_err(), "{body:?}");
        }
        let broken: Vec<_> = Records(Bytes::from_static(&[0, 0, 0, 1, b'k', 0, 0, 0, 9])).collect();
        assert_eq!(broken, [Err(MalformedFrame("a record beyond its batch"))]);
    }
}
