//! The state machine against a small cluster in memory.

mod batch;
mod driver;
