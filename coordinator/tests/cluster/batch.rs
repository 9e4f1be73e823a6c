//! Batch jobs on scripted executors.

use std::time::Instant;

use stormproof_coordinator::core::snapshot::JobSnapshot;
use stormproof_coordinator::core::status::{ExecutionState, JobStatus};
use stormproof_coordinator::graph::{AttemptId, ExecutorId, JobId, TaskId, VertexId};
use stormproof_coordinator::rest::cluster::CancelError;
use stormproof_coordinator::runtime::frames::{FrameReader, FrameWriter, MAGIC, say_hello};
use stormproof_coordinator::runtime::protocol::{Hello, PROTOCOL_VERSION, ToCoordinator, ToExecutor};
use tokio::net::TcpStream;

use crate::fake::{FakeExecutor, Step, script};
use crate::support::{DEADLINE, Setup, attempts, eventually, registry};

const RESTARTS: [(&str, &str); 3] = [
    ("restart-strategy.type", "fixed-delay"),
    ("restart-strategy.fixed-delay.attempts", "3"),
    ("restart-strategy.fixed-delay.delay", "0 ms"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_job_runs_to_its_end_and_leaves_nothing() {
    let setup = Setup::new(registry(), &[]);
    let coordinator = setup.lead().await;
    let executor = FakeExecutor::start(coordinator.rpc(), "e1", 2, script(|_, _, _| Step::Finish)).await;
    let id = coordinator.submit("two-stage", &[]).await;
    let job = coordinator.status(id, JobStatus::Finished).await;
    assert_eq!(attempts(&job), [[0, 0], [0, 0]]);
    assert!(job.end_ms.is_some() && job.exceptions.is_empty());
    for status in [JobStatus::Initializing, JobStatus::Created, JobStatus::Running, JobStatus::Finished] {
        assert!(job.timestamps.contains_key(&status), "{status:?}");
    }
    let mut deployed = executor.deployed();
    deployed.sort();
    let expected = [("map", 0), ("map", 1), ("reduce", 0), ("reduce", 1)];
    assert_eq!(deployed, expected.map(|(vertex, subtask)| (vertex.to_owned(), subtask, 0)));
    // P262: result recorded, record gone, executors told, slots free.
    eventually("the result is clean", || {
        let result = std::fs::read_to_string(setup.ha_dir().join(format!("results/{id}.json"))).ok()?;
        let result: serde_json::Value = serde_json::from_str(&result).ok()?;
        (result["dirty"] == false && result["status"] == "FINISHED").then_some(())
    })
    .await;
    assert!(!setup.ha_dir().join(format!("jobs/{id}.json")).exists());
    eventually("the executor is told", || {
        let released = executor.received(|message| (*message == ToExecutor::ReleaseJob(id)).then_some(()));
        (!released.is_empty()).then_some(())
    })
    .await;
    let view = &coordinator.cluster.executors()[0];
    assert_eq!((view.slots, view.free_slots), (2, 2));
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_regions_than_slots_take_turns() {
    let setup = Setup::new(registry(), &[]);
    let coordinator = setup.lead().await;
    let id = coordinator.submit("lonely", &[]).await;
    let executor = FakeExecutor::start(coordinator.rpc(), "e1", 1, script(|_, _, _| Step::Finish)).await;
    coordinator.status(id, JobStatus::Finished).await;
    assert_eq!(executor.deployed().len(), 4);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_of_user_code_restarts_its_region_only() {
    let setup = Setup::new(registry(), &RESTARTS);
    let coordinator = setup.lead().await;
    let fail_once = script(|vertex, subtask, attempt| match (vertex, subtask, attempt) {
        ("reduce", 1, 0) => Step::Fail,
        _ => Step::Finish,
    });
    let _executor = FakeExecutor::start(coordinator.rpc(), "e1", 4, fail_once).await;
    let id = coordinator.submit("two-stage", &[]).await;
    let job = coordinator.status(id, JobStatus::Finished).await;
    assert_eq!(attempts(&job), [[0, 0], [0, 1]]);
    assert_eq!(job.exceptions.len(), 1);
    assert!(job.exceptions[0].stacktrace.contains("scripted failure"), "{:?}", job.exceptions);
    assert!(job.timestamps.contains_key(&JobStatus::Restarting));
    coordinator.stop().await;
}

// P064
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_job_does_not_poison_the_next() {
    let setup = Setup::new(registry(), &[]);
    let coordinator = setup.lead().await;
    let fail_reducers = script(|vertex, _, _| if vertex == "reduce" { Step::Fail } else { Step::Finish });
    let executor = FakeExecutor::start(coordinator.rpc(), "e1", 2, fail_reducers).await;
    let failing = coordinator.submit("two-stage", &[]).await;
    coordinator.status(failing, JobStatus::Failed).await;
    let next = coordinator.submit("lonely", &[]).await;
    let job = coordinator.status(next, JobStatus::Finished).await;
    assert_eq!((attempts(&job), job.exceptions.len()), (vec![vec![0; 4]], 0));
    assert_eq!(coordinator.job(failing).status, JobStatus::Failed);
    let released = executor.received(|message| (*message == ToExecutor::ReleaseJob(failing)).then_some(()));
    assert_eq!(released.len(), 1);
    coordinator.stop().await;
}

// P202
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_restart_strategy_a_lost_executor_fails_the_job() {
    let setup = Setup::new(registry(), &[]);
    let coordinator = setup.lead().await;
    let executor = FakeExecutor::start(coordinator.rpc(), "e1", 2, script(|_, _, _| Step::Run)).await;
    let id = coordinator.submit("two-stage", &[]).await;
    coordinator.fact(id, "maps run", |job| runs(job, 0)).await;
    executor.kill().await;
    let job = coordinator.status(id, JobStatus::Failed).await;
    assert!(job.exceptions[0].stacktrace.contains("e1"), "{:?}", job.exceptions);
    assert!(matches!(coordinator.cluster.cancel(id).await, Err(CancelError::AlreadyTerminal(_, "FAILED"))));
    coordinator.stop().await;
}

fn runs(job: &JobSnapshot, vertex: usize) -> bool {
    job.vertices
        .get(vertex)
        .is_some_and(|vertex| vertex.subtasks.iter().all(|subtask| subtask.current.state == ExecutionState::Running))
}

// P221: the end of the connection is enough, no heartbeat has to be missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_noticed_at_once_and_the_job_goes_on_elsewhere() {
    let setup = Setup::new(registry(), &RESTARTS);
    let coordinator = setup.lead().await;
    let first = FakeExecutor::start(coordinator.rpc(), "e1", 2, script(|_, _, _| Step::Run)).await;
    let id = coordinator.submit("two-stage", &[]).await;
    coordinator.fact(id, "maps run", |job| runs(job, 0)).await;
    let second = FakeExecutor::start(coordinator.rpc(), "e2", 2, script(|_, _, _| Step::Finish)).await;
    let killed = Instant::now();
    first.kill().await;
    let job = coordinator.status(id, JobStatus::Finished).await;
    // The default heartbeat time-out is 50 s: only the broken connection can have been noticed this fast.
    assert!(killed.elapsed().as_secs() < 40, "{:?}", killed.elapsed());
    assert_eq!(attempts(&job), [[1, 1], [0, 0]]);
    assert_eq!(second.deployed().len(), 4);
    assert_eq!(coordinator.cluster.executors().len(), 1);
    coordinator.stop().await;
}

// P200
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_executor_is_lost_after_the_heartbeat_timeout() {
    let mut settings = RESTARTS.to_vec();
    settings.extend([("heartbeat.interval", "50 ms"), ("heartbeat.timeout", "2 s")]);
    let setup = Setup::new(registry(), &settings);
    let coordinator = setup.lead().await;
    let first = FakeExecutor::start(coordinator.rpc(), "e1", 2, script(|_, _, _| Step::Run)).await;
    let id = coordinator.submit("two-stage", &[]).await;
    coordinator.fact(id, "maps run", |job| runs(job, 0)).await;
    let _second = FakeExecutor::start(coordinator.rpc(), "e2", 2, script(|_, _, _| Step::Finish)).await;
    first.hang();
    let job = coordinator.status(id, JobStatus::Finished).await;
    assert!(job.exceptions[0].stacktrace.contains("no heartbeat"), "{:?}", job.exceptions);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_request_that_nobody_can_serve_fails_with_the_reason() {
    let setup = Setup::new(registry(), &[("slot.request.timeout", "50 ms")]);
    let coordinator = setup.lead().await;
    let id = coordinator.submit("two-stage", &[]).await;
    let job = coordinator.status(id, JobStatus::Failed).await;
    assert!(job.exceptions[0].stacktrace.contains("slot.request.timeout"), "{:?}", job.exceptions);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_job_waits_longer_than_the_time_out_for_slots_that_its_own_tasks_will_free() {
    let setup = Setup::new(registry(), &[("slot.request.timeout", "50 ms")]);
    let coordinator = setup.lead().await;
    let _executor = FakeExecutor::start(coordinator.rpc(), "e1", 1, script(|_, _, _| Step::Run)).await;
    let batch = coordinator.submit("lonely", &[]).await;
    let one_runs = |job: &JobSnapshot| {
        // While the job is INITIALIZING it has no vertices yet.
        let mut subtasks = job.vertices.iter().flat_map(|vertex| &vertex.subtasks);
        subtasks.any(|subtask| subtask.current.state == ExecutionState::Running)
    };
    coordinator.fact(batch, "one task runs", one_runs).await;
    // A streaming job that asks later does run into the time-out, so the batch job's requests are past theirs.
    let stream = coordinator.submit("stream", &[]).await;
    coordinator.status(stream, JobStatus::Failed).await;
    let job = coordinator.fact(batch, "it is there", |_| true).await;
    assert_eq!((job.status, job.exceptions.len()), (JobStatus::Running, 0));
    let waiting = job.vertices[0].subtasks.iter().filter(|it| it.current.state == ExecutionState::Scheduled);
    assert_eq!(waiting.count(), 3);
    coordinator.stop().await;
}

// P220, P252
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_job_is_cancelled_even_while_an_executor_is_dead() {
    let setup = Setup::new(registry(), &RESTARTS);
    let coordinator = setup.lead().await;
    let first = FakeExecutor::start(coordinator.rpc(), "e1", 1, script(|_, _, _| Step::Run)).await;
    let second = FakeExecutor::start(coordinator.rpc(), "e2", 1, script(|_, _, _| Step::Run)).await;
    let id = coordinator.submit("two-stage", &[]).await;
    coordinator.fact(id, "maps run", |job| runs(job, 0)).await;
    first.hang();
    second.kill().await;
    coordinator.fact(id, "the loss is noticed", |job| !runs(job, 0)).await;
    coordinator.cluster.cancel(id).await.unwrap();
    coordinator.fact(id, "cancelling", |job| job.timestamps.contains_key(&JobStatus::Cancelling)).await;
    // The hung executor does not answer; its end does.
    first.kill().await;
    let job = coordinator.status(id, JobStatus::Canceled).await;
    assert!(job.end_ms.is_some());
    assert_eq!(coordinator.cluster.cancel(id).await, Ok(()));
    coordinator.stop().await;
}

// P210
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_executor_of_the_same_name_is_refused() {
    let setup = Setup::new(registry(), &[]);
    let coordinator = setup.lead().await;
    let first = FakeExecutor::start(coordinator.rpc(), "e1", 1, script(|_, _, _| Step::Run)).await;
    let refusal = FakeExecutor::try_start(coordinator.rpc(), "e1", 1, script(|_, _, _| Step::Run)).await.err().unwrap();
    assert!(refusal.contains("e1 is in use"), "{refusal}");
    first.kill().await;
    eventually("the first is lost", || coordinator.cluster.executors().is_empty().then_some(())).await;
    let _second = FakeExecutor::start(coordinator.rpc(), "e1", 1, script(|_, _, _| Step::Run)).await;
    assert_eq!(coordinator.cluster.executors().len(), 1);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_jobs_are_kept_up_to_a_bound() {
    let setup = Setup::new(registry(), &[("jobstore.max-capacity", "2")]);
    let coordinator = setup.lead().await;
    let _executor = FakeExecutor::start(coordinator.rpc(), "e1", 4, script(|_, _, _| Step::Finish)).await;
    let mut ids = vec![];
    for _ in 0..3 {
        let id = coordinator.submit("lonely", &[]).await;
        coordinator.fact(id, "finished", |job| job.status == JobStatus::Finished).await;
        ids.push(id);
    }
    eventually("the oldest is forgotten", || (coordinator.cluster.jobs().len() == 2).then_some(())).await;
    assert!(coordinator.cluster.job(ids[0]).is_none() && coordinator.cluster.job(ids[2]).is_some());
    eventually("its result is removed", || {
        (std::fs::read_dir(setup.ha_dir().join("results")).unwrap().count() == 2).then_some(())
    })
    .await;
    coordinator.stop().await;
}

// P209 (here a refusal of all that is said of the job, with the order to give up what is held for it)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_refused_and_messages_of_unknown_jobs_are_answered_by_a_release() {
    let setup = Setup::new(registry(), &[]);
    let coordinator = setup.lead().await;
    let connect = async || {
        let (read, write) = TcpStream::connect(coordinator.rpc()).await.unwrap().into_split();
        (FrameReader::new(read), FrameWriter::new(write))
    };
    let hello = |version| Hello {
        magic: MAGIC,
        version,
        executor: ExecutorId("e1".into()),
        slots: 1,
        data_address: "e1:1".into(),
        pid: 1,
    };
    let (mut reader, mut writer) = connect().await;
    let refusal = say_hello(&mut reader, &mut writer, &hello(PROTOCOL_VERSION + 1), DEADLINE).await.unwrap_err();
    assert!(refusal.to_string().contains("protocol version"), "{refusal}");
    assert!(coordinator.cluster.executors().is_empty());

    let (mut reader, mut writer) = connect().await;
    say_hello(&mut reader, &mut writer, &hello(PROTOCOL_VERSION), DEADLINE).await.unwrap();
    let job = JobId([4; 16]);
    let task = TaskId { vertex: VertexId::of_name("map"), subtask: 0 };
    writer.send(&ToCoordinator::EndOfData { attempt: AttemptId { job, task, attempt: 0 } }).await.unwrap();
    let answer = async {
        loop {
            match reader.next::<ToExecutor>().await.unwrap().unwrap() {
                ToExecutor::Heartbeat => {}
                other => return other,
            }
        }
    };
    assert_eq!(tokio::time::timeout(DEADLINE, answer).await.unwrap(), ToExecutor::ReleaseJob(job));
    coordinator.stop().await;
}
