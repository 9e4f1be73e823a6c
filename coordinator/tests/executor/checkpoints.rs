//! Barriers, snapshots, restores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stormproof_coordinator::config::StoreConfig;
use stormproof_coordinator::core::checkpoint::{TaskSnapshot, TaskSnapshotHandle};
use stormproof_coordinator::graph::{AttemptId, JobGraph, JobKind, ResultPartitionType, ShipStrategy};
use stormproof_coordinator::runtime::protocol::{TaskRestore, TaskUpdate, ToCoordinator, ToExecutor};

use stormproof_store::S3Server;

use crate::cluster::Cluster;
use crate::jobs::{Numbers, Sequence, Stage};
use crate::support::{Log, until};

/// Two sources into one operator.
pub(crate) fn stream(stage: &Arc<Stage>, value_bytes: usize) -> JobGraph {
    let (for_source, for_operator) = (stage.clone(), stage.clone());
    let mut job = JobGraph::builder("stream", JobKind::Streaming);
    let source = job.source("numbers", 2, move |_| Ok(Box::new(Numbers::new(&for_source, value_bytes))));
    let operator = job.operator("sequence", 1, move |_| Ok(Box::new(Sequence::new(&for_operator))));
    job.connect(source, operator, ShipStrategy::Global, ResultPartitionType::PipelinedBounded);
    job.build().unwrap()
}

struct Running {
    cluster: Cluster,
    stage: Arc<Stage>,
    /// Sources, then the operator.
    tasks: Vec<AttemptId>,
}

impl Running {
    async fn start() -> Self {
        Self::with_store(None).await
    }

    async fn with_store(store: Option<StoreConfig>) -> Self {
        let stage = Arc::new(Stage::default());
        let for_job = stage.clone();
        let mut cluster = Cluster::with_store(2, &[], store, move || stream(&for_job, 100)).await;
        cluster.checkpointing = true;
        let tasks = cluster.deploy_all();
        cluster.coordinator.wait_running(&tasks).await;
        Self { cluster, stage, tasks }
    }

    fn trigger(&self, sources: &[usize], checkpoint: u64) {
        for source in sources {
            let attempt = self.tasks[*source];
            self.cluster.tell(attempt, ToExecutor::TriggerCheckpoint { attempt, checkpoint });
        }
    }

    /// Tells every task that `checkpoint` is durable.
    fn complete(&self, checkpoint: u64, is_final: bool) {
        for attempt in self.tasks.iter().copied() {
            self.cluster.tell(attempt, ToExecutor::CheckpointCompleted { attempt, checkpoint, is_final });
        }
    }

    /// Waits for all snapshots of `checkpoint`, in the order of the tasks.
    async fn snapshots(&self, checkpoint: u64) -> Vec<TaskSnapshotHandle> {
        let mut handles = vec![];
        for task in &self.tasks {
            let what = format!("checkpoint {checkpoint} of {task:?}");
            handles.push(self.cluster.coordinator.wait(&what, |log| ack(log, *task, checkpoint)).await);
        }
        handles
    }

    /// Cancels all tasks and starts their next attempts with the state of a checkpoint.
    async fn restart_from(&mut self, checkpoint: u64, handles: &[TaskSnapshotHandle]) {
        for attempt in self.tasks.iter().copied() {
            self.cluster.tell(attempt, ToExecutor::Cancel(attempt));
        }
        for attempt in &self.tasks {
            assert_eq!(self.cluster.coordinator.wait_end(*attempt).await, TaskUpdate::Canceled);
        }
        let names = [("numbers", 0), ("numbers", 1), ("sequence", 0)];
        self.tasks = std::iter::zip(names, handles)
            .map(|((vertex, subtask), handle)| {
                let mut deployment = self.cluster.deployment(vertex, subtask, 1, 1);
                deployment.restore = Some(TaskRestore { checkpoint, state: handle.clone() });
                self.cluster.send_deployment(deployment)
            })
            .collect();
        self.cluster.coordinator.wait_running(&self.tasks).await;
    }

    async fn declined(&self, task: usize, checkpoint: u64) -> String {
        let task = self.tasks[task];
        let declined = |log: &Log| {
            log.messages.iter().find_map(|message| match message {
                ToCoordinator::CheckpointDecline { attempt, checkpoint: of, reason }
                    if *attempt == task && *of == checkpoint =>
                {
                    Some(reason.clone())
                }
                _ => None,
            })
        };
        self.cluster.coordinator.wait(&format!("the decline of {checkpoint}"), declined).await
    }
}

fn ack(log: &Log, task: AttemptId, checkpoint: u64) -> Option<TaskSnapshotHandle> {
    log.messages.iter().find_map(|message| match message {
        ToCoordinator::CheckpointAck { attempt, checkpoint: of, state } if *attempt == task && *of == checkpoint => {
            Some(state.clone())
        }
        _ => None,
    })
}

fn operator_state(handle: &TaskSnapshotHandle) -> Vec<u8> {
    let TaskSnapshotHandle::Inline(bytes) = handle else { panic!("small state travels inline: {handle:?}") };
    postcard::from_bytes::<TaskSnapshot>(bytes).unwrap().operator
}

/// What the sources say they have emitted, which must be exactly what the operator has counted.
fn assert_cut(handles: &[TaskSnapshotHandle]) -> BTreeMap<String, u64> {
    let mut emitted = BTreeMap::new();
    for (source, handle) in handles[..2].iter().enumerate() {
        let next: u64 = String::from_utf8(operator_state(handle)).unwrap().parse().unwrap();
        emitted.insert(source.to_string(), next);
    }
    let mut counted: BTreeMap<String, u64> = serde_json::from_slice(&operator_state(&handles[2])).unwrap();
    for source in 0..2 {
        counted.entry(source.to_string()).or_default();
    }
    assert_eq!(counted, emitted, "records after the barrier are in the snapshot, or records before it are missing");
    emitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_record_crosses_its_barrier_and_the_final_checkpoint_ends_the_job() {
    let running = Running::start().await;
    let mut before = BTreeMap::new();
    for checkpoint in 1..=12 {
        running.trigger(&[0, 1], checkpoint);
        let cut = assert_cut(&running.snapshots(checkpoint).await);
        assert!(before.iter().all(|(source, next)| cut[source] >= *next), "{before:?} then {cut:?}");
        before = cut;
        running.complete(checkpoint, false);
    }
    running.stage.end.store(true, Ordering::SeqCst);
    for task in running.tasks.clone() {
        let ended = |log: &Log| log.messages.contains(&ToCoordinator::EndOfData { attempt: task }).then_some(());
        running.cluster.coordinator.wait("the end of data", ended).await;
    }
    running.trigger(&[0, 1], 13);
    let cut = assert_cut(&running.snapshots(13).await);
    assert_eq!(cut.values().sum::<u64>(), running.stage.emitted.load(Ordering::SeqCst));
    let early = running.cluster.coordinator.log(|log| {
        running
            .tasks
            .iter()
            .filter(|task| log.update(**task, |update| *update == TaskUpdate::Finished).is_some())
            .count()
    });
    assert_eq!(early, 0, "no task ends before the final checkpoint is durable");
    running.complete(13, true);
    running.cluster.coordinator.wait_finished(&running.tasks).await;
    let told = running.stage.completed.lock().unwrap().clone();
    assert!(told.is_sorted() && told.last() == Some(&13), "{told:?}");
    running.cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_and_overtaken_checkpoints_hold_nothing_back() {
    let running = Running::start().await;
    // Only one source has the barrier: its channel is held until the abort.
    running.trigger(&[0], 1);
    running.cluster.coordinator.wait("the source's part", |log| ack(log, running.tasks[0], 1)).await;
    for attempt in running.tasks.iter().copied() {
        running.cluster.tell(attempt, ToExecutor::CheckpointAborted { attempt, checkpoint: 1 });
    }
    running.trigger(&[0, 1], 2);
    assert_cut(&running.snapshots(2).await);
    // A newer barrier gives the older one up, without anybody's help.
    running.trigger(&[1], 3);
    running.trigger(&[0, 1], 4);
    assert_cut(&running.snapshots(4).await);
    assert!(running.declined(2, 3).await.contains("newer"));
    // Operators are not triggered while their inputs live.
    running.trigger(&[2], 5);
    assert!(running.declined(2, 5).await.contains("inputs"));
    running.cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_snapshot_declines_and_the_next_one_is_taken() {
    let running = Running::start().await;
    running.stage.fail_snapshot.store(true, Ordering::SeqCst);
    running.trigger(&[0, 1], 1);
    assert_eq!(running.declined(2, 1).await, "told to decline");
    running.trigger(&[0, 1], 2);
    assert_cut(&running.snapshots(2).await);
    running.cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_attempts_go_on_exactly_where_the_checkpoint_was() {
    let mut running = Running::start().await;
    until("some records", || running.stage.emitted.load(Ordering::SeqCst) > 1000).await;
    running.trigger(&[0, 1], 1);
    let handles = running.snapshots(1).await;
    let cut = assert_cut(&handles);
    running.restart_from(1, &handles).await;
    running.trigger(&[0, 1], 2);
    // The operator fails on any gap or repetition, so reaching a later consistent cut proves the restore.
    let later = assert_cut(&running.snapshots(2).await);
    assert!(cut.iter().all(|(source, next)| later[source] >= *next), "{cut:?} then {later:?}");
    assert!(cut.values().sum::<u64>() > 1000 - 16);
    running.cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_state_lies_in_the_store_and_a_dead_store_declines() {
    let server = S3Server::builder().credentials("key", "secret").start().await.unwrap();
    server.backend().create_bucket("checkpoints").unwrap();
    let store = StoreConfig {
        endpoint: server.endpoint().to_owned(),
        bucket: "checkpoints".into(),
        access_key: "key".into(),
        secret_key: "secret".into(),
    };
    let mut running = Running::with_store(Some(store)).await;
    running.stage.keyed_bytes.store(100_000, Ordering::SeqCst);
    until("some records", || running.stage.emitted.load(Ordering::SeqCst) > 20_000).await;
    running.trigger(&[0, 1], 1);
    let handles = running.snapshots(1).await;
    assert!(matches!(&handles[2], TaskSnapshotHandle::File { size, .. } if *size > 100_000), "{:?}", handles[2]);
    // From now on keyed state can only come out of the checkpoint.
    running.stage.keyed_bytes.store(0, Ordering::SeqCst);
    running.restart_from(1, &handles).await;
    running.trigger(&[0, 1], 2);
    let handles = running.snapshots(2).await;
    assert!(matches!(&handles[2], TaskSnapshotHandle::File { size, .. } if *size > 100_000), "{:?}", handles[2]);
    drop(server);
    running.trigger(&[0, 1], 3);
    let reason = running.declined(2, 3).await;
    assert!(reason.starts_with("cannot write the snapshot: "), "{reason}");
    running.cluster.shut_down().await;
}
