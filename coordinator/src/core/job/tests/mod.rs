//! The state machine against a small cluster in memory.

mod batch;
mod checkpoints;
mod concurrent;
mod driver;
mod ending;
mod failover;
mod fixtures;
mod random_orders;
mod restore;
mod streaming;
