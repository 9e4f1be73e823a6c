//! Jobs with results that are kept.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stormproof_coordinator::graph::{JobGraph, JobKind, ResultPartitionId, ResultPartitionType, ShipStrategy};
use stormproof_coordinator::runtime::protocol::{FailureKind, TaskUpdate, ToExecutor};

use crate::cluster::Cluster;
use crate::jobs::{Collect, Count, Numbers, Results, Sequence, Stage, Words};
use crate::support::{JOB, until};

fn word_count(results: &Results) -> JobGraph {
    let results = results.clone();
    let mut job = JobGraph::builder("words", JobKind::Batch);
    let words = job.source("words", 2, |_| Ok(Box::new(Words)));
    let count = job.operator("count", 2, |_| Ok(Box::new(Count::default())));
    let sink = job.operator("sink", 1, move |_| Ok(Box::new(Collect(results.clone()))));
    job.connect(words, count, ShipStrategy::Hash, ResultPartitionType::Blocking);
    job.connect(count, sink, ShipStrategy::Rebalance, ResultPartitionType::Pipelined);
    job.build().unwrap()
}

/// Splits of a text, and how often each word is in it.
fn text() -> (Vec<String>, BTreeMap<String, Vec<String>>) {
    let mut splits = vec![String::new(); 7];
    let mut counts = BTreeMap::<String, u64>::new();
    for index in 0..20_000_usize {
        let word = format!("word-{}", index * index % 131);
        splits[index % 7] += &format!("{word} ");
        *counts.entry(word).or_default() += 1;
    }
    (splits, counts.into_iter().map(|(word, count)| (word, vec![count.to_string()])).collect())
}

/// A cluster of two whose `words` have FINISHED.
async fn counted_words(results: &Results, settings: &[(&str, &str)]) -> Cluster {
    let results = results.clone();
    let cluster = Cluster::with_settings(2, settings, move || word_count(&results)).await;
    let (splits, _) = text();
    cluster.coordinator.offer_splits(&splits.iter().map(String::as_str).collect::<Vec<_>>());
    let words = cluster.deploy("words", 0, 0);
    cluster.coordinator.wait_finished(&words).await;
    cluster
}

fn result_of(cluster: &Cluster, subtask: u32) -> (ResultPartitionId, PathBuf) {
    let id = cluster.deployment("words", subtask, 0, 0).outputs[0].partition;
    let folder = format!("{JOB}/{}-0-{subtask}-0", id.partition.producer.vertex);
    (id, cluster.place(subtask).work_dir.join("partitions").join(folder))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_are_counted_over_two_executors_and_results_stay_until_released() {
    let results = Results::default();
    let cluster = counted_words(&results, &[]).await;
    let (_, expected) = text();
    // Twice: a result that is kept can be read by the next attempt too.
    for attempt in 0..2 {
        results.lock().unwrap().clear();
        let mut rest = cluster.deploy("count", attempt, 0);
        rest.extend(cluster.deploy("sink", attempt, attempt));
        cluster.coordinator.wait_finished(&rest).await;
        assert_eq!(*results.lock().unwrap(), expected);
    }
    for (subtask, executor) in [(0, "executor-1"), (1, "executor-2")] {
        cluster.coordinator.wait_partitions(executor, 1).await;
        let (id, folder) = result_of(&cluster, subtask);
        let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        files.sort();
        assert_eq!(files, ["0", "1"], "all files complete, none temporary");
        cluster.coordinator.send(executor, ToExecutor::ReleasePartitions { job: JOB, partitions: vec![id] });
        cluster.coordinator.wait_partitions(executor, 0).await;
        until("the folder to go", || !folder.exists()).await;
    }
    cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_or_damaged_file_names_its_partition() {
    // Waiting for the partition would outlast the test: blocking results are answered at once.
    let cluster = counted_words(&Results::default(), &[("taskmanager.network.partition-request-timeout", "1 h")]).await;
    // Whoever asks first gets most splits, so one of the two may have next to nothing in its files.
    let size = |subtask| std::fs::metadata(result_of(&cluster, subtask).1.join("0")).unwrap().len();
    let (subtask, executor) = if size(0) > size(1) { (0, "executor-1") } else { (1, "executor-2") };
    let (id, folder) = result_of(&cluster, subtask);
    let file = folder.join("0");
    let good = std::fs::read(&file).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let damages = [Some(&good[..good.len() - 1]), Some(&good[..100]), Some(&flipped), None];
    for (attempt, damage) in (0..).zip(damages) {
        match damage {
            Some(bytes) => std::fs::write(&file, bytes).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let consumer = cluster.send_deployment(cluster.deployment("count", 0, attempt, 0));
        let end = cluster.coordinator.wait_end(consumer).await;
        let TaskUpdate::Failed(failure) = end else { panic!("{end:?}") };
        assert_eq!(failure.kind, FailureKind::PartitionNotFound(id), "{}", failure.error);
        let said = if damage.is_some() { "damaged" } else { "not found" };
        assert!(failure.error.to_string().contains(said), "{}", failure.error);
    }
    // The other file is good, and so is the executor.
    let other = cluster.send_deployment(cluster.deployment("count", 1, 9, 0));
    cluster.coordinator.wait_running(&[other]).await;
    cluster.coordinator.send("executor-2", ToExecutor::Cancel(other));
    // Released, and asked for once more.
    cluster.coordinator.send(executor, ToExecutor::ReleasePartitions { job: JOB, partitions: vec![id] });
    cluster.coordinator.wait_partitions(executor, 0).await;
    let late = cluster.send_deployment(cluster.deployment("count", 0, 10, 0));
    let end = cluster.coordinator.wait_end(late).await;
    assert!(matches!(&end, TaskUpdate::Failed(failure) if failure.kind == FailureKind::PartitionNotFound(id)));
    cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_executor_names_the_producer() {
    let mut cluster = counted_words(&Results::default(), &[]).await;
    let (id, _) = result_of(&cluster, 1);
    let deployment = cluster.deployment("count", 0, 0, 0);
    cluster.executors.remove(1).kill().await;
    let consumer = cluster.send_deployment(deployment);
    let end = cluster.coordinator.wait_end(consumer).await;
    let TaskUpdate::Failed(failure) = end else { panic!("{end:?}") };
    assert_eq!(failure.kind, FailureKind::PartitionConnection(id), "{}", failure.error);
    cluster.shut_down().await;
}

/// One source, one consumer, joined by `partition_type`.
fn pair(stage: &Arc<Stage>, partition_type: ResultPartitionType) -> JobGraph {
    let (for_source, for_operator) = (stage.clone(), stage.clone());
    let mut job = JobGraph::builder("pair", JobKind::Batch);
    let source = job.source("numbers", 1, move |_| Ok(Box::new(Numbers::new(&for_source, 0))));
    let operator = job.operator("sequence", 1, move |_| Ok(Box::new(Sequence::new(&for_operator))));
    job.connect(source, operator, ShipStrategy::Forward, partition_type);
    job.build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_that_come_first_wait_for_the_producer() {
    for kind in [ResultPartitionType::Pipelined, ResultPartitionType::HybridFull, ResultPartitionType::HybridSelective]
    {
        let stage = Arc::new(Stage::default());
        let for_job = stage.clone();
        let cluster = Cluster::start(1, move || pair(&for_job, kind)).await;
        let consumer = cluster.deploy("sequence", 0, 0);
        cluster.coordinator.wait_running(&consumer).await;
        let producer = cluster.deploy("numbers", 0, 0);
        until("some records", || stage.emitted.load(Ordering::SeqCst) > 1000).await;
        stage.end.store(true, Ordering::SeqCst);
        cluster.coordinator.wait_finished(&[producer[0], consumer[0]]).await;
        let read =
            cluster.coordinator.log(|log| {
                log.messages.iter().rev().find_map(|message| match message {
                    stormproof_coordinator::runtime::protocol::ToCoordinator::TaskUpdate {
                        attempt, metrics, ..
                    } if *attempt == consumer[0] => Some(metrics.read_records),
                    _ => None,
                })
            });
        assert_eq!(read, Some(stage.emitted.load(Ordering::SeqCst)), "{kind:?}");
        cluster.coordinator.wait_partitions("executor-1", u32::from(kind.is_release_by_scheduler())).await;
        cluster.shut_down().await;
    }
}

// P196 (the request waits at the producer's executor instead of being repeated, and a deployment says where that is)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_never_comes_is_not_found() {
    let stage = Arc::new(Stage::default());
    let settings = [("taskmanager.network.partition-request-timeout", "50 ms")];
    let cluster = Cluster::with_settings(1, &settings, move || pair(&stage, ResultPartitionType::Pipelined)).await;
    let deployment = cluster.deployment("sequence", 0, 0, 0);
    let id = deployment.inputs[0].channels[0].partition;
    let end = cluster.coordinator.wait_end(cluster.send_deployment(deployment)).await;
    assert!(
        matches!(&end, TaskUpdate::Failed(failure) if failure.kind == FailureKind::PartitionNotFound(id)),
        "{end:?}"
    );
    cluster.shut_down().await;
}
