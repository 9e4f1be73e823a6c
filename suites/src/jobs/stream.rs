//! A streaming job with three regions.
//!
//! `numbers[i]` → `square[i]` → `squares[i]`, all forward: two regions that have nothing to do with each other.
//! `events` → hash → `tally` (a counter a key, in keyed state) → forward → `tallies`: one region of six tasks.
//! Both ends are [exactly-once file sinks](super::sink); every record can be predicted, so a lost or doubled one is
//! found and named.
//!
//! Parameters: `output` (folder), `records` (per source subtask, default 600), `rate` (per second and source subtask,
//! default 1000), `keys` (default 7), `faults` (see [`Gate`]).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use stormproof::job::{
    Collector, JobGraph, JobGraphError, JobKind, Operator, Params, Record, ResultPartitionType, ShipStrategy, Source,
    SourceStatus, TaskContext, TaskError, TaskInfo,
};

use super::gate::Gate;
use super::sink::ExactlyOnceFiles;

/// Registered name.
pub const NAME: &str = "stream";

/// All parameters.
pub const PARAMS: [&str; 5] = ["output", "records", "rate", "keys", "faults"];

/// Subtasks of every vertex.
pub const PARALLELISM: u32 = 2;

/// What the parameters say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Records that each source subtask emits.
    pub records: u64,
    /// Records a second and source subtask.
    pub rate: u64,
    /// Number of keys of the keyed region.
    pub keys: u64,
}

impl Shape {
    /// Reads the parameters.
    ///
    /// # Errors
    /// When one cannot be read or is zero.
    pub fn of(params: &Params) -> Result<Self, JobGraphError> {
        let shape = Self {
            records: params.parse_or("records", 600)?,
            rate: params.parse_or("rate", 1000)?,
            keys: params.parse_or("keys", 7)?,
        };
        if shape.rate == 0 || shape.keys == 0 {
            return Err(JobGraphError::Refused("parameters `rate` and `keys` must be above 0".to_owned()));
        }
        Ok(shape)
    }
}

/// Builds the job.
///
/// # Errors
/// When a parameter is missing or wrong.
pub fn graph(params: &Params) -> Result<JobGraph, JobGraphError> {
    let shape = Shape::of(params)?;
    let output = PathBuf::from(params.require("output")?);
    let mut job = JobGraph::builder(NAME, JobKind::Streaming);
    let sink = move |info: &TaskInfo| -> Result<Box<dyn Operator>, TaskError> {
        Ok(Box::new(ExactlyOnceFiles::new(info, &output)?))
    };
    let numbers = job.source("numbers", PARALLELISM, move |info| Ok(Box::new(Ticker::numbers(info, shape))));
    let square = job.operator("square", PARALLELISM, |info| Ok(Box::new(Square { gate: Gate::of(info) })));
    let squares = job.operator("squares", PARALLELISM, sink.clone());
    let events = job.source("events", PARALLELISM, move |info| Ok(Box::new(Ticker::events(info, shape))));
    let tally = job.operator("tally", PARALLELISM, |info| Ok(Box::new(Tally { gate: Gate::of(info) })));
    let tallies = job.operator("tallies", PARALLELISM, sink);
    for (from, to, ship) in [
        (numbers, square, ShipStrategy::Forward),
        (square, squares, ShipStrategy::Forward),
        (events, tally, ShipStrategy::Hash),
        (tally, tallies, ShipStrategy::Forward),
    ] {
        job.connect(from, to, ship, ResultPartitionType::PipelinedBounded);
    }
    job.build()
}

/// Records that a held source keeps back: what is broken meanwhile meets a job that has records yet to handle.
const KEPT_BACK: u64 = 100;

/// Emits records `0..records` at a fixed rate; its position is its state.
struct Ticker {
    gate: Gate,
    shape: Shape,
    position: u64,
    started: Option<(Instant, u64)>,
    record: Box<dyn Fn(u64) -> Record + Send>,
}

impl Ticker {
    fn numbers(info: &TaskInfo, shape: Shape) -> Self {
        let subtask = info.subtask;
        Self::new(info, shape, move |n| Record::new(subtask.to_string(), n.to_string()))
    }

    fn events(info: &TaskInfo, shape: Shape) -> Self {
        Self::new(info, shape, move |n| Record::new(format!("key-{}", n % shape.keys), ""))
    }

    fn new(info: &TaskInfo, shape: Shape, record: impl Fn(u64) -> Record + Send + 'static) -> Self {
        Self { gate: Gate::of(info), shape, position: 0, started: None, record: Box::new(record) }
    }
}

impl Source for Ticker {
    fn poll(&mut self, _context: &mut dyn TaskContext, out: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
        const PAUSE: Duration = Duration::from_millis(5);
        let end = if self.gate.is_closed() {
            self.shape.records.saturating_sub(KEPT_BACK).max(self.position)
        } else {
            self.shape.records
        };
        let (since, from) = *self.started.get_or_insert_with(|| (Instant::now(), self.position));
        let due = from + u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX) * self.shape.rate / 1000;
        for n in self.position..due.min(end) {
            out.emit((self.record)(n))?;
            self.position = n + 1;
        }
        let done = self.position >= self.shape.records;
        Ok(if done { SourceStatus::Finished } else { SourceStatus::Idle(PAUSE) })
    }

    fn snapshot(&mut self, _checkpoint: u64) -> Result<Vec<u8>, TaskError> {
        Ok(self.position.to_be_bytes().to_vec())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), TaskError> {
        let bytes = state.try_into().map_err(|_| TaskError::new("a ticker's state must be 8 bytes"))?;
        self.position = u64::from_be_bytes(bytes);
        Ok(())
    }
}

struct Square {
    gate: Gate,
}

impl Operator for Square {
    fn process(
        &mut self,
        _input: usize,
        record: Record,
        context: &mut dyn TaskContext,
        out: &mut dyn Collector,
    ) -> Result<(), TaskError> {
        self.gate.pass(context)?;
        let text = String::from_utf8_lossy(&record.value);
        let n: u64 = text.parse().map_err(|_| TaskError::new(format!("`{text}` is not a number")))?;
        out.emit(Record::new(record.key, (n * n).to_string()))
    }
}

/// Counts the records of each key and emits every new count.
struct Tally {
    gate: Gate,
}

impl Operator for Tally {
    fn process(
        &mut self,
        _input: usize,
        record: Record,
        context: &mut dyn TaskContext,
        out: &mut dyn Collector,
    ) -> Result<(), TaskError> {
        self.gate.pass(context)?;
        let so_far = context.state(&record.key).map_or(Ok(0_u64), |state| {
            state.try_into().map(u64::from_be_bytes).map_err(|_| TaskError::new("a counter's state must be 8 bytes"))
        })?;
        context.set_state(&record.key, (so_far + 1).to_be_bytes().to_vec());
        out.emit(Record::new(record.key, (so_far + 1).to_string()))
    }
}
