//! How jobs end: failing, cancelling, suspending (reference 3.9).

use super::driver::*;
use super::fixtures::*;
use crate::core::event::{JobCommand, JobEvent};
use crate::core::job::{JobCore, JobInitError, JobSettings};
use crate::core::restart_strategy::RestartStrategyConfig;
use crate::core::status::{ExecutionState, JobStatus};
use crate::graph::JobKind::Batch;
use crate::graph::ResultPartitionType::{Blocking, Pipelined};
use crate::graph::ShipStrategy::{Forward, Hash};
use crate::graph::{JobGraph, TaskError, VertexId};
use crate::runtime::protocol::{FailureKind, TaskFailure, TaskUpdate};

/// Regions {a0 b0}, {a1 b1}, then c.
fn job() -> JobGraph {
    graph(Batch, &[("a", 2), ("b", 2), ("c", 1)], &[("a", "b", Forward, Pipelined), ("b", "c", Hash, Blocking)])
}

fn running(settings: JobSettings) -> World {
    let mut world = World::start(spec(job(), settings), &[2]);
    world.run_all();
    world.log();
    world
}

fn cancel_requests(world: &mut World) -> usize {
    world.log().iter().filter(|it| matches!(it, JobCommand::CancelTask { .. })).count()
}

// P073, P058, P096, P202
#[test]
fn a_refused_restart_fails_the_job_once_everything_is_cancelled() {
    let restart = RestartStrategyConfig::FixedDelay { attempts: 1, delay_ms: 0 };
    let mut world = running(JobSettings { restart, ..JobSettings::default() });
    world.fail("a", 0);
    world.pass(0);
    world.run_all();
    world.answers.cancels = false;
    world.fail("b", 1);
    assert_eq!(world.core.status(), JobStatus::Failing);
    assert!(world.ended.is_none());
    assert_eq!(world.states(), ["a0#1 CANCELING", "a1#0 CANCELING", "b0#1 CANCELING", "b1#0 FAILED", "c0#0 CANCELED"]);
    world.answer_held();
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Failed);
    let picture = world.picture();
    assert_eq!(picture.restarts, 1);
    let roots: Vec<_> = picture.exceptions.iter().map(|it| (it.name.as_str(), it.task_name.is_some())).collect();
    assert_eq!(roots, [("JobException", false), ("TaskException", true)]);
    assert_eq!(
        picture.exceptions[0].stacktrace,
        "JobException: Recovery is suppressed by FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts=1, \
         backoffTimeMS=0)\nCaused by: boom"
    );
    assert_eq!(picture.exceptions[0].concurrent.len(), 1, "the attempt that failed");
}

// P059, P061
#[test]
fn a_failure_that_is_not_recoverable_asks_no_strategy() {
    let mut world = running(restarting(0));
    let error = TaskError::new("boom").context("could not write").non_recoverable();
    let failure = TaskFailure { error, kind: FailureKind::NonRecoverable };
    world.update(world.attempt("a", 0), TaskUpdate::Failed(failure));
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Failed);
    assert_eq!(
        world.exceptions(),
        ["JobException: The failure is not recoverable\nCaused by: could not write\nCaused by: boom"]
    );
    assert_eq!(world.picture().restarts, 0);
}

// P091, C6, P089
#[test]
fn cancelling_waits_for_what_runs_and_outdates_restarts() {
    let mut world = running(restarting(50));
    world.answers.cancels = false;
    world.fail("a", 0);
    world.send(JobEvent::Cancel);
    assert_eq!(world.core.status(), JobStatus::Cancelling);
    assert_eq!(cancel_requests(&mut world), 3, "one for each that ran, none twice");
    world.send(JobEvent::Cancel);
    world.pass(100);
    assert_eq!(world.log(), [], "neither the timer nor a second cancel do anything");
    world.answer_held();
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Canceled);
    assert_eq!(world.states(), ["a0#0 FAILED", "a1#0 CANCELED", "b0#0 CANCELED", "b1#0 CANCELED", "c0#0 CANCELED"]);
}

// P135
#[test]
fn a_failure_after_a_cancel_restarts_nothing() {
    let mut world = running(restarting(0));
    world.answers.cancels = false;
    world.send(JobEvent::Cancel);
    world.fail("a", 0);
    world.lose("e0");
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Canceled);
    assert_eq!((world.picture().restarts, world.exceptions().len()), (0, 0));
}

// P132
#[test]
fn a_cancel_while_failing_ends_canceled() {
    let mut world = running(JobSettings::default());
    world.answers.cancels = false;
    world.fail("a", 0);
    assert_eq!(world.core.status(), JobStatus::Failing);
    world.log();
    world.send(JobEvent::Cancel);
    assert_eq!(world.core.status(), JobStatus::Cancelling);
    assert_eq!(cancel_requests(&mut world), 0, "all were asked already");
    world.answer_held();
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Canceled);
}

/// A job that is being cancelled, whose splits are still being listed.
fn cancelling_while_listing(settings: JobSettings) -> World {
    let job = graph(Batch, &[("split", 2), ("b", 1)], &[("split", "b", Hash, Blocking)]);
    let mut world = World::new(spec(job, settings), &[2]);
    world.answers = Answers { cancels: false, splits: false, ..world.answers };
    world.send(JobEvent::Start);
    world.unanswered.clear();
    world.run_all();
    world.send(JobEvent::Cancel);
    assert_eq!(world.core.status(), JobStatus::Cancelling);
    world
}

fn listing_fails(world: &mut World, error: TaskError) {
    world.send(JobEvent::SplitsEnumerated { vertex: VertexId::of_name("split"), result: Err(error) });
}

// P133
#[test]
fn a_failure_that_ends_the_job_fails_it_while_it_is_cancelled_too() {
    let cases = [
        (JobSettings::default(), TaskError::new("no such folder")),
        (restarting(0), TaskError::new("no such folder").non_recoverable()),
    ];
    for (settings, error) in cases {
        let mut world = cancelling_while_listing(settings);
        world.log();
        listing_fails(&mut world, error);
        assert_eq!(world.core.status(), JobStatus::Failing);
        assert_eq!(cancel_requests(&mut world), 0, "all were asked already");
        world.answer_held();
        assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Failed);
        let picture = world.picture();
        assert!(picture.exceptions[0].stacktrace.contains("no such folder"), "{:?}", picture.exceptions);
        assert_eq!(picture.restarts, 0);
    }
}

// P133: and the user may still have it cancelled (P132).
#[test]
fn a_job_that_fails_while_it_is_cancelled_can_be_cancelled_again() {
    let mut world = cancelling_while_listing(JobSettings::default());
    listing_fails(&mut world, TaskError::new("no such folder"));
    world.send(JobEvent::Cancel);
    world.answer_held();
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Canceled);
}

// P135
#[test]
fn a_failure_that_could_restart_the_job_restarts_nothing_while_it_is_cancelled() {
    let mut world = cancelling_while_listing(restarting(0));
    listing_fails(&mut world, TaskError::new("no such folder"));
    world.pass(1_000);
    assert_eq!(world.core.status(), JobStatus::Cancelling);
    world.answer_held();
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Canceled);
    let picture = world.picture();
    assert_eq!((picture.exceptions.len(), picture.restarts), (1, 0));
    assert!(world.states().iter().all(|line| line.contains("#0")), "{:?}", world.states());
}

// P130, P093
#[test]
fn a_cancel_withdraws_all_slot_requests() {
    let mut world = World::start(spec(job(), restarting(0)), &[]);
    world.log();
    world.send(JobEvent::Cancel);
    let withdrawn = world.log().iter().filter(|it| matches!(it, JobCommand::CancelSlotRequest(_))).count();
    assert_eq!(withdrawn, 2);
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Canceled);
}

// P130
#[test]
fn a_failing_job_withdraws_all_slot_requests() {
    let mut world = World::start(spec(job(), JobSettings::default()), &[1]);
    world.answers.cancels = false;
    world.log();
    world.fail("a", 0);
    let withdrawn = world.log().iter().filter(|it| matches!(it, JobCommand::CancelSlotRequest(_))).count();
    assert_eq!((withdrawn, world.core.status()), (1, JobStatus::Failing));
}

// P074
#[test]
fn a_job_that_gets_no_slots_and_may_not_restart_fails_and_says_so() {
    let mut world = World::start(spec(job(), JobSettings::default()), &[]);
    let JobCommand::RequestSlots { request, .. } = world.log().swap_remove(1) else { panic!("a request") };
    world.send(JobEvent::SlotRequestFailed { request, reason: "waited 300 s".into() });
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Failed);
    let entry = world.picture().exceptions.remove(0);
    assert!(entry.stacktrace.contains("could not acquire the slots that the region needs"), "{entry:?}");
    assert_eq!(entry.concurrent[0].name, "NoResourceAvailableException");
}

// P131
#[test]
fn a_cancel_while_restarting_or_before_the_start_takes_effect_at_once() {
    let mut world = running(restarting(50));
    world.lose("e0");
    assert_eq!(world.core.status(), JobStatus::Restarting);
    world.send(JobEvent::Cancel);
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Canceled);
    world.pass(100);
    assert!(world.states().iter().all(|line| line.contains("#0")));

    let mut world = World::new(spec(job(), restarting(0)), &[2]);
    world.send(JobEvent::Cancel);
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Canceled);
    assert_eq!(world.subtask("a", 0).current.state, ExecutionState::Canceled);
    world.send(JobEvent::Start);
    assert_eq!(world.core.status(), JobStatus::Canceled);
}

// P220
#[test]
fn a_cancel_works_while_an_executor_is_dead() {
    let mut world = running(restarting(0));
    world.answers.cancels = false;
    world.send(JobEvent::Cancel);
    assert_eq!(world.core.status(), JobStatus::Cancelling);
    world.lose("e0");
    assert_eq!(world.core.status(), JobStatus::Canceled);
}

// P136, P138
#[test]
fn suspending_is_atomic_from_every_state() {
    let suspend = |mut world: World, requests: usize| {
        world.log();
        world.send(JobEvent::Suspend);
        assert_eq!(world.core.status(), JobStatus::Suspended);
        assert_eq!(cancel_requests(&mut world), requests);
        assert!(world.ended.is_none(), "another coordinator goes on");
        assert_eq!(world.picture().end_ms, None);
        let before = world.picture();
        world.pass(1_000);
        world.send(JobEvent::Cancel);
        world.send(JobEvent::Start);
        assert_eq!(world.picture(), before, "nothing leaves SUSPENDED");
    };
    let held = |settings| {
        let mut world = running(settings);
        world.answers.cancels = false;
        world
    };
    suspend(World::new(spec(job(), restarting(0)), &[2]), 0); // CREATED
    suspend(World::start(spec(job(), restarting(0)), &[2]), 4); // DEPLOYING
    suspend(held(restarting(0)), 4); // RUNNING
    let mut restarting_job = held(restarting(50));
    restarting_job.fail("a", 0);
    suspend(restarting_job, 2); // RESTARTING: b0 was asked already
    let mut failing = held(JobSettings::default());
    failing.fail("a", 0);
    suspend(failing, 0);
    let mut cancelling = held(restarting(0));
    cancelling.send(JobEvent::Cancel);
    suspend(cancelling, 0);
}

// P137
#[test]
fn nothing_leaves_a_globally_terminal_state() {
    let end = |end: fn(&mut World)| {
        let mut world = running(JobSettings::default());
        end(&mut world);
        world
    };
    nothing_changes(end(World::finish_all), JobStatus::Finished);
    nothing_changes(end(|world| world.fail("a", 0)), JobStatus::Failed);
    nothing_changes(end(|world| world.send(JobEvent::Cancel)), JobStatus::Canceled);
}

fn nothing_changes(mut world: World, status: JobStatus) {
    assert_eq!(world.core.status(), status);
    let before = world.picture();
    let attempt = world.attempt("a", 0);
    for event in [
        JobEvent::Cancel,
        JobEvent::Suspend,
        JobEvent::Start,
        JobEvent::EndOfData { attempt },
        JobEvent::SplitsEnumerated { vertex: VertexId::of_name("a"), result: Ok(vec![]) },
        JobEvent::ExecutorLost { executor: crate::graph::ExecutorId("e0".into()), reason: String::new() },
    ] {
        assert_eq!(world.core.handle(event, 9_999), []);
    }
    assert_eq!(world.picture(), before);
}

#[test]
fn a_graph_whose_regions_wait_for_each_other_is_refused_by_name() {
    // The builder refuses such a graph as well; this one was made without it.
    let mut job = graph(
        Batch,
        &[("b", 1), ("c", 1), ("d", 1), ("f", 1)],
        &[
            ("b", "f", Forward, Pipelined),
            ("c", "d", Forward, Pipelined),
            ("b", "d", Forward, Pipelined),
            ("c", "f", Forward, Pipelined),
        ],
    );
    job.edges[2].partition_type = Blocking;
    job.edges[3].partition_type = Blocking;
    let error = JobCore::new(spec(job, JobSettings::default()), 0).expect_err("a deadlock");
    assert_eq!(error, JobInitError::RegionDeadlock(["b", "c", "d", "f"].map(String::from).to_vec()));
}
