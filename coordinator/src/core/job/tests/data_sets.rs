//! Results that outlive their job, and jobs that read them (reference 4.1, 4.2).

use super::driver::*;
use super::fixtures::*;
use crate::core::data_sets::ClusterPartition;
use crate::core::event::JobEvent;
use crate::core::job::{CachedDataSets, CachedPartition, JobCore, JobInitError};
use crate::core::status::JobStatus;
use crate::graph::JobKind::Batch;
use crate::graph::ResultPartitionType::{Blocking, BlockingPersistent, HybridFull};
use crate::graph::ShipStrategy::{Forward, Hash};
use crate::graph::{DataSetId, ExecutorId, JobGraph, JobId, PartitionId, ResultPartitionId};
use crate::runtime::protocol::FailureKind;

/// `a` keeps what it puts out for `b`, and does not keep what it puts out for `c`.
fn keeping() -> JobGraph {
    graph(
        Batch,
        &[("a", 2), ("b", 3), ("c", 2)],
        &[("a", "b", Hash, BlockingPersistent), ("a", "c", Forward, Blocking), ("b", "c", Hash, HybridFull)],
    )
}

// P180, P192: testPartitionReleaseOrPromotionOnJobSuccess
#[test]
fn a_job_that_finishes_leaves_its_persistent_results_and_only_these() {
    let mut world = World::start(spec(keeping(), restarting(0)), &[4]);
    world.run_all();
    world.fail("a", 1);
    world.pass(0);
    world.finish_all();
    assert_eq!(world.core.status(), JobStatus::Finished);
    let id = |subtask, attempt| ResultPartitionId {
        partition: PartitionId { producer: task("a", subtask), data_set: 0 },
        attempt,
    };
    let data_set = DataSetId::of(JOB, id(0, 0).partition);
    let expected = [id(0, 0), id(1, 1)].map(|partition| ClusterPartition {
        data_set,
        total: 2,
        job: JOB,
        partition,
        subpartitions: 3,
    });
    let mut promoted: Vec<_> = world.promoted.iter().map(|(_, partition)| *partition).collect();
    promoted.sort_by_key(|partition| partition.partition);
    assert_eq!(promoted, expected, "the newest attempts' results");
    assert_ne!(data_set, DataSetId::of(JobId([8; 16]), id(0, 0).partition), "another run is another data set");
}

// P192: testPartitionReleaseOrPromotionOnJobFailure
#[test]
fn a_job_that_does_not_finish_leaves_nothing() {
    let mut world = World::start(spec(keeping(), restarting(0)), &[4]);
    world.run_all();
    world.finish("a", 0);
    world.finish("a", 1);
    world.send(JobEvent::Cancel);
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Canceled);
    let mut failing = World::start(spec(keeping(), crate::core::job::JobSettings::default()), &[4]);
    failing.run_all();
    failing.finish("a", 0);
    failing.finish("a", 1);
    failing.fail_with("b", 0, FailureKind::NonRecoverable);
    assert_eq!(failing.ended.as_ref().expect("over").0, JobStatus::Failed);
    assert_eq!((world.promoted, failing.promoted), (vec![], vec![]));
}

const OTHER: JobId = JobId([3; 16]);

/// A data set of another job of two partitions, which have this many subpartitions.
fn cached(subpartitions: u32) -> (DataSetId, CachedDataSets) {
    let partition = |subtask| PartitionId { producer: task("a", subtask), data_set: 0 };
    let data_set = DataSetId::of(OTHER, partition(0));
    let one = |subtask: u32| CachedPartition {
        partition: ClusterPartition {
            data_set,
            total: 2,
            job: OTHER,
            partition: ResultPartitionId { partition: partition(subtask), attempt: 0 },
            subpartitions,
        },
        executor: ExecutorId(format!("e{subtask}")),
        address: format!("e{subtask}:9"),
    };
    (data_set, CachedDataSets::from([(data_set, vec![one(0), one(1)])]))
}

/// A job whose vertex `a`, of this parallelism, reads the data set.
fn reading(parallelism: u32, data_set: DataSetId) -> JobGraph {
    let mut graph = graph(Batch, &[("a", parallelism)], &[]);
    graph.vertices[0].data_sets.push(data_set);
    graph
}

// P193: testClusterPartitionReuse, ...MultipleParallelism
#[test]
fn a_reader_gets_its_part_of_every_partition() {
    for (subpartitions, expected) in [
        // Undivided: one partition a reader, as over a FORWARD edge.
        (1, [vec![("e0:9", 0, 0)], vec![("e1:9", 1, 0)]]),
        (2, [vec![("e0:9", 0, 0), ("e1:9", 1, 0)], vec![("e0:9", 0, 1), ("e1:9", 1, 1)]]),
    ] {
        let (data_set, data_sets) = cached(subpartitions);
        let spec = crate::core::job::JobSpec { data_sets, ..spec(reading(2, data_set), restarting(0)) };
        let world = World::start(spec, &[2]);
        for (run, expected) in world.runs.values().zip(expected) {
            let [gate] = run.deployment.inputs.as_slice() else { panic!("{:?}", run.deployment) };
            assert!(gate.channels.iter().all(|channel| channel.job == OTHER));
            let channels: Vec<_> = (gate.channels.iter())
                .map(|it| (it.address.as_str(), it.partition.partition.producer.subtask, it.subpartition))
                .collect();
            assert_eq!(channels, expected);
        }
    }
}

// P194: ...WithMoreConsumerParallelismThrowException, ...WithLess
#[test]
fn a_data_set_that_is_not_there_or_does_not_fit_is_refused_before_anything_starts() {
    for (subpartitions, parallelism, readers) in [(1, 1, 2), (1, 3, 2), (3, 2, 3)] {
        let (data_set, data_sets) = cached(subpartitions);
        let spec = crate::core::job::JobSpec { data_sets, ..spec(reading(parallelism, data_set), restarting(0)) };
        let vertex = "a".to_owned();
        let expected = JobInitError::DataSetReaders { vertex, data_set, parallelism, readers };
        assert_eq!(JobCore::new(spec, 0).err(), Some(expected));
    }
    let (data_set, _) = cached(1);
    let missing = JobCore::new(spec(reading(2, data_set), restarting(0)), 0).err();
    assert_eq!(missing, Some(JobInitError::DataSetMissing { vertex: "a".to_owned(), data_set }));
}

// P195: the partition has the name of one of this job's own; nothing here could make it again.
#[test]
fn a_lost_data_set_fails_the_job_whatever_the_strategy() {
    let (data_set, data_sets) = cached(1);
    let mut world =
        World::start(crate::core::job::JobSpec { data_sets, ..spec(reading(2, data_set), restarting(0)) }, &[2]);
    world.run_all();
    world.fail_with("a", 0, FailureKind::DataSetLost(data_set));
    assert_eq!(world.ended.as_ref().expect("over").0, JobStatus::Failed);
    assert_eq!(world.picture().restarts, 0);
}
