//! The append-only record of a run. Every judgement is a pure function of it.
//!
//! * [`record`]: what can be recorded;
//! * [`recorder`]: the handle that stamps and keeps records while a run goes on;
//! * [`file`](mod@file): `timeline.jsonl`, one record a line;
//! * [`mark`]: naming a moment of a run, e.g. "checkpoint 3 completed";
//! * [`query`]: what oracles ask.

pub mod file;
pub mod mark;
pub mod query;
pub mod record;
pub mod recorder;

pub use file::TimelineError;
pub use mark::{Mark, Window};
pub use query::TaskFact;
pub use record::{
    CheckpointEvent, FaultEvent, Losses, ObservedEdge, ObservedPlan, ObservedVertex, PartitionName, ProbeAnswer,
    Record, RecordKind, RunStart, TaskName,
};
pub use recorder::Recorder;

/// A recorded run: read from a file, or a copy of what a [`Recorder`] holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    records: Vec<Record>,
    truncated: bool,
}

impl Timeline {
    /// A timeline of these records, which must be in the order of their numbers.
    #[must_use]
    pub fn new(records: Vec<Record>) -> Self {
        Self { records, truncated: false }
    }

    /// The same, with the remark that the file ended in the middle of a line: the runner was killed.
    #[must_use]
    pub fn truncated(records: Vec<Record>) -> Self {
        Self { records, truncated: true }
    }

    /// All records in order.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The file ended in the middle of a line.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }
}
