//! The executor process (Flink's TaskManager): runs tasks, keeps their result partitions, serves them to others.
//!
//! # Layout
//!
//! | module | what it holds |
//! | --- | --- |
//! | `run` | start and end of the process; registering with the leader, again and again |
//! | `exit` | the end of the process on demand |
//! | `session` | one connection to one leader: heartbeats, dispatch of messages |
//! | `routes` | where other parties are dialled |
//! | `tasks` | the tasks that run here, and the watchdog of their cancellation |
//! | `task` | one task: a thread of its own with user code, barriers, snapshots |
//! | `exchange` | records on their way: frames, subpartitions in memory and on disk, data server, input channels |
//! | `partitions` | which result partitions are here |
//! | `signal` | how a task's thread is woken, whatever it waits for |
//!
//! # Threads
//!
//! Sockets, timers and deletes live on the tokio runtime; user code never does: each task has a thread. What crosses
//! the border is a bounded queue with a `signal::TaskSignal` on the task's side.
//!
//! # Runtime
//!
//! The caller of [`run`] builds the runtime. Recommended: [`runtime`], a multi-thread runtime of one worker. User code
//! has its own threads, so the worker only moves bytes.

mod exchange;
mod exit;
mod full_files;
mod leader;
mod partitions;
mod routes;
mod run;
mod session;
mod signal;
mod task;
mod tasks;

pub use exchange::subpartition_of_key;
pub use routes::RoutesError;
pub use run::{ExecutorError, run, runtime};
