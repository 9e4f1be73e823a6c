//! Carries out what a job's state machine decided. Nothing here waits: what is slow is handed to [`Outside`].

use std::sync::Arc;
use std::time::Duration;

use super::define::Definition;
use super::entry::JobEntry;
use super::mailbox::Mailbox;
use super::outside::{Garbage, Outside};
use crate::core::event::{JobCommand, JobEvent};
use crate::graph::{ExecutorId, JobId};
use crate::runtime::protocol::ToExecutor;
use crate::runtime::services::Services;

/// Least time between two looks at a slot request whose time is over, however short that time is.
const SHORTEST_LOOK: Duration = Duration::from_millis(100);

/// Executes one job's commands.
pub(crate) struct Commands {
    job: JobId,
    entry: Arc<JobEntry>,
    services: Arc<Services>,
    definition: Definition,
    mailbox: Mailbox,
    outside: Outside,
}

impl Commands {
    pub(crate) fn new(entry: Arc<JobEntry>, services: Arc<Services>, definition: Definition, mailbox: Mailbox) -> Self {
        let job = entry.id;
        let outside = Outside::new(job, Arc::clone(&services));
        Self { job, entry, services, definition, mailbox, outside }
    }

    /// What is still being worked at.
    pub(crate) fn into_outside(self) -> Outside {
        self.outside
    }

    fn send(&self, executor: &ExecutorId, message: ToExecutor) {
        self.services.manager.send(self.job, executor, message);
    }

    /// Carries out one command.
    pub(crate) fn execute(&mut self, command: JobCommand) {
        let (job, manager) = (self.job, &self.services.manager);
        match command {
            JobCommand::RequestSlots { request, slots } => {
                manager.request_slots(job, self.definition.graph.kind, request, slots);
                let (manager, after) = (Arc::clone(manager), self.definition.config.slot_request_timeout);
                self.outside.later(after, async move {
                    while manager.time_out_request(job, request, after) {
                        tokio::time::sleep(after.max(SHORTEST_LOOK)).await;
                    }
                });
            }
            JobCommand::CancelSlotRequest(request) => manager.cancel_request(job, request),
            JobCommand::FreeSlot(slot) => manager.free_slot(job, &slot),
            JobCommand::Deploy { executor, deployment } => self.send(&executor, ToExecutor::Deploy(deployment)),
            JobCommand::CancelTask { executor, attempt } => self.send(&executor, ToExecutor::Cancel(attempt)),
            JobCommand::ReleasePartitions { executor, partitions } => {
                self.send(&executor, ToExecutor::ReleasePartitions { job, partitions });
            }
            JobCommand::PromotePartitions { executor, partitions } => {
                let promoted = manager.promote(job, &executor, partitions);
                self.outside.promotion(promoted);
            }
            JobCommand::SetTimer { timer, delay } => {
                let mailbox = self.mailbox.clone();
                self.outside.later(delay, async move { mailbox.answer(JobEvent::Timer(timer)).await });
            }
            JobCommand::TriggerCheckpoint { executor, attempt, checkpoint } => {
                self.send(&executor, ToExecutor::TriggerCheckpoint { attempt, checkpoint });
            }
            JobCommand::NotifyCheckpointCompleted { executor, attempt, checkpoint, is_final } => {
                self.send(&executor, ToExecutor::CheckpointCompleted { attempt, checkpoint, is_final });
            }
            JobCommand::NotifyCheckpointAborted { executor, attempt, checkpoint } => {
                self.send(&executor, ToExecutor::CheckpointAborted { attempt, checkpoint });
            }
            JobCommand::AssignSplit { executor, attempt, request, split } => {
                self.send(&executor, ToExecutor::Split { attempt, request, split });
            }
            JobCommand::AllocateCheckpointId => self.outside.allocate_checkpoint_id(self.mailbox.clone()),
            JobCommand::StoreCheckpoint(checkpoint) => {
                self.outside.store_checkpoint(*checkpoint, self.mailbox.clone());
            }
            JobCommand::DiscardCheckpoint(checkpoint) => self.outside.discard(Garbage::Checkpoint(checkpoint)),
            JobCommand::DiscardState(handles) => self.outside.discard(Garbage::State(handles)),
            JobCommand::EnumerateSplits(vertex) => {
                let position = self.definition.graph.position(vertex);
                let splits = position.and_then(|position| self.definition.graph.vertices[position].splits.clone());
                self.outside.enumerate_splits(vertex, splits, self.mailbox.clone());
            }
            JobCommand::LabelFailure(id, failure) => self.outside.label_failure(id, &Arc::from(failure), &self.entry),
            JobCommand::StatusChanged(status) => tracing::info!(%job, status = status.name(), "job status"),
            // The serial thread sees the terminal status itself, and ends.
            JobCommand::JobTerminated { .. } => {}
        }
    }
}
