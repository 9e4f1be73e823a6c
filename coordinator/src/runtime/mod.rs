//! The tokio shell around [`crate::core`]: one coordinator process.
//!
//! # Layout
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`coordinator`] | [`run`]: a coordinator process from its configuration to its end |
//! | `dispatcher` | takes jobs, keeps them, answers for them |
//! | `jobs` | a job's life: INITIALIZING, its serial thread, its end |
//! | `executors` | the resource manager: connections, heartbeats, slots |
//! | [`protocol`], [`frames`] | what coordinator and executors say to each other |
//!
//! # Rules
//!
//! * One serial task per job handles its events. Nothing in it waits for anything but the next event; what is slow
//!   (store, HA counter, user code that lists splits, deletes) runs beside it and comes back as an event.
//! * Readers take published snapshots. No REST call waits for a job or for a store.
//! * Every queue is bounded: `CONTROL_QUEUE_EVENTS` and `TASK_QUEUE_EVENTS` per job, `EXECUTOR_QUEUE_MESSAGES` per
//!   executor, `GARBAGE_QUEUE_ITEMS` per job. An executor whose queue is full hangs and is dropped.
//! * A job's end is published once it is recorded: nobody sees an end that a leader change could undo.

pub(crate) mod clock;
pub mod coordinator;
mod dispatcher;
pub mod error;
mod executors;
mod fatal;
pub mod frames;
mod jobs;
pub mod protocol;
mod random;
mod services;

pub use coordinator::{Coordinator, run};
pub use error::CoordinatorError;
