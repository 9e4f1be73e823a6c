//! Batch jobs on real executors.

use std::sync::atomic::Ordering;

use stormproof_coordinator::core::status::{ExecutionState, JobStatus};

use super::jobs::Shared;
use super::{RealExecutor, files_below};
use crate::support::{Setup, attempts, eventually};

const RESTARTS: [(&str, &str); 3] = [
    ("restart-strategy.type", "fixed-delay"),
    ("restart-strategy.fixed-delay.attempts", "5"),
    ("restart-strategy.fixed-delay.delay", "1 ms"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_job_sums_all_its_splits_with_fewer_slots_than_regions() {
    let shared = Shared::default();
    shared.gate.store(true, Ordering::SeqCst);
    let setup = Setup::new(shared.registry(), &[]);
    let coordinator = setup.lead().await;
    let executor = RealExecutor::start(&setup, "e1", 1);
    let id = coordinator.submit("sums", &[]).await;
    let job = coordinator.status(id, JobStatus::Finished).await;
    assert_eq!(attempts(&job), [[0, 0], [0, 0]]);
    assert_eq!(shared.all_sums(), Shared::expected_sums());
    eventually("nothing is left on disk", || {
        files_below(&setup.folder.path().join("e1").join("partitions")).is_empty().then_some(())
    })
    .await;
    executor.stop().await;
    coordinator.stop().await;
}

// P065, P218
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_reducer_restarts_alone() {
    let shared = Shared::default();
    shared.gate.store(true, Ordering::SeqCst);
    let setup = Setup::new(shared.registry(), &RESTARTS);
    std::fs::create_dir_all(setup.folder.path().join("chaos")).unwrap();
    std::fs::write(setup.folder.path().join("chaos/fail-sum-1"), "").unwrap();
    let coordinator = setup.lead().await;
    let executor = RealExecutor::start(&setup, "e1", 4);
    let id = coordinator.submit("sums", &[]).await;
    let job = coordinator.status(id, JobStatus::Finished).await;
    assert_eq!(attempts(&job), [[0, 0], [0, 1]]);
    assert_eq!((job.exceptions.len(), shared.all_sums()), (1, Shared::expected_sums()));
    executor.stop().await;
    coordinator.stop().await;
}

// P065
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_correct_after_any_number_of_restarts() {
    let shared = Shared::default();
    shared.gate.store(true, Ordering::SeqCst);
    let mut settings = RESTARTS;
    settings[1].1 = "1000000";
    let setup = Setup::new(shared.registry(), &settings);
    let trigger = setup.folder.path().join("chaos/failalways-sum-1");
    std::fs::create_dir_all(setup.folder.path().join("chaos")).unwrap();
    std::fs::write(&trigger, "").unwrap();
    let coordinator = setup.lead().await;
    let executor = RealExecutor::start(&setup, "e1", 4);
    let id = coordinator.submit("sums", &[]).await;
    coordinator.fact(id, "several restarts", |job| job.restarts >= 3).await;
    std::fs::remove_file(&trigger).unwrap();
    let job = coordinator.status(id, JobStatus::Finished).await;
    let last = attempts(&job);
    assert_eq!(last[0], [0, 0], "the maps' results are read again and again");
    assert_eq!((last[1][0], u64::from(last[1][1])), (0, job.restarts));
    assert_eq!(shared.all_sums(), Shared::expected_sums());
    executor.stop().await;
    coordinator.stop().await;
}

// P217, P219: the lost partitions are made again, and nothing is summed twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_executor_costs_its_partitions_and_no_data() {
    let shared = Shared::default();
    let setup = Setup::new(shared.registry(), &RESTARTS);
    let coordinator = setup.lead().await;
    let (first, second) = (RealExecutor::start(&setup, "e1", 1), RealExecutor::start(&setup, "e2", 1));
    first.registered(&coordinator).await;
    second.registered(&coordinator).await;
    let id = coordinator.submit("sums", &[]).await;
    coordinator
        .fact(id, "the reducers run", |job| {
            job.vertices.get(1).is_some_and(|vertex| {
                vertex.subtasks.iter().all(|subtask| subtask.current.state == ExecutionState::Running)
            })
        })
        .await;
    first.kill().await;
    let third = RealExecutor::start(&setup, "e3", 1);
    coordinator.fact(id, "a restart", |job| job.restarts > 0).await;
    shared.gate.store(true, Ordering::SeqCst);
    let job = coordinator.status(id, JobStatus::Finished).await;
    assert_eq!(shared.all_sums(), Shared::expected_sums());
    // One of two maps lay on the killed executor; the other one's output was still there.
    let maps: u32 = attempts(&job)[0].iter().sum();
    assert_eq!(maps, 1, "{:?}", attempts(&job));
    second.stop().await;
    third.stop().await;
    coordinator.stop().await;
}
