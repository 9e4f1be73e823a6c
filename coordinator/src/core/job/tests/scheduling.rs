//! Which regions start when (reference 3.5; rows of the scheduling strategy in 8.3).

use super::driver::*;
use super::fixtures::*;
use crate::core::status::{ExecutionState, JobStatus};
use crate::graph::JobKind::Batch;
use crate::graph::ResultPartitionType::{Blocking, BlockingPersistent, Pipelined};
use crate::graph::ShipStrategy::{Forward, Hash, Rescale};

// P115
#[test]
fn a_consumer_starts_when_the_partitions_it_reads_itself_are_there() {
    let job = graph(Batch, &[("a", 3), ("b", 3)], &[("a", "b", Forward, Blocking)]);
    let mut world = World::start(spec(job, restarting(0)), &[4]);
    world.run_all();
    world.finish("a", 1);
    assert_eq!(world.states()[3..], ["b0#0 CREATED", "b1#0 DEPLOYING", "b2#0 CREATED"]);
}

// P116
#[test]
fn persistent_results_are_waited_for_like_blocking_ones() {
    let job = graph(
        Batch,
        &[("a", 2), ("b", 2), ("c", 1)],
        &[("a", "b", Hash, BlockingPersistent), ("b", "c", Hash, BlockingPersistent)],
    );
    let mut world = World::start(spec(job, restarting(0)), &[2]);
    world.run_all();
    world.finish("a", 0);
    assert_eq!(world.state("b", 0), ExecutionState::Created);
    world.finish("a", 1);
    assert_eq!(world.states()[2..], ["b0#0 DEPLOYING", "b1#0 DEPLOYING", "c0#0 CREATED"]);
    world.finish_all();
    assert_eq!(world.core.status(), JobStatus::Finished);
    assert_eq!(world.stored.len(), 4, "the scheduler never releases them");
}

// P116
#[test]
fn of_a_group_with_producers_inside_and_outside_only_the_outer_ones_are_waited_for() {
    // e cuts a as 2 and 1, a cuts d as 1 and 2: d1 reads a1 of the other region and a2 of its own.
    let job = graph(
        Batch,
        &[("e", 2), ("a", 3), ("d", 2)],
        &[("e", "a", Rescale, Pipelined), ("e", "d", Forward, Pipelined), ("a", "d", Rescale, Blocking)],
    );
    let mut world = World::start(spec(job, restarting(0)), &[6]);
    let first = ["e0#0 DEPLOYING", "e1#0 CREATED", "a0#0 DEPLOYING", "a1#0 DEPLOYING", "a2#0 CREATED"];
    assert_eq!(world.states()[..5], first);
    assert_eq!(world.states()[5..], ["d0#0 DEPLOYING", "d1#0 CREATED"]);
    world.run_all();
    world.finish("a", 0);
    assert_eq!(world.state("d", 1), ExecutionState::Created, "a0 is not read by d1");
    world.finish("a", 1);
    let second = [("e", 1), ("a", 2), ("d", 1)].map(|(vertex, subtask)| world.state(vertex, subtask));
    assert_eq!(second, [ExecutionState::Deploying; 3]);
    world.finish_all();
    assert_eq!(world.core.status(), JobStatus::Finished);
}
