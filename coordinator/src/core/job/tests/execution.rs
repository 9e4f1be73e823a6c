//! Attempts: deployment, cancellation, slots, versions (reference 3.5, 3.7, 4.8; rows of 8.4).

use super::driver::*;
use super::failover::pairs;
use super::fixtures::*;
use crate::core::event::{JobCommand, JobEvent};
use crate::core::job::JobSettings;
use crate::core::status::{ExecutionState, JobStatus};
use crate::graph::JobKind::Batch;
use crate::graph::ResultPartitionType::Blocking;
use crate::graph::ShipStrategy::Hash;
use crate::graph::{ExecutorId, JobGraph};
use crate::runtime::protocol::TaskUpdate;

/// Two producers and a consumer that waits for both.
fn job() -> JobGraph {
    graph(Batch, &[("a", 2), ("b", 1)], &[("a", "b", Hash, Blocking)])
}

fn freed(log: &[JobCommand]) -> usize {
    log.iter().filter(|it| matches!(it, JobCommand::FreeSlot(_))).count()
}

fn versions(world: &World) -> Vec<u64> {
    world.core.topology.tasks().map(|task| world.core.version(task)).collect()
}

// P070, P145
#[test]
fn a_deployment_that_fails_is_an_ordinary_failure_with_its_cause() {
    let mut world = World::start(spec(job(), restarting(5)), &[2]);
    assert_eq!(world.state("a", 0), ExecutionState::Deploying);
    world.fail("a", 0);
    assert_eq!((world.state("a", 0), world.core.status()), (ExecutionState::Failed, JobStatus::Restarting));
    assert_eq!(world.subtask("a", 0).current.failure.as_deref(), Some("TaskException: boom"));
    world.pass(5);
    assert_eq!(world.states(), ["a0#1 DEPLOYING", "a1#0 DEPLOYING", "b0#0 CREATED"]);
    // Very fast tasks report nothing in between.
    world.finish("a", 0);
    assert_eq!(world.state("a", 0), ExecutionState::Finished);
}

// P076 (slots are assigned and used in one step here, so there is no moment in between)
#[test]
fn a_slot_that_is_lost_before_its_task_reported_anything_restarts_the_region() {
    let mut world = World::start(spec(pairs(), restarting(5)), &[1, 1]);
    let lost = world.executor_of("a", 0);
    world.lose(&lost);
    assert_eq!(world.states(), ["a0#0 FAILED", "a1#0 DEPLOYING", "b0#0 FAILED", "b1#0 DEPLOYING"]);
    let failure = world.subtask("b", 0).current.failure.expect("a cause");
    assert!(failure.starts_with("ExecutorLostException: executor"), "{failure}");
    world.add_executor("new", 1);
    world.pass(5);
    assert_eq!(world.states(), ["a0#1 DEPLOYING", "a1#0 DEPLOYING", "b0#1 DEPLOYING", "b1#0 DEPLOYING"]);
    assert_eq!(world.executor_of("a", 0), "new");
}

// P144
#[test]
fn cancelling_ends_at_once_what_was_not_sent_and_asks_the_rest_once() {
    let mut world = World::start(spec(job(), restarting(0)), &[1]);
    world.run_all();
    world.answers.cancels = false;
    assert_eq!(world.states(), ["a0#0 RUNNING", "a1#0 SCHEDULED", "b0#0 CREATED"]);
    world.log();
    world.send(JobEvent::Cancel);
    assert_eq!(world.states(), ["a0#0 CANCELING", "a1#0 CANCELED", "b0#0 CANCELED"]);
    let asked = |log: Vec<JobCommand>| log.iter().filter(|it| matches!(it, JobCommand::CancelTask { .. })).count();
    assert_eq!(asked(world.log()), 1);
    world.send(JobEvent::Cancel);
    assert_eq!(
        (asked(world.log()), world.state("a", 0)),
        (0, ExecutionState::Canceling),
        "repeated, or without answer"
    );
    world.fail("a", 0);
    assert_eq!((world.state("a", 0), world.core.status()), (ExecutionState::Canceled, JobStatus::Canceled));
}

// P141, P143
#[test]
fn a_slot_is_back_before_the_next_attempt_asks_for_one() {
    let mut world = World::start(spec(job(), restarting(0)), &[1]);
    world.run_all();
    world.log();
    world.fail("a", 0);
    world.pass(0);
    let log = world.log();
    let position = |wanted: fn(&JobCommand) -> bool| log.iter().position(wanted).expect("it was commanded");
    let returned = position(|it| matches!(it, JobCommand::FreeSlot(_)));
    assert!(returned < position(|it| matches!(it, JobCommand::RequestSlots { .. })), "{log:?}");
    assert_eq!(freed(&log), 1);
}

// P143
#[test]
fn canceled_tasks_return_their_slots_and_lost_executors_take_theirs() {
    let mut world = World::start(spec(pairs(), restarting(5)), &[2]);
    world.run_all();
    world.answers.cancels = false;
    world.log();
    world.fail("a", 0);
    assert_eq!(freed(&world.log()), 0, "b0 still runs in the slot");
    world.answer_held();
    assert_eq!(freed(&world.log()), 1);
    world.lose("e0");
    assert_eq!(world.states(), ["a0#0 FAILED", "a1#0 FAILED", "b0#0 CANCELED", "b1#0 FAILED"]);
    assert_eq!(freed(&world.log()), 0, "there is nothing to return");
}

// P089, P108
#[test]
fn each_decision_outdates_the_earlier_ones_about_its_tasks_only() {
    let mut world = World::start(spec(pairs(), restarting(50)), &[2]);
    world.run_all();
    assert_eq!(versions(&world), [0, 0, 0, 0]);
    world.fail("a", 0);
    assert_eq!(versions(&world), [1, 0, 1, 0], "a0 and b0 are one region");
    world.fail("b", 1);
    assert_eq!(versions(&world), [1, 1, 1, 1]);
    world.pass(50);
    assert_eq!(versions(&world), [1, 1, 1, 1], "both still held");
    let mut cancelled = World::start(spec(pairs(), restarting(50)), &[2]);
    cancelled.send(JobEvent::Cancel);
    assert_eq!(versions(&cancelled), [1, 1, 1, 1]);
    let mut suspended = World::start(spec(pairs(), restarting(50)), &[2]);
    suspended.send(JobEvent::Suspend);
    assert_eq!(versions(&suspended), [1, 1, 1, 1]);
    let mut failed = World::start(spec(pairs(), JobSettings::default()), &[2]);
    failed.fail("a", 0);
    assert_eq!(versions(&failed), [1, 1, 1, 1]);
}

// P106 (the job was CREATED before anybody could listen)
#[test]
fn every_job_tells_its_statuses_and_ends_with_the_final_one() {
    let told = |end: fn(&mut World)| -> Vec<JobStatus> {
        let mut world = World::start(spec(job(), JobSettings::default()), &[2]);
        end(&mut world);
        let statuses = world.log().into_iter().filter_map(|it| match it {
            JobCommand::StatusChanged(status) => Some(status),
            _ => None,
        });
        statuses.collect()
    };
    assert_eq!(told(World::finish_all), [JobStatus::Running, JobStatus::Finished]);
    let failed = told(|world| world.fail("a", 0));
    assert_eq!(failed, [JobStatus::Running, JobStatus::Failing, JobStatus::Failed]);
    let canceled = told(|world| world.send(JobEvent::Cancel));
    assert_eq!(canceled, [JobStatus::Running, JobStatus::Cancelling, JobStatus::Canceled]);
}

// P212
#[test]
fn executors_that_come_while_the_job_restarts_are_kept_for_it() {
    let mut world = World::start(spec(pairs(), restarting(50)), &[2]);
    world.run_all();
    world.lose("e0");
    assert_eq!(world.core.status(), JobStatus::Restarting);
    world.add_executor("first", 1);
    world.add_executor("second", 1);
    world.pass(50);
    assert_eq!(world.core.status(), JobStatus::Running);
    let used: std::collections::BTreeSet<_> = world.runs.values().map(|run| run.executor.clone()).collect();
    assert_eq!(used, ["first", "second"].map(|name| ExecutorId(name.into())).into());
}

// P161
#[test]
fn ending_a_job_gives_up_what_finished_producers_have_buffered() {
    for end in [JobEvent::Cancel, JobEvent::Suspend] {
        let mut world = World::start(spec(pairs(), restarting(0)), &[2]);
        world.run_all();
        let finished = world.attempt("a", 0);
        world.update(finished, TaskUpdate::Finished);
        world.log();
        world.send(end.clone());
        let of_finished = |it: &JobCommand| match it {
            JobCommand::ReleasePartitions { partitions, .. } => {
                partitions.iter().any(|it| (it.partition.producer, it.attempt) == (finished.task, finished.attempt))
            }
            _ => false,
        };
        assert_eq!(world.log().iter().filter(|it| of_finished(it)).count(), 1, "{end:?}");
    }
}
