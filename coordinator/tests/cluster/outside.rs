//! What is slow hangs, one thing at a time: the job's thread goes on (reference 13, rule 1).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stormproof_coordinator::core::snapshot::JobSnapshot;
use stormproof_coordinator::core::status::{ExecutionState, JobStatus};
use stormproof_coordinator::graph::{JobGraph, JobKind, Params};
use stormproof_store::{Effect, Nth, Operation, Rule, S3Server};

use crate::fake::{FakeExecutor, Step, script};
use crate::initializing::{CHECKPOINTS, PATIENT, blackhole, store_config};
use crate::support::{Never, Setup, eventually, registry};

const RESTARTS: [(&str, &str); 3] = [
    ("restart-strategy.type", "fixed-delay"),
    ("restart-strategy.fixed-delay.attempts", "1000"),
    ("restart-strategy.fixed-delay.delay", "0 ms"),
];

fn all_run(job: &JobSnapshot, attempt: u32) -> bool {
    let mut subtasks = job.vertices.iter().flat_map(|vertex| &vertex.subtasks);
    !job.vertices.is_empty()
        && subtasks
            .all(|subtask| subtask.current.state == ExecutionState::Running && subtask.current.attempt == attempt)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_hangs_while_a_checkpoint_is_written_holds_no_failover_and_no_cancel_up() {
    let settings: Vec<_> = RESTARTS.into_iter().chain(PATIENT).collect();
    let mut setup = Setup::new(registry(), &settings);
    let (store, accepted) = blackhole().await;
    setup.store = Some(store);
    let coordinator = setup.lead().await;
    let first = FakeExecutor::start(coordinator.rpc(), "e1", 1, script(|_, _, _| Step::Run)).await;
    // Nothing was ever stored for a new job: it starts without asking the store.
    let id = coordinator.submit("stream", &[CHECKPOINTS]).await;
    eventually("a checkpoint is being written", || (accepted.load(Ordering::SeqCst) > 0).then_some(())).await;
    assert!(all_run(&coordinator.job(id), 0));
    first.kill().await;
    let _second = FakeExecutor::start(coordinator.rpc(), "e2", 1, script(|_, _, _| Step::Run)).await;
    let job = coordinator.fact(id, "the failover is through", |job| all_run(job, 1)).await;
    assert_eq!(job.checkpoints.as_ref().unwrap().completed, 0, "the store still hangs");
    coordinator.cluster.cancel(id).await.unwrap();
    coordinator.status(id, JobStatus::Canceled).await;
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn splits_that_are_listed_for_ever_hold_no_cancel_up() {
    let mut registry = registry();
    let (listing, release) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let flags = (Arc::clone(&listing), Arc::clone(&release));
    registry.register("slow splits", move |_: &Params| {
        let (listing, release) = flags.clone();
        let mut graph = JobGraph::builder("slow splits", JobKind::Batch);
        let list = move || {
            listing.store(true, Ordering::SeqCst);
            while !release.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(vec![])
        };
        graph.split_source("source", 1, Arc::new(list), |_| Ok(Box::new(Never)));
        graph.build()
    });
    let setup = Setup::new(registry, &[]);
    let coordinator = setup.lead().await;
    let _executor = FakeExecutor::start(coordinator.rpc(), "e1", 1, script(|_, _, _| Step::Run)).await;
    let id = coordinator.submit("slow splits", &[]).await;
    eventually("the splits are being listed", || listing.load(Ordering::SeqCst).then_some(())).await;
    coordinator.cluster.cancel(id).await.unwrap();
    coordinator.fact(id, "cancelling", |job| job.timestamps.contains_key(&JobStatus::Cancelling)).await;
    release.store(true, Ordering::SeqCst);
    coordinator.status(id, JobStatus::Canceled).await;
    coordinator.stop().await;
}

// P266: as many errors as there are, the clean-up gets through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_up_is_repeated_until_the_store_lets_it_through() {
    let mut setup = Setup::new(registry(), &[]);
    let server = S3Server::builder().credentials("key", "secret").start().await.unwrap();
    server.backend().create_bucket("checkpoints").unwrap();
    // More errors than the client's own retries of one call.
    let refuse = Rule::new("no listing", Effect::InternalError);
    server.rules().add(refuse.on(Operation::ListObjectsV2).nth(Nth::first(6))).unwrap();
    setup.store = Some(store_config(server.endpoint()));
    let coordinator = setup.lead().await;
    let _executor = FakeExecutor::start(coordinator.rpc(), "e1", 1, script(|_, _, _| Step::Run)).await;
    let id = coordinator.submit("stream", &[CHECKPOINTS]).await;
    coordinator.fact(id, "a checkpoint", |job| job.checkpoints.as_ref().is_some_and(|stats| stats.completed > 0)).await;
    coordinator.cluster.cancel(id).await.unwrap();
    coordinator.status(id, JobStatus::Canceled).await;
    eventually("the record is gone", || (!setup.ha_dir().join(format!("jobs/{id}.json")).exists()).then_some(())).await;
    assert_eq!(server.rules().counts()["no listing"].acted, 6);
    assert_eq!(server.backend().list_objects("checkpoints", "").unwrap(), []);
    coordinator.stop().await;
    server.shutdown().await.unwrap();
}
