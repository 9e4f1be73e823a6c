//! The final checkpoint of bounded streams (reference 7.7).

use super::checkpoints::{completed_to, counts, running, settings};
use super::driver::*;
use super::fixtures::*;
use crate::core::event::{JobCommand, JobEvent};
use crate::core::job::JobSettings;
use crate::core::status::{ExecutionState, JobStatus};
use crate::graph::JobKind::Streaming;
use crate::graph::ResultPartitionType::PipelinedBounded;
use crate::graph::ShipStrategy::Hash;

fn end(world: &mut World, tasks: &[(&str, u32)]) {
    for &(vertex, subtask) in tasks {
        world.send(JobEvent::EndOfData { attempt: world.attempt(vertex, subtask) });
    }
}

const ALL: [(&str, u32); 4] = [("a", 0), ("b", 0), ("a", 1), ("b", 1)];

fn is_begun(world: &mut World) -> bool {
    world.log().contains(&JobCommand::AllocateCheckpointId)
}

// P104, P321
#[test]
fn when_all_have_ended_a_final_checkpoint_is_taken_at_once_and_lets_them_finish() {
    let mut world = running(JobSettings { checkpoint_interval_ms: Some(1_000_000), ..settings() });
    end(&mut world, &ALL[..3]);
    end(&mut world, &ALL[..3]);
    assert!(!is_begun(&mut world), "b1 has not ended");
    end(&mut world, &ALL[3..]);
    assert!(is_begun(&mut world), "it does not wait for the interval");
    world.acknowledge_all(1);
    let told = completed_to(&world.log());
    assert_eq!(told.len(), 4);
    assert!(told.iter().all(|it| it.2), "{told:?}");
    world.finish_all();
    let (status, discard) = world.ended.clone().expect("over");
    assert_eq!((status, discard.len(), discard[0].is_final), (JobStatus::Finished, 1, true));
    // Whatever is still due comes to nothing.
    world.pass(10_000_000);
    assert_eq!(counts(&world), (1, 0, 1, 0, 0));
}

#[test]
fn an_ordinary_checkpoint_that_is_on_its_way_comes_first() {
    let mut world = running(settings());
    world.pass(100);
    end(&mut world, &ALL);
    world.log();
    world.acknowledge_all(1);
    let log = world.log();
    assert!(completed_to(&log).iter().all(|it| !it.2));
    assert!(log.contains(&JobCommand::AllocateCheckpointId), "then the final one");
    world.acknowledge_all(2);
    assert!(completed_to(&world.log()).iter().all(|it| it.2));
}

// P083
#[test]
fn a_restarted_task_must_reach_its_end_again() {
    let mut world = running(JobSettings { checkpoint_interval_ms: Some(1_000_000), ..settings() });
    end(&mut world, &ALL[..3]);
    world.fail("a", 0);
    world.pass(10);
    world.run_all();
    end(&mut world, &ALL[3..]);
    assert!(!is_begun(&mut world), "a0 and b0 began again");
    end(&mut world, &ALL[..2]);
    assert!(is_begun(&mut world));
}

#[test]
fn a_failed_final_checkpoint_is_tried_again_at_the_next_tick() {
    let mut world = running(JobSettings { tolerable_failed: 9, ..settings() });
    end(&mut world, &ALL);
    let attempt = world.attempt("b", 0);
    world.log();
    world.send(JobEvent::CheckpointDecline { attempt, checkpoint: 1, reason: "no".into() });
    assert!(!is_begun(&mut world), "not at once");
    world.pass(100);
    assert!(is_begun(&mut world));
    world.acknowledge_all(2);
    assert!(completed_to(&world.log()).iter().all(|it| it.2), "and it is the final one");
}

#[test]
fn a_region_that_fails_after_the_final_checkpoint_takes_one_of_its_own() {
    let mut world = running(settings());
    end(&mut world, &ALL);
    world.acknowledge_all(1);
    world.finish("a", 1);
    world.finish("b", 1);
    world.finish("a", 0);
    world.fail("b", 0);
    world.pass(10);
    assert_eq!(world.states(), ["a0#1 DEPLOYING", "a1#0 FINISHED", "b0#1 DEPLOYING", "b1#0 FINISHED"]);
    assert!(world.runs.values().all(|run| run.deployment.restore.as_ref().is_some_and(|it| it.checkpoint == 1)));
    world.run_all();
    world.log();
    end(&mut world, &ALL[..2]);
    world.acknowledge_all(2);
    let log = world.log();
    let stored = log
        .iter()
        .find_map(|it| if let JobCommand::StoreCheckpoint(checkpoint) = it { Some(checkpoint) } else { None });
    let stored = stored.expect("the region's final checkpoint");
    assert_eq!(stored.tasks.len(), 4, "with the state of those that finished");
    let discarded = log
        .iter()
        .find_map(|it| if let JobCommand::DiscardCheckpoint(checkpoint) = it { Some(checkpoint) } else { None });
    let discarded = discarded.expect("the first one is subsumed");
    assert_eq!(discarded.tasks.len(), 2, "but not the state that the new one carries on");
    assert!(discarded.tasks.iter().all(|(task, _)| task.subtask == 0));
    assert_eq!(completed_to(&log).len(), 2);
    world.finish_all();
    assert_eq!(world.core.status(), JobStatus::Finished);
}

#[test]
fn after_the_final_checkpoint_nothing_more_is_triggered() {
    let mut world = running(settings());
    end(&mut world, &ALL);
    world.acknowledge_all(1);
    world.log();
    world.finish("a", 0);
    world.pass(1_000);
    assert!(!is_begun(&mut world));
    assert_eq!(counts(&world), (1, 0, 1, 0, 0));
}

#[test]
fn without_checkpoints_a_bounded_stream_just_ends() {
    let job = graph(Streaming, &[("a", 2), ("b", 1)], &[("a", "b", Hash, PipelinedBounded)]);
    let mut world = World::start(spec(job, restarting(0)), &[2]);
    world.run_all();
    assert!(world.runs.values().all(|run| !run.deployment.checkpointing));
    world.finish("a", 0);
    assert_eq!(world.state("a", 0), ExecutionState::Finished);
    world.finish_all();
    assert_eq!(world.core.status(), JobStatus::Finished);
}
