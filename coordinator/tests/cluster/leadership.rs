//! Standby, takeover, fencing, results of earlier leaders.

use std::time::Duration;

use stormproof_coordinator::core::status::JobStatus;
use stormproof_coordinator::graph::{JobId, Params};
use stormproof_coordinator::leadership::{EmbeddedHaStore, HaStore, JobRecord, JobResult};
use stormproof_coordinator::runtime::CoordinatorError;
use stormproof_coordinator::runtime::protocol::ToExecutor;

use crate::fake::{FakeExecutor, Step, script};
use crate::initializing::session;
use crate::support::{DEADLINE, Setup, eventually, registry, submission};

// P230, P257, P260, P263, P269, P276
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_and_runs_the_jobs_again() {
    let setup = Setup::new(registry(), &[]);
    let first = setup.lead().await;
    let standby = setup.start("coordinator-2").await;
    // As soon as the leader has told where it is, the standby answers for it; otherwise with 503.
    let answered = async { while standby.get("/jobs").await.0 == 503 {} };
    tokio::time::timeout(DEADLINE, answered).await.unwrap();
    assert_eq!(standby.get("/jobs").await, first.get("/jobs").await);
    assert!(standby.cluster.submit(submission("two-stage", &[])).await.is_err());
    let refusal = FakeExecutor::try_start(standby.rpc(), "e1", 1, script(|_, _, _| Step::Run)).await.err().unwrap();
    assert!(refusal.contains("does not lead"), "{refusal}");

    let executor = FakeExecutor::start(first.rpc(), "e1", 2, script(|_, _, _| Step::Run)).await;
    let id = first.submit("two-stage", &[]).await;
    first.status(id, JobStatus::Running).await;
    let submitted = first.job(id).start_ms;
    let seen = first.cluster.clone();
    first.stop().await;
    // P258: visible while the first ends.
    assert_eq!(seen.job(id).unwrap().status, JobStatus::Suspended);
    executor.kill().await;

    standby.leads().await;
    let ha = EmbeddedHaStore::open(setup.ha_dir()).await.unwrap();
    let find = async {
        loop {
            match ha.leader().await.unwrap() {
                Some(leader) if leader.name == "coordinator-2" => return leader,
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    };
    let leader = tokio::time::timeout(DEADLINE, find).await.unwrap();
    assert_eq!((leader.session, leader.rpc.as_str()), (2, standby.rpc()));
    let _executor = FakeExecutor::start(standby.rpc(), "e1", 2, script(|_, _, _| Step::Finish)).await;
    let job = standby.status(id, JobStatus::Finished).await;
    assert_eq!((job.start_ms, job.restarts), (submitted, 0));
    standby.stop().await;
}

// P244, P256, P274
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_with_a_result_is_cleaned_up_and_never_run_again() {
    let setup = Setup::new(registry(), &[]);
    let id = JobId([5; 16]);
    let earlier = session(&setup).await;
    let ha = earlier.store();
    let record = JobRecord {
        id,
        job: "two-stage".into(),
        params: Params::default(),
        config: [].into(),
        submitted_ms: 1_000,
        cancel_requested: false,
    };
    ha.add_job(&record).await.unwrap();
    let result = JobResult {
        id,
        name: "two stages".into(),
        status: JobStatus::Finished,
        start_ms: 1_000,
        end_ms: 2_000,
        failure: None,
        dirty: true,
    };
    ha.put_result(&result).await.unwrap();
    earlier.resign().await.unwrap();

    let coordinator = setup.lead().await;
    let job = coordinator.job(id);
    assert_eq!((job.status, job.end_ms, job.name.as_str()), (JobStatus::Finished, Some(2_000), "two stages"));
    let executor = FakeExecutor::start(coordinator.rpc(), "e1", 2, script(|_, _, _| Step::Finish)).await;
    eventually("the record is gone", || (!setup.ha_dir().join(format!("jobs/{id}.json")).exists()).then_some(())).await;
    let ha = EmbeddedHaStore::open(setup.ha_dir()).await.unwrap();
    let clean = async {
        while ha.results().await.unwrap()[0].dirty {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, clean).await.unwrap();
    assert!(executor.deployed().is_empty());
    coordinator.stop().await;
}

// P235, P240, P241, P265: what an outdated leader writes is refused, and it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_whose_session_is_over_suspends_its_jobs_and_ends_with_an_error() {
    let setup = Setup::new(registry(), &[]);
    let coordinator = setup.lead().await;
    let _executor = FakeExecutor::start(coordinator.rpc(), "e1", 2, script(|_, _, _| Step::Run)).await;
    let id = coordinator.submit("two-stage", &[]).await;
    coordinator.status(id, JobStatus::Running).await;
    // Somebody removes the lock file by hand: another one can lead, although the first still runs.
    std::fs::remove_file(setup.ha_dir().join("leader.lock")).unwrap();
    let usurper = session(&setup).await;
    let error = coordinator.cluster.submit(submission("two-stage", &[])).await.unwrap_err();
    assert_eq!(error.to_string(), "this coordinator does not lead");
    let ended = tokio::time::timeout(DEADLINE, coordinator.task).await.unwrap().unwrap();
    assert!(matches!(ended, Err(CoordinatorError::Fenced(_))), "{ended:?}");
    assert_eq!(coordinator.cluster.job(id).unwrap().status, JobStatus::Suspended);
    assert_eq!(usurper.store().jobs().await.unwrap().len(), 1, "the job is left to the new leader");
    usurper.resign().await.unwrap();
}

// P265: an end that is not recorded could be undone by a leader change, so nobody is told of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_shows_once_it_is_recorded() {
    let setup = Setup::new(registry(), &[]);
    let coordinator = setup.lead().await;
    let (results, aside) = (setup.ha_dir().join("results"), setup.ha_dir().join("aside"));
    std::fs::rename(&results, &aside).unwrap();
    std::fs::write(&results, "in the way").unwrap();
    let executor = FakeExecutor::start(coordinator.rpc(), "e1", 4, script(|_, _, _| Step::Finish)).await;
    let id = coordinator.submit("two-stage", &[]).await;
    eventually("the job has ended", || {
        let released = executor.received(|message| (*message == ToExecutor::ReleaseJob(id)).then_some(()));
        (!released.is_empty()).then_some(())
    })
    .await;
    assert!(!coordinator.job(id).status.is_globally_terminal());
    std::fs::remove_file(&results).unwrap();
    std::fs::rename(&aside, &results).unwrap();
    coordinator.status(id, JobStatus::Finished).await;
    coordinator.stop().await;
}
