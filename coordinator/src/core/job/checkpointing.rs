//! When checkpoints are taken (reference 7.1, 7.7).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::checkpoint_stats::Stats;
use super::pending::{Pending, Storing};
use super::spec::{JobInitError, JobSpec, RestoredCheckpoint};
use super::{JobCore, Timer};
use crate::core::checkpoint::CompletedCheckpoint;
use crate::core::event::{JobCommand, Millis, TimerId};
use crate::core::status::{ExecutionState, JobStatus};
use crate::core::topology::{TaskIndex, Topology};
use crate::graph::{AttemptId, JobGraph, JobKind, TaskId};

/// The one checkpoint that may be on its way.
#[derive(Debug)]
pub(super) enum Phase {
    Idle,
    /// Its number is being drawn.
    Allocating,
    /// Tasks are taking it.
    Collecting(Pending),
    /// Every task has acknowledged it; it is being made durable.
    Storing(Storing),
}

/// The checkpoints of one job.
#[derive(Debug)]
pub(super) struct Checkpointing {
    pub(super) interval_ms: u64,
    pub(super) phase: Phase,
    /// Completed and durable, oldest first; restored ones included.
    pub(super) retained: VecDeque<RestoredCheckpoint>,
    /// Given up while they were being stored, because tasks were restored from an older one: should the store still
    /// succeed, they are deleted, for the restarted tasks have aborted what they had prepared in them.
    pub(super) superseded: BTreeMap<u64, CompletedCheckpoint>,
    /// Perhaps stored (FLINK-22494): nothing of these is deleted before the job ends.
    pub(super) unsure: BTreeMap<u64, CompletedCheckpoint>,
    pub(super) last_completed_ms: Option<Millis>,
    /// Failures since the last success.
    pub(super) failed_in_a_row: u32,
    pub(super) stats: Stats,
    is_ticking: bool,
    /// A periodic checkpoint is due and waits for the one on its way, or for the pause.
    is_queued: bool,
    pause: Option<TimerId>,
    /// RUNNING tasks that have handled all their input.
    at_end: usize,
    /// The final checkpoint is not tried again at once: the next tick does.
    is_final_tried: bool,
}

impl Checkpointing {
    /// `None` for a job that takes no checkpoints.
    pub(super) fn for_job(spec: &JobSpec, topology: &Topology) -> Result<Option<Self>, JobInitError> {
        let Some(interval_ms) = spec.settings.checkpoint_interval_ms else { return Ok(None) };
        if spec.graph.kind != JobKind::Streaming {
            return Ok(None);
        }
        check_barriers_pass(&spec.graph)?;
        let mut retained: VecDeque<_> = spec.restored.iter().cloned().collect();
        for restored in &mut retained {
            restored.checkpoint.tasks.sort_unstable_by_key(|(task, _)| *task);
        }
        if let Some(newest) = retained.back() {
            check_fits(&newest.checkpoint, spec, topology)?;
        }
        Ok(Some(Self {
            // As in Flink: the pause is a lower bound of the interval.
            interval_ms: interval_ms.max(spec.settings.min_pause_ms).max(1),
            phase: Phase::Idle,
            retained,
            superseded: BTreeMap::new(),
            unsure: BTreeMap::new(),
            last_completed_ms: None,
            failed_in_a_row: 0,
            stats: Stats::new(interval_ms, spec.settings.checkpoints_history),
            is_ticking: false,
            is_queued: false,
            pause: None,
            at_end: 0,
            is_final_tried: false,
        }))
    }

    /// The one that a restart restores.
    pub(super) fn newest(&self) -> Option<&RestoredCheckpoint> {
        self.retained.back()
    }
}

/// Refuses a graph that cannot take checkpoints. Barriers pass what is read while it is produced. Blocking results are
/// not, and hybrid ones are served once they are complete, like them: a consumer would see a barrier only after its
/// producer has ended, so that every checkpoint before would run out of time.
///
/// # Errors
/// [`JobInitError::NoBarriers`] with the first such edge.
pub(crate) fn check_barriers_pass(graph: &JobGraph) -> Result<(), JobInitError> {
    let Some(edge) = graph.edges.iter().find(|edge| edge.partition_type.is_release_by_scheduler()) else {
        return Ok(());
    };
    let name = |vertex: usize| graph.vertices[vertex].name.clone();
    let exchange = edge.partition_type.exchange_name();
    Err(JobInitError::NoBarriers { exchange, from: name(edge.from), to: name(edge.to) })
}

/// Unmatched state is refused at start, both ways (reference 7.8).
fn check_fits(checkpoint: &CompletedCheckpoint, spec: &JobSpec, topology: &Topology) -> Result<(), JobInitError> {
    let of_job: BTreeSet<TaskId> = topology.tasks().map(|task| super::task_id(&spec.graph, topology, task)).collect();
    let of_checkpoint: BTreeSet<TaskId> = checkpoint.tasks.iter().map(|(task, _)| *task).collect();
    match of_job.symmetric_difference(&of_checkpoint).next() {
        None => Ok(()),
        Some(&task) => {
            Err(JobInitError::StateMismatch { checkpoint: checkpoint.id, task, missing: of_job.contains(&task) })
        }
    }
}

impl JobCore {
    pub(super) fn end_of_data(&mut self, attempt: AttemptId) {
        let Some(task) = self.current(attempt) else { return };
        let current = &mut self.task_mut(task).current;
        if current.state() != ExecutionState::Running || current.end_of_data {
            return;
        }
        current.end_of_data = true;
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.at_end += 1;
        }
    }

    /// P083: a task that had handled all its input left RUNNING.
    pub(super) fn end_of_data_withdrawn(&mut self) {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.at_end -= 1;
        }
    }

    /// Begins what is due: the ticks once everything runs, a queued checkpoint, the final one.
    pub(super) fn drive_checkpoints(&mut self) {
        let running = self.counts.of(ExecutionState::Running);
        let all_run = running + self.counts.of(ExecutionState::Finished) == self.tasks.len() && running > 0;
        let (status, now, min_pause_ms) = (self.status, self.now, self.settings.min_pause_ms);
        let Some(checkpoints) = &mut self.checkpoints else { return };
        if status != JobStatus::Running {
            return;
        }
        if all_run && !checkpoints.is_ticking {
            checkpoints.is_ticking = true;
            let delay = self.random.between(min_pause_ms.min(checkpoints.interval_ms), checkpoints.interval_ms);
            self.set_timer(Timer::CheckpointTick, delay);
            return;
        }
        if !matches!(checkpoints.phase, Phase::Idle) {
            return;
        }
        if all_run && checkpoints.at_end == running && !checkpoints.is_final_tried {
            checkpoints.is_final_tried = true;
            self.begin_checkpoint();
            return;
        }
        if !checkpoints.is_queued {
            return;
        }
        let pause_over = checkpoints.last_completed_ms.map_or(0, |last| last.saturating_add(min_pause_ms));
        if all_run && pause_over > now {
            if checkpoints.pause.is_none() {
                let timer = self.set_timer(Timer::CheckpointPause, pause_over - now);
                self.with_checkpoints(|checkpoints| checkpoints.pause = Some(timer));
            }
            return;
        }
        // NOT_ALL_REQUIRED_TASKS_RUNNING drops a periodic checkpoint: the next tick is soon enough.
        checkpoints.is_queued = false;
        if all_run {
            self.begin_checkpoint();
        }
    }

    fn with_checkpoints(&mut self, change: impl FnOnce(&mut Checkpointing)) {
        if let Some(checkpoints) = &mut self.checkpoints {
            change(checkpoints);
        }
    }

    /// FLINK-13256: ticks go on through failovers.
    pub(super) fn checkpoint_tick(&mut self) {
        let Some(checkpoints) = &mut self.checkpoints else { return };
        checkpoints.is_queued = true;
        let interval_ms = checkpoints.interval_ms;
        self.set_timer(Timer::CheckpointTick, interval_ms);
    }

    pub(super) fn checkpoint_pause_over(&mut self) {
        self.with_checkpoints(|checkpoints| checkpoints.pause = None);
    }

    fn begin_checkpoint(&mut self) {
        if self.participants().is_some() {
            self.with_checkpoints(|checkpoints| checkpoints.phase = Phase::Allocating);
            self.out.push(JobCommand::AllocateCheckpointId);
        }
    }

    /// Who takes part: everything that runs, except tasks that were told of a final checkpoint and may finish any
    /// moment. `None` if some task is neither running nor finished, or if nobody is left.
    fn participants(&self) -> Option<Vec<TaskIndex>> {
        let all_run = self.counts.of(ExecutionState::Running) + self.counts.of(ExecutionState::Finished);
        if self.status != JobStatus::Running || all_run != self.tasks.len() {
            return None;
        }
        let takes_part = |task: &TaskIndex| {
            let attempt = &self.task(*task).current;
            attempt.state() == ExecutionState::Running && !attempt.may_finish
        };
        Some(self.topology.tasks().filter(takes_part).collect()).filter(|tasks: &Vec<_>| !tasks.is_empty())
    }

    pub(super) fn checkpoint_id_allocated(&mut self, result: Result<u64, String>) {
        match self.checkpoints.as_mut().map(|checkpoints| &mut checkpoints.phase) {
            Some(phase @ Phase::Allocating) => *phase = Phase::Idle,
            _ => return,
        }
        match result {
            Ok(id) => self.trigger_checkpoint(id),
            Err(reason) => self.count_checkpoint_failure(&format!(
                "An Exception occurred while triggering the checkpoint. IO-problem detected. ({reason})"
            )),
        }
    }

    /// The number is simply not used if tasks stopped running while it was drawn.
    fn trigger_checkpoint(&mut self, id: u64) {
        let Some(participants) = self.participants() else { return };
        let is_final = participants.iter().all(|&task| self.task(task).current.end_of_data);
        for &task in &participants {
            let is_source = self.topology.consumed_groups(task).next().is_none();
            let executor = self.task(task).current.executor().cloned();
            if let (true, Some(executor)) = (is_source, executor) {
                let attempt = self.attempt_id(task);
                self.out.push(JobCommand::TriggerCheckpoint { executor, attempt, checkpoint: id });
            }
        }
        let timeout = self.set_timer(Timer::CheckpointTimeout(id), self.settings.checkpoint_timeout_ms);
        let now = self.now;
        self.with_checkpoints(|checkpoints| {
            checkpoints.is_final_tried |= is_final;
            checkpoints.stats.triggered(id, now, participants.len());
            checkpoints.phase = Phase::Collecting(Pending::new(id, now, is_final, participants, timeout));
        });
    }

    /// Part of every end of the job: nothing is triggered any more. What is being stored is left to its answer.
    pub(super) fn stop_checkpoints(&mut self) {
        self.abort_collecting("CheckpointCoordinator shutdown.");
        self.with_checkpoints(|checkpoints| {
            checkpoints.is_queued = false;
            if matches!(checkpoints.phase, Phase::Allocating) {
                checkpoints.phase = Phase::Idle;
            }
        });
    }

    /// Restarted tasks may be given a final checkpoint of their own.
    pub(super) fn final_may_be_tried_again(&mut self) {
        self.with_checkpoints(|checkpoints| checkpoints.is_final_tried = false);
    }
}
