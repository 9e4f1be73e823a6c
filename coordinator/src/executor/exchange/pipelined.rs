//! Result partitions that live in memory and are read while they are written.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::Notify;

use super::wire::{Batch, Frame, StreamError};
use super::{BATCH_BYTES, BATCH_DELAY, SUBPARTITION_BYTES};
use crate::executor::signal::{TaskSignal, lock};
use crate::graph::Record;

/// A partition of bounded queues, one a subpartition.
#[derive(Debug)]
pub(crate) struct PipelinedPartition {
    subpartitions: Vec<Subpartition>,
    /// Subpartitions that some consumer still has to read or reads.
    unread: AtomicUsize,
    /// The consumer may come again after it was lost (`PIPELINED_APPROXIMATE`).
    approximate: bool,
    writer: Arc<TaskSignal>,
}

#[derive(Debug, Default)]
struct Subpartition {
    state: Mutex<State>,
    readable: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Bytes>,
    queued_bytes: usize,
    batch: Batch,
    batch_since: Option<Instant>,
    reader: Reader,
    failed: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Reader {
    #[default]
    Awaited,
    Attached,
    /// It read everything, or it was lost: whatever is written from now on is dropped.
    Gone,
}

enum Next {
    Frame(Bytes),
    At(Instant),
    Later,
}

impl State {
    fn is_full(&self) -> bool {
        self.queued_bytes + self.batch.len() >= SUBPARTITION_BYTES
    }

    fn is_sink(&self) -> bool {
        self.failed || self.reader == Reader::Gone
    }

    fn push(&mut self, frame: Bytes) {
        self.queued_bytes += frame.len();
        self.queue.push_back(frame);
    }

    fn seal(&mut self) {
        if !self.batch.is_empty() {
            let frame = self.batch.take();
            self.push(frame);
        }
        self.batch_since = None;
    }

    fn next(&mut self, now: Instant) -> Next {
        if self.queue.is_empty() {
            match self.batch_since.map(|since| since + BATCH_DELAY) {
                None => return Next::Later,
                Some(due) if due > now => return Next::At(due),
                Some(_) => self.seal(),
            }
        }
        match self.queue.pop_front() {
            None => Next::Later,
            Some(frame) => {
                self.queued_bytes -= frame.len();
                Next::Frame(frame)
            }
        }
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.queued_bytes = 0;
        self.batch = Batch::default();
        self.batch_since = None;
    }
}

impl PipelinedPartition {
    /// A partition of `subpartitions` queues. `writer` is woken when room is made.
    pub(crate) fn new(subpartitions: u32, approximate: bool, writer: Arc<TaskSignal>) -> Self {
        let subpartitions: Vec<_> = (0..subpartitions).map(|_| Subpartition::default()).collect();
        Self { unread: AtomicUsize::new(subpartitions.len()), subpartitions, approximate, writer }
    }

    /// Adds a record if there is room; `false` if there is none. Dropped silently once the consumer is gone: it will
    /// be restarted together with the producer.
    pub(crate) fn try_add(&self, subpartition: usize, record: &Record) -> bool {
        let target = &self.subpartitions[subpartition];
        let mut state = lock(&target.state);
        if state.is_sink() {
            return true;
        }
        if state.is_full() {
            return false;
        }
        state.batch.push(record);
        let first = state.batch_since.is_none();
        if first {
            state.batch_since = Some(Instant::now());
        }
        let sealed = state.batch.len() >= BATCH_BYTES;
        if sealed {
            state.seal();
        }
        drop(state);
        if first || sealed {
            target.readable.notify_one();
        }
        true
    }

    /// Adds `frame` behind all records if there is room.
    pub(crate) fn try_add_frame(&self, subpartition: usize, frame: &Frame) -> bool {
        let target = &self.subpartitions[subpartition];
        let mut state = lock(&target.state);
        if state.is_sink() {
            return true;
        }
        if state.is_full() {
            return false;
        }
        state.seal();
        state.push(frame.encode());
        drop(state);
        target.readable.notify_one();
        true
    }

    /// Ends every stream well; needs no room.
    pub(crate) fn finish(&self) {
        self.end(|state| {
            state.seal();
            state.push(Frame::EndOfPartition.encode());
        });
    }

    /// Drops what is queued and tells the consumers that the producer failed.
    pub(crate) fn fail(&self) {
        self.end(|state| {
            state.clear();
            state.push(Frame::Error(StreamError::ProducerFailed).encode());
            state.failed = true;
        });
    }

    fn end(&self, change: impl Fn(&mut State)) {
        for target in &self.subpartitions {
            let mut state = lock(&target.state);
            if !state.is_sink() {
                change(&mut state);
            }
            drop(state);
            target.readable.notify_one();
        }
    }

    /// Becomes the reader of a subpartition; `None` if there is no such subpartition, or it has or had a reader.
    pub(crate) fn attach(self: &Arc<Self>, subpartition: u32) -> Option<SubpartitionReader> {
        let index = subpartition as usize;
        let mut state = lock(&self.subpartitions.get(index)?.state);
        if state.reader != Reader::Awaited {
            return None;
        }
        state.reader = Reader::Attached;
        drop(state);
        Some(SubpartitionReader { partition: self.clone(), index, complete: false })
    }

    /// True once every consumer has come and gone: the partition is of no use to anyone.
    pub(crate) fn is_consumed(&self) -> bool {
        self.unread.load(Ordering::Acquire) == 0
    }
}

/// The consuming end of one subpartition; dropping it gives the subpartition up.
#[derive(Debug)]
pub(crate) struct SubpartitionReader {
    partition: Arc<PipelinedPartition>,
    index: usize,
    complete: bool,
}

impl SubpartitionReader {
    fn look(&mut self) -> Next {
        let next = lock(&self.partition.subpartitions[self.index].state).next(Instant::now());
        if let Next::Frame(frame) = &next {
            self.complete |= Frame::is_end_of_partition(frame);
            self.partition.writer.wake();
        }
        next
    }

    /// The next frame if one is due.
    pub(crate) fn try_next(&mut self) -> Option<Bytes> {
        match self.look() {
            Next::Frame(frame) => Some(frame),
            Next::At(_) | Next::Later => None,
        }
    }

    /// The next frame, once one is due. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Bytes {
        loop {
            match self.look() {
                Next::Frame(frame) => return frame,
                Next::At(due) => {
                    let readable = self.partition.subpartitions[self.index].readable.notified();
                    // The time-out is the news: the batch is due.
                    let _ = tokio::time::timeout_at(due.into(), readable).await;
                }
                Next::Later => self.partition.subpartitions[self.index].readable.notified().await,
            }
        }
    }
}

impl Drop for SubpartitionReader {
    fn drop(&mut self) {
        let mut state = lock(&self.partition.subpartitions[self.index].state);
        if self.partition.approximate && !self.complete && !state.failed {
            state.reader = Reader::Awaited;
            return;
        }
        state.reader = Reader::Gone;
        state.clear();
        drop(state);
        self.partition.unread.fetch_sub(1, Ordering::AcqRel);
        self.partition.writer.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::exchange::wire::Records;

    fn partition(approximate: bool) -> Arc<PipelinedPartition> {
        Arc::new(PipelinedPartition::new(1, approximate, Arc::default()))
    }

    fn records(frame: Bytes) -> usize {
        match Frame::decode(frame).unwrap() {
            Frame::Records(body) => Records(body).map(Result::unwrap).count(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_full_queue_refuses_and_reading_makes_room() {
        let partition = partition(false);
        let record = Record::new("k", vec![0; 1000]);
        let added = (0..10_000).take_while(|_| partition.try_add(0, &record)).count();
        assert!(added * 1000 < SUBPARTITION_BYTES + 1000, "{added} records of 1000 bytes were taken");
        assert!(!partition.try_add_frame(0, &Frame::Barrier(1)));
        let mut reader = partition.attach(0).unwrap();
        let first = records(reader.next().await);
        assert!(partition.try_add(0, &record));
        partition.finish();
        let mut seen = first;
        loop {
            let frame = reader.next().await;
            if Frame::is_end_of_partition(&frame) {
                break;
            }
            seen += records(frame);
        }
        assert_eq!(seen, added + 1);
        drop(reader);
        assert!(partition.is_consumed());
    }

    #[tokio::test]
    async fn a_small_batch_leaves_without_help_of_the_writer() {
        let partition = partition(false);
        let mut reader = partition.attach(0).unwrap();
        assert!(partition.try_add(0, &Record::new("k", "v")));
        assert!(reader.try_next().is_none(), "the batch is not due yet");
        assert_eq!(records(reader.next().await), 1);
        // Barriers stay behind the records that were emitted before them.
        assert!(partition.try_add(0, &Record::new("k", "v")));
        assert!(partition.try_add_frame(0, &Frame::Barrier(4)));
        assert_eq!(records(reader.next().await), 1);
        assert_eq!(reader.next().await, Frame::Barrier(4).encode());
    }

    #[tokio::test]
    async fn failure_overtakes_and_a_lost_reader_drops_what_follows() {
        let failing = partition(false);
        assert!(failing.try_add(0, &Record::new("k", "v")));
        failing.fail();
        let mut reader = failing.attach(0).unwrap();
        assert_eq!(reader.next().await, Frame::Error(StreamError::ProducerFailed).encode());

        let lost = partition(false);
        drop(lost.attach(0).unwrap());
        assert!(lost.attach(0).is_none(), "consumed once");
        let record = Record::new("k", vec![0; SUBPARTITION_BYTES]);
        assert!((0..10).all(|_| lost.try_add(0, &record)), "a gone consumer must not block its producer");

        let approximate = partition(true);
        drop(approximate.attach(0).unwrap());
        assert!(approximate.attach(0).is_some(), "an approximate consumer may come again");
        assert!(approximate.attach(7).is_none());
    }
}
