//! Jobs that do something.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stormproof_coordinator::graph::{
    Collector, JobGraph, JobGraphError, JobKind, JobRegistry, Operator, Params, Record, ResultPartitionType,
    ShipStrategy, Source, SourceStatus, Split, TaskContext, TaskError,
};

/// Transactions that the streaming sink committed: by checkpoint and subtask, the numbers in it.
type Committed = Arc<Mutex<BTreeMap<(u64, u32), Vec<u64>>>>;

/// What jobs and test share.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    /// While false, batch reducers do not finish, and the streaming source does not end.
    pub(crate) gate: Arc<AtomicBool>,
    /// Output of the batch job, by subtask: whoever finishes replaces what an earlier attempt wrote.
    sums: Arc<Mutex<BTreeMap<u32, BTreeMap<u8, u64>>>>,
    committed: Committed,
}

/// Numbers in one split of the batch job.
pub(crate) const NUMBERS_PER_SPLIT: u64 = 1_000;
/// Its splits.
pub(crate) const SPLITS: u32 = 6;

impl Shared {
    /// Numbers by their last digit, as the batch job summed them.
    pub(crate) fn all_sums(&self) -> BTreeMap<u8, u64> {
        let sums = self.sums.lock().unwrap();
        let mut all = BTreeMap::new();
        for (digit, sum) in sums.values().flatten() {
            assert!(all.insert(*digit, *sum).is_none(), "digit {digit} was summed by two subtasks");
        }
        all
    }

    /// The same, and forgets it.
    pub(crate) fn take_sums(&self) -> BTreeMap<u8, u64> {
        let sums = self.all_sums();
        self.sums.lock().unwrap().clear();
        sums
    }

    /// What [`Self::all_sums`] must be.
    pub(crate) fn expected_sums() -> BTreeMap<u8, u64> {
        let mut sums = BTreeMap::new();
        for number in 0..NUMBERS_PER_SPLIT * u64::from(SPLITS) {
            *sums.entry((number % 10) as u8).or_default() += number;
        }
        sums
    }

    /// All numbers of all committed transactions, sorted.
    pub(crate) fn all_committed(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.committed.lock().unwrap().values().flatten().copied().collect();
        all.sort_unstable();
        all
    }

    pub(crate) fn registry(&self) -> JobRegistry {
        let mut registry = JobRegistry::default();
        let shared = self.clone();
        registry.register("sums", move |params: &Params| {
            let mut graph = JobGraph::builder("sums", JobKind::Batch);
            let splits = || Ok((0..SPLITS).map(split).collect());
            let numbers = graph.split_source("numbers", 2, Arc::new(splits), |_| Ok(Box::new(Numbers)));
            let shared = shared.clone();
            let sum =
                graph.operator("sum", 2, move |_| Ok(Box::new(Sum { shared: shared.clone(), sums: BTreeMap::new() })));
            let kept = params.parse_or("keep", false)?;
            let kind = if kept { ResultPartitionType::BlockingPersistent } else { ResultPartitionType::Blocking };
            graph.connect(numbers, sum, ShipStrategy::Hash, kind);
            graph.build()
        });
        let shared = self.clone();
        registry.register("sums again", move |params: &Params| {
            let mut graph = JobGraph::builder("sums again", JobKind::Batch);
            let shared = shared.clone();
            let sum =
                graph.operator("sum", 2, move |_| Ok(Box::new(Sum { shared: shared.clone(), sums: BTreeMap::new() })));
            let data_set =
                params.require("data-set")?.parse().map_err(|_| JobGraphError::Refused("data-set".into()))?;
            graph.read_data_set(sum, data_set);
            graph.build()
        });
        let shared = self.clone();
        registry.register("counting", move |_: &Params| {
            let mut graph = JobGraph::builder("counting", JobKind::Streaming);
            let gate = Arc::clone(&shared.gate);
            let count = graph.source("count", 1, move |_| Ok(Box::new(Count { gate: Arc::clone(&gate), next: 0 })));
            let committed = Arc::clone(&shared.committed);
            let sink = graph.operator("commit", 2, move |task| {
                let (committed, subtask) = (Arc::clone(&committed), task.subtask);
                Ok(Box::new(Commit { committed, subtask, open: vec![], prepared: BTreeMap::new() }))
            });
            graph.connect(count, sink, ShipStrategy::Hash, ResultPartitionType::PipelinedBounded);
            graph.config("execution.checkpointing.interval", "30 ms");
            graph.build()
        });
        registry
    }
}

fn split(index: u32) -> Split {
    Split { index, label: format!("numbers {index}"), payload: u64::from(index).to_be_bytes().to_vec() }
}

fn record(number: u64) -> Record {
    Record::new(vec![(number % 10) as u8], number.to_be_bytes().to_vec())
}

fn number(bytes: &[u8]) -> Result<u64, TaskError> {
    bytes.try_into().map(u64::from_be_bytes).map_err(TaskError::new)
}

struct Numbers;

impl Source for Numbers {
    fn poll(&mut self, context: &mut dyn TaskContext, out: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
        let Some(split) = context.next_split()? else { return Ok(SourceStatus::Finished) };
        let first = number(&split.payload)? * NUMBERS_PER_SPLIT;
        (first..first + NUMBERS_PER_SPLIT).try_for_each(|number| out.emit(record(number)))?;
        Ok(SourceStatus::More)
    }
}

struct Sum {
    shared: Shared,
    sums: BTreeMap<u8, u64>,
}

impl Operator for Sum {
    fn process(
        &mut self,
        _: usize,
        record: Record,
        _: &mut dyn TaskContext,
        _: &mut dyn Collector,
    ) -> Result<(), TaskError> {
        *self.sums.entry(record.key[0]).or_default() += number(&record.value)?;
        Ok(())
    }

    fn finish(&mut self, context: &mut dyn TaskContext, _: &mut dyn Collector) -> Result<(), TaskError> {
        while !self.shared.gate.load(Ordering::SeqCst) {
            if context.is_cancelled() {
                return Err(TaskError::new("cancelled"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.shared.sums.lock().unwrap().insert(context.info().subtask, std::mem::take(&mut self.sums));
        Ok(())
    }
}

/// Counts 0, 1, 2, … until the gate opens.
struct Count {
    gate: Arc<AtomicBool>,
    next: u64,
}

impl Source for Count {
    fn poll(&mut self, _: &mut dyn TaskContext, out: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
        if self.gate.load(Ordering::SeqCst) {
            return Ok(SourceStatus::Finished);
        }
        for _ in 0..10 {
            out.emit(record(self.next))?;
            self.next += 1;
        }
        Ok(SourceStatus::Idle(Duration::from_millis(1)))
    }

    fn snapshot(&mut self, _: u64) -> Result<Vec<u8>, TaskError> {
        Ok(self.next.to_be_bytes().to_vec())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), TaskError> {
        self.next = number(state)?;
        Ok(())
    }
}

/// A two-phase sink: what came before a barrier is committed once that checkpoint is durable. Committing twice is
/// harmless, as a transaction is named by checkpoint and subtask.
struct Commit {
    committed: Committed,
    subtask: u32,
    open: Vec<u64>,
    prepared: BTreeMap<u64, Vec<u64>>,
}

impl Commit {
    fn commit(&mut self, up_to: u64) {
        let later = self.prepared.split_off(&(up_to + 1));
        for (checkpoint, numbers) in std::mem::replace(&mut self.prepared, later) {
            self.committed.lock().unwrap().insert((checkpoint, self.subtask), numbers);
        }
    }
}

impl Operator for Commit {
    fn process(
        &mut self,
        _: usize,
        record: Record,
        _: &mut dyn TaskContext,
        _: &mut dyn Collector,
    ) -> Result<(), TaskError> {
        self.open.push(number(&record.value)?);
        Ok(())
    }

    fn snapshot(&mut self, checkpoint: u64) -> Result<Vec<u8>, TaskError> {
        self.prepared.insert(checkpoint, std::mem::take(&mut self.open));
        serde_json::to_vec(&self.prepared).map_err(TaskError::new)
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), TaskError> {
        self.prepared = serde_json::from_slice(state).map_err(TaskError::new)?;
        self.commit(u64::MAX - 1);
        Ok(())
    }

    fn checkpoint_completed(&mut self, checkpoint: u64) -> Result<(), TaskError> {
        self.commit(checkpoint);
        Ok(())
    }
}
