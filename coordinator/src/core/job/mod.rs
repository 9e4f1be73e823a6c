//! One job as a pure state machine: `(state, event, now) -> commands`.
//!
//! [`JobCore`] decides everything that a JobMaster decides: what is scheduled where, what restarts when something
//! fails, when checkpoints are taken, when partitions are released and how the job ends. It has no clock, no socket
//! and no randomness but the seed of its [`JobSpec`].
//!
//! # Layout
//!
//! | file | what it holds |
//! | --- | --- |
//! | `spec`, `settings` | what a job is started with |
//! | `attempts` | the execution state machine: tasks, attempts, their history |
//! | `updates` | what executors report of tasks, and how attempts end |
//! | `region_inputs`, `scheduling`, `slots`, `deployment` | when a region is consumable; when it starts; slot sharing; what an executor is sent |
//! | `failover_handler`, `restarts` | failures to restart sets; delayed restarts |
//! | `checkpointing`, `pending`, `checkpoint_results`, `checkpoint_stats` | checkpoints from trigger to notification |
//! | `splits` | input splits of batch sources |
//! | `data_sets` | what is read of other jobs, and left to them |
//! | `lifecycle` | start, cancel, suspend, end |
//! | `history`, `picture` | exception history; snapshots for REST |

mod attempts;
mod checkpoint_results;
mod checkpoint_stats;
mod checkpointing;
mod data_sets;
mod deployment;
mod failover_handler;
mod failure;
mod history;
mod lifecycle;
mod pending;
mod picture;
mod random;
mod region_inputs;
mod restarts;
mod scheduling;
mod settings;
mod slots;
mod spec;
mod splits;
mod updates;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use attempts::{StateCounts, Task};
use checkpointing::Checkpointing;
use history::ExceptionHistory;
use random::SplitMix64;
use restarts::Restarts;
use scheduling::Schedule;
use splits::SourceSplits;

pub(crate) use checkpointing::check_barriers_pass;
pub use data_sets::{CachedDataSets, CachedPartition};
pub use settings::JobSettings;
pub use spec::{JobInitError, JobSpec, RestoredCheckpoint};

use super::consumable::GroupStatus;
use super::event::{JobCommand, JobEvent, Millis, TimerId};
use super::partition_release::PartitionRelease;
use super::partition_tracker::PartitionTracker;
use super::regions::Regions;
use super::status::{ExecutionState, JobStatus};
use super::topology::{LogicalGraph, TaskIndex, Topology};
use crate::graph::{AttemptId, JobGraph, JobId, Params, PartitionId, ResultPartitionId};

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    /// The backoff of a restart is over.
    Restart,
    /// The next periodic checkpoint is due.
    CheckpointTick,
    /// The pause after a completed checkpoint is over.
    CheckpointPause,
    /// This checkpoint takes too long.
    CheckpointTimeout(u64),
}

/// The state machine of one job.
///
/// Feed it every event in order through [`JobCore::handle`] and execute the commands it returns, in order. Time may
/// not run backwards: an earlier `now` counts as the latest one seen.
///
/// What the caller owes it:
///
/// - A slot that was granted is told ([`JobEvent::SlotsAllocated`]) before the loss of its executor
///   ([`JobEvent::ExecutorLost`]) is.
/// - After [`JobCommand::CancelSlotRequest`] the slots of that request are the resource manager's again, also if the
///   grant is on its way: a late [`JobEvent::SlotsAllocated`] is ignored here and returns nothing.
/// - A deployment that cannot be delivered comes back as a failed [`JobEvent::TaskUpdate`], unless the loss of the
///   executor is told anyway.
/// - Every [`JobCommand::StoreCheckpoint`] and [`JobCommand::AllocateCheckpointId`] is answered in the end.
#[derive(Debug)]
pub struct JobCore {
    id: JobId,
    job_name: String,
    params: Params,
    graph: JobGraph,
    settings: JobSettings,
    config: BTreeMap<String, String>,
    submitted_ms: Millis,
    topology: Topology,
    regions: Regions,
    random: SplitMix64,

    now: Millis,
    status: JobStatus,
    timestamps: BTreeMap<JobStatus, Millis>,
    tasks: Vec<Task>,
    counts: StateCounts,
    schedule: Schedule,
    groups: GroupStatus,
    tracker: PartitionTracker,
    release: PartitionRelease,
    restarts: Restarts,
    history: ExceptionHistory,
    /// By position of the source's vertex.
    splits: BTreeMap<usize, SourceSplits>,
    data_sets: CachedDataSets,
    checkpoints: Option<Checkpointing>,

    next_timer: u64,
    timers: BTreeMap<TimerId, Timer>,
    out: Vec<JobCommand>,
}

impl JobCore {
    /// A job that waits for [`JobEvent::Start`], in status CREATED.
    ///
    /// # Errors
    /// When the graph cannot run, or when the newest restored checkpoint is not one of this graph.
    pub fn new(spec: JobSpec, now: Millis) -> Result<Self, JobInitError> {
        let topology = Topology::build(LogicalGraph::of_job(&spec.graph))?;
        let regions = Regions::build(&topology);
        if let Some(vertices) = regions.deadlocked_vertices(&topology) {
            let names = vertices.into_iter().map(|vertex| spec.graph.vertices[vertex].name.clone()).collect();
            return Err(JobInitError::RegionDeadlock(names));
        }
        let tasks: Vec<Task> =
            topology.tasks().map(|task| Task::new(task_id(&spec.graph, &topology, task), now)).collect();
        data_sets::check(&spec.graph, &spec.data_sets)?;
        let checkpoints = Checkpointing::for_job(&spec, &topology)?;
        let splits = splits::of_graph(&spec.graph);
        let JobSpec { id, job_name, params, graph, settings, config, submitted_ms, restored: _, data_sets, seed } =
            spec;
        Ok(Self {
            id,
            job_name,
            params,
            submitted_ms,
            random: SplitMix64::new(seed),
            now,
            status: JobStatus::Created,
            timestamps: BTreeMap::from([(JobStatus::Initializing, submitted_ms), (JobStatus::Created, now)]),
            counts: StateCounts::new(tasks.len()),
            tasks,
            schedule: Schedule::new(&topology, &regions, graph.kind),
            groups: GroupStatus::new(&topology),
            tracker: PartitionTracker::new(),
            release: PartitionRelease::new(&topology, &regions, settings.release_during_execution),
            restarts: Restarts::new(settings.restart.clone()),
            history: ExceptionHistory::new(settings.exception_history),
            splits,
            data_sets,
            checkpoints,
            next_timer: 0,
            timers: BTreeMap::new(),
            out: Vec::new(),
            graph,
            settings,
            config,
            topology,
            regions,
        })
    }

    /// Takes in one event and says what is to be done. A job that is over or suspended ignores all events.
    pub fn handle(&mut self, event: JobEvent, now: Millis) -> Vec<JobCommand> {
        if self.is_over() {
            return Vec::new();
        }
        self.now = self.now.max(now);
        self.dispatch(event);
        self.settle();
        std::mem::take(&mut self.out)
    }

    /// The job's status.
    #[must_use]
    pub fn status(&self) -> JobStatus {
        self.status
    }

    fn dispatch(&mut self, event: JobEvent) {
        match event {
            JobEvent::Start => self.start(),
            JobEvent::SlotsAllocated { request, slots } => self.slots_allocated(request, slots),
            JobEvent::SlotRequestFailed { request, reason } => self.slot_request_failed(request, &reason),
            JobEvent::TaskUpdate { attempt, update, metrics } => self.task_update(attempt, update, metrics),
            JobEvent::Metrics(metrics) => self.update_metrics(metrics),
            JobEvent::EndOfData { attempt } => self.end_of_data(attempt),
            JobEvent::ExecutorLost { executor, reason } => self.executor_lost(&executor, &reason),
            JobEvent::Timer(timer) => self.timer_fired(timer),
            JobEvent::Cancel => self.cancel(),
            JobEvent::Suspend => self.suspend(),
            JobEvent::CheckpointIdAllocated(result) => self.checkpoint_id_allocated(result),
            JobEvent::CheckpointAck { attempt, checkpoint, state } => self.checkpoint_ack(attempt, checkpoint, state),
            JobEvent::CheckpointDecline { attempt, checkpoint, reason } => {
                self.checkpoint_decline(attempt, checkpoint, reason);
            }
            JobEvent::CheckpointStored { checkpoint, result } => self.checkpoint_stored(checkpoint, result),
            JobEvent::SplitsEnumerated { vertex, result } => self.splits_enumerated(vertex, result),
            JobEvent::SplitRequested { attempt, request } => self.split_requested(attempt, request),
        }
    }

    /// Draws the consequences that no single event decides: the end of the job, restarts whose old attempts have
    /// all ended, regions that became consumable, checkpoints that are due.
    fn settle(&mut self) {
        if self.is_over() {
            return;
        }
        self.run_due_restarts();
        while self.schedule_candidates() {
            self.run_due_restarts();
        }
        self.drive_checkpoints();
        self.end_if_done();
    }

    fn timer_fired(&mut self, id: TimerId) {
        match self.timers.remove(&id) {
            Some(Timer::Restart) => self.restart_due(id),
            Some(Timer::CheckpointTick) => self.checkpoint_tick(),
            Some(Timer::CheckpointPause) => self.checkpoint_pause_over(),
            Some(Timer::CheckpointTimeout(checkpoint)) => self.checkpoint_expired(checkpoint),
            None => {}
        }
    }

    fn set_timer(&mut self, purpose: Timer, delay_ms: u64) -> TimerId {
        let timer = TimerId(self.next_timer);
        self.next_timer += 1;
        self.timers.insert(timer, purpose);
        self.out.push(JobCommand::SetTimer { timer, delay: Duration::from_millis(delay_ms) });
        timer
    }

    fn task(&self, task: TaskIndex) -> &Task {
        &self.tasks[task.0 as usize]
    }

    fn task_mut(&mut self, task: TaskIndex) -> &mut Task {
        &mut self.tasks[task.0 as usize]
    }

    /// Raised by each restart decision about a task: lets tests see what a decision covers.
    #[cfg(test)]
    fn version(&self, task: TaskIndex) -> u64 {
        self.task(task).version
    }

    fn state(&self, task: TaskIndex) -> ExecutionState {
        self.task(task).current.state()
    }

    fn attempt_id(&self, task: TaskIndex) -> AttemptId {
        let Task { id, current, .. } = self.task(task);
        AttemptId { job: self.id, task: *id, attempt: current.number }
    }

    /// The task whose *current* attempt this is. Messages of any other attempt are ignored.
    fn current(&self, attempt: AttemptId) -> Option<TaskIndex> {
        let position = self.graph.position(attempt.task.vertex)?;
        let task = self.topology.task(position, attempt.task.subtask)?;
        (self.attempt_id(task) == attempt).then_some(task)
    }

    /// A partition as its producer's current attempt makes it.
    fn current_partition(&self, partition: super::topology::PartitionIndex) -> ResultPartitionId {
        let (producer, data_set) = self.topology.partition_location(partition);
        let Task { id, current, .. } = self.task(producer);
        ResultPartitionId { partition: PartitionId { producer: *id, data_set }, attempt: current.number }
    }
}

fn task_id(graph: &JobGraph, topology: &Topology, task: TaskIndex) -> crate::graph::TaskId {
    let (vertex, subtask) = topology.location(task);
    crate::graph::TaskId { vertex: graph.vertices[vertex].id, subtask }
}
