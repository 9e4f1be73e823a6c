//! Everything a suite of one's own is written with.

pub use crate::job::{
    Collector, JobGraph, JobGraphError, JobKind, Operator, Params, Record, ResultPartitionType, ShipStrategy, Source,
    SourceStatus, TaskContext, TaskError,
};
pub use crate::oracle::Expectation;
pub use crate::plan::{FaultSpec, OutputFacts, Plan, Trigger};
