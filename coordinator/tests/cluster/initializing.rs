//! A store that hangs, is damaged or comes back while a job is recovered (FLINK-22483).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stormproof_coordinator::config::StoreConfig;
use stormproof_coordinator::core::checkpoint::CompletedCheckpoint;
use stormproof_coordinator::core::status::JobStatus;
use stormproof_coordinator::graph::{JobId, Params};
use stormproof_coordinator::leadership::{
    Candidate, CheckpointPointer, HaStore, JobRecord, LeaderElection, Leadership,
};
use stormproof_coordinator::storage::metadata;
use stormproof_store::S3Server;
use tokio::net::TcpListener;

use crate::fake::{FakeExecutor, Step, script};
use crate::support::{DEADLINE, Running, Setup, eventually, registry};

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

// P234, P246, P253: nothing is skipped, the file is named, and nothing of it is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_checkpoint_fails_the_job_and_names_the_file() {
    let mut setup = Setup::new(registry(), &[("restart-strategy.type", "fixed-delay")]);
    leave_job(&setup, false).await;
    let server = S3Server::builder().credentials("key", "secret").start().await.unwrap();
    server.backend().create_bucket("checkpoints").unwrap();
    let key = format!("{JOB}/chk-3/_metadata");
    server.backend().put("checkpoints", &key, b"no metadata".as_slice()).unwrap();
    setup.store = Some(store_config(server.endpoint()));
    let coordinator = setup.lead().await;
    let job = coordinator.status(JOB, JobStatus::Failed).await;
    let entry = &job.exceptions[0];
    assert!(entry.task_name.is_none() && entry.stacktrace.contains(&key), "{entry:?}");
    let (_, answer) = coordinator.get(&format!("/jobs/{JOB}/exceptions")).await;
    assert!(answer.to_string().contains("chk-3/_metadata"), "{answer}");
    eventually("the clean-up is over", || (!setup.ha_dir().join(format!("jobs/{JOB}.json")).exists()).then_some(()))
        .await;
    assert!(server.backend().get("checkpoints", &key).is_ok(), "it may be repaired by hand");
    coordinator.stop().await;
    server.shutdown().await.unwrap();
}

// P234: wherever it is cut, the job fails with one sentence, and the other jobs never notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_checkpoint_fails_the_job_in_one_sentence() {
    let server = S3Server::builder().credentials("key", "secret").start().await.unwrap();
    server.backend().create_bucket("checkpoints").unwrap();
    let checkpoint =
        CompletedCheckpoint { job: JOB, id: 3, trigger_ms: 1_000, completed_ms: 1_001, tasks: vec![], is_final: false };
    let whole = metadata::encode(&checkpoint).unwrap();
    let key = format!("{JOB}/chk-3/_metadata");
    // Nothing at all, within the header, one byte short.
    for length in [0, 10, whole.len() - 1] {
        let mut setup = Setup::new(registry(), &[("restart-strategy.type", "fixed-delay")]);
        setup.store = Some(store_config(server.endpoint()));
        leave_job(&setup, false).await;
        server.backend().put("checkpoints", &key, whole.slice(..length)).unwrap();
        let coordinator = setup.lead().await;
        let job = coordinator.status(JOB, JobStatus::Failed).await;
        let causes: Vec<_> = job.exceptions[0].stacktrace.split("\nCaused by: ").collect();
        let sentence = causes.last().unwrap();
        assert!(sentence.contains(&format!("`{key}`: truncated: it has {length} bytes of ")), "{causes:?}");
        assert_eq!(causes[0], "JobInitializationException: could not start the JobMaster");
        let _executor = FakeExecutor::start(coordinator.rpc(), "e1", 2, script(|_, _, _| Step::Finish)).await;
        let other = coordinator.submit("two-stage", &[]).await;
        coordinator.status(other, JobStatus::Finished).await;
        let record = setup.ha_dir().join(format!("jobs/{JOB}.json"));
        eventually("the clean-up is over", || (!record.exists()).then_some(())).await;
        assert!(server.backend().get("checkpoints", &key).is_ok(), "it may be repaired by hand");
        coordinator.stop().await;
    }
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
    let job = next.status(JOB, JobStatus::Failed).await;
    assert!(job.exceptions[0].stacktrace.contains("does not exist"), "{:?}", job.exceptions);
    next.stop().await;
    server.shutdown().await.unwrap();
}
