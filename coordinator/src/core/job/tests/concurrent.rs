//! Failures that meet (reference 2.7).

use super::driver::*;
use super::failover::pairs;
use super::fixtures::*;
use crate::core::event::JobEvent;
use crate::core::job::JobSettings;
use crate::core::restart_strategy::RestartStrategyConfig;
use crate::core::status::{ExecutionState, JobStatus};
use crate::graph::JobKind::Batch;
use crate::graph::ResultPartitionType::HybridFull;
use crate::graph::ShipStrategy::Forward;
use crate::runtime::protocol::{FailureKind, TaskUpdate};

fn exponential(initial_ms: u64) -> JobSettings {
    JobSettings {
        restart: RestartStrategyConfig::ExponentialDelay {
            initial_ms,
            max_ms: 60_000,
            multiplier: 2.0,
            reset_threshold_ms: 3_600_000,
            jitter: 0.0,
            attempts: None,
        },
        ..JobSettings::default()
    }
}

// C1, P090, P110
#[test]
fn c1_independent_regions_have_their_own_sets_and_timers() {
    let mut world = World::start(spec(pairs(), restarting(100)), &[2]);
    world.run_all();
    world.fail("a", 0);
    world.pass(50);
    world.fail("b", 1);
    assert_eq!(world.picture().restarts, 2, "fixed delay counts each");
    world.pass(50);
    assert_eq!(world.states(), ["a0#1 DEPLOYING", "a1#0 CANCELED", "b0#1 DEPLOYING", "b1#0 FAILED"]);
    assert_eq!(world.core.status(), JobStatus::Restarting, "the second set still waits");
    world.pass(50);
    assert_eq!(world.states()[1], "a1#1 DEPLOYING");
    assert_eq!(world.core.status(), JobStatus::Running);
}

// C1, P060, P099
#[test]
fn c1_exponential_delay_merges_what_arrives_before_the_planned_restart() {
    let mut world = World::start(spec(pairs(), exponential(100)), &[2]);
    world.run_all();
    world.fail("a", 0);
    world.pass(50);
    world.fail("b", 1);
    let picture = world.picture();
    assert_eq!((picture.restarts, picture.exceptions.len()), (1, 1));
    let concurrent: Vec<_> = picture.exceptions[0].concurrent.iter().map(|it| it.task_name.clone()).collect();
    assert_eq!(concurrent, [Some("b (2/2) - execution #0".to_owned())]);
    world.pass(50);
    assert!(world.states().iter().all(|line| line.contains("#1 DEPLOYING")), "{:?}", world.states());
}

// C2
#[test]
fn c2_a_later_larger_set_takes_over_and_the_first_timer_does_nothing() {
    let job = graph(Batch, &[("a", 1), ("b", 1)], &[("a", "b", Forward, HybridFull)]);
    let mut world = World::start(spec(job, restarting(100)), &[2]);
    world.run_all();
    world.fail("b", 0);
    world.pass(50);
    world.fail("a", 0);
    world.pass(50);
    assert_eq!(world.states(), ["a0#0 FAILED", "b0#0 FAILED"]);
    assert_eq!(world.core.status(), JobStatus::Restarting);
    world.pass(50);
    assert_eq!(world.states(), ["a0#1 DEPLOYING", "b0#1 DEPLOYING"]);
    // P117: what had failed in the set already is concurrent to the new root.
    assert_eq!(world.picture().exceptions[0].concurrent.len(), 1);
}

// C3, P144
#[test]
fn c3_a_failure_while_canceling_is_a_cancellation() {
    let mut world = World::start(spec(pairs(), restarting(0)), &[2]);
    world.run_all();
    world.answers.cancels = false;
    world.fail("a", 0);
    assert_eq!(world.state("b", 0), ExecutionState::Canceling);
    world.pass(10);
    assert_eq!(world.state("a", 0), ExecutionState::Failed, "the delay is over, b0 is not");
    world.fail("b", 0);
    assert_eq!(world.states(), ["a0#1 DEPLOYING", "a1#0 RUNNING", "b0#1 DEPLOYING", "b1#0 RUNNING"]);
    assert_eq!(world.subtask("b", 0).earlier[0].state, ExecutionState::Canceled);
    assert_eq!((world.picture().restarts, world.exceptions().len()), (1, 1));
}

// C8, C9
#[test]
fn c8_c9_tasks_of_one_lost_executor() {
    let fixed = |ours| JobSettings { untrack_before_slots_fail: ours, ..restarting(10) };
    for (settings, both, restarts) in [
        (fixed(true), true, 1),
        (fixed(false), true, 2),
        (JobSettings { untrack_before_slots_fail: false, ..exponential(10) }, true, 1),
        (fixed(false), false, 1),
    ] {
        let what = format!("both regions: {both}, {settings:?}");
        // Two slots on one executor hold both regions; one slot each hold one.
        let mut world = World::start(spec(pairs(), settings), if both { &[2] } else { &[1, 1] });
        world.run_all();
        world.lose("e0");
        let picture = world.picture();
        assert_eq!(picture.restarts, restarts, "{what}");
        let affected = world.states().iter().filter(|line| !line.ends_with("RUNNING")).count();
        assert_eq!(affected, if both { 4 } else { 2 }, "{what}");
        world.add_executor("new", 2);
        world.pass(10);
        world.finish_all();
        assert_eq!(world.core.status(), JobStatus::Finished, "{what}");
    }
}

#[test]
fn a_task_that_is_canceling_when_its_executor_is_lost_is_canceled() {
    let mut world = World::start(spec(pairs(), restarting(10)), &[2]);
    world.run_all();
    world.answers.cancels = false;
    world.fail("a", 0);
    world.lose("e0");
    assert_eq!(world.states(), ["a0#0 FAILED", "a1#0 FAILED", "b0#0 CANCELED", "b1#0 FAILED"]);
    assert_eq!(world.picture().restarts, 2);
}

// C10, P072, P134
#[test]
fn c10_reports_of_old_attempts_change_nothing() {
    let mut world = World::start(spec(pairs(), restarting(0)), &[2]);
    world.run_all();
    let old = world.attempt("a", 0);
    world.fail("a", 0);
    world.pass(0);
    world.run_all();
    let before = world.picture();
    world.log();
    let failed = TaskUpdate::Failed(crate::runtime::protocol::TaskFailure {
        error: crate::graph::TaskError::new("late"),
        kind: FailureKind::Task,
    });
    for update in [failed, TaskUpdate::Finished, TaskUpdate::Canceled, TaskUpdate::Running] {
        world.update(old, update);
    }
    world.send(JobEvent::Metrics(vec![(
        old,
        crate::runtime::protocol::TaskMetrics { read_records: 5, ..Default::default() },
    )]));
    world.send(JobEvent::EndOfData { attempt: old });
    assert_eq!(world.log(), []);
    assert_eq!(world.picture(), before);
}
