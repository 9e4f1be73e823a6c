//! The state machine against a small cluster in memory.

mod batch;
mod checkpoints;
mod driver;
mod ending;
mod failover;
mod random_orders;
mod streaming;
