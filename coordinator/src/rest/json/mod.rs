//! Snapshots as Flink's JSON. Pure: what is needed of the clock is passed in.

pub(super) mod attempts;
pub(super) mod checkpoints;
pub(super) mod executors;
pub(super) mod job;
pub(super) mod overview;
pub(super) mod stats;
pub(super) mod status;
pub(super) mod vertex;

pub use status::aggregate_status;
