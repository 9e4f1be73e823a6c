//! User code of the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use stormproof_coordinator::graph::{Collector, Operator, Record, Source, SourceStatus, TaskContext, TaskError};

/// Emits the words of its splits.
pub(crate) struct Words;

impl Source for Words {
    fn poll(&mut self, context: &mut dyn TaskContext, out: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
        let Some(split) = context.next_split()? else { return Ok(SourceStatus::Finished) };
        for word in String::from_utf8(split.payload).unwrap().split_whitespace() {
            out.emit(Record::new(word.to_owned(), "1"))?;
        }
        Ok(SourceStatus::More)
    }
}

/// Counts words in keyed state.
#[derive(Default)]
pub(crate) struct Count {
    seen: BTreeSet<Vec<u8>>,
}

impl Operator for Count {
    fn process(
        &mut self,
        _input: usize,
        record: Record,
        context: &mut dyn TaskContext,
        _out: &mut dyn Collector,
    ) -> Result<(), TaskError> {
        let count: u64 = context.state(&record.key).map_or(0, |text| String::from_utf8_lossy(text).parse().unwrap());
        context.set_state(&record.key, (count + 1).to_string().into_bytes());
        self.seen.insert(record.key.to_vec());
        Ok(())
    }

    fn finish(&mut self, context: &mut dyn TaskContext, out: &mut dyn Collector) -> Result<(), TaskError> {
        for key in &self.seen {
            out.emit(Record::new(key.clone(), context.state(key).unwrap().to_vec()))?;
        }
        Ok(())
    }
}

pub(crate) type Results = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

/// Collects what arrives, by key.
pub(crate) struct Collect(pub(crate) Results);

impl Operator for Collect {
    fn process(
        &mut self,
        _input: usize,
        record: Record,
        _context: &mut dyn TaskContext,
        _out: &mut dyn Collector,
    ) -> Result<(), TaskError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.0.lock().unwrap().entry(text(&record.key)).or_default().push(text(&record.value));
        Ok(())
    }
}

/// What the streaming tests and their user code share.
#[derive(Default)]
pub(crate) struct Stage {
    /// Sources end.
    pub(crate) end: AtomicBool,
    /// Sources make no records.
    pub(crate) idle: AtomicBool,
    /// Records that all sources together have emitted.
    pub(crate) emitted: AtomicU64,
    /// Sources of which an operator has taken a record.
    pub(crate) arrived: Mutex<BTreeSet<String>>,
    /// The next call of an operator fails this way.
    pub(crate) panic: AtomicBool,
    /// Operators put keyed state of this size, bytes.
    pub(crate) keyed_bytes: AtomicU64,
    /// The next snapshot of an operator fails.
    pub(crate) fail_snapshot: AtomicBool,
    /// Checkpoints whose completion operators were told of.
    pub(crate) completed: Mutex<Vec<u64>>,
    /// Operators hold still while this is set.
    gate: Mutex<bool>,
    opened: Condvar,
}

impl Stage {
    pub(crate) fn close_gate(&self) {
        *self.gate.lock().unwrap() = true;
    }

    pub(crate) fn open_gate(&self) {
        *self.gate.lock().unwrap() = false;
        self.opened.notify_all();
    }

    fn pass_gate(&self, context: &dyn TaskContext) {
        let mut closed = self.gate.lock().unwrap();
        while *closed && !context.is_cancelled() {
            closed = self.opened.wait_timeout(closed, Duration::from_millis(5)).unwrap().0;
        }
    }
}

/// Emits 0, 1, 2, … with its subtask as the key; its snapshot is the next number.
pub(crate) struct Numbers {
    next: u64,
    value_bytes: usize,
    stage: Arc<Stage>,
}

impl Numbers {
    pub(crate) fn new(stage: &Arc<Stage>, value_bytes: usize) -> Self {
        Self { next: 0, value_bytes, stage: stage.clone() }
    }
}

impl Source for Numbers {
    fn poll(&mut self, context: &mut dyn TaskContext, out: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
        if self.stage.end.load(Ordering::SeqCst) {
            return Ok(SourceStatus::Finished);
        }
        if self.stage.idle.load(Ordering::SeqCst) {
            return Ok(SourceStatus::Idle(Duration::from_secs(3600)));
        }
        // Subtasks run at different speeds, so that their barriers meet the operator at different times.
        for _ in 0..=7 * context.info().subtask {
            let mut value = self.next.to_string();
            value.extend(std::iter::repeat_n(' ', self.value_bytes));
            out.emit(Record::new(context.info().subtask.to_string(), value))?;
            self.next += 1;
            self.stage.emitted.fetch_add(1, Ordering::SeqCst);
        }
        Ok(SourceStatus::More)
    }

    fn snapshot(&mut self, _checkpoint: u64) -> Result<Vec<u8>, TaskError> {
        Ok(self.next.to_string().into_bytes())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), TaskError> {
        self.next = String::from_utf8_lossy(state).parse().map_err(TaskError::new)?;
        Ok(())
    }
}

/// Counts records by key; fails on a gap, a repetition or a wrong order.
pub(crate) struct Sequence {
    pub(crate) counts: BTreeMap<String, u64>,
    stage: Arc<Stage>,
}

impl Sequence {
    pub(crate) fn new(stage: &Arc<Stage>) -> Self {
        Self { counts: BTreeMap::new(), stage: stage.clone() }
    }
}

impl Operator for Sequence {
    fn process(
        &mut self,
        _input: usize,
        record: Record,
        context: &mut dyn TaskContext,
        out: &mut dyn Collector,
    ) -> Result<(), TaskError> {
        self.stage.pass_gate(context);
        let keyed_bytes = self.stage.keyed_bytes.load(Ordering::SeqCst) as usize;
        if keyed_bytes > 0 && context.state(b"pad").is_none() {
            context.set_state(b"pad", vec![7; keyed_bytes]);
        }
        assert!(!self.stage.panic.load(Ordering::SeqCst), "told to panic");
        let key = String::from_utf8_lossy(&record.key).into_owned();
        let value: u64 = String::from_utf8_lossy(&record.value).trim().parse().unwrap();
        let count = self.counts.entry(key.clone()).or_default();
        if value != *count {
            return Err(TaskError::new(format!("source {key}: {value} came where {count} was due")));
        }
        *count += 1;
        if *count == 1 {
            self.stage.arrived.lock().unwrap().insert(key);
        }
        out.emit(record)
    }

    fn snapshot(&mut self, _checkpoint: u64) -> Result<Vec<u8>, TaskError> {
        if self.stage.fail_snapshot.swap(false, Ordering::SeqCst) {
            return Err(TaskError::new("told to decline"));
        }
        Ok(serde_json::to_vec(&self.counts).unwrap())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), TaskError> {
        self.counts = serde_json::from_slice(state).map_err(TaskError::new)?;
        Ok(())
    }

    fn checkpoint_completed(&mut self, checkpoint: u64) -> Result<(), TaskError> {
        self.stage.completed.lock().unwrap().push(checkpoint);
        Ok(())
    }
}
