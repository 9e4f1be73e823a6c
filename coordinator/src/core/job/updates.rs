//! What executors report of tasks, and what the end of an attempt means for slots and partitions (reference 4.2).

use super::JobCore;
use super::failure::Failure;
use crate::core::event::JobCommand;
use crate::core::status::ExecutionState;
use crate::core::topology::TaskIndex;
use crate::graph::{AttemptId, ResultPartitionId};
use crate::runtime::protocol::{TaskMetrics, TaskUpdate};

impl JobCore {
    /// P072, P134: a report of an attempt that is not current changes nothing.
    pub(super) fn task_update(&mut self, attempt: AttemptId, update: TaskUpdate, metrics: TaskMetrics) {
        let Some(task) = self.current(attempt) else { return };
        let current = &mut self.task_mut(task).current;
        if !current.is_deployed() {
            return;
        }
        current.metrics = metrics;
        let canceling = current.state() == ExecutionState::Canceling;
        match update {
            TaskUpdate::Initializing => _ = self.set_state(task, ExecutionState::Initializing),
            TaskUpdate::Running => _ = self.set_state(task, ExecutionState::Running),
            TaskUpdate::Finished if canceling => self.finished_while_canceling(task),
            TaskUpdate::Finished => self.finished(task),
            // A failure while canceling is how some tasks stop (C3, P144).
            TaskUpdate::Failed(_) if canceling => self.end_attempt(task, ExecutionState::Canceled),
            TaskUpdate::Canceled => self.end_attempt(task, ExecutionState::Canceled),
            TaskUpdate::Failed(failure) => {
                let failure = Failure::reported(failure, self.now);
                self.fail_attempt(task, failure);
                self.handle_task_failures(&[task]);
            }
        }
    }

    /// Counters are taken from current attempts only, so that an old attempt's never grow after it is history.
    pub(super) fn update_metrics(&mut self, metrics: Vec<(AttemptId, TaskMetrics)>) {
        for (attempt, metrics) in metrics {
            if let Some(task) = self.current(attempt) {
                let current = &mut self.task_mut(task).current;
                if current.is_deployed() {
                    current.metrics = metrics;
                }
            }
        }
    }

    /// Moves the current attempt, keeping every count in step. Illegal moves are refused.
    pub(super) fn set_state(&mut self, task: TaskIndex, to: ExecutionState) -> bool {
        let now = self.now;
        let attempt = &mut self.task_mut(task).current;
        let from = attempt.state();
        let end_of_data = attempt.end_of_data;
        if !attempt.advance(to, now) {
            return false;
        }
        self.counts.moved(from, to);
        self.inputs_follow(task, from, to);
        if end_of_data && from == ExecutionState::Running {
            self.end_of_data_withdrawn();
        }
        true
    }

    fn finished(&mut self, task: TaskIndex) {
        // First the partitions, so that consumers are found consumable by the state change.
        self.groups.task_finished(task);
        self.set_state(task, ExecutionState::Finished);
        self.leave_slot(task);
        let releasable = self.release.vertex_finished(&self.topology, &self.regions, task);
        let releasable: Vec<_> = releasable.into_iter().map(|partition| self.current_partition(partition)).collect();
        self.untrack_and_release(&releasable);
    }

    /// Its results are complete but nobody will ever ask for them, and nobody else would release them (P160).
    fn finished_while_canceling(&mut self, task: TaskIndex) {
        self.release_outputs_upstream_releases(task);
        let outputs = self.outputs_of_current(task);
        self.untrack_and_release(&outputs);
        self.end_attempt(task, ExecutionState::Canceled);
    }

    /// The attempt failed; what follows for others is decided by
    /// [`handle_task_failures`](Self::handle_task_failures).
    pub(super) fn fail_attempt(&mut self, task: TaskIndex, failure: Failure) {
        let failed = self.task_mut(task);
        if let Some(executor) = failed.current.executor() {
            failed.failed_on = Some(executor.clone());
        }
        failed.current.failure = Some(failure);
        self.end_attempt(task, ExecutionState::Failed);
    }

    /// P163: an attempt that ended by itself has cleaned up after itself: its partitions are only forgotten.
    pub(super) fn end_attempt(&mut self, task: TaskIndex, to: ExecutionState) {
        if !self.set_state(task, to) {
            return;
        }
        let outputs = self.outputs_of_current(task);
        self.tracker.stop_tracking(&outputs);
        self.leave_slot(task);
    }

    /// Stops the current attempt, if there is anything to stop. Sends at most one request however often it is called.
    pub(super) fn cancel_attempt(&mut self, task: TaskIndex) {
        match self.state(task) {
            ExecutionState::Created | ExecutionState::Scheduled => {
                self.set_state(task, ExecutionState::Canceling);
                self.end_attempt(task, ExecutionState::Canceled);
            }
            ExecutionState::Deploying | ExecutionState::Initializing | ExecutionState::Running => {
                self.set_state(task, ExecutionState::Canceling);
                if let Some(executor) = self.task(task).current.executor().cloned() {
                    self.out.push(JobCommand::CancelTask { executor, attempt: self.attempt_id(task) });
                }
            }
            // P161, FLINK-13476: nobody may have read what it buffered.
            ExecutionState::Finished => self.release_outputs_upstream_releases(task),
            ExecutionState::Canceling
            | ExecutionState::Canceled
            | ExecutionState::Failed
            | ExecutionState::Reconciling => {}
        }
    }

    pub(super) fn outputs_of_current(&self, task: TaskIndex) -> Vec<ResultPartitionId> {
        self.topology.produced(task).map(|partition| self.current_partition(partition)).collect()
    }

    /// Deletes what is still tracked of these partitions, wherever it is.
    pub(super) fn untrack_and_release(&mut self, partitions: &[ResultPartitionId]) {
        for (executor, partitions) in self.tracker.stop_tracking(partitions) {
            self.out.push(JobCommand::ReleasePartitions { executor, partitions });
        }
    }

    /// Deletes the outputs that are not tracked because reading them releases them.
    fn release_outputs_upstream_releases(&mut self, task: TaskIndex) {
        let partitions: Vec<_> = (self.topology.produced(task))
            .filter(|&partition| !self.topology.partition_type(partition).is_release_by_scheduler())
            .map(|partition| self.current_partition(partition))
            .collect();
        let executor = self.task(task).current.executor().cloned();
        if let (Some(executor), false) = (executor, partitions.is_empty()) {
            self.out.push(JobCommand::ReleasePartitions { executor, partitions });
        }
    }
}
