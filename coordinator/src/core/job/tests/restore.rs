//! What tasks start from after a failover or a change of leader (reference 7.8).

use super::checkpoints::{aborted_to, completed_to, counts, job, message, running, settings, stats};
use super::driver::*;
use super::fixtures::*;
use crate::core::checkpoint::{CompletedCheckpoint, TaskSnapshotHandle};
use crate::core::event::{JobCommand, JobEvent};
use crate::core::job::{JobCore, JobInitError, JobSettings, RestoredCheckpoint};
use crate::runtime::protocol::TaskRestore;

// P085, P086, P299
#[test]
fn a_regional_failover_aborts_the_pending_checkpoint_and_restores_from_memory() {
    let mut world = running(settings());
    world.pass(100);
    world.acknowledge_all(1);
    world.pass(100);
    world.log();
    world.fail("a", 0);
    assert_eq!(message(&world, 2), "FailoverRegion is restarting.");
    let log = world.log();
    let mut told = aborted_to(&log);
    told.sort_unstable();
    let mut others = vec![task("a", 1), task("b", 1)];
    others.sort_unstable();
    assert_eq!(told, others, "the region that goes on is told");
    world.pass(10);
    let log = world.log();
    let touches_store = |it: &JobCommand| {
        matches!(it, JobCommand::StoreCheckpoint(_) | JobCommand::AllocateCheckpointId | JobCommand::EnumerateSplits(_))
    };
    assert!(!log.iter().any(touches_store), "FLINK-22483: a failover asks no store");
    for (attempt, run) in world.runs.iter().filter(|(attempt, _)| attempt.task.subtask == 0) {
        let before = crate::graph::AttemptId { attempt: 0, ..*attempt };
        assert_eq!(run.deployment.restore, Some(TaskRestore { checkpoint: 1, state: state_of(before, 1) }));
    }
    assert_eq!(counts(&world), (2, 0, 1, 1, 1));
    let restored = stats(&world).latest_restored.expect("restored");
    assert_eq!((restored.id, restored.external_path.as_str()), (1, "s3://chk-1"));
}

#[test]
fn without_a_checkpoint_a_restart_begins_empty() {
    let mut world = running(settings());
    world.fail("a", 0);
    world.pass(10);
    assert_eq!(world.runs[&world.attempt("a", 0)].deployment.restore, None);
    assert_eq!((counts(&world).4, stats(&world).latest_restored), (0, None));
}

#[test]
fn a_checkpoint_that_becomes_durable_before_the_restart_is_the_one_restored() {
    let mut world = running(settings());
    world.answers.store = false;
    world.pass(100);
    world.answer_held();
    world.acknowledge_all(1);
    world.fail("a", 0);
    world.log();
    world.answer_held();
    let mut told: Vec<_> = completed_to(&world.log()).into_iter().map(|it| it.0).collect();
    told.sort_unstable();
    let mut others = vec![task("a", 1), task("b", 1)];
    others.sort_unstable();
    assert_eq!(told, others);
    world.pass(10);
    assert_eq!(world.runs[&world.attempt("a", 0)].deployment.restore.as_ref().map(|it| it.checkpoint), Some(1));
}

// The rule behind it: an older restore than one already told loses or doubles output (reference 7.9).
#[test]
fn a_store_that_hangs_holds_up_no_restart_and_its_late_success_is_taken_back() {
    let mut world = running(settings());
    world.pass(100);
    world.acknowledge_all(1);
    world.answers.store = false;
    world.pass(100);
    world.answer_held();
    world.acknowledge_all(2);
    world.fail("a", 0);
    world.pass(10);
    assert_eq!(world.runs[&world.attempt("a", 0)].deployment.restore.as_ref().map(|it| it.checkpoint), Some(1));
    assert_eq!(message(&world, 2), "FailoverRegion is restarting.");
    world.log();
    world.answer_held();
    let log = world.log();
    assert!(matches!(&log[..], [JobCommand::DiscardCheckpoint(it)] if it.id == 2), "{log:?}");
    world.run_all();
    world.fail("b", 1);
    world.pass(10);
    assert_eq!(world.runs[&world.attempt("b", 1)].deployment.restore.as_ref().map(|it| it.checkpoint), Some(1));
}

#[test]
fn expiry_while_storing_lets_the_next_checkpoint_go_on() {
    let mut world = running(JobSettings { checkpoint_timeout_ms: 60, tolerable_failed: 3, ..settings() });
    world.answers.store = false;
    world.pass(100);
    world.answer_held();
    world.acknowledge_all(1);
    world.pass(60);
    assert_eq!(message(&world, 1), "Checkpoint expired before completing.");
    let late = world.unanswered.pop_front().expect("the store's answer");
    world.pass(40);
    world.answer_held();
    world.acknowledge_all(2);
    world.answer_held();
    assert_eq!(counts(&world), (2, 0, 1, 1, 0));
    world.log();
    world.send(late);
    let log = world.log();
    assert!(matches!(&log[..], [JobCommand::DiscardCheckpoint(it)] if it.id == 1), "{log:?}");
}

fn restored(id: u64, tasks: &[(&str, u32)]) -> RestoredCheckpoint {
    let tasks = tasks.iter().map(|&(vertex, subtask)| {
        (task(vertex, subtask), TaskSnapshotHandle::Inline(vec![u8::try_from(id).expect("small")]))
    });
    let checkpoint =
        CompletedCheckpoint { job: JOB, id, trigger_ms: 1, completed_ms: 2, tasks: tasks.collect(), is_final: false };
    RestoredCheckpoint { checkpoint, external_path: format!("s3://chk-{id}") }
}

const ALL: [(&str, u32); 4] = [("a", 0), ("a", 1), ("b", 0), ("b", 1)];

#[test]
fn a_recovered_job_starts_from_the_newest_checkpoint_and_keeps_the_list() {
    let mut recovered = spec(job(), settings());
    recovered.restored = vec![restored(3, &ALL), restored(4, &ALL)];
    let mut world = World::start(recovered, &[4]);
    for run in world.runs.values() {
        let state = TaskSnapshotHandle::Inline(vec![4]);
        assert_eq!(run.deployment.restore, Some(TaskRestore { checkpoint: 4, state }));
    }
    assert_eq!(counts(&world), (0, 0, 0, 0, 1));
    world.send(JobEvent::Cancel);
    let (_, discard) = world.ended.expect("over");
    assert_eq!(discard.iter().map(|it| it.id).collect::<Vec<_>>(), [3, 4]);
}

// P313
#[test]
fn state_of_another_graph_is_refused_at_start() {
    for (tasks, missing) in [(&ALL[..3], true), (&[("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)][..], false)] {
        let mut recovered = spec(job(), settings());
        recovered.restored = vec![restored(7, tasks)];
        let error = JobCore::new(recovered, 0).expect_err("it does not fit");
        let JobInitError::StateMismatch { checkpoint: 7, missing: is_missing, .. } = error else { panic!("{error}") };
        assert_eq!(is_missing, missing);
    }
}
