//! One task: a thread of its own that runs synchronous user code.

mod alignment;
mod body;
mod context;
mod controls;
mod driver;
mod fault_rule;
mod faults;
mod operator;
mod snapshots;
mod source;

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::exchange::ChannelFailure;
use super::partitions::PartitionTable;
use super::routes::Routes;
use super::signal::{Canceled, TaskSignal};
use crate::graph::{AttemptId, JobRegistry, ResultPartitionId, TaskError};
use crate::runtime::protocol::{FailureKind, TaskDeployment, TaskFailure, TaskMetrics, TaskUpdate, ToCoordinator};
use crate::storage::SnapshotStorage;
use controls::Controls;

/// Causes of a failure that are reported.
const MAX_CAUSES: usize = 64;

/// Longest text of one cause, or of a reason to decline a checkpoint, bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// What all tasks of the process share.
pub(crate) struct Environment {
    pub(crate) registry: JobRegistry,
    pub(crate) partitions: Arc<PartitionTable>,
    pub(crate) storage: SnapshotStorage,
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) chaos_dir: Option<PathBuf>,
    pub(crate) routes: Arc<Routes>,
}

/// Counters of one attempt.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) read_records: AtomicU64,
    pub(crate) write_records: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) write_bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn metrics(&self) -> TaskMetrics {
        TaskMetrics {
            read_records: self.read_records.load(Ordering::Relaxed),
            write_records: self.write_records.load(Ordering::Relaxed),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            write_bytes: self.write_bytes.load(Ordering::Relaxed),
        }
    }
}

/// A task as the rest of the process sees it.
#[derive(Debug)]
pub(crate) struct TaskHandle {
    pub(crate) attempt: AttemptId,
    pub(crate) signal: Arc<TaskSignal>,
    pub(crate) controls: Arc<Controls>,
    pub(crate) counters: Arc<Counters>,
    /// Nobody wants the output any more, not even if the task finishes: its job was released.
    pub(crate) discard: AtomicBool,
    /// Resolves once the thread has reported its end and holds nothing any more.
    pub(crate) ended: CancellationToken,
}

impl TaskHandle {
    pub(crate) fn new(attempt: AttemptId) -> Self {
        let signal = Arc::new(TaskSignal::default());
        Self {
            attempt,
            controls: Arc::new(Controls::new(signal.clone())),
            signal,
            counters: Arc::default(),
            discard: AtomicBool::new(false),
            ended: CancellationToken::new(),
        }
    }
}

/// Why a task ends before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    Canceled,
    Failed(TaskFailure),
}

impl From<Canceled> for Stop {
    fn from(_: Canceled) -> Self {
        Self::Canceled
    }
}

impl From<TaskError> for Stop {
    fn from(error: TaskError) -> Self {
        let kind = if error.is_non_recoverable { FailureKind::NonRecoverable } else { FailureKind::Task };
        Self::Failed(TaskFailure { error, kind })
    }
}

impl From<ChannelFailure> for Stop {
    fn from(failure: ChannelFailure) -> Self {
        match failure {
            // The coordinator knows of the producer's failure; a second one would only blur it.
            ChannelFailure::ProducerFailed => Self::Canceled,
            ChannelFailure::Task(failure) => Self::Failed(failure),
        }
    }
}

/// Starts the thread of `task`; `on_end` is called as the last thing on it.
///
/// # Errors
/// When the thread cannot be started; nothing was reported then.
pub(crate) fn start(
    environment: Arc<Environment>,
    task: Arc<TaskHandle>,
    deployment: TaskDeployment,
    reports: mpsc::Sender<ToCoordinator>,
    on_end: impl FnOnce(&TaskHandle) + Send + 'static,
) -> io::Result<()> {
    // A thread's name must not hold a NUL.
    let name = format!("{}-{}", deployment.vertex, deployment.attempt.task.subtask).replace('\0', "");
    std::thread::Builder::new().name(name).spawn(move || {
        let run = || body::run(&environment, &task, &deployment, &reports);
        let update = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => TaskUpdate::Finished,
            // A task that was asked to stop fails in many ways; all of them mean that it stopped.
            Ok(Err(_)) | Err(_) if task.signal.is_cancelled() => TaskUpdate::Canceled,
            Ok(Err(Stop::Canceled)) => TaskUpdate::Canceled,
            Ok(Err(Stop::Failed(failure))) => TaskUpdate::Failed(bounded(failure)),
            Err(panic) => {
                let error = TaskError::new(format!("user code panicked: {}", panic_message(panic.as_ref())));
                TaskUpdate::Failed(bounded(TaskFailure { error, kind: FailureKind::Task }))
            }
        };
        settle_partitions(&environment.partitions, &task, &deployment, update == TaskUpdate::Finished);
        let message = ToCoordinator::TaskUpdate { attempt: task.attempt, update, metrics: task.counters.metrics() };
        // A lost connection took the task with it: nobody to tell.
        let _ = reports.blocking_send(message);
        on_end(&task);
        task.ended.cancel();
    })?;
    Ok(())
}

/// The output of a task that did not finish is freed before its end is reported (reference 4.2).
fn settle_partitions(table: &PartitionTable, task: &TaskHandle, deployment: &TaskDeployment, finished: bool) {
    let ids: Vec<ResultPartitionId> = deployment.outputs.iter().map(|output| output.partition).collect();
    let job = deployment.attempt.job;
    if task.discard.load(Ordering::Acquire) {
        table.release(job, &ids);
    } else if !finished {
        table.producer_failed(job, ids);
    }
}

/// Cuts off what would not fit a frame: a failure must not cost the connection.
fn bounded(mut failure: TaskFailure) -> TaskFailure {
    failure.error.chain.truncate(MAX_CAUSES);
    for cause in &mut failure.error.chain {
        *cause = bounded_text(std::mem::take(cause));
    }
    failure
}

/// Cuts `text` to [`MAX_TEXT_BYTES`].
fn bounded_text(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text += "… (cut)";
    }
    text
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a value that is no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_failures_are_cut() {
        let chain = vec!["\u{20ac}".repeat(MAX_TEXT_BYTES); 2 * MAX_CAUSES];
        let error = TaskError { chain, is_non_recoverable: false };
        let cut = bounded(TaskFailure { error, kind: FailureKind::Task });
        assert_eq!(cut.error.chain.len(), MAX_CAUSES);
        assert!(cut.error.chain.iter().all(|cause| cause.len() < MAX_TEXT_BYTES + 32 && cause.ends_with("(cut)")));
        assert_eq!(bounded_text("short".into()), "short");
    }
}
