//! The state machine against a small cluster in memory.

mod batch;
mod checkpoints;
mod concurrent;
mod data_sets;
mod driver;
mod ending;
mod execution;
mod failover;
mod fixtures;
mod labels;
mod random_orders;
mod recovery;
mod restore;
mod scheduling;
mod sharing;
mod streaming;
