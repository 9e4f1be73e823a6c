//! Global failovers, failures within failovers, and whole recoveries counted attempt by attempt (reference 2.4, 2.7).

use super::checkpoints::{running, settings, stats};
use super::driver::*;
use super::failover::chain;
use super::fixtures::*;
use crate::core::event::{JobCommand, JobEvent};
use crate::core::job::JobSettings;
use crate::core::restart_strategy::RestartStrategyConfig;
use crate::core::status::{ExecutionState, JobStatus};
use crate::graph::JobKind::Batch;
use crate::graph::{JobGraph, TaskError, VertexId};
use crate::runtime::protocol::TaskUpdate;

/// A source with splits and a task that has nothing to do with it.
fn two() -> JobGraph {
    graph(Batch, &[("split", 1), ("x", 1)], &[])
}

/// Both run; the splits of the source are not listed yet.
fn two_running(settings: JobSettings) -> World {
    let mut world = World::new(spec(two(), settings), &[2]);
    world.answers.splits = false;
    world.send(JobEvent::Start);
    world.run_all();
    world.log();
    world
}

/// The splits cannot be listed: a failure of the job as a whole.
fn fail_globally(world: &mut World) {
    let result = Err(TaskError::new("no such folder"));
    world.send(JobEvent::SplitsEnumerated { vertex: VertexId::of_name("split"), result });
}

// C4
#[test]
fn c4_a_global_failure_takes_a_pending_restart_over() {
    let mut world = two_running(restarting(100));
    world.fail("x", 0);
    world.pass(50);
    fail_globally(&mut world);
    assert_eq!(world.states(), ["split0#0 CANCELED", "x0#0 FAILED"]);
    world.pass(50);
    assert_eq!(world.states(), ["split0#0 CANCELED", "x0#0 FAILED"], "the first timer does nothing");
    world.pass(50);
    assert_eq!(world.states(), ["split0#1 DEPLOYING", "x0#1 DEPLOYING"]);
    assert_eq!(world.picture().restarts, 2);
}

// C5, P082
#[test]
fn c5_a_failure_within_a_global_failover_changes_nothing() {
    let mut world = running(JobSettings { checkpoint_timeout_ms: 50, ..settings() });
    world.answers.cancels = false;
    world.pass(100);
    world.pass(50);
    assert_eq!(world.core.status(), JobStatus::Restarting, "a checkpoint too many has failed");
    assert!(world.states().iter().all(|line| line.ends_with("#0 CANCELING")), "{:?}", world.states());
    let before = world.exceptions();
    world.fail("a", 0);
    assert_eq!(world.subtask("a", 0).current.state, ExecutionState::Canceled);
    assert_eq!((world.picture().restarts, world.exceptions()), (1, before));
    world.answer_held();
    world.pass(10);
    assert!(world.states().iter().all(|line| line.ends_with("#1 DEPLOYING")), "{:?}", world.states());
    assert_eq!((world.picture().restarts, world.core.status()), (1, JobStatus::Running));
}

// C7 (state lies in memory here; what a restart needs and may not get is the list of splits)
#[test]
fn c7_a_restart_that_cannot_get_what_it_needs_is_one_more_global_failure() {
    let restart = RestartStrategyConfig::FixedDelay { attempts: 2, delay_ms: 10 };
    let mut world = two_running(JobSettings { restart, ..JobSettings::default() });
    fail_globally(&mut world);
    for round in 1..=2 {
        assert_eq!((world.core.status(), world.picture().restarts), (JobStatus::Restarting, round));
        world.pass(10);
        let asks = |it: &JobCommand| matches!(it, JobCommand::EnumerateSplits(_));
        assert_eq!(world.log().iter().filter(|it| asks(it)).count(), 1, "the restart asks again");
        assert!(world.states().iter().all(|line| line.contains(&format!("#{round} "))), "{:?}", world.states());
        fail_globally(&mut world);
    }
    assert_eq!(world.ended.as_ref().expect("counted each time, so it is over").0, JobStatus::Failed);
    let exceptions = world.exceptions();
    assert_eq!(exceptions.len(), 3);
    assert!(exceptions[0].starts_with("JobException: Recovery is suppressed by FixedDelay"), "{exceptions:?}");
    assert!(exceptions.iter().all(|it| it.ends_with("Caused by: no such folder")), "{exceptions:?}");
}

// C7, its other half: the state is read by the task, so that a state that cannot be read is a failure of the task.
#[test]
fn c7_a_task_that_cannot_read_its_state_is_restarted_from_the_same_checkpoint() {
    let mut world = running(settings());
    world.pass(100);
    world.acknowledge_all(1);
    world.fail("a", 0);
    for attempt in 1..=2 {
        world.pass(10);
        let restored = world.attempt("a", 0);
        assert_eq!(restored.attempt, attempt);
        assert_eq!(world.runs[&restored].deployment.restore.as_ref().map(|it| it.checkpoint), Some(1));
        world.update(restored, TaskUpdate::Initializing);
        world.fail("a", 0);
    }
    assert_eq!(world.states(), ["a0#2 FAILED", "a1#0 RUNNING", "b0#2 CANCELED", "b1#0 RUNNING"]);
    assert_eq!((world.picture().restarts, stats(&world).restored), (3, 2));
}

// P224 (BatchFineGrainedRecoveryITCase)
#[test]
fn each_mapper_fails_once_and_then_loses_its_executor() {
    for (ours, attempts, restarts) in [(false, [5, 4, 3], 9), (true, [4, 3, 2], 6)] {
        let settings = JobSettings { untrack_before_slots_fail: ours, ..restarting(0) };
        let mut world = World::start(spec(chain(), settings), &[1]);
        world.run_all();
        world.finish("src", 0);
        for (number, mapper) in ["m0", "m1", "m2"].into_iter().enumerate() {
            world.run_all();
            world.fail(mapper, 0);
            world.pass(0);
            world.run_all();
            assert_eq!(world.state(mapper, 0), ExecutionState::Running);
            world.lose(&format!("e{number}"));
            world.add_executor(&format!("e{}", number + 1), 1);
            finish_up_to(&mut world, mapper);
        }
        assert_eq!(world.core.status(), JobStatus::Finished);
        let last = ["m0", "m1", "m2"].map(|mapper| world.subtask(mapper, 0).current.attempt);
        assert_eq!((last, world.picture().restarts), (attempts, restarts), "ours: {ours}");
    }
}

/// What was lost is made again, one task at a time, and then the mapper finishes.
fn finish_up_to(world: &mut World, mapper: &str) {
    for _ in 0..20 {
        world.pass(0);
        world.run_all();
        let Some(attempt) = world.runs.keys().next().copied() else { continue };
        world.update(attempt, TaskUpdate::Finished);
        if attempt.task == task(mapper, 0) {
            return;
        }
    }
    panic!("{mapper} does not finish: {:?}", world.states());
}

// P063
#[test]
fn exponential_delay_allows_its_attempts_and_no_more() {
    let restart = RestartStrategyConfig::ExponentialDelay {
        initial_ms: 10,
        max_ms: 100,
        multiplier: 2.0,
        reset_threshold_ms: 3_600_000,
        jitter: 0.0,
        attempts: Some(3),
    };
    let mut world = World::start(spec(two(), JobSettings { restart, ..JobSettings::default() }), &[2]);
    for failure in 0..4 {
        assert_eq!(world.ended, None, "after {failure} failures");
        world.run_all();
        world.fail("x", 0);
        // Longer than any delay, and not within the time that merges failures.
        world.pass(101);
    }
    assert_eq!(world.ended.as_ref().expect("the fourth was one too many").0, JobStatus::Failed);
    let last = &world.exceptions()[0];
    assert!(last.contains("Recovery is suppressed by ExponentialDelayRestartBackoffTimeStrategy"), "{last}");
    assert_eq!(world.picture().restarts, 3);
}
