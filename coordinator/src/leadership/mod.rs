//! Leader election, and what must survive a killed coordinator: jobs, checkpoint counters and pointers, results.
//!
//! | type | for |
//! | --- | --- |
//! | [`LeaderElection`] | becoming leader: [`LeaderElection::campaign`] gives a [`Leadership`] |
//! | [`Leadership`] | one session: its number, its fenced [`HaStore`], publishing the address |
//! | [`HaStore`] | reading and (within a session) writing what survives |
//! | [`leader_watch`] | how executors and tools follow the leader's address |
//!
//! The embedded implementation is a folder. Another service (etcd, Kubernetes) fits behind the same trait.

pub mod election;
pub mod embedded;
pub mod ha;
pub mod watch;

#[cfg(test)]
mod tests;

pub use election::{Candidate, LeaderElection, Leadership, is_led};
pub use embedded::EmbeddedHaStore;
pub use ha::{CheckpointPointer, HaError, HaStore, JobRecord, JobResult, LeaderInfo};
pub use watch::{LEADER_POLL_INTERVAL, leader_watch};
