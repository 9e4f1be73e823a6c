//! A checkpoint on its way: acknowledgements, refusals, expiry (reference 7.3).

use std::collections::{BTreeMap, BTreeSet};

use super::JobCore;
use super::checkpointing::{Checkpointing, Phase};
use crate::core::checkpoint::{CompletedCheckpoint, TaskSnapshotHandle};
use crate::core::event::{JobCommand, Millis, TimerId};
use crate::core::status::ExecutionState;
use crate::core::topology::TaskIndex;
use crate::graph::{AttemptId, TaskId};

/// Tasks are taking it.
#[derive(Debug)]
pub(super) struct Pending {
    id: u64,
    trigger_ms: Millis,
    is_final: bool,
    participants: Vec<TaskIndex>,
    waiting: BTreeSet<TaskIndex>,
    states: BTreeMap<TaskId, TaskSnapshotHandle>,
    timeout: TimerId,
}

/// It is being made durable.
#[derive(Debug)]
pub(super) struct Storing {
    pub(super) checkpoint: CompletedCheckpoint,
    pub(super) participants: Vec<TaskIndex>,
    pub(super) timeout: TimerId,
}

impl Pending {
    pub(super) fn new(
        id: u64,
        trigger_ms: Millis,
        is_final: bool,
        participants: Vec<TaskIndex>,
        timeout: TimerId,
    ) -> Self {
        let waiting = participants.iter().copied().collect();
        Self { id, trigger_ms, is_final, participants, waiting, states: BTreeMap::new(), timeout }
    }
}

/// The handles that name an object of the store.
fn files<'a>(handles: impl IntoIterator<Item = &'a TaskSnapshotHandle>) -> Vec<TaskSnapshotHandle> {
    handles.into_iter().filter(|handle| is_file(handle)).cloned().collect()
}

pub(super) fn is_file(handle: &TaskSnapshotHandle) -> bool {
    matches!(handle, TaskSnapshotHandle::File { .. })
}

impl Checkpointing {
    /// The checkpoint that tasks are taking, if it is this one.
    fn collecting(&mut self, id: u64) -> Option<&mut Pending> {
        match &mut self.phase {
            Phase::Collecting(pending) if pending.id == id => Some(pending),
            _ => None,
        }
    }

    /// Whether some checkpoint that is, or may become, durable needs this state.
    pub(super) fn needs(&self, handle: &TaskSnapshotHandle) -> bool {
        let pending = match &self.phase {
            Phase::Collecting(pending) => pending.states.values().any(|held| held == handle),
            Phase::Storing(storing) => has(&storing.checkpoint, handle),
            Phase::Idle | Phase::Allocating => false,
        };
        pending
            || self.retained.iter().any(|retained| has(&retained.checkpoint, handle))
            || self.superseded.values().chain(self.unsure.values()).any(|checkpoint| has(checkpoint, handle))
    }
}

fn has(checkpoint: &CompletedCheckpoint, handle: &TaskSnapshotHandle) -> bool {
    checkpoint.tasks.iter().any(|(_, held)| held == handle)
}

impl JobCore {
    pub(super) fn checkpoint_ack(&mut self, attempt: AttemptId, checkpoint: u64, state: TaskSnapshotHandle) {
        let (task, now) = (self.current(attempt), self.now);
        let Some(checkpoints) = &mut self.checkpoints else { return };
        let pending = checkpoints.collecting(checkpoint);
        let waiting = pending.zip(task).filter(|(pending, task)| pending.waiting.contains(task));
        let Some((pending, task)) = waiting else {
            self.discard_unused(&[state]);
            return;
        };
        let size = state.size();
        pending.waiting.remove(&task);
        pending.states.insert(attempt.task, state);
        let is_complete = pending.waiting.is_empty();
        checkpoints.stats.acknowledged(checkpoint, now, size);
        if is_complete {
            self.store_checkpoint();
        }
    }

    /// Deletes state of a checkpoint that did not complete. An acknowledgement may come twice: what a checkpoint
    /// needs stays.
    pub(super) fn discard_unused(&mut self, states: &[TaskSnapshotHandle]) {
        let Some(checkpoints) = &self.checkpoints else { return };
        let mut unused = files(states);
        unused.retain(|state| !checkpoints.needs(state));
        if !unused.is_empty() {
            self.out.push(JobCommand::DiscardState(unused));
        }
    }

    /// All have acknowledged: metadata, then pointer; it counts once both are durable (P087).
    fn store_checkpoint(&mut self) {
        let (id, job, now) = (self.id, self.carried_states(), self.now);
        let Some(checkpoints) = &mut self.checkpoints else { return };
        let Phase::Collecting(pending) = std::mem::replace(&mut checkpoints.phase, Phase::Idle) else { return };
        let mut states = job;
        states.extend(pending.states);
        let checkpoint = CompletedCheckpoint {
            job: id,
            id: pending.id,
            trigger_ms: pending.trigger_ms,
            completed_ms: now,
            tasks: states.into_iter().collect(),
            is_final: pending.is_final,
        };
        self.out.push(JobCommand::StoreCheckpoint(Box::new(checkpoint.clone())));
        let Pending { participants, timeout, .. } = pending;
        checkpoints.phase = Phase::Storing(Storing { checkpoint, participants, timeout });
    }

    /// State of the tasks that ended after a final checkpoint: it is still what that checkpoint says.
    fn carried_states(&self) -> BTreeMap<TaskId, TaskSnapshotHandle> {
        let newest = self.checkpoints.as_ref().and_then(Checkpointing::newest);
        let ended = |task: &TaskId| {
            let index = self.graph.position(task.vertex).and_then(|vertex| self.topology.task(vertex, task.subtask));
            index.is_some_and(|index| {
                let attempt = &self.task(index).current;
                attempt.may_finish || attempt.state() == ExecutionState::Finished
            })
        };
        let states = newest.into_iter().flat_map(|newest| &newest.checkpoint.tasks);
        states.filter(|(task, _)| ended(task)).cloned().collect()
    }

    pub(super) fn checkpoint_decline(&mut self, attempt: AttemptId, checkpoint: u64, reason: String) {
        let Some(task) = self.current(attempt) else { return };
        let pending = self.checkpoints.as_mut().and_then(|checkpoints| checkpoints.collecting(checkpoint));
        if pending.is_none_or(|pending| !pending.participants.contains(&task)) {
            return;
        }
        let (vertex, subtask) = self.topology.location(task);
        let name = &self.graph.vertices[vertex].name;
        let reason = format!("Checkpoint was declined. ({name} ({}): {reason})", subtask + 1);
        self.abort_collecting(&reason);
        // Only a task that still runs can fail the job by declining; all participants do.
        self.count_checkpoint_failure(&reason);
    }

    /// Expiry ends that checkpoint only, also while the store hangs.
    pub(super) fn checkpoint_expired(&mut self, id: u64) {
        let Some(checkpoints) = &self.checkpoints else { return };
        let reason = "Checkpoint expired before completing.";
        match &checkpoints.phase {
            Phase::Collecting(pending) if pending.id == id => self.abort_collecting(reason),
            Phase::Storing(storing) if storing.checkpoint.id == id => self.give_up_storing(reason),
            _ => return,
        }
        self.count_checkpoint_failure(reason);
    }

    /// P085: a failover of whatever part of the job ends the checkpoint that tasks are taking. One that all have
    /// taken may still become durable before anything is restored: see [`give_up_storing`](Self::give_up_storing).
    pub(super) fn abort_pending_checkpoint(&mut self) {
        self.abort_collecting("FailoverRegion is restarting.");
    }

    pub(super) fn abort_collecting(&mut self, reason: &str) {
        let now = self.now;
        let Some(checkpoints) = &mut self.checkpoints else { return };
        if !matches!(checkpoints.phase, Phase::Collecting(_)) {
            return;
        }
        let Phase::Collecting(pending) = std::mem::replace(&mut checkpoints.phase, Phase::Idle) else { return };
        checkpoints.stats.failed(pending.id, now, reason);
        self.timers.remove(&pending.timeout);
        let states: Vec<_> = pending.states.into_values().collect();
        self.discard_unused(&states);
        self.notify_aborted(pending.id, &pending.participants);
    }

    /// Tells the participants that still run.
    pub(super) fn notify_aborted(&mut self, checkpoint: u64, participants: &[TaskIndex]) {
        for &task in participants {
            if let Some(executor) = self.executor_of_running(task) {
                let attempt = self.attempt_id(task);
                self.out.push(JobCommand::NotifyCheckpointAborted { executor, attempt, checkpoint });
            }
        }
    }

    /// A participant's attempt is still the current one as long as it is RUNNING: tasks that restarted meanwhile took
    /// no part, and nothing restarts while a checkpoint is on its way without ending it.
    pub(super) fn executor_of_running(&self, task: TaskIndex) -> Option<crate::graph::ExecutorId> {
        let attempt = &self.task(task).current;
        attempt.executor().filter(|_| attempt.state() == ExecutionState::Running).cloned()
    }
}
