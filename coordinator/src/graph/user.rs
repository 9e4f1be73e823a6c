//! What a test job is made of: sources, operators, records.
//!
//! All of it is synchronous, ordinary Rust. A task runs on a thread of its own; the executor calls the user code,
//! moves its records and takes its snapshots.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::ids::AttemptId;
use super::registry::Params;

/// A record: a key (which decides where it goes on a `HASH` edge and which keyed state it sees) and a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    /// The key; may be empty where no edge hashes.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
}

impl Record {
    /// A record of `key` and `value`.
    pub fn new(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self { key: key.into(), value: value.into() }
    }
}

/// A failure of a task, with its cause chain flattened to text, outermost first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{}", chain.join(": "))]
pub struct TaskError {
    /// Messages from the outermost error to its root cause; never empty.
    pub chain: Vec<String>,
    /// Running it again would be of no use: the job fails at once, whatever its restart strategy says (Flink's
    /// `NonRecoverableError`, anywhere in the chain).
    pub is_non_recoverable: bool,
}

impl TaskError {
    /// A failure with one message.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { chain: vec![message.to_string()], is_non_recoverable: false }
    }

    /// The same failure, which no restart can get over.
    #[must_use]
    pub fn non_recoverable(self) -> Self {
        Self { is_non_recoverable: true, ..self }
    }

    /// The same failure, met while doing something: `message` becomes the outermost one.
    #[must_use]
    pub fn context(mut self, message: impl fmt::Display) -> Self {
        self.chain.insert(0, message.to_string());
        self
    }

    /// The failure that `error` and its sources describe.
    pub fn from_error(error: &dyn std::error::Error) -> Self {
        let mut chain = vec![error.to_string()];
        let mut next = error.source();
        while let Some(source) = next {
            chain.push(source.to_string());
            next = source.source();
        }
        Self { chain, is_non_recoverable: false }
    }
}

impl From<std::io::Error> for TaskError {
    fn from(error: std::io::Error) -> Self {
        Self::from_error(&error)
    }
}

/// A piece of a batch source's input, handed out by the coordinator (FLINK-10205): opaque bytes plus a name for
/// people, e.g. a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Split {
    /// Position in the enumeration, from 0; unique within the source.
    pub index: u32,
    /// For people: a path, a range.
    pub label: String,
    /// For the source.
    pub payload: Vec<u8>,
}

/// Lists a source's splits. Called on the coordinator, outside the job's serial thread, once per job run.
pub type SplitSource = Arc<dyn Fn() -> Result<Vec<Split>, TaskError> + Send + Sync>;

/// What a task knows of itself.
#[derive(Debug, Clone)]
pub struct TaskInfo {
    /// This attempt.
    pub attempt: AttemptId,
    /// The vertex's name.
    pub vertex: String,
    /// Index of the subtask, from 0.
    pub subtask: u32,
    /// Number of subtasks of the vertex.
    pub parallelism: u32,
    /// The job's parameters.
    pub params: Params,
}

/// What user code can ask for while it runs.
pub trait TaskContext {
    /// What this task is.
    fn info(&self) -> &TaskInfo;

    /// The next input split of this source, or `None` when all are given out. Waits for the coordinator.
    ///
    /// # Errors
    /// When the task is cancelled or the coordinator is lost.
    fn next_split(&mut self) -> Result<Option<Split>, TaskError>;

    /// The keyed state of `key` (part of every checkpoint), if any was put.
    fn state(&self, key: &[u8]) -> Option<&[u8]>;

    /// Sets the keyed state of `key`.
    fn set_state(&mut self, key: &[u8], value: Vec<u8>);

    /// True once the task was asked to stop; long loops in user code should look at it.
    fn is_cancelled(&self) -> bool;
}

/// Where user code puts its output: to every outgoing edge, spread as the edge says.
pub trait Collector {
    /// Emits a record. Blocks while the consumers are slower (back-pressure).
    ///
    /// # Errors
    /// When the task is cancelled or the output is broken.
    fn emit(&mut self, record: Record) -> Result<(), TaskError>;
}

/// What a source has to say after each [`Source::poll`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceStatus {
    /// Call again at once.
    More,
    /// Nothing to do for this long (barriers are still handled meanwhile).
    Idle(Duration),
    /// The input has ended.
    Finished,
}

/// A source: makes records out of nothing, or out of splits.
///
/// `poll` should emit a small batch (below a few milliseconds of work): checkpoints are taken between calls.
pub trait Source: Send {
    /// Emits some records.
    ///
    /// # Errors
    /// Any error fails the task.
    fn poll(&mut self, context: &mut dyn TaskContext, out: &mut dyn Collector) -> Result<SourceStatus, TaskError>;

    /// Operator state for a checkpoint (e.g. the position).
    ///
    /// # Errors
    /// Declines the checkpoint.
    fn snapshot(&mut self, _checkpoint: u64) -> Result<Vec<u8>, TaskError> {
        Ok(Vec::new())
    }

    /// Takes back what `snapshot` gave; called before the first `poll` of a restored attempt.
    ///
    /// # Errors
    /// Fails the task.
    fn restore(&mut self, _state: &[u8]) -> Result<(), TaskError> {
        Ok(())
    }

    /// Checkpoint `checkpoint`, and all before it, is durable. May be called late, or for several at once.
    ///
    /// # Errors
    /// Fails the task.
    fn checkpoint_completed(&mut self, _checkpoint: u64) -> Result<(), TaskError> {
        Ok(())
    }
}

/// Anything with inputs: maps, aggregations, sinks.
pub trait Operator: Send {
    /// Handles a record of input `input` (the position of the edge among the vertex's incoming edges).
    ///
    /// # Errors
    /// Any error fails the task.
    fn process(
        &mut self,
        input: usize,
        record: Record,
        context: &mut dyn TaskContext,
        out: &mut dyn Collector,
    ) -> Result<(), TaskError>;

    /// All inputs have ended: emit or write what is left.
    ///
    /// # Errors
    /// Any error fails the task.
    fn finish(&mut self, _context: &mut dyn TaskContext, _out: &mut dyn Collector) -> Result<(), TaskError> {
        Ok(())
    }

    /// Operator state for a checkpoint; keyed state is added by the executor. A two-phase sink pre-commits here.
    ///
    /// # Errors
    /// Declines the checkpoint.
    fn snapshot(&mut self, _checkpoint: u64) -> Result<Vec<u8>, TaskError> {
        Ok(Vec::new())
    }

    /// Takes back what `snapshot` gave; called before the first record of a restored attempt. A two-phase sink
    /// commits again whatever the state says was pre-committed (it must be idempotent) and aborts the rest.
    ///
    /// # Errors
    /// Fails the task.
    fn restore(&mut self, _state: &[u8]) -> Result<(), TaskError> {
        Ok(())
    }

    /// Checkpoint `checkpoint`, and all before it, is durable: a two-phase sink commits. May be called late, or for
    /// several at once.
    ///
    /// # Errors
    /// Fails the task.
    fn checkpoint_completed(&mut self, _checkpoint: u64) -> Result<(), TaskError> {
        Ok(())
    }
}
