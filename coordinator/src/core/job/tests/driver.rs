//! A cluster in memory: it executes the job's commands as the runtime and its executors would, and checks at each
//! one what must always hold.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::fixtures::*;
use crate::core::checkpoint::CompletedCheckpoint;
use crate::core::data_sets::ClusterPartition;
use crate::core::event::{JobCommand, JobEvent, Millis, SlotId, StoredCheckpoint, TimerId};
use crate::core::job::attempts::Task;
use crate::core::job::{JobCore, JobSpec};
use crate::core::slot_manager::{Grant, SlotManager};
use crate::core::snapshot::{JobSnapshot, SubtaskSnapshot};
use crate::core::status::{ExecutionState, JobStatus};
use crate::graph::{AttemptId, ExecutorId, ResultPartitionId, Split, TaskError, TaskId};
use crate::runtime::protocol::{FailureKind, InputChannel, TaskDeployment, TaskFailure, TaskMetrics, TaskUpdate};

/// An attempt on an executor.
#[derive(Debug, Clone)]
pub(super) struct Runs {
    pub(super) executor: ExecutorId,
    pub(super) deployment: TaskDeployment,
    pub(super) is_cancelled: bool,
}

/// The job and everything around it.
pub(super) struct World {
    pub(super) core: JobCore,
    pub(super) now: Millis,
    pub(super) runs: BTreeMap<AttemptId, Runs>,
    /// Partitions that lie on executors.
    pub(super) stored: BTreeSet<(ExecutorId, ResultPartitionId)>,
    /// Those that belong to the cluster.
    pub(super) promoted: Vec<(ExecutorId, ClusterPartition)>,
    /// All commands since the last [`World::log`].
    log: Vec<JobCommand>,
    timers: BTreeSet<(Millis, TimerId)>,
    slots: SlotManager,
    inbox: VecDeque<JobEvent>,
    next_checkpoint: u64,
    /// Answers are held back here when the switch below is off.
    pub(super) unanswered: VecDeque<JobEvent>,
    /// Answer cancel requests, slot requests and store requests at once.
    pub(super) answers: Answers,
    pub(super) ended: Option<(JobStatus, Vec<CompletedCheckpoint>)>,
}

/// What the world answers by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answers {
    pub(super) slots: bool,
    pub(super) cancels: bool,
    pub(super) store: bool,
    pub(super) splits: bool,
}

impl World {
    /// A cluster with executors `e0`, `e1`, … of these many slots, and the job, not started.
    pub(super) fn new(spec: JobSpec, slots: &[u32]) -> Self {
        let mut world = Self {
            core: JobCore::new(spec, 1_000).expect("test jobs are valid"),
            now: 1_000,
            runs: BTreeMap::new(),
            stored: BTreeSet::new(),
            promoted: vec![],
            log: vec![],
            timers: BTreeSet::new(),
            slots: SlotManager::new(),
            inbox: VecDeque::new(),
            next_checkpoint: 1,
            unanswered: VecDeque::new(),
            answers: Answers { slots: true, cancels: true, store: true, splits: true },
            ended: None,
        };
        for (number, &slots) in slots.iter().enumerate() {
            world.add_executor(&format!("e{number}"), slots);
        }
        world
    }

    /// The same, started.
    pub(super) fn start(spec: JobSpec, slots: &[u32]) -> Self {
        let mut world = Self::new(spec, slots);
        world.send(JobEvent::Start);
        world
    }

    pub(super) fn add_executor(&mut self, name: &str, slots: u32) {
        let grants = self.slots.executor_added(ExecutorId(name.into()), slots, format!("{name}:1"));
        self.grant(grants);
        self.drain();
    }

    /// Sends an event and everything that follows from it at once.
    pub(super) fn send(&mut self, event: JobEvent) {
        self.inbox.push_back(event);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(event) = self.inbox.pop_front() {
            for command in self.core.handle(event, self.now) {
                assert!(self.ended.is_none(), "{command:?} after the end of the job");
                self.log.push(command.clone());
                self.execute(command);
            }
        }
    }

    /// Answers what was held back, oldest first.
    pub(super) fn answer_held(&mut self) {
        while let Some(event) = self.unanswered.pop_front() {
            self.deliver(event);
        }
    }

    /// An answer reaches the job, if what it speaks of still exists.
    pub(super) fn deliver(&mut self, event: JobEvent) {
        if let JobEvent::TaskUpdate { attempt, update: TaskUpdate::Canceled, .. } = &event
            && !self.clean_up(*attempt)
        {
            return;
        }
        self.send(event);
    }

    fn answer(&mut self, at_once: bool, event: JobEvent) {
        if at_once {
            if let JobEvent::TaskUpdate { attempt, update: TaskUpdate::Canceled, .. } = &event {
                self.clean_up(*attempt);
            }
            self.inbox.push_back(event);
        } else {
            self.unanswered.push_back(event);
        }
    }

    /// An executor cleans up after what did not finish. False if nothing of it ran.
    fn clean_up(&mut self, attempt: AttemptId) -> bool {
        let Some(run) = self.runs.remove(&attempt) else { return false };
        let own = |it: &ResultPartitionId| (it.partition.producer, it.attempt) == (attempt.task, attempt.attempt);
        self.stored.retain(|(on, partition)| *on != run.executor || !own(partition));
        true
    }

    fn grant(&mut self, grants: Vec<Grant>) {
        for Grant { request, slots, .. } in grants {
            self.answer(self.answers.slots, JobEvent::SlotsAllocated { request, slots });
        }
    }

    fn execute(&mut self, command: JobCommand) {
        match command {
            JobCommand::RequestSlots { request, slots } => {
                let grants = self.slots.request(JOB, self.core.graph.kind, request, slots);
                self.grant(grants);
            }
            JobCommand::CancelSlotRequest(request) => {
                let of_request =
                    |event: &JobEvent| matches!(event, JobEvent::SlotsAllocated { request: r, .. } if *r == request);
                self.unanswered.retain(|event| !of_request(event));
                let grants = self.slots.cancel(JOB, request);
                self.grant(grants);
            }
            JobCommand::FreeSlot(slot) => {
                assert_eq!(self.tasks_in(&slot), [], "{slot:?} is returned while tasks are in it");
                self.free(&slot);
            }
            JobCommand::Deploy { executor, deployment } => self.deploy(executor, *deployment),
            JobCommand::CancelTask { executor, attempt } => self.cancel_task(&executor, attempt),
            JobCommand::ReleasePartitions { executor, partitions } => {
                for partition in partitions {
                    self.stored.remove(&(executor.clone(), partition));
                }
            }
            JobCommand::PromotePartitions { executor, partitions } => {
                for partition in partitions {
                    assert!(self.stored.contains(&(executor.clone(), partition.partition)), "only what is there");
                    self.promoted.push((executor.clone(), partition));
                }
            }
            JobCommand::SetTimer { timer, delay } => {
                let delay = u64::try_from(delay.as_millis()).expect("test delays are short");
                self.timers.insert((self.now + delay, timer));
            }
            JobCommand::AllocateCheckpointId => {
                let id = self.next_checkpoint;
                self.next_checkpoint += 1;
                self.answer(self.answers.store, JobEvent::CheckpointIdAllocated(Ok(id)));
            }
            JobCommand::StoreCheckpoint(checkpoint) => {
                let checkpoint = checkpoint.id;
                let result = Ok(StoredCheckpoint { external_path: format!("s3://chk-{checkpoint}") });
                self.answer(self.answers.store, JobEvent::CheckpointStored { checkpoint, result });
            }
            JobCommand::EnumerateSplits(vertex) => {
                let split = |index| Split { index, label: format!("s{index}"), payload: vec![] };
                let result = Ok((0..4).map(split).collect());
                self.answer(self.answers.splits, JobEvent::SplitsEnumerated { vertex, result });
            }
            JobCommand::AssignSplit { executor, attempt, .. } => {
                assert_eq!(self.runs[&attempt].executor, executor, "splits go to what runs");
            }
            JobCommand::TriggerCheckpoint { executor, attempt, .. }
            | JobCommand::NotifyCheckpointCompleted { executor, attempt, .. }
            | JobCommand::NotifyCheckpointAborted { executor, attempt, .. } => {
                assert_eq!(self.runs[&attempt].executor, executor, "checkpoint messages go to what runs");
            }
            JobCommand::DiscardCheckpoint(_)
            | JobCommand::DiscardState(_)
            | JobCommand::LabelFailure(..)
            | JobCommand::StatusChanged(_) => {}
            JobCommand::JobTerminated { status, discard } => {
                assert!(self.runs.is_empty(), "{:?} still run", self.runs.keys());
                assert!(self.slots.counts().values().all(|it| it.used == 0), "{:?} are held", self.slots.counts());
                self.ended = Some((status, discard));
            }
        }
    }

    fn cancel_task(&mut self, executor: &ExecutorId, attempt: AttemptId) {
        let run = self.runs.get_mut(&attempt).expect("only what runs is cancelled");
        assert_eq!(run.executor, *executor);
        assert!(!run.is_cancelled, "{attempt:?} was cancelled twice");
        run.is_cancelled = true;
        let metrics = TaskMetrics::default();
        self.answer(self.answers.cancels, JobEvent::TaskUpdate { attempt, update: TaskUpdate::Canceled, metrics });
    }

    /// Whose current attempts have not ended and are, or will be, in this slot.
    fn tasks_in(&self, slot: &SlotId) -> Vec<TaskId> {
        let is_in = |it: &&Task| it.current.slot.as_ref() == Some(slot) && !it.current.state().is_terminal();
        self.core.tasks.iter().filter(is_in).map(|it| it.id).collect()
    }

    /// Slots that the job holds.
    pub(super) fn slots_used(&self) -> u32 {
        self.slots.counts().values().map(|it| it.used).sum()
    }

    /// Of each vertex at most one subtask, all of one number.
    fn check_slot_of(&self, attempt: AttemptId) {
        let task = self.core.current(attempt).expect("only current attempts are deployed");
        let slot = self.core.task(task).current.slot.as_ref().expect("deployed into a slot");
        let together = self.tasks_in(slot);
        let vertices: BTreeSet<_> = together.iter().map(|it| it.vertex).collect();
        assert_eq!(vertices.len(), together.len(), "{slot:?} holds two subtasks of a vertex: {together:?}");
        assert!(together.iter().all(|it| it.subtask == attempt.task.subtask), "{slot:?} holds {together:?}");
    }

    fn free(&mut self, slot: &SlotId) {
        let grants = self.slots.free(JOB, slot);
        self.grant(grants);
    }

    /// Attempts never overlap, and every input is where the deployment says, made by the current attempt.
    fn deploy(&mut self, executor: ExecutorId, deployment: TaskDeployment) {
        let attempt = deployment.attempt;
        self.check_slot_of(attempt);
        for other in self.runs.keys() {
            assert_ne!(other.task, attempt.task, "attempts {other:?} and {attempt:?} overlap");
        }
        let picture = self.picture();
        let own = |channel: &&InputChannel| channel.job == JOB;
        for channel in deployment.inputs.iter().flat_map(|gate| &gate.channels).filter(own) {
            let producer = current(&picture, channel.partition.partition.producer);
            assert_eq!(channel.partition.attempt, producer.current.attempt, "{attempt:?} reads an old attempt");
            assert_eq!(Some(&channel.executor), producer.current.executor.as_ref());
            assert_eq!(channel.address, format!("{}:1", channel.executor));
        }
        for gate in &deployment.inputs {
            for channel in gate.channels.iter().filter(own) {
                let is_stored = self.stored.contains(&(channel.executor.clone(), channel.partition));
                assert!(is_stored || !gate.partition_type.is_release_by_scheduler(), "{attempt:?} reads what is gone");
            }
        }
        for output in &deployment.outputs {
            assert_eq!(
                (output.partition.attempt, output.partition.partition.producer),
                (attempt.attempt, attempt.task)
            );
            self.stored.insert((executor.clone(), output.partition));
        }
        self.runs.insert(attempt, Runs { executor, deployment, is_cancelled: false });
    }

    pub(super) fn picture(&self) -> JobSnapshot {
        self.core.snapshot(self.now)
    }

    /// Commands since the last call.
    pub(super) fn log(&mut self) -> Vec<JobCommand> {
        std::mem::take(&mut self.log)
    }

    pub(super) fn subtask(&self, vertex: &str, subtask: u32) -> SubtaskSnapshot {
        current(&self.picture(), task(vertex, subtask)).clone()
    }

    pub(super) fn state(&self, vertex: &str, subtask: u32) -> ExecutionState {
        self.subtask(vertex, subtask).current.state
    }

    /// `(vertex subtask#attempt, state)` of all tasks, e.g. `a0#1 RUNNING`.
    pub(super) fn states(&self) -> Vec<String> {
        let picture = self.picture();
        let line = |name: &str, subtask: usize, it: &SubtaskSnapshot| {
            format!("{name}{subtask}#{} {}", it.current.attempt, it.current.state.name())
        };
        let vertices = picture.vertices.iter();
        vertices.flat_map(|v| v.subtasks.iter().enumerate().map(|(i, it)| line(&v.name, i, it))).collect()
    }

    /// The current attempt of a task.
    pub(super) fn attempt(&self, vertex: &str, subtask: u32) -> AttemptId {
        let attempt = self.subtask(vertex, subtask).current.attempt;
        AttemptId { job: JOB, task: task(vertex, subtask), attempt }
    }

    pub(super) fn update(&mut self, attempt: AttemptId, update: TaskUpdate) {
        match update {
            TaskUpdate::Finished => _ = self.runs.remove(&attempt),
            TaskUpdate::Canceled | TaskUpdate::Failed(_) => _ = self.clean_up(attempt),
            TaskUpdate::Initializing | TaskUpdate::Running => {}
        }
        self.send(JobEvent::TaskUpdate { attempt, update, metrics: TaskMetrics::default() });
    }

    /// Everything deployed reports RUNNING.
    pub(super) fn run_all(&mut self) {
        let attempts: Vec<_> = self.runs.iter().filter(|(_, run)| !run.is_cancelled).map(|(id, _)| *id).collect();
        for attempt in attempts {
            self.update(attempt, TaskUpdate::Initializing);
            self.update(attempt, TaskUpdate::Running);
        }
    }

    pub(super) fn finish(&mut self, vertex: &str, subtask: u32) {
        self.update(self.attempt(vertex, subtask), TaskUpdate::Finished);
    }

    /// Finishes everything that runs, until nothing does.
    pub(super) fn finish_all(&mut self) {
        while let Some(attempt) = self.runs.keys().next().copied() {
            self.update(attempt, TaskUpdate::Running);
            self.update(attempt, TaskUpdate::Finished);
        }
    }

    pub(super) fn fail(&mut self, vertex: &str, subtask: u32) {
        self.fail_with(vertex, subtask, FailureKind::Task);
    }

    pub(super) fn fail_with(&mut self, vertex: &str, subtask: u32, kind: FailureKind) {
        let failure = TaskFailure { error: TaskError::new("boom"), kind };
        self.update(self.attempt(vertex, subtask), TaskUpdate::Failed(failure));
    }

    /// An executor dies, with what runs and what lies on it.
    pub(super) fn lose(&mut self, name: &str) {
        let executor = ExecutorId(name.into());
        self.runs.retain(|_, run| run.executor != executor);
        self.stored.retain(|(on, _)| *on != executor);
        self.slots.executor_removed(&executor);
        self.send(JobEvent::ExecutorLost { executor, reason: "its heart stopped".into() });
    }

    /// Where a task runs.
    pub(super) fn executor_of(&self, vertex: &str, subtask: u32) -> String {
        self.subtask(vertex, subtask).current.executor.expect("it has a slot").0
    }

    /// Time passes; timers that come due fire in order.
    pub(super) fn pass(&mut self, ms: u64) {
        let end = self.now + ms;
        while let Some(&(at, timer)) = self.timers.first().filter(|(at, _)| *at <= end) {
            self.timers.pop_first();
            self.now = self.now.max(at);
            self.send(JobEvent::Timer(timer));
        }
        self.now = end;
    }

    /// Fires one of the timers that are set, whenever it is due.
    pub(super) fn fire(&mut self, which: usize) {
        if let Some(&(at, timer)) = self.timers.iter().nth(which % self.timers.len().max(1)) {
            self.timers.remove(&(at, timer));
            self.now = self.now.max(at);
            self.send(JobEvent::Timer(timer));
        }
    }

    /// Every running task acknowledges a checkpoint, in order, with its name as state.
    pub(super) fn acknowledge_all(&mut self, checkpoint: u64) {
        let attempts: Vec<AttemptId> = self.runs.keys().copied().collect();
        for attempt in attempts {
            let state = state_of(attempt, checkpoint);
            self.send(JobEvent::CheckpointAck { attempt, checkpoint, state });
        }
    }

    pub(super) fn exceptions(&self) -> Vec<String> {
        self.picture().exceptions.into_iter().map(|entry| entry.stacktrace).collect()
    }
}

fn current(picture: &JobSnapshot, task: TaskId) -> &SubtaskSnapshot {
    let vertex = picture.vertices.iter().find(|vertex| vertex.id == task.vertex).expect("known vertex");
    &vertex.subtasks[task.subtask as usize]
}
