//! Cancellation, panics, faults, lost producers, back-pressure.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use stormproof_coordinator::executor::ExecutorError;
use stormproof_coordinator::graph::{
    AttemptId, Collector, JobGraph, JobKind, Source, SourceStatus, TaskContext, TaskError,
};
use stormproof_coordinator::runtime::protocol::{FailureKind, TaskFailure, TaskUpdate, ToExecutor};

use crate::checkpoints::stream;
use crate::cluster::Cluster;
use crate::jobs::Stage;
use crate::support::until;

/// Bytes that may be on the way from the two sources to an operator that stands still: by queue, subpartition (and a
/// batch), two socket buffers (which the kernel doubles), input channel, and what the frame readers hold.
const MOST_ON_THE_WAY: u64 = 2 * (160 + 4 * 128 + 5 * 33 + 64) * 1024;

async fn running(executors: usize, value_bytes: usize, stage: &Arc<Stage>) -> (Cluster, Vec<AttemptId>) {
    let for_job = stage.clone();
    let cluster = Cluster::start(executors, move || stream(&for_job, value_bytes)).await;
    let tasks = cluster.deploy_all();
    cluster.coordinator.wait_running(&tasks).await;
    (cluster, tasks)
}

async fn failure_of(cluster: &Cluster, attempt: AttemptId) -> TaskFailure {
    match cluster.coordinator.wait_end(attempt).await {
        TaskUpdate::Failed(failure) => failure,
        other => panic!("{attempt:?} should have failed: {other:?}"),
    }
}

/// Waits until the sources have stood still for a while.
async fn until_blocked(stage: &Stage, limit: u64) {
    let mut last = (stage.emitted.load(Ordering::SeqCst), std::time::Instant::now());
    until("the sources to be held back", || {
        let emitted = stage.emitted.load(Ordering::SeqCst);
        if emitted != last.0 {
            last = (emitted, std::time::Instant::now());
        }
        emitted > limit || (emitted > 0 && last.1.elapsed() > Duration::from_millis(300))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_consumer_holds_its_producers_back_and_both_can_be_cancelled() {
    let stage = Arc::new(Stage::default());
    stage.close_gate();
    let (cluster, tasks) = running(2, 1000, &stage).await;
    let limit = MOST_ON_THE_WAY / 1000;
    until_blocked(&stage, limit).await;
    let emitted = stage.emitted.load(Ordering::SeqCst);
    assert!(emitted <= limit, "{emitted} records of 1000 bytes are on the way; {limit} fit");
    // Sources blocked on full outputs, an operator inside user code.
    for attempt in &tasks {
        cluster.tell(*attempt, ToExecutor::Cancel(*attempt));
    }
    for attempt in &tasks {
        assert_eq!(cluster.coordinator.wait_end(*attempt).await, TaskUpdate::Canceled);
    }
    cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_held_back_arrives_in_order_once_the_consumer_goes_on() {
    let stage = Arc::new(Stage::default());
    stage.close_gate();
    let (cluster, tasks) = running(2, 1000, &stage).await;
    until_blocked(&stage, u64::MAX).await;
    stage.end.store(true, Ordering::SeqCst);
    stage.open_gate();
    cluster.coordinator.wait_finished(&tasks).await;
    cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_sources_and_empty_inputs_are_cancelled_at_once() {
    let stage = Arc::new(Stage::default());
    stage.idle.store(true, Ordering::SeqCst);
    let (cluster, tasks) = running(1, 0, &stage).await;
    // The operator first: nothing else would end its wait for input.
    for attempt in tasks.into_iter().rev() {
        cluster.tell(attempt, ToExecutor::Cancel(attempt));
        // A source idles for an hour.
        assert_eq!(cluster.coordinator.wait_end(attempt).await, TaskUpdate::Canceled);
    }
    // A task that is not here is answered too.
    let stranger = cluster.attempt("sequence", 0, 7);
    cluster.tell(stranger, ToExecutor::Cancel(stranger));
    assert_eq!(cluster.coordinator.wait_end(stranger).await, TaskUpdate::Canceled);
    cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_fails_its_task_and_nothing_else() {
    let stage = Arc::new(Stage::default());
    let (cluster, tasks) = running(2, 0, &stage).await;
    stage.panic.store(true, Ordering::SeqCst);
    let failure = failure_of(&cluster, tasks[2]).await;
    assert_eq!(failure.kind, FailureKind::Task);
    assert_eq!(failure.error.to_string(), "user code panicked: told to panic");
    // Its producers go on into nothing until the coordinator cancels them; a new attempt runs.
    stage.panic.store(false, Ordering::SeqCst);
    for attempt in &tasks[..2] {
        cluster.tell(*attempt, ToExecutor::Cancel(*attempt));
        assert_eq!(cluster.coordinator.wait_end(*attempt).await, TaskUpdate::Canceled);
    }
    let mut again = cluster.deploy("numbers", 1, 0);
    again.extend(cluster.deploy("sequence", 1, 1));
    cluster.coordinator.wait_running(&again).await;
    stage.end.store(true, Ordering::SeqCst);
    cluster.coordinator.wait_finished(&again).await;
    cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_file_fails_the_producer_and_cancels_its_consumer() {
    let stage = Arc::new(Stage::default());
    let (cluster, tasks) = running(2, 0, &stage).await;
    cluster.fault("fail-numbers-1");
    let failure = failure_of(&cluster, tasks[1]).await;
    assert_eq!(failure.error.to_string(), "chaos trigger numbers-1");
    // One failure, not two: the consumer of a failed producer is cancelled (reference 4.5).
    assert_eq!(cluster.coordinator.wait_end(tasks[2]).await, TaskUpdate::Canceled);
    // A consumer that comes late hears the same, at once, once there is nothing else to hear: the partition of a
    // producer that runs on went with its only reader.
    cluster.fault("fail-numbers-0");
    failure_of(&cluster, tasks[0]).await;
    let late = cluster.send_deployment(cluster.deployment("sequence", 0, 1, 0));
    assert_eq!(cluster.coordinator.wait_end(late).await, TaskUpdate::Canceled);
    cluster.fault("failalways-numbers-1");
    for attempt in 1..3 {
        let again = cluster.send_deployment(cluster.deployment("numbers", 1, attempt, 0));
        let failure = failure_of(&cluster, again).await;
        assert_eq!(failure.error.to_string(), "chaos trigger always numbers-1");
    }
    cluster.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_producer_is_a_broken_transport_that_names_nobody() {
    let stage = Arc::new(Stage::default());
    let (mut cluster, tasks) = running(2, 0, &stage).await;
    // Before its connection stands, a consumer names the partition that it cannot reach.
    until("a record of the producer to arrive", || stage.arrived.lock().unwrap().contains("1")).await;
    cluster.executors.remove(1).kill().await;
    let failure = failure_of(&cluster, tasks[2]).await;
    assert_eq!(failure.kind, FailureKind::RemoteTransport, "{}", failure.error);
    cluster.shut_down().await;
}

// P061: however deep it lies in the chain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_that_user_code_calls_final_is_told_as_one() {
    struct Hopeless;
    impl Source for Hopeless {
        fn poll(&mut self, _: &mut dyn TaskContext, _: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
            Err(TaskError::new("the licence has expired").non_recoverable().context("could not read"))
        }
    }
    let cluster = Cluster::start(1, || {
        let mut job = JobGraph::builder("hopeless", JobKind::Batch);
        job.source("hopeless", 1, |_| Ok(Box::new(Hopeless)));
        job.build().unwrap()
    })
    .await;
    let tasks = cluster.deploy_all();
    let failure = failure_of(&cluster, tasks[0]).await;
    assert_eq!(failure.kind, FailureKind::NonRecoverable);
    assert_eq!(failure.error.to_string(), "could not read: the licence has expired");
    cluster.shut_down().await;
}

/// Does not look whether it is cancelled.
struct Stubborn(Arc<Stage>);

impl Source for Stubborn {
    fn poll(&mut self, _: &mut dyn TaskContext, _: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
        self.0.emitted.store(1, Ordering::SeqCst);
        while !self.0.end.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(SourceStatus::Finished)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_does_not_stop_ends_the_executor() {
    let stage = Arc::new(Stage::default());
    let for_job = stage.clone();
    let mut cluster = Cluster::with_settings(1, &[("task.cancellation.timeout", "50 ms")], move || {
        let stage = for_job.clone();
        let mut job = JobGraph::builder("stubborn", JobKind::Batch);
        job.source("stubborn", 1, move |_| Ok(Box::new(Stubborn(stage.clone()))));
        job.build().unwrap()
    })
    .await;
    let tasks = cluster.deploy_all();
    until("user code to run", || stage.emitted.load(Ordering::SeqCst) == 1).await;
    cluster.tell(tasks[0], ToExecutor::Cancel(tasks[0]));
    let error = cluster.executors.remove(0).ended().await.unwrap_err();
    assert!(matches!(error, ExecutorError::TaskStuck(attempt) if attempt == tasks[0]), "{error}");
    // Lets the thread go.
    stage.end.store(true, Ordering::SeqCst);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_not_there_fails_its_task() {
    let stage = Arc::new(Stage::default());
    let cluster = Cluster::start(1, move || stream(&stage, 0)).await;
    let mut deployment = cluster.deployment("numbers", 0, 0, 0);
    deployment.job_name = "other".into();
    let failure = failure_of(&cluster, cluster.send_deployment(deployment)).await;
    assert!(failure.error.to_string().contains("there is no job called `other`; known: job"), "{}", failure.error);
    cluster.shut_down().await;
}
