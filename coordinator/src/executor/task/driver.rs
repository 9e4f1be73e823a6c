//! What driving a source and driving an operator have in common.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::context::Context;
use super::controls::News;
use super::faults::Faults;
use super::snapshots::SnapshotWriter;
use super::{Stop, TaskHandle, bounded_text};
use crate::core::checkpoint::TaskSnapshot;
use crate::executor::exchange::Outputs;
use crate::graph::{Operator, Source, TaskError};
use crate::runtime::protocol::ToCoordinator;

/// What sources and operators both can do.
pub(super) trait UserCode {
    fn snapshot(&mut self, checkpoint: u64) -> Result<Vec<u8>, TaskError>;
    fn restore(&mut self, state: &[u8]) -> Result<(), TaskError>;
    fn checkpoint_completed(&mut self, checkpoint: u64) -> Result<(), TaskError>;
}

macro_rules! user_code {
    ($($kind:ident),*) => {$(
        impl UserCode for dyn $kind {
            fn snapshot(&mut self, checkpoint: u64) -> Result<Vec<u8>, TaskError> {
                $kind::snapshot(self, checkpoint)
            }

            fn restore(&mut self, state: &[u8]) -> Result<(), TaskError> {
                $kind::restore(self, state)
            }

            fn checkpoint_completed(&mut self, checkpoint: u64) -> Result<(), TaskError> {
                $kind::checkpoint_completed(self, checkpoint)
            }
        }
    )*};
}

user_code!(Source, Operator);

/// What a task is put together from.
pub(super) struct Parts<C: ?Sized> {
    pub(super) code: Box<C>,
    pub(super) context: Context,
    pub(super) outputs: Outputs,
    pub(super) faults: Faults,
    pub(super) snapshots: SnapshotWriter,
}

/// A task that runs.
pub(super) struct Driver<'a, C: ?Sized> {
    pub(super) parts: Parts<C>,
    pub(super) task: &'a TaskHandle,
    reports: &'a mpsc::Sender<ToCoordinator>,
    pub(super) checkpointing: bool,
    /// The final checkpoint is durable: the task may end once it has handled all its input.
    pub(super) may_end: bool,
    newest_checkpoint: Option<u64>,
}

impl<'a, C: UserCode + ?Sized> Driver<'a, C> {
    pub(super) fn new(
        parts: Parts<C>,
        task: &'a Arc<TaskHandle>,
        reports: &'a mpsc::Sender<ToCoordinator>,
        checkpointing: bool,
    ) -> Self {
        Self { parts, task, reports, checkpointing, may_end: false, newest_checkpoint: None }
    }

    /// Handles completed checkpoints; gives back the rest of the news.
    pub(super) fn news(&mut self) -> Result<Option<News>, Stop> {
        if !self.task.controls.has_news() {
            return Ok(None);
        }
        let Some(news) = self.task.controls.take() else { return Ok(None) };
        if let Some(checkpoint) = news.completed {
            self.parts.faults.check()?;
            let told = self.parts.code.checkpoint_completed(checkpoint);
            told.map_err(|error| error.context(format!("cannot handle the completion of checkpoint {checkpoint}")))?;
        }
        self.may_end |= news.is_final;
        Ok(Some(news))
    }

    /// Takes part in a checkpoint, now: the barrier goes out, the snapshot goes to the writer.
    pub(super) fn checkpoint(&mut self, checkpoint: u64) -> Result<(), Stop> {
        if Some(checkpoint) <= self.newest_checkpoint {
            return Ok(());
        }
        self.newest_checkpoint = Some(checkpoint);
        self.parts.outputs.barrier(checkpoint)?;
        self.parts.faults.check()?;
        match self.parts.code.snapshot(checkpoint) {
            Err(error) => self.decline(checkpoint, error.to_string()),
            Ok(operator) => {
                let snapshot = TaskSnapshot { operator, keyed: self.parts.context.keyed.clone() };
                if self.parts.snapshots.write(checkpoint, snapshot) {
                    Ok(())
                } else {
                    self.decline(checkpoint, "snapshots of earlier checkpoints are still being written".to_owned())
                }
            }
        }
    }

    pub(super) fn decline(&self, checkpoint: u64, reason: String) -> Result<(), Stop> {
        let reason = bounded_text(reason);
        self.report(ToCoordinator::CheckpointDecline { attempt: self.task.attempt, checkpoint, reason })
    }

    /// All input is handled: tells the consumers and, if a final checkpoint is to come, the coordinator.
    pub(super) fn end_of_data(&mut self) -> Result<(), Stop> {
        self.parts.outputs.end_of_data()?;
        if self.checkpointing {
            self.report(ToCoordinator::EndOfData { attempt: self.task.attempt })?;
        }
        Ok(())
    }

    /// Completes the output; the task is FINISHED after it.
    pub(super) fn finish(mut self) -> Result<(), Stop> {
        let finished = self.parts.outputs.finish();
        finished.map_err(|error| TaskError::from_error(&error).context("cannot complete a result partition"))?;
        Ok(())
    }

    fn report(&self, message: ToCoordinator) -> Result<(), Stop> {
        self.reports.blocking_send(message).map_err(|_| Stop::Canceled)
    }
}
