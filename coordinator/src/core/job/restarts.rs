//! Restarts that wait: for their delay, and for every old attempt to end (reference 3.5, 3.8).

use std::collections::{BTreeMap, BTreeSet};

use super::JobCore;
use super::Timer;
use crate::core::event::TimerId;
use crate::core::restart_strategy::{RestartStrategy, RestartStrategyConfig};
use crate::core::status::{ExecutionState, JobStatus};
use crate::core::topology::TaskIndex;

/// One decided restart.
#[derive(Debug)]
struct Pending {
    /// The tasks, with their versions as of the decision.
    tasks: Vec<(TaskIndex, u64)>,
    is_global: bool,
    /// The delay is over.
    is_due: bool,
    /// All tasks before this one are known to have ended (or to belong to a later decision).
    ended: usize,
}

/// The restart strategy and what it allowed.
#[derive(Debug)]
pub(super) struct Restarts {
    pub(super) strategy: RestartStrategy,
    /// Flink's `numRestarts`.
    pub(super) count: u64,
    /// By the timer of their delay, so oldest first.
    pending: BTreeMap<TimerId, Pending>,
    /// Tasks that are to restart and have not yet.
    waiting: BTreeSet<TaskIndex>,
}

impl Restarts {
    pub(super) fn new(config: RestartStrategyConfig) -> Self {
        Self { strategy: RestartStrategy::new(config), count: 0, pending: BTreeMap::new(), waiting: BTreeSet::new() }
    }

    /// Tasks whose restart is decided and has not happened.
    pub(super) fn waiting(&self) -> impl Iterator<Item = TaskIndex> {
        self.waiting.iter().copied()
    }
}

impl JobCore {
    /// Cancels what runs of `set` and restarts it when its delay is over and all old attempts have ended: the timer
    /// runs in parallel with the cancellation.
    pub(super) fn restart_with_delay(&mut self, set: &[TaskIndex], is_global: bool) {
        let tasks = set.iter().map(|&task| (task, self.bump_version(task))).collect();
        self.restarts.waiting.extend(set);
        if !set.is_empty() && self.status == JobStatus::Running {
            self.set_status(JobStatus::Restarting);
        }
        self.cancel_slot_requests(set);
        for &task in set {
            self.cancel_attempt(task);
        }
        let delay = self.restarts.strategy.backoff_ms(self.now).unwrap_or(0);
        let timer = self.set_timer(Timer::Restart, delay);
        self.restarts.pending.insert(timer, Pending { tasks, is_global, is_due: false, ended: 0 });
    }

    pub(super) fn bump_version(&mut self, task: TaskIndex) -> u64 {
        let version = &mut self.task_mut(task).version;
        *version += 1;
        *version
    }

    /// P089: no delayed restart holds any more.
    pub(super) fn drop_restarts(&mut self) {
        for task in self.topology.tasks() {
            self.bump_version(task);
        }
        self.restarts.pending.clear();
        self.restarts.waiting.clear();
        self.timers.retain(|_, purpose| *purpose != Timer::Restart);
    }

    pub(super) fn restart_due(&mut self, timer: TimerId) {
        if let Some(pending) = self.restarts.pending.get_mut(&timer) {
            pending.is_due = true;
        }
    }

    /// Restarts what is due and has ended.
    pub(super) fn run_due_restarts(&mut self) {
        let due: Vec<TimerId> =
            self.restarts.pending.iter().filter(|(_, pending)| pending.is_due).map(|(timer, _)| *timer).collect();
        for timer in due {
            if self.has_ended(timer)
                && let Some(pending) = self.restarts.pending.remove(&timer)
            {
                let unmodified = |&(task, version): &(TaskIndex, u64)| self.task(task).version == version;
                let tasks: Vec<TaskIndex> = pending.tasks.iter().filter(|&it| unmodified(it)).map(|it| it.0).collect();
                self.restart_tasks(&tasks, pending.is_global);
            }
        }
    }

    /// Whether every old attempt has ended, for the tasks that no later decision took over. What has ended once stays
    /// so until the restart, so each task is looked at once per restart and not once per report.
    fn has_ended(&mut self, timer: TimerId) -> bool {
        let Self { restarts, tasks, .. } = self;
        let Some(pending) = restarts.pending.get_mut(&timer) else { return false };
        while let Some(&(task, version)) = pending.tasks.get(pending.ended) {
            let task = &tasks[task.0 as usize];
            if task.version == version && !task.current.state().is_terminal() {
                return false;
            }
            pending.ended += 1;
        }
        true
    }

    /// C2: of an outdated decision nothing is left and nothing happens.
    fn restart_tasks(&mut self, tasks: &[TaskIndex], is_global: bool) {
        for task in tasks {
            self.restarts.waiting.remove(task);
        }
        if self.restarts.waiting.is_empty() && self.status == JobStatus::Restarting {
            self.set_status(JobStatus::Running);
        }
        if is_global {
            self.enumerate_failed_splits();
        }
        if tasks.is_empty() {
            return;
        }
        for &task in tasks {
            self.reset_for_new_execution(task);
        }
        self.prepare_restore();
        self.reschedule(tasks);
    }

    /// Reference 3.8: the old attempt becomes history, what it made is gone, what it was given comes back.
    fn reset_for_new_execution(&mut self, task: TaskIndex) {
        if self.state(task) == ExecutionState::Finished {
            // P146: on reset, not on finish. Ended otherwise, they were taken care of when the attempt ended.
            let outputs = self.outputs_of_current(task);
            self.untrack_and_release(&outputs);
            self.groups.task_reset(task);
        }
        self.release.vertex_unfinished(&self.topology, &self.regions, task);
        let (vertex, subtask) = self.topology.location(task);
        self.return_splits(vertex, subtask);
        let (from, now, keep) = (self.state(task), self.now, self.settings.attempts_history);
        self.task_mut(task).begin_next_attempt(keep, now);
        self.counts.moved(from, ExecutionState::Created);
        self.inputs_follow(task, from, ExecutionState::Created);
    }
}
