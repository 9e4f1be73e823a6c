//! Slot sharing over the regions of a streaming job (reference 4.8).

use super::driver::*;
use super::fixtures::*;
use crate::core::event::JobCommand;
use crate::core::status::{ExecutionState, JobStatus};
use crate::graph::JobGraph;
use crate::graph::JobKind::{Batch, Streaming};
use crate::graph::ResultPartitionType::{Blocking, PipelinedApproximate, PipelinedBounded};
use crate::graph::ShipStrategy::{Forward, Hash};

/// Regions `a0 b0`, `a1 b1` and `c0 c1 d0 d1`.
fn three_regions() -> JobGraph {
    graph(
        Streaming,
        &[("a", 2), ("b", 2), ("c", 2), ("d", 2)],
        &[("a", "b", Forward, PipelinedBounded), ("c", "d", Hash, PipelinedBounded)],
    )
}

/// Slots asked for, request by request, since the last look.
fn asked(log: &[JobCommand]) -> Vec<usize> {
    let wishes =
        |it: &JobCommand| if let JobCommand::RequestSlots { slots, .. } = it { Some(slots.len()) } else { None };
    log.iter().filter_map(wishes).collect()
}

fn freed(log: &[JobCommand]) -> usize {
    log.iter().filter(|it| matches!(it, JobCommand::FreeSlot(_))).count()
}

#[test]
fn a_streaming_job_needs_as_many_slots_as_its_widest_vertex_has_subtasks() {
    let mut world = World::start(spec(three_regions(), restarting(10)), &[1, 1]);
    world.run_all();
    assert!(world.states().iter().all(|line| line.ends_with("RUNNING")), "{:?}", world.states());
    assert_eq!((asked(&world.log()), world.slots_used()), (vec![1, 1], 2));
    for subtask in 0..2 {
        let slots = ["a", "b", "c", "d"].map(|vertex| world.executor_of(vertex, subtask));
        assert!(slots.iter().all(|slot| *slot == slots[0]), "{slots:?}");
    }
}

#[test]
fn a_slot_is_free_again_once_nothing_of_the_job_is_in_it() {
    let mut world = World::start(spec(three_regions(), restarting(10)), &[2]);
    world.run_all();
    for (vertex, subtask) in [("a", 0), ("b", 0), ("c", 0), ("c", 1), ("d", 1)] {
        world.finish(vertex, subtask);
        assert_eq!(world.slots_used(), 2, "d0, a1 and b1 still run");
    }
    world.finish("d", 0);
    assert_eq!(world.slots_used(), 1);
    world.finish("a", 1);
    world.finish("b", 1);
    assert_eq!((world.slots_used(), world.core.status()), (0, JobStatus::Finished));
}

// P218
#[test]
fn a_region_that_restarts_alone_goes_back_to_the_slot_that_others_hold() {
    let mut world = World::start(spec(three_regions(), restarting(10)), &[1, 1, 1]);
    world.run_all();
    let before = world.executor_of("a", 1);
    world.log();
    world.fail("b", 1);
    world.pass(10);
    assert_eq!(world.states()[..4], ["a0#0 RUNNING", "a1#1 DEPLOYING", "b0#0 RUNNING", "b1#1 DEPLOYING"]);
    let log = world.log();
    assert_eq!((asked(&log), freed(&log)), (vec![], 0));
    assert_eq!([world.executor_of("a", 1), world.executor_of("b", 1)], [before.clone(), before]);
}

#[test]
fn of_a_lost_executor_only_the_slot_that_was_on_it_is_asked_for_again() {
    let mut world = World::start(spec(three_regions(), restarting(10)), &[1, 1]);
    world.run_all();
    let (lost, kept) = (world.executor_of("a", 0), world.executor_of("a", 1));
    world.log();
    world.lose(&lost);
    world.pass(10);
    // c1 and d1 go back to the slot that a1 and b1 are in, and wait there for c0 and d0.
    let waiting = [("a", 0), ("c", 0), ("c", 1)].map(|(vertex, subtask)| world.state(vertex, subtask));
    assert_eq!(waiting, [ExecutionState::Scheduled; 3]);
    assert_eq!((asked(&world.log()), world.slots_used()), (vec![1], 1));
    world.add_executor("new", 1);
    world.run_all();
    assert!(world.states().iter().all(|line| line.ends_with("RUNNING")), "{:?}", world.states());
    assert_eq!([world.attempt("a", 1).attempt, world.attempt("c", 1).attempt], [0, 1]);
    assert_eq!([world.executor_of("d", 0), world.executor_of("d", 1)], ["new".to_owned(), kept]);
}

// P076
#[test]
fn a_slot_that_is_lost_before_the_others_came_fails_the_region_that_waits() {
    let mut world = World::start(spec(three_regions(), restarting(10)), &[1]);
    world.run_all();
    assert_eq!(
        world.states()[..6],
        ["a0#0 RUNNING", "a1#0 SCHEDULED", "b0#0 RUNNING", "b1#0 SCHEDULED", "c0#0 SCHEDULED", "c1#0 SCHEDULED"]
    );
    world.log();
    world.lose("e0");
    assert_eq!([world.state("c", 0), world.state("c", 1)], [ExecutionState::Failed, ExecutionState::Canceled]);
    let is_withdrawn = world.log().iter().any(|it| matches!(it, JobCommand::CancelSlotRequest(_)));
    assert!(!is_withdrawn, "a1 and b1 wait for it still");
    world.add_executor("new", 2);
    world.pass(10);
    world.run_all();
    assert!(world.states().iter().all(|line| line.ends_with("RUNNING")), "{:?}", world.states());
    assert_eq!((world.slots_used(), world.picture().restarts), (2, 1));
}

// P075
#[test]
fn regions_that_wait_for_one_request_fail_with_it_and_are_counted_once() {
    let mut world = World::new(spec(three_regions(), restarting(10)), &[1]);
    world.send(crate::core::event::JobEvent::Start);
    let request = world.log().into_iter().rev().find_map(|it| match it {
        JobCommand::RequestSlots { request, .. } => Some(request),
        _ => None,
    });
    let request = request.expect("a0 and a1 asked");
    let reason = "waited 300 s".to_owned();
    world.send(crate::core::event::JobEvent::SlotRequestFailed { request, reason });
    assert_eq!([world.state("a", 0), world.state("a", 1)], [ExecutionState::Deploying, ExecutionState::Failed]);
    assert_eq!([world.state("c", 0), world.state("c", 1)], [ExecutionState::Canceled, ExecutionState::Failed]);
    let picture = world.picture();
    assert_eq!((picture.restarts, picture.exceptions.len()), (1, 1));
    assert_eq!(picture.exceptions[0].concurrent.len(), 1);
}

// P093
#[test]
fn a_request_that_another_region_waits_for_goes_on() {
    // p0, then the region of q and s, which reads p; r0 and r1 by themselves.
    let job = graph(
        Streaming,
        &[("p", 1), ("q", 2), ("r", 2), ("s", 2)],
        &[("p", "q", Hash, PipelinedApproximate), ("q", "s", Hash, PipelinedBounded)],
    );
    let mut world = World::start(spec(job, restarting(10)), &[1]);
    world.run_all();
    assert_eq!([world.state("q", 0), world.state("r", 1)], [ExecutionState::Scheduled; 2]);
    world.log();
    world.fail("p", 0);
    let withdrawn = world.log().iter().filter(|it| matches!(it, JobCommand::CancelSlotRequest(_))).count();
    assert_eq!((world.state("q", 0), withdrawn), (ExecutionState::Canceled, 0), "r1 waits for it, too");
    world.add_executor("new", 1);
    assert_eq!(world.state("r", 1), ExecutionState::Deploying);
    world.log();
    world.pass(10);
    world.run_all();
    assert!(world.states().iter().all(|line| line.ends_with("RUNNING")), "{:?}", world.states());
    assert_eq!(asked(&world.log()), [0_usize; 0], "both slots were there");
}

#[test]
fn stages_of_a_streaming_job_use_one_slot_one_after_the_other() {
    let job = graph(Streaming, &[("a", 2), ("b", 2)], &[("a", "b", Hash, Blocking)]);
    let mut world = World::start(spec(job, restarting(0)), &[2]);
    world.finish_all();
    assert_eq!((world.core.status(), world.slots_used()), (JobStatus::Finished, 0));
}

#[test]
fn regions_of_a_batch_job_do_not_share() {
    let job = graph(Batch, &[("a", 2), ("b", 2)], &[]);
    let mut world = World::start(spec(job, restarting(0)), &[3]);
    assert_eq!((asked(&world.log()), world.slots_used()), (vec![1; 4], 3));
}
