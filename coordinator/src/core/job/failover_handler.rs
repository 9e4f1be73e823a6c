//! From a failure to what restarts (reference 2, 3.5): classification, restart strategy, restart set.

use std::collections::BTreeSet;

use super::JobCore;
use super::failure::Failure;
use crate::core::event::{FailureId, JobCommand};
use crate::core::failover::{self, FailoverStrategy, NamedPartition};
use crate::core::status::{ExecutionState, JobStatus};
use crate::core::topology::TaskIndex;
use crate::graph::{ExecutorId, FailureScope, ResultPartitionId};

impl JobCore {
    /// Handles the failures of `failed` as one: counted once, one restart set. The first is the root cause.
    ///
    /// Their attempts are FAILED already. A job that is ending does not care (P135).
    pub(super) fn handle_task_failures(&mut self, failed: &[TaskIndex]) {
        if failed.is_empty() || !matches!(self.status, JobStatus::Running | JobStatus::Restarting) {
            return;
        }
        let failures: Vec<Failure> =
            failed.iter().filter_map(|&task| self.task(task).current.failure.clone()).collect();
        let Some(root) = failures.iter().find(|failure| failure.non_recoverable).or(failures.first()) else { return };
        let id = self.label_failure(root, FailureScope::Task);
        let Some(is_new) = self.may_restart(id, root) else { return };
        let set = self.restart_set_of(failed);
        self.archive_task_failure(id, failed, &set, is_new);
        self.restart_with_delay(&set, false);
        self.abort_pending_checkpoint();
    }

    /// A failure of the job as a whole (P081): everything restarts. While CANCELLING nothing does, but one after which
    /// nothing could restart fails the job (P133).
    pub(super) fn handle_global_failure(&mut self, failure: &Failure) {
        if !matches!(self.status, JobStatus::Running | JobStatus::Restarting | JobStatus::Cancelling) {
            return;
        }
        let id = self.label_failure(failure, FailureScope::Global);
        if self.may_restart(id, failure).is_none() {
            return;
        }
        self.archive_global_failure(id, failure);
        if self.status == JobStatus::Cancelling {
            return;
        }
        let set = failover::restart_all(&self.topology);
        self.restart_with_delay(&set, true);
        self.abort_pending_checkpoint();
    }

    /// Asks the restart strategy. If it refuses, or need not be asked (P059), the job fails; else the answer says
    /// whether this failure is a new one or belongs to the one before.
    fn may_restart(&mut self, id: FailureId, failure: &Failure) -> Option<bool> {
        if failure.non_recoverable {
            self.fail_job(id, &failure.fatal("The failure is not recoverable".to_owned(), self.now));
            return None;
        }
        let is_new = self.restarts.strategy.notify_failure(self.now, self.random.next());
        if !self.restarts.strategy.can_restart(self.now) {
            let message = format!("Recovery is suppressed by {}", self.restarts.strategy.describe());
            self.fail_job(id, &failure.fatal(message, self.now));
            return None;
        }
        // P060
        self.restarts.count += u64::from(is_new && self.status != JobStatus::Cancelling);
        Some(is_new)
    }

    /// The union of the restart sets of all these failures, in order.
    fn restart_set_of(&self, failed: &[TaskIndex]) -> Vec<TaskIndex> {
        let state = |task| self.state(task);
        if self.settings.failover == FailoverStrategy::Full {
            return failover::restart_all(&self.topology);
        }
        let mut union = BTreeSet::new();
        for &task in failed {
            // A restart set is closed: what is in it already would add nothing, unless it names a partition.
            let named = self.named_partition(task);
            if named.is_none() && union.contains(&task) {
                continue;
            }
            union.extend(failover::restart_set(
                &self.topology,
                &self.regions,
                &failover::Failure { task, named },
                self.settings.stale,
                state,
                |partition| self.tracker.is_tracked(&self.current_partition(partition)),
            ));
        }
        union.into_iter().collect()
    }

    /// The partition that a failed task names, as the topology knows it.
    fn named_partition(&self, task: TaskIndex) -> Option<NamedPartition> {
        let named = self.task(task).current.failure.as_ref()?.partition?;
        let ResultPartitionId { partition, attempt } = named;
        let vertex = self.graph.position(partition.producer.vertex)?;
        let index = self.topology.partition(vertex, partition.data_set, partition.producer.subtask)?;
        let producer = self.topology.partition_location(index).0;
        let is_current_attempt = self.task(producer).current.number == attempt;
        Some(NamedPartition { partition: index, is_current_attempt })
    }

    /// A task fails before it was sent anywhere.
    pub(super) fn fail_before_deployment(&mut self, task: TaskIndex, failure: Failure) {
        self.fail_attempt(task, failure);
        self.handle_task_failures(&[task]);
    }

    /// An executor is gone, and with it the tasks in its slots and the partitions on its disk.
    ///
    /// Ours: its partitions are forgotten first, then all its tasks fail together: one failover, counted once.
    /// Flink's order (2.4): its tasks fail one by one, each with a decision of its own that still believes in the
    /// partitions; then they are forgotten (C8, C9).
    pub(super) fn executor_lost(&mut self, executor: &ExecutorId, reason: &str) {
        self.schedule.slots.forget(executor);
        let on_it = |task: &TaskIndex| {
            let attempt = &self.task(*task).current;
            attempt.executor() == Some(executor) && !attempt.state().is_terminal()
        };
        let tasks: Vec<TaskIndex> = self.topology.tasks().filter(on_it).collect();
        let failure = Failure::executor_lost(executor, reason, self.now);
        let together = self.settings.untrack_before_slots_fail;
        if together {
            self.tracker.executor_lost(executor);
        }
        let mut failed = Vec::new();
        for task in tasks {
            if self.state(task) == ExecutionState::Canceling {
                self.end_attempt(task, ExecutionState::Canceled);
                continue;
            }
            self.fail_attempt(task, failure.clone());
            if together {
                failed.push(task);
            } else {
                self.handle_task_failures(&[task]);
            }
        }
        self.handle_task_failures(&failed);
        self.tracker.executor_lost(executor);
        // In Flink's order, the decisions above still sent requests there.
        self.out.retain(|command| match command {
            JobCommand::CancelTask { executor: to, .. } | JobCommand::ReleasePartitions { executor: to, .. } => {
                to != executor
            }
            _ => true,
        });
    }
}
