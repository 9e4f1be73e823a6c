//! Checkpoints: trigger, completion, failures, restore (reference 7).

use super::driver::*;
use super::fixtures::*;
use crate::core::checkpoint::TaskSnapshotHandle;
use crate::core::event::{JobCommand, JobEvent, StoreFailure, StoredCheckpoint};
use crate::core::job::{JobCore, JobInitError, JobSettings};
use crate::core::restart_strategy::RestartStrategyConfig;
use crate::core::snapshot::{CheckpointEntryStatus, CheckpointStats};
use crate::core::status::JobStatus;
use crate::graph::JobKind::{Batch, Streaming};
use crate::graph::ResultPartitionType::{
    Blocking, BlockingPersistent, HybridFull, HybridSelective, PipelinedApproximate, PipelinedBounded,
};
use crate::graph::ShipStrategy::Forward;
use crate::graph::{JobGraph, TaskId};

/// Two regions of a source and a sink each.
pub(super) fn job() -> JobGraph {
    graph(Streaming, &[("a", 2), ("b", 2)], &[("a", "b", Forward, PipelinedBounded)])
}

/// A checkpoint every 100 ms; the first trigger is made exact by `min_pause`.
pub(super) fn settings() -> JobSettings {
    JobSettings { checkpoint_interval_ms: Some(100), min_pause_ms: 100, ..restarting(10) }
}

pub(super) fn running(settings: JobSettings) -> World {
    let mut world = World::start(spec(job(), settings), &[4]);
    world.run_all();
    world.log();
    world
}

pub(super) fn stats(world: &World) -> CheckpointStats {
    world.picture().checkpoints.expect("the job takes checkpoints")
}

/// `(total, in progress, completed, failed, restored)`.
pub(super) fn counts(world: &World) -> (u64, u64, u64, u64, u64) {
    let CheckpointStats { total, in_progress, completed, failed, restored, .. } = stats(world);
    (total, in_progress, completed, failed, restored)
}

/// The checkpoint that a trigger was sent for, and to whom.
fn triggered(world: &mut World) -> Vec<(TaskId, u64)> {
    let trigger = |command| match command {
        JobCommand::TriggerCheckpoint { attempt, checkpoint, .. } => Some((attempt.task, checkpoint)),
        _ => None,
    };
    world.log().into_iter().filter_map(trigger).collect()
}

pub(super) fn completed_to(log: &[JobCommand]) -> Vec<(TaskId, u64, bool)> {
    log.iter()
        .filter_map(|command| match command {
            JobCommand::NotifyCheckpointCompleted { attempt, checkpoint, is_final, .. } => {
                Some((attempt.task, *checkpoint, *is_final))
            }
            _ => None,
        })
        .collect()
}

pub(super) fn aborted_to(log: &[JobCommand]) -> Vec<TaskId> {
    log.iter()
        .filter_map(|command| match command {
            JobCommand::NotifyCheckpointAborted { attempt, .. } => Some(attempt.task),
            _ => None,
        })
        .collect()
}

pub(super) fn message(world: &World, id: u64) -> String {
    let entry = stats(world).history.into_iter().find(|entry| entry.id == id).expect("in the history");
    match entry.status {
        CheckpointEntryStatus::Failed { message, .. } => message,
        other => panic!("checkpoint {id} is {other:?}"),
    }
}

// P087
#[test]
fn a_checkpoint_counts_once_it_is_durable_and_only_then_is_told() {
    let mut world = running(settings());
    assert!(world.runs.values().all(|run| run.deployment.checkpointing));
    world.pass(100);
    let mut sources = triggered(&mut world);
    sources.sort_unstable();
    let mut expected = vec![(task("a", 0), 1), (task("a", 1), 1)];
    expected.sort_unstable();
    assert_eq!(sources, expected);
    world.answers.store = false;
    world.acknowledge_all(1);
    let log = world.log();
    let JobCommand::StoreCheckpoint(checkpoint) = &log[0] else { panic!("{log:?}") };
    assert_eq!(checkpoint.tasks.len(), 4);
    assert!(checkpoint.tasks.is_sorted_by_key(|(task, _)| *task));
    assert_eq!((completed_to(&log).len(), counts(&world)), (0, (1, 1, 0, 0, 0)));
    world.answer_held();
    let mut told: Vec<_> = completed_to(&world.log());
    told.sort_unstable();
    assert_eq!(told.len(), 4);
    assert!(told.iter().all(|it| (it.1, it.2) == (1, false)));
    assert_eq!(counts(&world), (1, 0, 1, 0, 0));
    let entry = &stats(&world).history[0];
    assert_eq!((entry.num_acknowledged, entry.num_subtasks, entry.state_size), (4, 4, 40));
    assert_eq!(entry.external_path.as_deref(), Some("s3://chk-1"));
}

// P283, P280
#[test]
fn older_checkpoints_are_subsumed_down_to_the_number_retained() {
    let mut world = running(JobSettings { num_retained: 2, ..settings() });
    let mut discarded = Vec::new();
    for id in 1..=4 {
        world.pass(100);
        world.acknowledge_all(id);
        for command in world.log() {
            if let JobCommand::DiscardCheckpoint(checkpoint) = command {
                assert_eq!(checkpoint.tasks.len(), 4, "with its state");
                discarded.push(checkpoint.id);
            }
        }
    }
    assert_eq!(discarded, [1, 2]);
    assert_eq!(
        stats(&world).history.iter().map(|it| (it.id, it.discarded)).collect::<Vec<_>>(),
        [(4, false), (3, false), (2, true), (1, true)]
    );
    world.send(JobEvent::Cancel);
    let (_, discard) = world.ended.clone().expect("over");
    assert_eq!(discard.iter().map(|it| it.id).collect::<Vec<_>>(), [3, 4], "none is kept");
}

// P301, P309
#[test]
fn one_at_a_time_and_not_within_the_pause() {
    let mut world = running(JobSettings { checkpoint_interval_ms: Some(100), min_pause_ms: 0, ..settings() });
    world.pass(100);
    let (first, _) = (triggered(&mut world), world.pass(250));
    assert_eq!((first.len(), triggered(&mut world).len()), (2, 0), "the first is still on its way");
    world.acknowledge_all(1);
    assert_eq!(triggered(&mut world).len(), 2, "the queued one follows at once");

    let mut world = running(JobSettings { min_pause_ms: 80, ..settings() });
    world.pass(100);
    world.pass(60);
    world.acknowledge_all(1);
    let done = world.now;
    world.log();
    world.pass(79);
    assert_eq!(triggered(&mut world), []);
    world.pass(1);
    assert_eq!((triggered(&mut world).len(), world.now - done), (2, 80));
}

#[test]
fn nothing_is_triggered_while_a_task_does_not_run() {
    let mut world = World::start(spec(job(), settings()), &[4]);
    world.pass(1_000);
    assert_eq!(triggered(&mut world), [], "ticks begin when everything runs");
    world.run_all();
    world.fail("a", 0);
    world.pass(10);
    world.pass(500);
    assert_eq!(triggered(&mut world), [], "a0 and b0 deploy");
    world.run_all();
    world.pass(100);
    assert_eq!(triggered(&mut world).len(), 2, "FLINK-13256: the ticks went on");
}

#[test]
fn a_number_that_comes_when_tasks_no_longer_run_is_not_used() {
    let mut world = running(settings());
    world.answers.store = false;
    world.pass(100);
    assert!(world.log().contains(&JobCommand::AllocateCheckpointId));
    world.fail("a", 0);
    world.log();
    world.answer_held();
    assert_eq!((triggered(&mut world), counts(&world).0), (vec![], 0));
}

// P062, P081, P298, P304, P318
#[test]
fn expiry_counts_and_exceeding_the_tolerated_number_fails_over_globally() {
    let mut world = running(JobSettings { checkpoint_timeout_ms: 50, tolerable_failed: 1, ..settings() });
    world.pass(100);
    world.pass(50);
    assert_eq!(message(&world, 1), "Checkpoint expired before completing.");
    assert_eq!(aborted_to(&world.log()).len(), 4);
    assert_eq!(world.core.status(), JobStatus::Running, "one is tolerated");
    world.pass(50);
    world.acknowledge_all(2);
    world.pass(100);
    world.pass(50);
    assert_eq!(world.core.status(), JobStatus::Running, "a success clears the count");
    world.pass(100);
    assert_eq!(counts(&world).3, 3);
    assert_eq!(world.core.status(), JobStatus::Restarting);
    assert!(world.exceptions()[0].contains("Exceeded checkpoint tolerable failure threshold."));
    // P095
    let entry = &world.picture().exceptions[0];
    assert_eq!((&entry.task_name, entry.concurrent.len()), (&None, 0));
    world.pass(10);
    assert!(world.states().iter().all(|line| line.contains("#1 DEPLOYING")), "everything restarts");
    assert!(world.runs.values().all(|run| run.deployment.restore.as_ref().is_some_and(|it| it.checkpoint == 2)));
}

// P301
#[test]
fn a_decline_counts_and_discards_what_others_had_written() {
    let mut world = running(JobSettings { tolerable_failed: 5, ..settings() });
    world.pass(100);
    let (a0, b0) = (world.attempt("a", 0), world.attempt("b", 0));
    world.send(JobEvent::CheckpointAck { attempt: a0, checkpoint: 1, state: state_of(a0, 1) });
    world.log();
    world.send(JobEvent::CheckpointDecline { attempt: b0, checkpoint: 1, reason: "disk full".into() });
    assert_eq!(message(&world, 1), "Checkpoint was declined. (b (1): disk full)");
    let log = world.log();
    assert!(log.contains(&JobCommand::DiscardState(vec![state_of(a0, 1)])), "{log:?}");
    // A late acknowledgement of the aborted checkpoint leaves nothing behind either.
    world.send(JobEvent::CheckpointAck { attempt: b0, checkpoint: 1, state: state_of(b0, 1) });
    assert_eq!(world.log(), [JobCommand::DiscardState(vec![state_of(b0, 1)])]);
    let inline = TaskSnapshotHandle::Inline(vec![1]);
    world.send(JobEvent::CheckpointAck { attempt: b0, checkpoint: 1, state: inline });
    assert_eq!(world.log(), [], "there is nothing to delete");
}

#[test]
fn a_second_acknowledgement_deletes_nothing_that_is_needed() {
    let mut world = running(settings());
    world.pass(100);
    let a0 = world.attempt("a", 0);
    let ack = JobEvent::CheckpointAck { attempt: a0, checkpoint: 1, state: state_of(a0, 1) };
    world.send(ack.clone());
    world.log();
    world.send(ack.clone());
    assert_eq!(world.log(), []);
    assert_eq!(stats(&world).history[0].num_acknowledged, 1);
    world.acknowledge_all(1);
    assert_eq!(counts(&world).2, 1);
    world.log();
    world.send(ack);
    assert_eq!(world.log(), []);
}

// P297, P303, FLINK-22494
#[test]
fn a_checkpoint_that_was_not_stored_is_deleted_only_if_it_surely_was_not() {
    for maybe_written in [false, true] {
        let mut world = running(JobSettings { tolerable_failed: 5, ..settings() });
        world.answers.store = false;
        world.pass(100);
        world.answer_held();
        world.acknowledge_all(1);
        world.unanswered.clear();
        world.log();
        let failure = StoreFailure { reason: "503".into(), maybe_written };
        world.send(JobEvent::CheckpointStored { checkpoint: 1, result: Err(failure) });
        let log = world.log();
        let discards = log.iter().any(|it| matches!(it, JobCommand::DiscardState(states) if states.len() == 4));
        assert_eq!(discards, !maybe_written);
        assert_eq!((aborted_to(&log).len(), completed_to(&log).len()), (4, 0));
        assert_eq!(message(&world, 1), "Failure to finalize checkpoint. (503)");
        // Not even a late acknowledgement deletes it.
        let a0 = world.attempt("a", 0);
        world.send(JobEvent::CheckpointAck { attempt: a0, checkpoint: 1, state: state_of(a0, 1) });
        assert_eq!(world.log().is_empty(), maybe_written);
    }
}

#[test]
fn a_counter_that_cannot_be_reached_counts_as_a_failed_checkpoint() {
    let mut world = running(settings());
    world.answers.store = false;
    world.pass(100);
    world.unanswered.clear();
    world.send(JobEvent::CheckpointIdAllocated(Err("no quorum".into())));
    assert_eq!(world.core.status(), JobStatus::Restarting);
    assert!(world.exceptions()[0].contains("IO-problem detected. (no quorum)"));
}

#[test]
fn a_job_that_is_cancelled_does_not_fail_for_a_checkpoint_that_cannot_be_stored() {
    let mut world = running(JobSettings { restart: RestartStrategyConfig::None, ..settings() });
    world.answers = Answers { store: false, cancels: false, ..world.answers };
    world.pass(100);
    world.answer_held();
    world.acknowledge_all(1);
    world.send(JobEvent::Cancel);
    let result = Err(StoreFailure { reason: "503".into(), maybe_written: false });
    world.send(JobEvent::CheckpointStored { checkpoint: 1, result });
    assert_eq!((world.core.status(), counts(&world).3), (JobStatus::Cancelling, 1));
    world.answer_held();
    assert_eq!(world.core.status(), JobStatus::Canceled);
}

// Where Flink begins once the blocking edge has finished, such a job is refused here.
#[test]
fn a_checkpointed_job_has_no_edges_that_barriers_do_not_pass_and_a_batch_job_no_checkpoints() {
    let with = |kind, exchange| graph(kind, &[("a", 1), ("b", 1)], &[("a", "b", Forward, exchange)]);
    for exchange in [Blocking, BlockingPersistent, HybridFull, HybridSelective] {
        let error = JobCore::new(spec(with(Streaming, exchange), settings()), 0).expect_err("barriers do not pass");
        assert!(matches!(error, JobInitError::NoBarriers { .. }), "{error}");
        let edge = format!("a job with a {} edge (`a` to `b`)", exchange.exchange_name());
        assert!(error.to_string().starts_with(&edge), "{error}");
        assert!(JobCore::new(spec(with(Streaming, exchange), restarting(0)), 0).is_ok(), "without checkpoints it runs");
    }
    assert!(JobCore::new(spec(with(Streaming, PipelinedApproximate), settings()), 0).is_ok());
    let mut world = World::start(spec(with(Batch, Blocking), settings()), &[1]);
    world.run_all();
    world.pass(1_000);
    assert_eq!(world.picture().checkpoints, None);
    assert!(!world.log().contains(&JobCommand::AllocateCheckpointId));
}

#[test]
fn the_first_checkpoint_comes_between_pause_and_interval_by_the_seed() {
    let mut delays = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let mut seeded = spec(job(), JobSettings { min_pause_ms: 20, ..settings() });
        seeded.seed = seed;
        let mut world = World::start(seeded, &[4]);
        world.run_all();
        let delay = world
            .log()
            .into_iter()
            .find_map(|it| if let JobCommand::SetTimer { delay, .. } = it { Some(delay) } else { None });
        delays.insert(delay.expect("the first tick").as_millis());
    }
    assert!(delays.len() > 5 && delays.iter().all(|delay| (20..=100).contains(delay)), "{delays:?}");
}

#[test]
fn a_job_that_ends_while_a_checkpoint_is_stored_deletes_that_one_too() {
    let mut world = running(settings());
    world.answers.store = false;
    world.pass(100);
    world.answer_held();
    world.acknowledge_all(1);
    world.send(JobEvent::Cancel);
    let (_, discard) = world.ended.clone().expect("over");
    assert_eq!(discard.iter().map(|it| it.id).collect::<Vec<_>>(), [1]);
    let result = Ok(StoredCheckpoint { external_path: String::new() });
    assert_eq!(world.core.handle(JobEvent::CheckpointStored { checkpoint: 1, result }, 9_999), []);
}
