//! Losing the coordinator, and finding another one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use stormproof_coordinator::executor::{ExecutorError, run};
use stormproof_coordinator::graph::{JobGraph, JobKind, JobRegistry, ResultPartitionType, ShipStrategy};
use stormproof_coordinator::leadership::LeaderInfo;
use stormproof_coordinator::runtime::protocol::ToExecutor;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::cluster::{Cluster, Executor};
use crate::jobs::{Numbers, Sequence, Stage};
use crate::support::{DEADLINE, JOB, Log, until};

/// A source with a result that is kept, and a consumer of it.
fn kept(stage: &Arc<Stage>) -> JobGraph {
    let (for_source, for_operator) = (stage.clone(), stage.clone());
    let mut job = JobGraph::builder("kept", JobKind::Batch);
    let source = job.source("numbers", 1, move |_| Ok(Box::new(Numbers::new(&for_source, 0))));
    let operator = job.operator("sequence", 1, move |_| Ok(Box::new(Sequence::new(&for_operator))));
    job.connect(source, operator, ShipStrategy::Forward, ResultPartitionType::Blocking);
    job.build().unwrap()
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

/// A cluster of one with a complete result on disk and a source that runs.
async fn busy(stage: &Arc<Stage>) -> Cluster {
    let for_job = stage.clone();
    let cluster = Cluster::start(1, move || kept(&for_job)).await;
    stage.end.store(true, Ordering::SeqCst);
    cluster.coordinator.wait_finished(&cluster.deploy("numbers", 0, 0)).await;
    stage.end.store(false, Ordering::SeqCst);
    stage.idle.store(true, Ordering::SeqCst);
    cluster.coordinator.wait_running(&cluster.deploy("numbers", 1, 0)).await;
    cluster.coordinator.wait_partitions("executor-1", 2).await;
    cluster
}

async fn wait_hellos(cluster: &Cluster, count: usize) {
    let registered = |log: &Log| (log.hellos.len() >= count).then_some(());
    cluster.coordinator.wait("another registration", registered).await;
}

// P186, P189
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_cancels_tasks_deletes_partitions_and_registers_again() {
    let stage = Arc::new(Stage::default());
    let cluster = busy(&stage).await;
    let folder = cluster.executors[0].work_dir.join("partitions");
    assert_eq!(entries(&folder.join(JOB.to_string())), 2);
    cluster.coordinator.drop_connection("executor-1");
    wait_hellos(&cluster, 2).await;
    until("all partitions to go", || entries(&folder) == 0).await;
    cluster.coordinator.wait_partitions("executor-1", 0).await;
    // The same attempt may be deployed again: nothing of the old one is left.
    stage.end.store(true, Ordering::SeqCst);
    let again = cluster.deploy("numbers", 2, 0);
    cluster.coordinator.wait_finished(&again).await;
    cluster.coordinator.wait_finished(&cluster.deploy("sequence", 0, 2)).await;
    cluster.shut_down().await;
}

// P272
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_go_to_a_new_leader_even_if_the_old_one_only_falls_silent() {
    let stage = Arc::new(Stage::default());
    let cluster = busy(&stage).await;
    let folder = cluster.executors[0].work_dir.join("partitions");
    cluster.coordinator.change_leader(2).await;
    wait_hellos(&cluster, 2).await;
    until("all partitions to go", || entries(&folder) == 0).await;
    cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_coordinator_counts_as_lost() {
    let stage = Arc::new(Stage::default());
    let cluster = busy(&stage).await;
    let folder = cluster.executors[0].work_dir.join("partitions");
    cluster.coordinator.grant_heartbeat_timeout(100);
    cluster.coordinator.drop_connection("executor-1");
    // The second connection is never closed by us; only its silence brings the third.
    wait_hellos(&cluster, 3).await;
    until("all partitions to go", || entries(&folder) == 0).await;
    cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_job_leaves_nothing_not_even_of_a_task_that_still_runs() {
    let stage = Arc::new(Stage::default());
    let cluster = busy(&stage).await;
    let folder = cluster.executors[0].work_dir.join("partitions");
    cluster.coordinator.send("executor-1", ToExecutor::ReleaseJob(JOB));
    cluster.coordinator.wait_end(cluster.attempt("numbers", 0, 1)).await;
    cluster.coordinator.wait_partitions("executor-1", 0).await;
    until("the job's folder to go", || entries(&folder) == 0).await;
    cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_leader_an_executor_gives_up_in_the_end() {
    let stage = Arc::new(Stage::default());
    let cluster = Cluster::start(0, move || kept(&stage)).await;
    let empty = tempfile::tempdir().unwrap();
    let mut config = cluster.config("executor-9");
    config.ha_dir = empty.path().to_owned();
    config.settings.insert("taskmanager.registration.timeout".into(), "50 ms".into());
    let work_dir = config.work_dir.clone();
    std::fs::create_dir_all(work_dir.join("partitions/of-an-earlier-run")).unwrap();
    let mut ready = None;
    let ended = run(config, JobRegistry::default(), |is| ready = Some(is), std::future::pending());
    let error = tokio::time::timeout(DEADLINE, ended).await.unwrap().unwrap_err();
    assert!(matches!(error, ExecutorError::NotRegistered(after) if after == Duration::from_millis(50)), "{error}");
    let ready = ready.unwrap();
    assert_eq!((ready.name.as_str(), ready.rest, ready.rpc), ("executor-9", None, None));
    assert!(!work_dir.exists(), "what an earlier run left is swept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_with_routes_waits_for_them_and_dials_there() {
    let stage = Arc::new(Stage::default());
    let mut cluster = Cluster::start(0, move || kept(&stage)).await;
    let leader = std::fs::read(cluster.coordinator.ha.path().join("leader.json")).unwrap();
    let leader: LeaderInfo = serde_json::from_slice(&leader).unwrap();
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = cluster.config("executor-1");
    let (work_dir, file) = (config.work_dir.clone(), cluster.folder.path().join("routes"));
    config.routes = Some(file.clone());
    let told = async {
        until("the executor to be up", || work_dir.join("partitions").exists()).await;
        let written = file.with_extension("tmp");
        std::fs::write(&written, json!({ leader.name: front.local_addr().unwrap() }).to_string()).unwrap();
        std::fs::rename(written, &file).unwrap();
        let (mut executor, _) = front.accept().await.unwrap();
        assert!(cluster.coordinator.log(|log| log.hellos.is_empty()), "it has dialled the coordinator itself");
        let mut coordinator = TcpStream::connect(&leader.rpc).await.unwrap();
        tokio::spawn(async move { copy_bidirectional(&mut executor, &mut coordinator).await });
    };
    let registry = JobRegistry::default();
    let (executor, told) =
        tokio::join!(Executor::start(&cluster.coordinator, config, &registry), tokio::time::timeout(DEADLINE, told));
    told.unwrap();
    cluster.executors.push(executor);
    cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_that_cannot_be_understood_end_the_executor() {
    let stage = Arc::new(Stage::default());
    let cluster = Cluster::start(0, move || kept(&stage)).await;
    let mut config = cluster.config("executor-9");
    let file = cluster.folder.path().join("routes");
    std::fs::write(&file, "executor-1 -> here").unwrap();
    config.routes = Some(file);
    let work_dir = config.work_dir.clone();
    let ended = run(config, JobRegistry::default(), drop, std::future::pending());
    let error = tokio::time::timeout(DEADLINE, ended).await.unwrap().unwrap_err();
    assert!(matches!(error, ExecutorError::Routes(_)), "{error}");
    assert!(!work_dir.exists(), "nothing is left");
}
