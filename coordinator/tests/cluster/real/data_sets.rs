//! Results that outlive their job: promoted, read by another job, lost, released.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use serde_json::json;
use stormproof_coordinator::core::status::JobStatus;
use stormproof_coordinator::graph::{DataSetId, JobId, Params, PartitionId, TaskId, VertexId};
use stormproof_coordinator::rest::cluster::Submission;

use super::jobs::Shared;
use super::{RealExecutor, files_below};
use crate::support::{Running, Setup, eventually, submission};

/// What `numbers` of job `job` has left.
fn data_set_of(job: JobId) -> DataSetId {
    let producer = TaskId { vertex: VertexId::of_name("numbers"), subtask: 0 };
    DataSetId::of(job, PartitionId { producer, data_set: 0 })
}

async fn submit(coordinator: &Running, job: &str, params: Params) -> JobId {
    coordinator.cluster.submit(Submission { params, ..submission(job, &[]) }).await.unwrap()
}

async fn read_again(coordinator: &Running, data_set: DataSetId) -> JobId {
    submit(coordinator, "sums again", Params::default().with("data-set", data_set)).await
}

/// Two executors, and a job that has left its numbers on both.
struct Kept {
    shared: Shared,
    setup: Setup,
    coordinator: Running,
    executors: [RealExecutor; 2],
    data_set: DataSetId,
}

impl Kept {
    async fn new() -> Self {
        let shared = Shared::default();
        shared.gate.store(true, Ordering::SeqCst);
        let restarts = [("restart-strategy.type", "fixed-delay"), ("restart-strategy.fixed-delay.attempts", "5")];
        let setup = Setup::new(shared.registry(), &restarts);
        let coordinator = setup.lead().await;
        let executors = ["e1", "e2"].map(|name| RealExecutor::start(&setup, name, 1));
        for executor in &executors {
            executor.registered(&coordinator).await;
        }
        let id = submit(&coordinator, "sums", Params::default().with("keep", true)).await;
        coordinator.status(id, JobStatus::Finished).await;
        Self { shared, setup, coordinator, executors, data_set: data_set_of(id) }
    }

    fn files(&self, executor: &str) -> Vec<PathBuf> {
        files_below(&self.setup.folder.path().join(executor).join("partitions"))
    }
}

// P187, P192, P193, P184
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_job_reads_what_a_first_has_left_until_that_is_released() {
    let kept = Kept::new().await;
    let (coordinator, data_set) = (&kept.coordinator, kept.data_set);
    // The end of a job is seen only after its promotions.
    let listed = json!({ "dataSets": [{ "id": data_set, "isComplete": true }] });
    assert_eq!(coordinator.get("/datasets").await, (200, listed));
    assert_eq!(kept.shared.take_sums(), Shared::expected_sums());
    for _ in 0..2 {
        let again = read_again(coordinator, data_set).await;
        let job = coordinator.status(again, JobStatus::Finished).await;
        assert_eq!((job.vertices.len(), kept.shared.take_sums()), (1, Shared::expected_sums()));
    }
    assert!(!kept.files("e1").is_empty() && !kept.files("e2").is_empty());

    let url = format!("http://{}/datasets", coordinator.ready.rest.as_deref().unwrap());
    let answer = reqwest::Client::new().delete(format!("{url}/{data_set}")).send().await.unwrap();
    assert_eq!(answer.status(), 202);
    eventually("nothing is left on disk", || (kept.files("e1").len() + kept.files("e2").len() == 0).then_some(()))
        .await;
    eventually("nothing is listed", || coordinator.cluster.data_sets().is_empty().then_some(())).await;
    let (_, state) = coordinator.get(&format!("/datasets/delete/{data_set}")).await;
    assert_eq!(state["status"]["id"], "COMPLETED");
    let late = read_again(coordinator, data_set).await;
    let job = coordinator.status(late, JobStatus::Failed).await;
    assert!(job.exceptions[0].stacktrace.contains(&data_set.to_string()), "{:?}", job.exceptions);
    for executor in kept.executors {
        executor.stop().await;
    }
    kept.coordinator.stop().await;
}

// P195, P183
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_executor_costs_the_whole_data_set_and_fails_its_reader() {
    let kept = Kept::new().await;
    let (coordinator, data_set) = (&kept.coordinator, kept.data_set);
    for file in kept.files("e2") {
        std::fs::remove_file(file).unwrap();
    }
    let reader = read_again(coordinator, data_set).await;
    let job = coordinator.status(reader, JobStatus::Failed).await;
    let told = &job.exceptions[0].stacktrace;
    assert!(told.contains("ClusterDatasetCorruptedException") && told.contains(&data_set.to_string()), "{told}");
    assert_eq!(job.restarts, 0, "no restart could bring it back");

    let [first, second] = kept.executors;
    second.kill().await;
    eventually("the rest is released", || coordinator.cluster.data_sets().is_empty().then_some(())).await;
    let left = kept.setup.folder.path().join("e1").join("partitions");
    eventually("nothing is left on disk", || files_below(&left).is_empty().then_some(())).await;
    first.stop().await;
    kept.coordinator.stop().await;
}
