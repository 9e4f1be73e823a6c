//! A task's outputs: where user code emits.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::files::{FilePartition, FileWriter};
use super::pipelined::PipelinedPartition;
use super::wire::{Frame, MAX_RECORD_BYTES, record_bytes};
use crate::executor::partitions::{Partition, PartitionTable};
use crate::executor::signal::{Canceled, TaskSignal};
use crate::executor::task::Counters;
use crate::graph::{Collector, JobId, Record, ResultPartitionType, ShipStrategy, TaskError};
use crate::runtime::protocol::OutputDescriptor;

/// Which of `subpartitions` consumers gets records of `key` on a `HASH` edge. Stable: every process and every run
/// agrees, so an oracle may use it.
#[must_use]
pub fn subpartition_of_key(key: &[u8], subpartitions: u32) -> u32 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let fnv = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    // FNV's high bits hardly move for short keys; MurmurHash3's finalizer spreads them.
    let mut hash = fnv;
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^= hash >> 33;
    (hash % u64::from(subpartitions.max(1))) as u32
}

/// All outputs of a task.
pub(crate) struct Outputs {
    outputs: Vec<Output>,
    signal: Arc<TaskSignal>,
    counters: Arc<Counters>,
}

struct Output {
    ship: ShipStrategy,
    subpartitions: usize,
    /// Next target of round robin.
    next: usize,
    target: Target,
}

enum Target {
    Memory(Arc<PipelinedPartition>),
    Files(FileWriter),
}

impl Outputs {
    /// Makes the partitions and registers them, so that consumers may come.
    pub(crate) fn open(
        job: JobId,
        descriptors: &[OutputDescriptor],
        table: &PartitionTable,
        signal: Arc<TaskSignal>,
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        let outputs = descriptors.iter().map(|descriptor| Output::open(job, descriptor, table, &signal));
        Ok(Self { outputs: outputs.collect::<io::Result<_>>()?, signal, counters })
    }

    /// Puts a barrier behind what was emitted. Results on disk are read by tasks that start later: no barriers there.
    pub(crate) fn barrier(&mut self, checkpoint: u64) -> Result<(), Canceled> {
        self.frame(&Frame::Barrier(checkpoint))
    }

    /// Says that no more records will come.
    pub(crate) fn end_of_data(&mut self) -> Result<(), Canceled> {
        self.frame(&Frame::EndOfData)
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), Canceled> {
        for output in &mut self.outputs {
            let Target::Memory(memory) = &output.target else { continue };
            for index in 0..output.subpartitions {
                self.signal.wait_until(None, || memory.try_add_frame(index, frame).then_some(()))?;
            }
        }
        Ok(())
    }

    /// Completes all partitions.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        for output in &mut self.outputs {
            match &mut output.target {
                Target::Memory(memory) => memory.finish(),
                Target::Files(files) => files.finish()?,
            }
        }
        Ok(())
    }
}

impl Collector for Outputs {
    fn emit(&mut self, record: Record) -> Result<(), TaskError> {
        let size = record_bytes(&record);
        if size > MAX_RECORD_BYTES {
            return Err(TaskError::new(format!("a record of {size} bytes exceeds the limit of {MAX_RECORD_BYTES}")));
        }
        self.signal.check()?;
        for output in &mut self.outputs {
            let targets = output.targets(&record);
            let copies = targets.len() as u64;
            for index in targets {
                output.add(index, &record, &self.signal)?;
            }
            self.counters.write_records.fetch_add(1, Ordering::Relaxed);
            self.counters.write_bytes.fetch_add(copies * size as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Output {
    fn open(
        job: JobId,
        descriptor: &OutputDescriptor,
        table: &PartitionTable,
        signal: &Arc<TaskSignal>,
    ) -> io::Result<Self> {
        let count = descriptor.subpartitions;
        let kind = descriptor.partition_type;
        let (partition, target) = if kind.is_release_by_scheduler() {
            let files = Arc::new(FilePartition::new(table.folder(job, descriptor.partition), count));
            (Partition::Files(files.clone()), Target::Files(FileWriter::create(files)?))
        } else {
            let approximate = kind == ResultPartitionType::PipelinedApproximate;
            let memory = Arc::new(PipelinedPartition::new(count, approximate, signal.clone()));
            (Partition::Memory(memory.clone()), Target::Memory(memory))
        };
        table.register(job, descriptor.partition, partition);
        // Producers start at different consumers, or consumer 0 would get the first record of each.
        let next = descriptor.partition.partition.producer.subtask as usize;
        Ok(Self { ship: descriptor.ship, subpartitions: count as usize, next, target })
    }

    fn targets(&mut self, record: &Record) -> std::ops::Range<usize> {
        let count = self.subpartitions;
        let one = match self.ship {
            _ if count == 0 => return 0..0,
            ShipStrategy::Broadcast => return 0..count,
            ShipStrategy::Forward | ShipStrategy::Global => 0,
            ShipStrategy::Hash => subpartition_of_key(&record.key, count as u32) as usize,
            ShipStrategy::Rescale | ShipStrategy::Rebalance => {
                let target = self.next % count;
                self.next = target + 1;
                target
            }
        };
        one..one + 1
    }

    fn add(&mut self, index: usize, record: &Record, signal: &TaskSignal) -> Result<(), TaskError> {
        match &mut self.target {
            Target::Files(files) => files.add(index, record).map_err(|error| {
                TaskError::from_error(&error).context("cannot write a result partition; is the disk full?")
            }),
            Target::Memory(memory) => {
                if !memory.try_add(index, record) {
                    signal.wait_until(None, || memory.try_add(index, record).then_some(()))?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(ship: ShipStrategy, count: u32, records: u32) -> Vec<usize> {
        let memory = Arc::new(PipelinedPartition::new(count, false, Arc::default()));
        let mut output = Output { ship, subpartitions: count as usize, next: 1, target: Target::Memory(memory) };
        let mut counts = vec![0; count as usize];
        for index in 0..records {
            for target in output.targets(&Record::new(index.to_string(), "")) {
                counts[target] += 1;
            }
        }
        counts
    }

    #[test]
    fn strategies_spread_as_they_say() {
        assert_eq!(spread(ShipStrategy::Forward, 1, 10), [10]);
        assert_eq!(spread(ShipStrategy::Global, 3, 10), [10, 0, 0]);
        assert_eq!(spread(ShipStrategy::Broadcast, 3, 10), [10, 10, 10]);
        assert_eq!(spread(ShipStrategy::Rebalance, 3, 10), [3, 4, 3]);
        assert_eq!(spread(ShipStrategy::Rescale, 2, 4), [2, 2]);
        let hashed = spread(ShipStrategy::Hash, 4, 4000);
        assert!(hashed.iter().all(|count| (900..1100).contains(count)), "{hashed:?}");
    }

    #[test]
    fn the_hash_never_changes() {
        // Saved results and oracles depend on these.
        let got: Vec<_> = ["", "a", "b", "word", "key-17"].map(|key| subpartition_of_key(key.as_bytes(), 7)).to_vec();
        assert_eq!(got, [1, 1, 2, 3, 0]);
        assert_eq!(subpartition_of_key(b"anything", 1), 0);
    }
}
