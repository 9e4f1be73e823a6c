//! What follows from a checkpoint: subsumption, notification, restore, and failures that add up (reference 7.3-7.8).

use super::JobCore;
use super::checkpointing::{Checkpointing, Phase};
use super::failure::Failure;
use super::pending::{Storing, is_file};
use super::spec::RestoredCheckpoint;
use crate::core::checkpoint::CompletedCheckpoint;
use crate::core::event::{JobCommand, StoreFailure, StoredCheckpoint};
use crate::core::status::JobStatus;
use crate::core::topology::TaskIndex;
use crate::runtime::protocol::TaskRestore;

impl JobCore {
    pub(super) fn checkpoint_stored(&mut self, id: u64, result: Result<StoredCheckpoint, StoreFailure>) {
        let Some(checkpoints) = &mut self.checkpoints else { return };
        if let Some(checkpoint) = checkpoints.superseded.remove(&id) {
            self.superseded_stored(checkpoint, result);
            return;
        }
        if !matches!(&checkpoints.phase, Phase::Storing(storing) if storing.checkpoint.id == id) {
            return;
        }
        let Phase::Storing(storing) = std::mem::replace(&mut checkpoints.phase, Phase::Idle) else { return };
        self.timers.remove(&storing.timeout);
        match result {
            Ok(stored) => self.checkpoint_completed(storing, stored),
            Err(failure) => self.checkpoint_not_stored(storing, failure),
        }
    }

    /// In the list, then older ones out, then told to the tasks (reference 7.9).
    fn checkpoint_completed(&mut self, storing: Storing, stored: StoredCheckpoint) {
        let now = self.now;
        let keep = self.settings.num_retained.max(1) as usize;
        let Some(checkpoints) = &mut self.checkpoints else { return };
        let Storing { checkpoint, participants, .. } = storing;
        let (id, is_final) = (checkpoint.id, checkpoint.is_final);
        let StoredCheckpoint { external_path } = stored;
        checkpoints.stats.completed(id, external_path.clone());
        checkpoints.failed_in_a_row = 0;
        checkpoints.last_completed_ms = Some(now);
        checkpoints.retained.push_back(RestoredCheckpoint { checkpoint, external_path });
        while checkpoints.retained.len() > keep
            && let Some(oldest) = checkpoints.retained.pop_front()
        {
            checkpoints.stats.discarded(oldest.checkpoint.id);
            let unused = without_needed(checkpoints, oldest.checkpoint);
            self.out.push(JobCommand::DiscardCheckpoint(Box::new(unused)));
        }
        for task in participants {
            if let Some(executor) = self.executor_of_running(task) {
                self.task_mut(task).current.may_finish |= is_final;
                let attempt = self.attempt_id(task);
                self.out.push(JobCommand::NotifyCheckpointCompleted { executor, attempt, checkpoint: id, is_final });
            }
        }
    }

    fn checkpoint_not_stored(&mut self, storing: Storing, failure: StoreFailure) {
        let now = self.now;
        let Some(checkpoints) = &mut self.checkpoints else { return };
        let Storing { checkpoint, participants, .. } = storing;
        let (id, reason) = (checkpoint.id, format!("Failure to finalize checkpoint. ({})", failure.reason));
        checkpoints.stats.failed(id, now, &reason);
        self.keep_or_discard(checkpoint, failure.maybe_written);
        self.notify_aborted(id, &participants);
        self.count_checkpoint_failure(&reason);
    }

    /// FLINK-22494: what may have been written is not touched.
    fn keep_or_discard(&mut self, mut checkpoint: CompletedCheckpoint, maybe_written: bool) {
        if maybe_written {
            // Only to know its files: what was inline is not kept in memory, however often this happens.
            checkpoint.tasks.retain(|(_, state)| is_file(state));
            if let Some(checkpoints) = &mut self.checkpoints {
                checkpoints.unsure.insert(checkpoint.id, checkpoint);
            }
        } else {
            let states: Vec<_> = checkpoint.tasks.into_iter().map(|(_, state)| state).collect();
            self.discard_unused(&states);
        }
    }

    /// The store's answer to a checkpoint that was given up.
    fn superseded_stored(&mut self, checkpoint: CompletedCheckpoint, result: Result<StoredCheckpoint, StoreFailure>) {
        match result {
            Ok(_) => {
                let Some(checkpoints) = &self.checkpoints else { return };
                let unused = without_needed(checkpoints, checkpoint);
                self.out.push(JobCommand::DiscardCheckpoint(Box::new(unused)));
            }
            Err(failure) => self.keep_or_discard(checkpoint, failure.maybe_written),
        }
    }

    /// Stops waiting for the store. Tasks are about to be restored from an older checkpoint, and with that abort what
    /// they prepared in this one: from now on it must not be restored, even if it turns out to be durable.
    pub(super) fn give_up_storing(&mut self, reason: &str) {
        let now = self.now;
        let Some(checkpoints) = &mut self.checkpoints else { return };
        if !matches!(checkpoints.phase, Phase::Storing(_)) {
            return;
        }
        let Phase::Storing(storing) = std::mem::replace(&mut checkpoints.phase, Phase::Idle) else { return };
        let Storing { checkpoint, participants, timeout } = storing;
        checkpoints.stats.failed(checkpoint.id, now, reason);
        let id = checkpoint.id;
        checkpoints.superseded.insert(id, checkpoint);
        self.timers.remove(&timeout);
        self.notify_aborted(id, &participants);
    }

    /// Reference 7.4: failures in a row that exceed the tolerated number fail the job, which may restart it. A job that
    /// is ending takes no checkpoints: it does not fail for one that was still being stored.
    pub(super) fn count_checkpoint_failure(&mut self, reason: &str) {
        if !matches!(self.status, JobStatus::Running | JobStatus::Restarting) {
            return;
        }
        let tolerable = self.settings.tolerable_failed;
        let Some(checkpoints) = &mut self.checkpoints else { return };
        checkpoints.failed_in_a_row += 1;
        if checkpoints.failed_in_a_row > tolerable {
            checkpoints.failed_in_a_row = 0;
            let failure = Failure::checkpoints(format!("The latest checkpoint failed due to {reason}"), self.now);
            self.handle_global_failure(&failure);
        }
    }

    /// From here on, restarted tasks are deployed with the newest checkpoint in memory. The store is not asked, and a
    /// store that hangs is not waited for.
    pub(super) fn prepare_restore(&mut self) {
        self.give_up_storing("FailoverRegion is restarting.");
        self.final_may_be_tried_again();
        let now = self.now;
        if let Some(checkpoints) = &mut self.checkpoints
            && let Some(newest) = checkpoints.retained.back()
        {
            checkpoints.stats.restored(newest.checkpoint.id, now, newest.external_path.clone());
        }
    }

    /// State for a deployment.
    pub(super) fn restore_of(&self, task: TaskIndex) -> Option<TaskRestore> {
        let checkpoint = &self.checkpoints.as_ref()?.newest()?.checkpoint;
        let position = checkpoint.tasks.binary_search_by_key(&self.task(task).id, |(task, _)| *task).ok()?;
        Some(TaskRestore { checkpoint: checkpoint.id, state: checkpoint.tasks[position].1.clone() })
    }

    /// NO_EXTERNALIZED_CHECKPOINTS: a job that is over keeps none.
    pub(super) fn take_all_checkpoints(&mut self) -> Vec<CompletedCheckpoint> {
        let Some(checkpoints) = &mut self.checkpoints else { return Vec::new() };
        let mut all: Vec<CompletedCheckpoint> = checkpoints.retained.drain(..).map(|it| it.checkpoint).collect();
        all.extend(std::mem::take(&mut checkpoints.superseded).into_values());
        all.extend(std::mem::take(&mut checkpoints.unsure).into_values());
        if let Phase::Storing(storing) = std::mem::replace(&mut checkpoints.phase, Phase::Idle) {
            all.push(storing.checkpoint);
        }
        all.sort_unstable_by_key(|checkpoint| checkpoint.id);
        for checkpoint in &all {
            checkpoints.stats.discarded(checkpoint.id);
        }
        all
    }
}

/// The checkpoint without the state that another one carries on: deleting it deletes only its own.
fn without_needed(checkpoints: &Checkpointing, mut checkpoint: CompletedCheckpoint) -> CompletedCheckpoint {
    checkpoint.tasks.retain(|(_, state)| !is_file(state) || !checkpoints.needs(state));
    checkpoint
}
