//! A streaming job with checkpoints in the embedded S3 server.

use std::sync::atomic::Ordering;

use stormproof_coordinator::config::StoreConfig;
use stormproof_coordinator::core::snapshot::{CheckpointEntryStatus, JobSnapshot};
use stormproof_coordinator::core::status::JobStatus;
use stormproof_store::{Operation, S3Server};

use super::RealExecutor;
use super::jobs::Shared;
use crate::support::{Setup, eventually};

async fn store() -> (S3Server, StoreConfig) {
    let server = S3Server::builder().credentials("key", "secret").start().await.unwrap();
    server.backend().create_bucket("checkpoints").unwrap();
    let config = StoreConfig {
        endpoint: server.endpoint(),
        bucket: "checkpoints".into(),
        access_key: "key".into(),
        secret_key: "secret".into(),
    };
    (server, config)
}

fn completed(job: &JobSnapshot) -> u64 {
    job.checkpoints.as_ref().map_or(0, |stats| stats.completed)
}

fn newest(job: &JobSnapshot) -> u64 {
    let history = &job.checkpoints.as_ref().unwrap().history;
    history.iter().find(|entry| entry.status == CheckpointEntryStatus::Completed).map_or(0, |entry| entry.id)
}

fn metadata_reads(server: &S3Server) -> usize {
    server.ledger().count(|entry| entry.is(Operation::GetObject, "/_metadata"))
}

// P215, P218, P269, P271, P276, and the two tickets' point: recovery reads the store once per leader, failing over reads nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_coordinator_goes_on_from_the_newest_checkpoint() {
    let shared = Shared::default();
    let (server, config) = store().await;
    let mut setup = Setup::new(
        shared.registry(),
        &[
            ("restart-strategy.type", "fixed-delay"),
            ("restart-strategy.fixed-delay.attempts", "1000"),
            ("restart-strategy.fixed-delay.delay", "1 ms"),
        ],
    );
    setup.store = Some(config);
    std::fs::create_dir_all(setup.folder.path().join("chaos")).unwrap();
    let first = setup.lead().await;
    let executor = RealExecutor::start(&setup, "e1", 2);
    let id = first.submit("counting", &[]).await;
    let before = first.fact(id, "two checkpoints", |job| completed(job) >= 2).await;
    assert_eq!(metadata_reads(&server), 0);
    first.stop().await;

    let second = setup.lead().await;
    let job = second.fact(id, "it is restored", |job| restored(job).is_some()).await;
    assert!(restored(&job).unwrap() >= newest(&before), "{:?} after {}", restored(&job), newest(&before));
    assert_eq!(job.start_ms, before.start_ms);
    let reads = metadata_reads(&server);
    // One checkpoint is retained. A second pointer is there if the first leader stopped between adding a checkpoint
    // and removing the one before.
    assert!((1..=2).contains(&reads), "each retained checkpoint is read once, not {reads} times");
    second.fact(id, "further checkpoints", |job| completed(job) >= 2).await;

    // A task failure restores from memory.
    std::fs::write(setup.folder.path().join("chaos/fail-commit-0"), "").unwrap();
    let failed = second.fact(id, "a failover", |job| job.restarts > 0).await;
    second.fact(id, "checkpoints after it", |job| completed(job) >= completed(&failed) + 2).await;
    assert_eq!(metadata_reads(&server), reads, "a failover reads no metadata");

    shared.gate.store(true, Ordering::SeqCst);
    second.status(id, JobStatus::Finished).await;
    let all = shared.all_committed();
    assert!(!all.is_empty() && all.iter().copied().eq(0..all.len() as u64), "exactly once: {} numbers", all.len());
    // P262: nothing is left of the job in the store.
    eventually("the store is empty", || {
        server.backend().list_objects("checkpoints", "").unwrap().is_empty().then_some(())
    })
    .await;
    executor.stop().await;
    second.stop().await;
    server.shutdown().await.unwrap();
}

fn restored(job: &JobSnapshot) -> Option<u64> {
    Some(job.checkpoints.as_ref()?.latest_restored.as_ref()?.id)
}
