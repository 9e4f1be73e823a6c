//! Region failover: restart sets on observed state, delays, concurrent failures (reference 2, 3.5).

use super::driver::*;
use super::fixtures::*;
use crate::core::event::JobCommand;
use crate::core::failover::{FailoverStrategy, StalePolicy};
use crate::core::job::JobSettings;
use crate::core::status::{ExecutionState, JobStatus};
use crate::graph::JobKind::Batch;
use crate::graph::ResultPartitionType::{Blocking, HybridFull, HybridSelective, Pipelined};
use crate::graph::ShipStrategy::{Forward, Hash, Rebalance};
use crate::graph::{JobGraph, PartitionId, ResultPartitionId};
use crate::runtime::protocol::{FailureKind, TaskUpdate};

/// `src` to `m0` to `m1` to `m2`, one subtask each.
pub(super) fn chain() -> JobGraph {
    graph(
        Batch,
        &[("src", 1), ("m0", 1), ("m1", 1), ("m2", 1)],
        &[("src", "m0", Forward, Blocking), ("m0", "m1", Forward, Blocking), ("m1", "m2", Forward, Blocking)],
    )
}

/// Regions {a0 b0}, {a1 b1}: pipelined pairs that never meet.
pub(super) fn pairs() -> JobGraph {
    graph(Batch, &[("a", 2), ("b", 2)], &[("a", "b", Forward, Pipelined)])
}

/// The chain with everything up to `m2` finished, and `m2` running; one slot at a time is all it takes.
fn chain_at_m2(settings: JobSettings) -> World {
    let settings = JobSettings { release_during_execution: false, ..settings };
    let mut world = World::start(spec(chain(), settings), &[1]);
    for vertex in ["src", "m0", "m1"] {
        world.run_all();
        world.finish(vertex, 0);
    }
    world.run_all();
    world.log();
    world
}

fn partition(producer: &str, attempt: u32) -> ResultPartitionId {
    ResultPartitionId { partition: PartitionId { producer: task(producer, 0), data_set: 0 }, attempt }
}

// P057, P071, P092
#[test]
fn a_failed_task_restarts_alone_when_its_input_is_still_there() {
    let mut world = chain_at_m2(restarting(100));
    world.fail("m2", 0);
    assert_eq!(world.core.status(), JobStatus::Restarting);
    assert_eq!(world.exceptions(), ["TaskException: boom"]);
    world.pass(99);
    assert_eq!(world.states(), ["src0#0 FINISHED", "m00#0 FINISHED", "m10#0 FINISHED", "m20#0 FAILED"]);
    world.pass(1);
    assert_eq!(world.states(), ["src0#0 FINISHED", "m00#0 FINISHED", "m10#0 FINISHED", "m20#1 DEPLOYING"]);
    assert_eq!(world.core.status(), JobStatus::Running);
    let m2 = world.subtask("m2", 0);
    assert_eq!(m2.earlier.len(), 1);
    assert_eq!(m2.earlier[0].failure.as_deref(), Some("TaskException: boom"));
    world.finish_all();
    assert_eq!(world.core.status(), JobStatus::Finished);
    assert_eq!(world.picture().restarts, 1);
}

// P079, P146, P165; rows 4d and 23b of the reference
#[test]
fn a_partition_that_the_failure_names_is_produced_again() {
    for kind in
        [FailureKind::PartitionNotFound(partition("m1", 0)), FailureKind::PartitionConnection(partition("m1", 0))]
    {
        let mut world = chain_at_m2(restarting(0));
        world.fail_with("m2", 0, kind);
        world.pass(0);
        assert_eq!(world.states()[2..], ["m10#1 DEPLOYING", "m20#1 CREATED"]);
        assert!(!world.stored.iter().any(|(_, it)| *it == partition("m1", 0)), "what it had made is deleted");
        world.finish_all();
        assert_eq!(world.core.status(), JobStatus::Finished);
    }
}

// Reference 2.9: ours compares attempts, Flink does not.
#[test]
fn a_failure_that_names_an_old_attempt_spares_the_new_one_unless_parity_is_asked_for() {
    for (stale, m1) in [(StalePolicy::Ignore, "m10#1 FINISHED"), (StalePolicy::Honour, "m10#1 FINISHED")] {
        let mut world = chain_at_m2(JobSettings { stale, ..restarting(0) });
        world.fail_with("m2", 0, FailureKind::PartitionNotFound(partition("m1", 0)));
        world.pass(0);
        world.run_all();
        world.finish("m1", 0);
        world.run_all();
        assert_eq!(world.states()[2..], [m1, "m20#1 RUNNING"]);
        world.fail_with("m2", 0, FailureKind::PartitionNotFound(partition("m1", 0)));
        world.pass(0);
        let expected = match stale {
            StalePolicy::Ignore => ["m10#1 FINISHED", "m20#2 DEPLOYING"],
            StalePolicy::Honour => ["m10#2 DEPLOYING", "m20#2 CREATED"],
        };
        assert_eq!(world.states()[2..], expected, "{stale:?}");
    }
}

// Reference 2.4
#[test]
fn a_lost_executor_is_one_failover_here_and_two_in_flinks_order() {
    for (ours, attempts, restarts) in [(true, [1, 1, 1, 1], 1), (false, [1, 1, 1, 2], 2)] {
        let mut world = chain_at_m2(JobSettings { untrack_before_slots_fail: ours, ..restarting(0) });
        world.lose("e0");
        world.add_executor("new", 1);
        world.pass(0);
        world.pass(0);
        world.finish_all();
        assert_eq!(world.core.status(), JobStatus::Finished);
        let picture = world.picture();
        let seen: Vec<u32> = picture.vertices.iter().map(|vertex| vertex.subtasks[0].current.attempt).collect();
        assert_eq!((seen, picture.restarts), (attempts.to_vec(), restarts), "ours: {ours}");
        let entry = picture.exceptions.last().expect("a root");
        assert_eq!(entry.name, "ExecutorLostException");
        assert_eq!(entry.executor.as_ref().map(|it| it.0.as_str()), Some("e0"));
    }
}

#[test]
fn an_input_that_is_lost_while_nothing_reads_it_fails_its_consumer_before_deployment() {
    // a0 has finished on e0, a1 runs on e1; e0 is lost, which no task notices.
    let job = graph(Batch, &[("a", 2), ("b", 1)], &[("a", "b", Hash, Blocking)]);
    let mut world = World::start(spec(job, restarting(0)), &[1, 1]);
    world.run_all();
    let lost = world.executor_of("a", 0);
    world.finish("a", 0);
    world.lose(&lost);
    assert_eq!(world.picture().restarts, 0);
    world.finish("a", 1);
    assert_eq!(
        world.exceptions(),
        ["PartitionNotFoundException: partition 0 of `a` (0) attempt 0 is gone: it must be produced again"]
    );
    world.pass(0);
    assert_eq!(world.states(), ["a0#1 DEPLOYING", "a1#0 FINISHED", "b0#1 CREATED"]);
    world.finish_all();
    assert_eq!(world.core.status(), JobStatus::Finished);
}

// P160, P164 (a JobMaster here never ends an attempt that may still run by its own word alone)
#[test]
fn what_finishes_while_canceling_is_canceled_and_its_results_are_released() {
    let job =
        graph(Batch, &[("a", 1), ("b", 1), ("c", 1)], &[("a", "b", Forward, Pipelined), ("a", "c", Forward, Blocking)]);
    let mut world = World::start(spec(job, restarting(0)), &[2]);
    world.run_all();
    world.answers.cancels = false;
    world.fail("b", 0);
    let attempt = world.attempt("a", 0);
    world.log();
    world.update(attempt, TaskUpdate::Finished);
    let released: usize = world
        .log()
        .iter()
        .map(|it| if let JobCommand::ReleasePartitions { partitions, .. } = it { partitions.len() } else { 0 })
        .sum();
    assert_eq!(released, 2, "the pipelined one and the blocking one");
    assert_eq!(world.state("a", 0), ExecutionState::Canceled);
}

// P161
#[test]
fn a_finished_producer_in_a_restart_set_gives_up_its_pipelined_results_at_once() {
    let mut world = World::start(spec(pairs(), restarting(10)), &[2]);
    world.run_all();
    world.finish("a", 0);
    assert_eq!(world.stored.len(), 2, "kept when it finishes");
    world.fail("b", 0);
    assert_eq!(world.stored.len(), 1);
    world.pass(10);
    assert_eq!(world.states(), ["a0#1 DEPLOYING", "a1#0 RUNNING", "b0#1 DEPLOYING", "b1#0 RUNNING"]);
}

// P167, P170
#[test]
fn a_consumer_that_runs_again_keeps_its_input_from_being_released() {
    let job =
        graph(Batch, &[("a", 1), ("b", 2), ("c", 2)], &[("a", "b", Hash, Blocking), ("b", "c", Forward, Blocking)]);
    let mut world = World::start(spec(job, restarting(0)), &[3]);
    world.finish("a", 0);
    world.finish("b", 0);
    world.fail_with("c", 0, FailureKind::PartitionNotFound(partition("b", 0)));
    world.pass(0);
    world.finish("b", 1);
    assert_eq!(world.states()[1..3], ["b0#1 DEPLOYING", "b1#0 FINISHED"]);
    let is_kept = |world: &World| world.stored.iter().any(|(_, it)| *it == partition("a", 0));
    assert!(is_kept(&world), "b0 reads it again");
    world.finish("b", 0);
    assert!(!is_kept(&world));
}

// P163, P178
#[test]
fn an_attempt_that_ended_by_itself_is_only_forgotten() {
    let job = graph(Batch, &[("a", 2), ("b", 1)], &[("a", "b", Hash, Blocking)]);
    let mut world = World::start(spec(job, restarting(10)), &[2]);
    world.run_all();
    world.log();
    world.fail("a", 0);
    world.update(world.attempt("a", 1), TaskUpdate::Canceled);
    let log = world.log();
    assert!(!log.iter().any(|it| matches!(it, JobCommand::ReleasePartitions { .. })), "{log:?}");
}

#[test]
fn hybrid_selective_inputs_always_pull_their_producer_in() {
    let job = graph(
        Batch,
        &[("a", 1), ("b", 1), ("c", 1)],
        &[("a", "b", Forward, HybridFull), ("b", "c", Forward, HybridSelective)],
    );
    let mut world = World::start(spec(job, restarting(0)), &[3]);
    world.run_all();
    world.fail("c", 0);
    world.pass(0);
    assert_eq!(world.states(), ["a0#0 RUNNING", "b0#1 DEPLOYING", "c0#1 DEPLOYING"]);
}

#[test]
fn the_full_strategy_restarts_everything_that_began() {
    let job = graph(Batch, &[("a", 2), ("b", 1)], &[("a", "b", Rebalance, Blocking)]);
    let mut world = World::start(spec(job, JobSettings { failover: FailoverStrategy::Full, ..restarting(0) }), &[2]);
    world.run_all();
    world.finish("a", 0);
    world.fail("a", 1);
    world.pass(0);
    assert_eq!(world.states(), ["a0#1 DEPLOYING", "a1#1 DEPLOYING", "b0#1 CREATED"]);
}

// P094
#[test]
fn slots_that_come_back_from_canceled_tasks_are_not_granted_to_tasks_about_to_be_reset() {
    // b (2 slots) waits for slots behind a, which holds both.
    let job = graph(Batch, &[("a", 2), ("b", 2)], &[("a", "b", Hash, HybridFull)]);
    let mut world = World::start(spec(job, restarting(10)), &[2]);
    world.run_all();
    assert_eq!(world.states()[2..], ["b0#0 SCHEDULED", "b1#0 SCHEDULED"]);
    world.log();
    world.fail("a", 0);
    assert_eq!(world.states(), ["a0#0 FAILED", "a1#0 RUNNING", "b0#0 CANCELED", "b1#0 CANCELED"]);
    let log = world.log();
    let withdrawn = log.iter().rposition(|it| matches!(it, JobCommand::CancelSlotRequest(_))).expect("two requests");
    assert!(!log[..withdrawn].iter().any(|it| matches!(it, JobCommand::Deploy { .. })));
    world.pass(10);
    assert_eq!(world.states(), ["a0#1 DEPLOYING", "a1#0 RUNNING", "b0#1 SCHEDULED", "b1#1 SCHEDULED"]);
}

#[test]
fn a_consumer_does_not_start_on_data_that_is_about_to_be_made_again() {
    // x fails by a partition that p0 made; p0 is FINISHED and waits for its restart when p1 finishes.
    let job =
        graph(Batch, &[("p", 2), ("x", 2), ("y", 1)], &[("p", "x", Forward, Blocking), ("p", "y", Hash, Blocking)]);
    let mut world = World::start(spec(job, restarting(100)), &[4]);
    world.run_all();
    world.finish("p", 0);
    world.run_all();
    world.fail_with("x", 0, FailureKind::PartitionNotFound(partition("p", 0)));
    assert_eq!(world.state("p", 0), ExecutionState::Finished);
    world.finish("p", 1);
    assert_eq!(world.state("y", 0), ExecutionState::Created, "y waits for the new p0");
    assert_eq!(world.state("x", 1), ExecutionState::Deploying, "x1 reads p1 only");
    world.pass(100);
    assert_eq!(world.state("p", 0), ExecutionState::Deploying);
    world.finish_all();
    assert_eq!(world.core.status(), JobStatus::Finished);
    assert_eq!(world.subtask("y", 0).current.attempt, 0);
}

#[test]
fn many_instant_failures_leave_nothing_behind() {
    // P066
    let mut world = World::start(spec(pairs(), restarting(0)), &[2]);
    for round in 0..200 {
        world.run_all();
        world.fail(["a", "b"][round % 2], u32::try_from(round / 2 % 2).expect("0 or 1"));
        world.pass(0);
    }
    let picture = world.picture();
    assert_eq!((picture.restarts, picture.exceptions.len()), (200, 16)); // P100
    assert_eq!(picture.vertices[0].subtasks[0].earlier.len(), 16);
    world.finish_all();
    assert_eq!(world.core.status(), JobStatus::Finished);
}
