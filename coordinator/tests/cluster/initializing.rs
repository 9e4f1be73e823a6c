//! A store that hangs, is damaged or comes back while a job is recovered (FLINK-22483).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use stormproof_coordinator::config::StoreConfig;
use stormproof_coordinator::core::checkpoint::{CompletedCheckpoint, TaskSnapshotHandle};
use stormproof_coordinator::core::snapshot::JobSnapshot;
use stormproof_coordinator::core::status::JobStatus;
use stormproof_coordinator::graph::{JobId, Params, TaskId, VertexId};
use stormproof_coordinator::leadership::{
    Candidate, CheckpointPointer, HaStore, JobRecord, LeaderElection, Leadership,
};
use stormproof_coordinator::rest::cluster::Submission;
use stormproof_coordinator::storage::metadata;
use stormproof_store::S3Server;
use tokio::net::TcpListener;

use crate::fake::{FakeExecutor, Step, script};
use crate::support::{DEADLINE, Running, Setup, eventually, registry, submission};

const JOB: JobId = JobId([9; 16]);
/// A call to the store may take longer than any test: what waits for one never ends.
pub(crate) const PATIENT: [(&str, &str); 2] =
    [("stormproof.store.attempt-timeout", "10 min"), ("stormproof.store.timeout", "1 h")];

pub(crate) const CHECKPOINTS: (&str, &str) = ("execution.checkpointing.interval", "20 ms");

/// A server that accepts and never answers; counts its connections.
pub(crate) async fn blackhole() -> (StoreConfig, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    tokio::spawn(async move {
        let mut open = vec![];
        while let Ok((socket, _)) = listener.accept().await {
            open.push(socket);
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (store_config(endpoint), accepted)
}

pub(crate) fn store_config(endpoint: String) -> StoreConfig {
    StoreConfig { endpoint, bucket: "checkpoints".into(), access_key: "key".into(), secret_key: "secret".into() }
}

pub(crate) async fn session(setup: &Setup) -> Leadership {
    LeaderElection::new(setup.ha_dir(), Candidate { name: "earlier".into() }).campaign().await.unwrap()
}

/// What an earlier leader left: the job, and a pointer to one checkpoint.
async fn leave_job(setup: &Setup, cancel_requested: bool) {
    let earlier = session(setup).await;
    let record = JobRecord {
        id: JOB,
        job: "stream".into(),
        params: Params::default(),
        config: [CHECKPOINTS].map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        submitted_ms: 1_000,
        cancel_requested,
    };
    let ha: Arc<dyn HaStore> = earlier.store();
    ha.add_job(&record).await.unwrap();
    let pointer = CheckpointPointer { id: 3, key: format!("{JOB}/chk-3/_metadata") };
    ha.add_checkpoint(JOB, &pointer).await.unwrap();
    earlier.resign().await.unwrap();
}

/// Asks everything that REST answers of the job.
async fn ask_all(coordinator: &Running) {
    for path in ["", "/status", "/plan", "/config", "/exceptions", "/checkpoints", "/checkpoints/config"] {
        let (status, answer) = coordinator.get(&format!("/jobs/{JOB}{path}")).await;
        assert_eq!(status, 200, "{path}: {answer}");
    }
    for path in ["/overview", "/jobs", "/jobs/overview", "/taskmanagers"] {
        let (status, answer) = coordinator.get(path).await;
        assert_eq!(status, 200, "{path}: {answer}");
    }
}

// P237, P249: the ticket's own scenario.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_store_keeps_one_job_initializing_and_nothing_else() {
    let mut setup = Setup::new(registry(), &PATIENT);
    leave_job(&setup, false).await;
    let (store, accepted) = blackhole().await;
    setup.store = Some(store);
    let coordinator = setup.lead().await;
    eventually("the store is being read", || (accepted.load(Ordering::SeqCst) > 0).then_some(())).await;
    for _ in 0..10 {
        assert_eq!(coordinator.job(JOB).status, JobStatus::Initializing);
        // An answer that waited for the store would not come before the end of the test's own deadline.
        tokio::time::timeout(DEADLINE, ask_all(&coordinator)).await.unwrap();
    }
    assert_eq!(coordinator.get(&format!("/jobs/{JOB}/status")).await.1["status"], "INITIALIZING");
    assert_eq!(coordinator.job(JOB).start_ms, 1_000, "the original submission time is kept");
    // Another job runs from start to end meanwhile.
    let _executor = FakeExecutor::start(coordinator.rpc(), "e1", 2, script(|_, _, _| Step::Finish)).await;
    let other = coordinator.submit("two-stage", &[]).await;
    coordinator.status(other, JobStatus::Finished).await;
    assert_eq!(coordinator.job(JOB).status, JobStatus::Initializing);
    coordinator.stop().await;
}

// P236, P242, P251, and better than Flink: at once, and for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_during_initializing_takes_effect_at_once() {
    let mut setup = Setup::new(registry(), &PATIENT);
    leave_job(&setup, false).await;
    let (store, accepted) = blackhole().await;
    setup.store = Some(store);
    let coordinator = setup.lead().await;
    eventually("the store is being read", || (accepted.load(Ordering::SeqCst) > 0).then_some(())).await;
    coordinator.cluster.cancel(JOB).await.unwrap();
    let job = coordinator.status(JOB, JobStatus::Canceled).await;
    assert!(job.timestamps.contains_key(&JobStatus::Cancelling) && job.exceptions.is_empty());
    assert_eq!(coordinator.cluster.cancel(JOB).await, Ok(()));
    // Its clean-up needs the store and waits for it, still recorded.
    coordinator.stop().await;
    let result = std::fs::read_to_string(setup.ha_dir().join(format!("results/{JOB}.json"))).unwrap();
    assert!(result.contains("CANCELED"), "{result}");
    // P268: the next leader has a store that works, and finishes the clean-up without running the job.
    let server = S3Server::builder().credentials("key", "secret").start().await.unwrap();
    server.backend().create_bucket("checkpoints").unwrap();
    setup.store = Some(store_config(server.endpoint()));
    let next = setup.lead().await;
    assert_eq!(next.job(JOB).status, JobStatus::Canceled);
    eventually("the record is gone", || (!setup.ha_dir().join(format!("jobs/{JOB}.json")).exists()).then_some(()))
        .await;
    next.stop().await;
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_cancellation_survives_a_leader_change() {
    let mut setup = Setup::new(registry(), &PATIENT);
    leave_job(&setup, true).await;
    let (store, _) = blackhole().await;
    setup.store = Some(store);
    let coordinator = setup.lead().await;
    let job = coordinator.status(JOB, JobStatus::Canceled).await;
    assert!(!job.timestamps.contains_key(&JobStatus::Running));
    coordinator.stop().await;
}

// P246, P255: nothing is skipped, the file is named, nothing is lost, and once it is repaired the job goes on from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_checkpoint_keeps_a_recovered_job_until_it_is_repaired() {
    let task = |vertex| TaskId { vertex: VertexId::of_name(vertex), subtask: 0 };
    let tasks = BTreeSet::from(["source", "sink"].map(task)).into_iter();
    let tasks = tasks.map(|task| (task, TaskSnapshotHandle::Inline(vec![]))).collect();
    let checkpoint =
        CompletedCheckpoint { job: JOB, id: 3, trigger_ms: 1_000, completed_ms: 1_001, tasks, is_final: false };
    let whole = metadata::encode(&checkpoint).unwrap();
    let key = format!("{JOB}/chk-3/_metadata");
    let damaged = |length| (whole.slice(..length), format!("`{key}`: truncated: it has {length} bytes of "));
    let foreign = (Bytes::from_static(b"no metadata"), format!("`{key}`"));
    // Nothing at all, within the header, one byte short, something else.
    for (bytes, problem) in [damaged(0), damaged(10), damaged(whole.len() - 1), foreign] {
        // One each: the job of the last may still be deleting what it kept.
        let server = S3Server::builder().credentials("key", "secret").start().await.unwrap();
        server.backend().create_bucket("checkpoints").unwrap();
        let mut setup = Setup::new(registry(), &[("restart-strategy.type", "fixed-delay")]);
        setup.store = Some(store_config(server.endpoint()));
        leave_job(&setup, false).await;
        server.backend().put("checkpoints", &key, bytes).unwrap();
        let coordinator = setup.lead().await;
        let job = coordinator.fact(JOB, "the reason shows", |job| !job.exceptions.is_empty()).await;
        assert_eq!(job.status, JobStatus::Initializing);
        let causes: Vec<_> = job.exceptions[0].stacktrace.split("\nCaused by: ").collect();
        assert!(causes.last().unwrap().contains(&problem), "{causes:?}");
        assert_eq!(causes[0], "JobInitializationException: could not start the JobMaster");
        assert!(job.exceptions[0].task_name.is_none());
        let (_, answer) = coordinator.get(&format!("/jobs/{JOB}/exceptions")).await;
        assert!(answer.to_string().contains("chk-3/_metadata"), "{answer}");
        // The other jobs never notice.
        let _executor = FakeExecutor::start(coordinator.rpc(), "e1", 2, script(|_, _, _| Step::Finish)).await;
        let other = coordinator.submit("two-stage", &[]).await;
        coordinator.status(other, JobStatus::Finished).await;
        assert!(setup.ha_dir().join(format!("jobs/{JOB}.json")).exists());
        assert!(setup.ha_dir().join(format!("checkpoints/{JOB}/{:019}.json", 3)).exists());

        server.backend().put("checkpoints", &key, whole.clone()).unwrap();
        let job = coordinator.fact(JOB, "it goes on", |job| job.status != JobStatus::Initializing).await;
        let restored = job.checkpoints.as_ref().and_then(|checkpoints| checkpoints.latest_restored.as_ref());
        assert_eq!(restored.map(|restored| restored.id), Some(3), "{:?}", job.checkpoints);
        coordinator.stop().await;
        server.shutdown().await.unwrap();
    }
}

// P234, P253: a job that was just submitted has nothing to lose.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submitted_job_that_cannot_be_created_fails() {
    let server = S3Server::builder().credentials("key", "secret").start().await.unwrap();
    server.backend().create_bucket("checkpoints").unwrap();
    let mut setup = Setup::new(registry(), &[("restart-strategy.type", "fixed-delay")]);
    setup.store = Some(store_config(server.endpoint()));
    // A pointer of its name, left by somebody, to nothing.
    leave_job(&setup, false).await;
    std::fs::remove_file(setup.ha_dir().join(format!("jobs/{JOB}.json"))).unwrap();
    let coordinator = setup.lead().await;
    let submission = Submission { id: Some(JOB), ..submission("stream", &[CHECKPOINTS]) };
    coordinator.cluster.submit(submission).await.unwrap();
    let job = coordinator.status(JOB, JobStatus::Failed).await;
    let entry = &job.exceptions[0];
    assert!(entry.task_name.is_none() && entry.stacktrace.contains("does not exist"), "{entry:?}");
    eventually("the clean-up is over", || (!setup.ha_dir().join(format!("jobs/{JOB}.json")).exists()).then_some(()))
        .await;
    coordinator.stop().await;
    server.shutdown().await.unwrap();
}

// P255, and kinder than Flink: a process that cannot build a recorded job keeps it, and its other jobs run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_this_process_cannot_build_is_kept_and_shows_why() {
    let mut setup = Setup::new(registry(), &[]);
    leave_job(&setup, false).await;
    let coordinator = setup.lead().await;
    let job = coordinator.fact(JOB, "the reason shows", |job| !job.exceptions.is_empty()).await;
    assert_eq!(job.status, JobStatus::Initializing);
    assert!(job.exceptions[0].stacktrace.contains("no checkpoint store"), "{:?}", job.exceptions);
    let _executor = FakeExecutor::start(coordinator.rpc(), "e1", 2, script(|_, _, _| Step::Finish)).await;
    let other = coordinator.submit("two-stage", &[]).await;
    coordinator.status(other, JobStatus::Finished).await;
    coordinator.stop().await;
    assert!(setup.ha_dir().join(format!("jobs/{JOB}.json")).exists());
    // A process that can, does (and finds that the checkpoint's file is missing).
    let server = S3Server::builder().credentials("key", "secret").start().await.unwrap();
    server.backend().create_bucket("checkpoints").unwrap();
    setup.store = Some(store_config(server.endpoint()));
    let next = setup.lead().await;
    let missing = |job: &JobSnapshot| job.exceptions.iter().any(|entry| entry.stacktrace.contains("does not exist"));
    assert_eq!(next.fact(JOB, "the file is missed", missing).await.status, JobStatus::Initializing);
    next.stop().await;
    server.shutdown().await.unwrap();
}
