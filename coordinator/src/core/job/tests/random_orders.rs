//! Random events in random order: what must always hold, holds (the driver checks the rest at each command).

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::driver::*;
use super::fixtures::*;
use crate::core::event::{JobCommand, JobEvent, StoreFailure};
use crate::core::failover::{self, NamedPartition, StalePolicy};
use crate::core::job::JobSettings;
use crate::core::regions::Regions;
use crate::core::snapshot::JobSnapshot;
use crate::core::status::{ExecutionState, JobStatus};
use crate::core::topology::{LogicalGraph, TaskIndex, Topology};
use crate::graph::JobKind::{Batch, Streaming};
use crate::graph::ResultPartitionType::{self, Blocking, HybridFull, HybridSelective, Pipelined, PipelinedApproximate};
use crate::graph::ShipStrategy::{Forward, Hash, Rescale};
use crate::graph::{AttemptId, JobGraph, JobKind, ResultPartitionId, TaskError};
use crate::runtime::protocol::{FailureKind, TaskFailure, TaskUpdate};

/// One thing that happens. Numbers pick among what there is.
#[derive(Debug, Clone)]
enum Step {
    Run,
    Finish(usize),
    Fail(usize),
    FailNaming(usize, usize),
    CancelledByItself(usize),
    LoseExecutor(usize),
    AddExecutor,
    AnswerHeld(usize),
    FireTimer(usize),
    Pass(u64),
    EndOfData(usize),
    Acknowledge(usize),
    Decline(usize),
    StoreFails(bool),
    RequestSplit(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let n = 0..64_usize;
    let step = prop_oneof![
        6 => Just(Step::Run),
        8 => n.clone().prop_map(Step::Finish),
        3 => n.clone().prop_map(Step::Fail),
        2 => (n.clone(), n.clone()).prop_map(|(task, input)| Step::FailNaming(task, input)),
        1 => n.clone().prop_map(Step::CancelledByItself),
        1 => n.clone().prop_map(Step::LoseExecutor),
        2 => Just(Step::AddExecutor),
        8 => n.clone().prop_map(Step::AnswerHeld),
        4 => n.clone().prop_map(Step::FireTimer),
        2 => (0..200_u64).prop_map(Step::Pass),
        4 => n.clone().prop_map(Step::EndOfData),
        6 => n.clone().prop_map(Step::Acknowledge),
        1 => n.clone().prop_map(Step::Decline),
        1 => any::<bool>().prop_map(Step::StoreFails),
        3 => n.prop_map(Step::RequestSplit),
    ];
    prop::collection::vec(step, 1..80)
}

fn graphs() -> impl Strategy<Value = JobGraph> {
    let kinds =
        prop::sample::select(vec![Blocking, Blocking, Pipelined, HybridFull, HybridSelective, PipelinedApproximate]);
    let ships = prop::sample::select(vec![Forward, Rescale, Hash]);
    let edges = prop::collection::vec((kinds, ships, any::<bool>()), 6);
    let kinds = prop::sample::select(vec![Batch, Streaming]);
    (kinds, prop::collection::vec(1..4_u32, 4), edges)
        .prop_map(|(kind, widths, edges)| any_graph(kind, &widths, &edges))
}

/// Up to four vertices `split0`, `v1`, `v2`, `v3` and any edges forward among them that can be.
fn any_graph(
    kind: JobKind,
    widths: &[u32],
    edges: &[(ResultPartitionType, crate::graph::ShipStrategy, bool)],
) -> JobGraph {
    let names = ["split0", "v1", "v2", "v3"];
    let vertices: Vec<(&str, u32)> = names.iter().copied().zip(widths.iter().copied()).collect();
    let pairs = [(0, 1), (1, 2), (2, 3), (0, 2), (1, 3), (0, 3)];
    let mut chosen = Vec::new();
    for (&(from, to), &(exchange, ship, is_in)) in pairs.iter().zip(edges) {
        let ship = if ship == Forward && widths[from] != widths[to] { Rescale } else { ship };
        if is_in {
            chosen.push((names[from], names[to], ship, exchange));
        }
    }
    let logical_deadlock = |edges: &[(&str, &str, crate::graph::ShipStrategy, ResultPartitionType)]| {
        try_graph(kind, &vertices, edges).is_none()
    };
    while logical_deadlock(&chosen) {
        chosen.pop();
    }
    graph(kind, &vertices, &chosen)
}

fn stream_graph(width: u32, is_all_to_all: bool) -> JobGraph {
    let ship = if is_all_to_all { Hash } else { Forward };
    let pipelined = ResultPartitionType::PipelinedBounded;
    let vertices = [("a", width), ("b", width), ("c", width), ("d", 2)];
    graph(Streaming, &vertices, &[("a", "b", ship, pipelined), ("c", "d", Rescale, pipelined)])
}

/// A world that answers nothing by itself.
fn world(graph: JobGraph, settings: JobSettings) -> World {
    let mut world = World::new(spec(graph, settings), &[3, 3]);
    world.answers = Answers { slots: false, cancels: false, store: false, splits: false };
    world.send(JobEvent::Start);
    world
}

fn pick<T: Clone>(from: &[T], which: usize) -> Option<T> {
    (!from.is_empty()).then(|| from[which % from.len()].clone())
}

impl Step {
    fn take(&self, world: &mut World, next_executor: &mut u32) {
        let working: Vec<_> = world.runs.keys().copied().collect();
        let attempt = |which: usize| pick(&working, which);
        match *self {
            Self::Run => world.run_all(),
            Self::Finish(which) => attempt(which).into_iter().for_each(|it| world.update(it, TaskUpdate::Finished)),
            Self::Fail(which) => attempt(which).into_iter().for_each(|it| world.update(it, failed(FailureKind::Task))),
            Self::FailNaming(which, input) => {
                let Some(it) = attempt(which) else { return };
                let inputs = world.runs[&it].deployment.inputs.iter();
                let inputs: Vec<_> = inputs.flat_map(|gate| &gate.channels).map(|channel| channel.partition).collect();
                if let Some(partition) = pick(&inputs, input) {
                    world.update(it, failed(FailureKind::PartitionNotFound(partition)));
                }
            }
            // Only a task whose neighbour has failed does this, and a failover follows.
            Self::CancelledByItself(which) => {
                let Some(it) = attempt(which).filter(|it| world.runs[it].is_cancelled) else { return };
                world.update(it, TaskUpdate::Canceled);
            }
            Self::LoseExecutor(which) => {
                let executors: BTreeSet<_> = world.runs.values().map(|run| run.executor.0.clone()).collect();
                if let Some(name) = pick(&executors.into_iter().collect::<Vec<_>>(), which) {
                    world.lose(&name);
                }
            }
            Self::AddExecutor => {
                *next_executor += 1;
                world.add_executor(&format!("x{next_executor}"), 2);
            }
            Self::AnswerHeld(which) => {
                if !world.unanswered.is_empty() {
                    let event = world.unanswered.remove(which % world.unanswered.len()).expect("in range");
                    world.deliver(event);
                }
            }
            Self::FireTimer(which) => world.fire(which),
            Self::Pass(ms) => world.pass(ms),
            Self::EndOfData(_) | Self::Acknowledge(_) | Self::Decline(_) | Self::StoreFails(_) => {
                self.take_of_checkpoints(world, &working);
            }
            Self::RequestSplit(which) => {
                if let Some(attempt) = attempt(which).filter(|_| which % 3 == 0) {
                    world.send(JobEvent::SplitRequested { attempt, request: u32::try_from(which).expect("small") });
                }
            }
        }
    }

    fn take_of_checkpoints(&self, world: &mut World, working: &[AttemptId]) {
        let attempt = |which: usize| pick(working, which);
        let newest = world.picture().checkpoints.and_then(|it| it.history.first().map(|it| it.id));
        match *self {
            Self::EndOfData(which) => {
                attempt(which).into_iter().for_each(|attempt| world.send(JobEvent::EndOfData { attempt }))
            }
            Self::Acknowledge(which) => {
                if let (Some(attempt), Some(checkpoint)) = (attempt(which), newest) {
                    world.send(JobEvent::CheckpointAck { attempt, checkpoint, state: state_of(attempt, checkpoint) });
                }
            }
            Self::Decline(which) => {
                if let (Some(attempt), Some(checkpoint)) = (attempt(which), newest) {
                    world.send(JobEvent::CheckpointDecline { attempt, checkpoint, reason: "no".into() });
                }
            }
            Self::StoreFails(maybe_written) => {
                let stored = |event: &JobEvent| matches!(event, JobEvent::CheckpointStored { .. });
                if let Some(JobEvent::CheckpointStored { result, .. }) =
                    world.unanswered.iter_mut().find(|it| stored(it))
                {
                    *result = Err(StoreFailure { reason: "503".into(), maybe_written });
                }
            }
            _ => unreachable!("the other steps are no business of checkpoints"),
        }
    }
}

fn failed(kind: FailureKind) -> TaskUpdate {
    TaskUpdate::Failed(TaskFailure { error: TaskError::new("boom"), kind })
}

/// From here on everything goes well: the job must end.
fn let_it_end(world: &mut World) {
    world.answers = Answers { slots: true, cancels: true, store: true, splits: true };
    world.add_executor("spare", 40);
    for _ in 0..400 {
        world.answer_held();
        if world.ended.is_some() {
            return;
        }
        world.run_all();
        let attempts: Vec<_> = world.runs.keys().copied().collect();
        let checkpointing = world.runs.values().any(|run| run.deployment.checkpointing);
        for attempt in attempts {
            if checkpointing {
                world.send(JobEvent::EndOfData { attempt });
            } else {
                world.update(attempt, TaskUpdate::Finished);
            }
        }
        if let Some(newest) = world.picture().checkpoints.and_then(|it| it.history.first().map(|it| it.id)) {
            world.acknowledge_all(newest);
        }
        let may_finish: Vec<_> = world
            .log()
            .into_iter()
            .filter_map(|it| match it {
                JobCommand::NotifyCheckpointCompleted { attempt, is_final: true, .. } => Some(attempt),
                _ => None,
            })
            .collect();
        may_finish.into_iter().for_each(|it| world.update(it, TaskUpdate::Finished));
        world.pass(150);
    }
    panic!("the job does not end: {:?} {:?}", world.core.status(), world.states());
}

/// The tasks, their states and what the driver knows of partitions, as [`failover::restart_set`] wants them.
struct Observed {
    topology: Topology,
    regions: Regions,
    picture: JobSnapshot,
    tracked: BTreeSet<ResultPartitionId>,
}

impl Observed {
    fn index(&self, name: &str, subtask: u32) -> TaskIndex {
        let vertex = self.picture.vertices.iter().position(|it| it.name == name).expect("known");
        self.topology.task(vertex, subtask).expect("known")
    }

    fn state(&self, task: TaskIndex) -> ExecutionState {
        let (vertex, subtask) = self.topology.location(task);
        self.picture.vertices[vertex].subtasks[subtask as usize].current.state
    }

    fn partition(&self, partition: crate::core::topology::PartitionIndex) -> ResultPartitionId {
        let (producer, data_set) = self.topology.partition_location(partition);
        let (vertex, subtask) = self.topology.location(producer);
        let vertex = &self.picture.vertices[vertex];
        let attempt = vertex.subtasks[subtask as usize].current.attempt;
        let producer = crate::graph::TaskId { vertex: vertex.id, subtask };
        ResultPartitionId { partition: crate::graph::PartitionId { producer, data_set }, attempt }
    }

    fn restart_set(&self, task: TaskIndex, named: Option<NamedPartition>) -> Vec<TaskIndex> {
        failover::restart_set(
            &self.topology,
            &self.regions,
            &failover::Failure { task, named },
            StalePolicy::Ignore,
            |task| self.state(task),
            |partition| self.tracked.contains(&self.partition(partition)),
        )
    }
}

/// Fails a running task and compares what restarts with [`failover::restart_set`] over what was observed before.
fn check_restart_set(world: &mut World, graph: &JobGraph, which: usize, names_input: Option<usize>) {
    let running: Vec<_> = world.runs.iter().filter(|(_, run)| !run.is_cancelled).map(|(it, _)| *it).collect();
    let Some(attempt) = pick(&running, which) else { return };
    if !matches!(world.core.status(), JobStatus::Running | JobStatus::Restarting) {
        return;
    }
    let topology = Topology::build(LogicalGraph::of_job(graph)).expect("valid");
    let regions = Regions::build(&topology);
    let by_scheduler = |it: &ResultPartitionId| {
        let vertex = graph.position(it.partition.producer.vertex).expect("known");
        graph
            .outputs(vertex)
            .any(|edge| edge.data_set == it.partition.data_set && edge.partition_type.is_release_by_scheduler())
    };
    let inputs = world.runs[&attempt].deployment.inputs.iter().flat_map(|gate| &gate.channels);
    let named = names_input.and_then(|input| pick(&inputs.map(|channel| channel.partition).collect::<Vec<_>>(), input));
    let kind = named.map_or(FailureKind::Task, FailureKind::PartitionConnection);
    // The failed attempt's own results go with it.
    let own = |it: &ResultPartitionId| it.partition.producer == attempt.task && it.attempt == attempt.attempt;
    let tracked = world.stored.iter().map(|(_, it)| *it).filter(|it| by_scheduler(it) && !own(it)).collect();
    let mut observed = Observed { topology, regions, picture: world.picture(), tracked };
    let vertex = graph.position(attempt.task.vertex).expect("known");
    let name = graph.vertices[vertex].name.clone();
    let task = observed.index(&name, attempt.task.subtask);
    observed.picture.vertices[vertex].subtasks[attempt.task.subtask as usize].current.state = ExecutionState::Failed;
    let named = named.map(|it| {
        let producer = graph.position(it.partition.producer.vertex).expect("known");
        let partition = observed.topology.partition(producer, it.partition.data_set, it.partition.producer.subtask);
        let partition = partition.expect("known");
        NamedPartition { partition, is_current_attempt: observed.partition(partition) == it }
    });
    let expected: BTreeSet<TaskIndex> = observed.restart_set(task, named).into_iter().collect();

    let before: BTreeMap<TaskIndex, u64> = observed.topology.tasks().map(|it| (it, world.core.version(it))).collect();
    world.update(attempt, failed(kind));
    let restarting: BTreeSet<TaskIndex> =
        before.into_iter().filter(|(it, version)| world.core.version(*it) != *version).map(|(it, _)| it).collect();
    assert_eq!(restarting, expected, "{name}{} failed: {:?}", attempt.task.subtask, world.states());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_job_without_checkpoints_survives_any_order_of_events_and_ends(
        graph in graphs(), steps in steps(), ours in any::<bool>(),
    ) {
        let settings = JobSettings { untrack_before_slots_fail: ours, ..restarting(50) };
        let mut world = world(graph, settings);
        let mut executors = 0;
        for step in &steps {
            step.take(&mut world, &mut executors);
            if world.ended.is_some() {
                break;
            }
        }
        let_it_end(&mut world);
        prop_assert_eq!(world.core.status(), JobStatus::Finished);
    }

    #[test]
    fn a_checkpointed_job_survives_any_order_of_events_and_ends(
        width in 1..4_u32, is_all_to_all in any::<bool>(), steps in steps(), retained in 1..3_u32,
    ) {
        let settings = JobSettings {
            checkpoint_interval_ms: Some(100), tolerable_failed: 2, num_retained: retained, checkpoint_timeout_ms: 300,
            ..restarting(50)
        };
        let mut world = world(stream_graph(width, is_all_to_all), settings);
        let mut executors = 0;
        for step in &steps {
            step.take(&mut world, &mut executors);
            if world.ended.is_some() {
                break;
            }
        }
        if world.ended.is_none() {
            let stats = world.picture().checkpoints.expect("checkpointed");
            prop_assert!(stats.in_progress <= 1);
            prop_assert!(stats.completed + stats.failed + stats.in_progress == stats.total);
        }
        let_it_end(&mut world);
        prop_assert_eq!(world.core.status(), JobStatus::Finished);
    }

    #[test]
    fn what_restarts_is_what_the_definition_says_of_what_was_observed(
        graph in graphs(), steps in steps(), which in 0..64_usize, input in prop::option::of(0..64_usize),
    ) {
        let mut world = world(graph.clone(), restarting(50));
        let mut executors = 0;
        for (number, step) in steps.iter().enumerate() {
            step.take(&mut world, &mut executors);
            if number % 4 == 3 {
                check_restart_set(&mut world, &graph, which + number, input);
            }
        }
    }

    #[test]
    fn a_loss_is_counted_once_however_many_tasks_it_takes(graph in graphs(), steps in steps()) {
        let mut world = world(graph, restarting(50));
        let mut executors = 0;
        for step in &steps {
            let before = world.picture().restarts;
            step.take(&mut world, &mut executors);
            if matches!(step, Step::Fail(_) | Step::FailNaming(..) | Step::LoseExecutor(_)) {
                let counted = world.picture().restarts - before;
                prop_assert!(counted <= 1, "{step:?} was counted {counted} times");
            }
        }
    }

    #[test]
    fn a_job_can_be_cancelled_or_suspended_at_any_point(graph in graphs(), steps in steps(), suspend in any::<bool>()) {
        let mut world = world(graph, restarting(50));
        let mut executors = 0;
        for step in &steps {
            step.take(&mut world, &mut executors);
        }
        if world.ended.is_some() {
            return Ok(());
        }
        world.send(if suspend { JobEvent::Suspend } else { JobEvent::Cancel });
        if suspend {
            prop_assert_eq!(world.core.status(), JobStatus::Suspended);
        } else {
            world.answer_held();
            prop_assert_eq!(world.core.status(), JobStatus::Canceled);
        }
    }
}
