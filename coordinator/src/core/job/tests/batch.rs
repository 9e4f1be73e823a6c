//! Region scheduling, slots, partitions and splits of batch jobs.

use super::driver::*;
use super::fixtures::*;
use crate::core::event::{JobCommand, JobEvent, SlotId};
use crate::core::job::JobSettings;
use crate::core::status::{ExecutionState, JobStatus};
use crate::graph::JobKind::Batch;
use crate::graph::ResultPartitionType::{Blocking, HybridFull, Pipelined};
use crate::graph::ShipStrategy::{Forward, Hash, Rescale};
use crate::graph::{ExecutorId, Split};
use crate::runtime::protocol::TaskUpdate;

/// `a` to `b` to `c`, all blocking and all to all.
fn chain() -> crate::graph::JobGraph {
    graph(Batch, &[("a", 2), ("b", 2), ("c", 1)], &[("a", "b", Hash, Blocking), ("b", "c", Hash, Blocking)])
}

// P111, P114, P140
#[test]
fn a_batch_chain_runs_stage_by_stage_to_its_end() {
    let mut world = World::start(spec(chain(), restarting(0)), &[2, 2]);
    assert_eq!(world.core.status(), JobStatus::Running);
    assert_eq!(world.states(), ["a0#0 DEPLOYING", "a1#0 DEPLOYING", "b0#0 CREATED", "b1#0 CREATED", "c0#0 CREATED"]);
    world.run_all();
    world.finish("a", 0);
    assert_eq!(world.state("b", 0), ExecutionState::Created, "one producer of two is not enough");
    world.finish("a", 1);
    assert_eq!(world.states()[2..], ["b0#0 DEPLOYING", "b1#0 DEPLOYING", "c0#0 CREATED"]);
    world.finish_all();
    let (status, discard) = world.ended.clone().expect("the job is over");
    assert_eq!((status, discard.len()), (JobStatus::Finished, 0));
    let picture = world.picture();
    assert_eq!(picture.end_ms, Some(world.now));
    assert_eq!(picture.timestamps[&JobStatus::Initializing], 900);
    assert_eq!(picture.timestamps[&JobStatus::Created], 1_000);
}

// P162, P166, P168, P175
#[test]
fn what_all_consumer_regions_have_read_is_released() {
    let mut world = World::start(spec(chain(), restarting(0)), &[4]);
    for (vertex, subtask, left) in [("a", 0, 2), ("a", 1, 4), ("b", 0, 4), ("b", 1, 2 + 1 - 1), ("c", 0, 0)] {
        world.run_all();
        world.finish(vertex, subtask);
        let stored = world.stored.len();
        // Partitions count from deployment: `a` makes two, `b` two more; `a`'s go once both of `b` have finished.
        assert_eq!(stored, left, "after {vertex}{subtask}");
    }
}

// P174
#[test]
fn release_during_execution_can_be_switched_off() {
    let settings = JobSettings { release_during_execution: false, ..restarting(0) };
    let mut world = World::start(spec(chain(), settings), &[4]);
    world.finish_all();
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Finished);
    assert_eq!(world.stored.len(), 4, "all is left to the end of the job");
}

#[test]
fn tasks_of_a_region_with_one_subtask_index_share_a_slot_until_all_have_ended() {
    let job =
        graph(Batch, &[("a", 2), ("b", 2), ("c", 3)], &[("a", "b", Forward, Pipelined), ("b", "c", Hash, Pipelined)]);
    let mut world = World::start(spec(job, restarting(0)), &[5]);
    let asked: Vec<usize> = world
        .log()
        .iter()
        .filter_map(|command| match command {
            JobCommand::RequestSlots { slots, .. } => Some(slots.len()),
            _ => None,
        })
        .collect();
    assert_eq!(asked, [3], "one request for the whole region, as wide as its widest vertex");
    world.run_all();
    for subtask in 0..2 {
        world.finish("a", subtask);
        world.finish("b", subtask);
    }
    let freed = |world: &mut World| -> usize {
        world.log().iter().filter(|command| matches!(command, JobCommand::FreeSlot(_))).count()
    };
    assert_eq!(freed(&mut world), 0, "c0 and c1 are still in their slots");
    world.finish("c", 2);
    assert_eq!(freed(&mut world), 1);
    world.finish("c", 0);
    world.finish("c", 1);
    assert_eq!(freed(&mut world), 2);
    assert_eq!(world.core.status(), JobStatus::Finished);
}

// P139
#[test]
fn co_located_tasks_share_a_slot_again_after_a_restart() {
    let mut job = graph(Batch, &[("a", 2), ("b", 2)], &[("a", "b", Hash, Pipelined)]);
    job.co_located = vec![vec![0, 1]];
    // Executors of one slot each: who is on one executor is in one slot.
    let mut world = World::start(spec(job, restarting(10)), &[1, 1, 1, 1]);
    for attempt in 0..4 {
        world.run_all();
        assert_eq!(world.attempt("a", 1).attempt, attempt);
        for subtask in 0..2 {
            assert_eq!(world.executor_of("a", subtask), world.executor_of("b", subtask), "attempt {attempt}");
        }
        assert_ne!(world.executor_of("a", 0), world.executor_of("a", 1));
        if attempt % 2 == 0 {
            world.fail("b", 0);
        } else {
            let lost = world.executor_of("a", 1);
            world.lose(&lost);
            world.add_executor(&format!("new-{attempt}"), 1);
        }
        world.answer_held();
        world.pass(10);
    }
}

#[test]
fn deployments_go_upstream_first_and_say_where_the_inputs_are() {
    let job = graph(Batch, &[("a", 4), ("b", 2)], &[("a", "b", Rescale, Pipelined)]);
    let mut world = World::start(spec(job, restarting(0)), &[3, 3]);
    let deployed: Vec<_> = world
        .log()
        .into_iter()
        .filter_map(|command| match command {
            JobCommand::Deploy { deployment, .. } => Some(deployment),
            _ => None,
        })
        .collect();
    // Two regions of two producers and one consumer each.
    let names: Vec<_> = deployed.iter().map(|d| format!("{}{}", d.vertex, d.attempt.task.subtask)).collect();
    assert_eq!(names, ["a0", "a1", "b0", "a2", "a3", "b1"]);
    let channels = &deployed[5].inputs[0].channels;
    assert_eq!(channels.iter().map(|c| c.partition.partition.producer.subtask).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(deployed[0].outputs[0].subpartitions, 1);
    assert!(!deployed[0].checkpointing && deployed[0].restore.is_none());
}

// P112
#[test]
fn a_hybrid_consumer_starts_with_its_producer_and_not_again_when_that_finishes() {
    let job = graph(Batch, &[("a", 2), ("b", 1)], &[("a", "b", Hash, HybridFull)]);
    let mut world = World::start(spec(job, restarting(0)), &[3]);
    assert_eq!(world.states(), ["a0#0 DEPLOYING", "a1#0 DEPLOYING", "b0#0 DEPLOYING"]);
    world.run_all();
    world.log();
    world.finish("a", 0);
    world.finish("a", 1);
    assert!(!world.log().iter().any(|command| matches!(command, JobCommand::RequestSlots { .. })));
    world.finish("b", 0);
    assert_eq!(world.core.status(), JobStatus::Finished);
}

#[test]
fn a_hybrid_consumer_holds_no_slot_while_its_producer_waits_for_one() {
    let job = graph(Batch, &[("a", 2), ("b", 1)], &[("a", "b", Hash, HybridFull)]);
    let mut world = World::start(spec(job, restarting(0)), &[1]);
    assert_eq!(world.states(), ["a0#0 DEPLOYING", "a1#0 SCHEDULED", "b0#0 CREATED"]);
    world.add_executor("late", 2);
    assert_eq!(world.states(), ["a0#0 DEPLOYING", "a1#0 DEPLOYING", "b0#0 DEPLOYING"]);
}

// P113
#[test]
fn a_region_does_not_wait_for_a_blocking_edge_inside_itself() {
    let job = graph(
        Batch,
        &[("a", 2), ("b", 2), ("c", 2)],
        &[("a", "b", Forward, Pipelined), ("b", "c", Forward, Pipelined), ("a", "c", Hash, Blocking)],
    );
    let world = World::start(spec(job, restarting(0)), &[2]);
    assert!(world.states().iter().all(|line| line.ends_with("DEPLOYING")), "{:?}", world.states());
}

// P205
#[test]
fn splits_wait_for_their_list_and_return_when_their_task_restarts() {
    let job = graph(Batch, &[("split", 2), ("b", 1)], &[("split", "b", Hash, Blocking)]);
    let mut world = World::new(spec(job, restarting(0)), &[2]);
    world.answers.splits = false;
    world.send(JobEvent::Start);
    world.run_all();
    let (first, second) = (world.attempt("split", 0), world.attempt("split", 1));
    world.send(JobEvent::SplitRequested { attempt: first, request: 0 });
    assert!(assigned(&mut world).is_empty(), "nothing is listed yet");
    world.answer_held();
    assert_eq!(assigned(&mut world), [(0, Some(0))]);
    world.send(JobEvent::SplitRequested { attempt: first, request: 0 });
    assert_eq!(assigned(&mut world), [(0, Some(0))], "a repeated request is not a second one");
    world.send(JobEvent::SplitRequested { attempt: second, request: 0 });
    world.send(JobEvent::SplitRequested { attempt: first, request: 1 });
    assert_eq!(assigned(&mut world), [(1, Some(1)), (0, Some(2))]);

    world.fail("split", 0);
    world.pass(0);
    world.run_all();
    world.send(JobEvent::SplitRequested { attempt: first, request: 2 });
    assert!(assigned(&mut world).is_empty(), "the old attempt gets nothing");
    let again = world.attempt("split", 0);
    assert_eq!(again.attempt, 1);
    let mut given = Vec::new();
    for request in 0..4 {
        world.send(JobEvent::SplitRequested { attempt: again, request });
        given.extend(assigned(&mut world));
    }
    given.sort_unstable();
    assert_eq!(given, [(0, None), (0, Some(0)), (0, Some(2)), (0, Some(3))], "all but the one that split1 still has");
}

/// `(subtask, split)` of the answers since the last look.
fn assigned(world: &mut World) -> Vec<(u32, Option<u32>)> {
    let answer = |command: JobCommand| match command {
        JobCommand::AssignSplit { attempt, split, .. } => {
            Some((attempt.task.subtask, split.map(|Split { index, .. }| index)))
        }
        _ => None,
    };
    world.log().into_iter().filter_map(answer).collect()
}

#[test]
fn a_source_that_cannot_be_listed_fails_the_job_as_a_whole_and_is_listed_again() {
    let job = graph(Batch, &[("split", 2), ("b", 1)], &[("split", "b", Hash, Blocking)]);
    let mut world = World::new(spec(job, restarting(10)), &[2]);
    world.answers.splits = false;
    world.send(JobEvent::Start);
    world.unanswered.clear();
    let vertex = crate::graph::VertexId::of_name("split");
    let result = Err(crate::graph::TaskError::new("no such folder"));
    world.send(JobEvent::SplitsEnumerated { vertex, result });
    assert_eq!(world.core.status(), JobStatus::Restarting);
    assert_eq!(
        world.exceptions(),
        ["SplitEnumerationException: could not list the splits of source `split`\nCaused by: no such folder"]
    );
    world.log();
    world.pass(10);
    assert_eq!(world.log().iter().filter(|it| matches!(it, JobCommand::EnumerateSplits(v) if *v == vertex)).count(), 1);
    world.answers.splits = true;
    world.answer_held();
    world.finish_all();
    assert_eq!(world.core.status(), JobStatus::Finished);
}

// P077, P078
#[test]
fn slots_that_come_for_a_withdrawn_request_change_nothing() {
    let mut world = World::new(spec(chain(), restarting(5)), &[2]);
    world.answers.slots = false;
    world.send(JobEvent::Start);
    let late: Vec<JobEvent> = world.unanswered.iter().cloned().collect();
    let JobEvent::SlotsAllocated { request, .. } = late[0] else { panic!("{late:?}") };
    // a0's request runs into its time-out. b needs both, and what a1 will make is nowhere yet: a1 restarts, too.
    world.send(JobEvent::SlotRequestFailed { request, reason: "5 min".into() });
    assert_eq!(world.states()[..2], ["a0#0 FAILED", "a1#0 CANCELED"]);
    let JobEvent::SlotsAllocated { request, .. } = late[1] else { panic!("{late:?}") };
    assert!(world.log().contains(&JobCommand::CancelSlotRequest(request)));
    for event in late.clone() {
        world.deliver(event);
    }
    assert_eq!(world.log(), [], "who cancels a request returns its slots");
    assert_eq!(world.states()[..2], ["a0#0 FAILED", "a1#0 CANCELED"]);
    // P084: nor does an old grant place the attempts that ask anew.
    world.pass(5);
    for event in late {
        world.deliver(event);
    }
    assert_eq!(world.states()[..2], ["a0#1 SCHEDULED", "a1#1 SCHEDULED"]);
}

// P075, P098, P118
#[test]
fn a_slot_request_that_times_out_is_a_failure_of_its_region() {
    let mut world = World::start(spec(chain(), restarting(5)), &[1]);
    let request = world
        .log()
        .iter()
        .filter_map(|it| if let JobCommand::RequestSlots { request, .. } = it { Some(*request) } else { None })
        .next_back()
        .expect("two regions asked");
    world.run_all();
    world.send(JobEvent::SlotRequestFailed { request, reason: "waited 300 s".into() });
    assert_eq!(world.states()[..2], ["a0#0 RUNNING", "a1#0 FAILED"]);
    let entry = world.picture().exceptions.remove(0);
    assert_eq!(
        (entry.name.as_str(), entry.task_name.as_deref()),
        ("NoResourceAvailableException", Some("a (2/2) - execution #0"))
    );
    assert_eq!((entry.executor, entry.endpoint), (None, None));
    world.pass(5);
    assert_eq!(world.states()[..2], ["a0#0 RUNNING", "a1#1 SCHEDULED"]);
}

/// The executors that the next request avoids for its first slot.
fn avoided(world: &mut World) -> Vec<String> {
    let wishes = world
        .log()
        .into_iter()
        .find_map(|it| if let JobCommand::RequestSlots { slots, .. } = it { Some(slots) } else { None });
    wishes.expect("it is scheduled again")[0].avoid.iter().map(|it| it.0.clone()).collect()
}

#[test]
fn a_task_that_failed_somewhere_wishes_to_run_elsewhere_whatever_is_kept_of_its_history() {
    for attempts_history in [0, 16] {
        let settings = JobSettings { attempts_history, ..restarting(0) };
        let mut world = World::start(spec(chain(), settings), &[2, 2]);
        world.run_all();
        let bad = world.executor_of("a", 0);
        world.fail("a", 0);
        world.log();
        world.pass(0);
        assert_eq!(avoided(&mut world), std::slice::from_ref(&bad), "{attempts_history} attempts are kept");
        assert_ne!(world.executor_of("a", 0), bad);
    }
}

#[test]
fn where_a_task_failed_is_not_forgotten_for_attempts_that_were_cancelled_since() {
    let job = graph(Batch, &[("a", 1), ("b", 1)], &[("a", "b", Forward, Pipelined)]);
    let mut world = World::start(spec(job, restarting(0)), &[1, 1, 1]);
    world.run_all();
    let first = world.executor_of("a", 0);
    world.fail("a", 0);
    world.pass(0);
    world.run_all();
    let second = world.executor_of("b", 0);
    world.fail("b", 0);
    assert_eq!(world.state("a", 0), ExecutionState::Canceled);
    world.log();
    world.pass(0);
    let bad = avoided(&mut world);
    assert!(bad.len() == 2 && bad.contains(&first) && bad.contains(&second), "{bad:?}");
    assert!(!bad.contains(&world.executor_of("a", 0)));
}

#[test]
fn a_grant_of_the_wrong_size_is_returned_and_fails_the_region() {
    let mut world = World::new(spec(chain(), restarting(0)), &[]);
    world.send(JobEvent::Start);
    let JobCommand::RequestSlots { request, .. } = world.log().swap_remove(1) else { panic!("a request") };
    world.send(JobEvent::SlotsAllocated { request, slots: vec![] });
    assert_eq!(world.state("a", 0), ExecutionState::Failed);
    assert!(world.exceptions()[0].contains("0 slots were granted where 1 are needed"));
}

#[test]
fn late_or_backward_reports_are_refused() {
    let mut world = World::start(spec(chain(), restarting(0)), &[2]);
    let attempt = world.attempt("a", 0);
    world.update(attempt, TaskUpdate::Running);
    world.update(attempt, TaskUpdate::Initializing);
    assert_eq!(world.state("a", 0), ExecutionState::Running, "there is no way back");
    let unknown = crate::graph::AttemptId { attempt: 9, ..attempt };
    world.log();
    world.update(unknown, TaskUpdate::Finished);
    world.send(JobEvent::Timer(crate::core::event::TimerId(99)));
    assert_eq!(world.log(), []);
    let slot = SlotId { executor: ExecutorId("e0".into()), index: 0 };
    assert!(!world.log().contains(&JobCommand::FreeSlot(slot)));
}
