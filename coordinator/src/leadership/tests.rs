//! The embedded HA store and its election, as coordinators use them.

mod kill;

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::core::status::JobStatus;
use crate::graph::{JobId, Params};

const JOB: JobId = JobId([1; 16]);
const OTHER: JobId = JobId([2; 16]);

/// Far longer than anything here takes; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

fn election(dir: &Path, name: &str) -> LeaderElection {
    LeaderElection::new(dir, Candidate { name: name.into() })
}

async fn lead(dir: &Path) -> Leadership {
    tokio::time::timeout(PATIENCE, election(dir, "c1").campaign()).await.expect("nobody else leads").unwrap()
}

fn record(id: JobId) -> JobRecord {
    JobRecord {
        id,
        job: "word count".into(),
        params: Params::default().with("records", 7),
        config: [("a".to_owned(), "b".to_owned())].into(),
        submitted_ms: 5,
        cancel_requested: false,
    }
}

fn result(id: JobId) -> JobResult {
    JobResult {
        id,
        name: "word count".into(),
        status: JobStatus::Failed,
        start_ms: 5,
        end_ms: 9,
        failure: Some("boom".into()),
        dirty: true,
    }
}

fn info(name: &str) -> LeaderInfo {
    LeaderInfo { session: 0, name: name.into(), pid: 1, rest: "127.0.0.1:1".into(), rpc: "127.0.0.1:2".into() }
}

fn pointer(id: u64) -> CheckpointPointer {
    CheckpointPointer { id, key: format!("j/chk-{id}/_metadata") }
}

// P254, P257: a job is recorded once, keeps its record over leaders, and is not taken again once it has a result.
#[tokio::test]
async fn jobs_are_kept_until_they_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let leader = lead(dir.path()).await;
    let store = leader.store();
    store.add_job(&record(OTHER)).await.unwrap();
    store.add_job(&record(JOB)).await.unwrap();
    assert!(matches!(store.add_job(&record(JOB)).await.unwrap_err(), HaError::Exists { .. }));
    store.request_cancel(JOB).await.unwrap();
    drop(leader);
    let leader = lead(dir.path()).await;
    let store = leader.store();
    let cancelled = JobRecord { cancel_requested: true, ..record(JOB) };
    assert_eq!(store.jobs().await.unwrap(), [cancelled, record(OTHER)]);
    store.remove_job(JOB).await.unwrap();
    store.remove_job(JOB).await.unwrap();
    assert_eq!(store.jobs().await.unwrap(), [record(OTHER)]);
    assert!(matches!(store.request_cancel(JOB).await.unwrap_err(), HaError::NotFound { .. }));
    store.put_result(&result(JOB)).await.unwrap();
    assert!(matches!(store.add_job(&record(JOB)).await.unwrap_err(), HaError::Exists { .. }));
}

// P264: dirty before the clean-up, clean after it.
#[tokio::test]
async fn results_are_dirty_until_marked_clean() {
    let dir = tempfile::tempdir().unwrap();
    let store = lead(dir.path()).await.store();
    let leader = lead(dir.path()).await;
    assert!(matches!(store.put_result(&result(JOB)).await, Err(HaError::Fenced { .. })));
    let store = leader.store();
    store.put_result(&result(JOB)).await.unwrap();
    assert_eq!(store.results().await.unwrap(), [result(JOB)]);
    store.mark_result_clean(JOB).await.unwrap();
    assert_eq!(store.results().await.unwrap(), [JobResult { dirty: false, ..result(JOB) }]);
    assert!(matches!(store.mark_result_clean(OTHER).await.unwrap_err(), HaError::NotFound { .. }));
    store.remove_result(JOB).await.unwrap();
    assert!(store.results().await.unwrap().is_empty());
}

#[tokio::test]
async fn whether_somebody_leads_can_be_seen_from_outside() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!is_led(&dir.path().join("nowhere")) && !is_led(dir.path()));
    let leader = lead(dir.path()).await;
    assert!(is_led(dir.path()));
    drop(leader);
    assert!(!is_led(dir.path()));
}

#[tokio::test]
async fn a_leader_that_has_resigned_writes_nothing_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let leader = lead(dir.path()).await;
    leader.publish(info("c1")).await.unwrap();
    let store = leader.store();
    let ids = (1..=8).map(|number| JobId([number; 16]));
    // All have begun, and nobody waits for them.
    let lock = fs::File::open(dir.path().join("write.lock")).unwrap();
    lock.lock().unwrap();
    for id in ids.clone() {
        tokio::time::timeout(Duration::ZERO, store.add_job(&record(id))).await.unwrap_err();
    }
    let resigned = tokio::spawn(leader.resign());
    drop(lock);
    resigned.await.unwrap().unwrap();
    let written = ids.filter(|id| dir.path().join(format!("jobs/{id}.json")).exists()).count();
    assert_eq!(written, 8, "the others may come yet");
    let late = store.request_cancel(JOB).await.unwrap_err();
    assert!(matches!(late, HaError::Fenced { ours: 1, current: None, .. }), "{late}");
}

// P314: numbers are never given out twice, whoever leads.
#[tokio::test]
async fn checkpoint_numbers_rise_over_leaders() {
    let dir = tempfile::tempdir().unwrap();
    let mut drawn = Vec::new();
    for _ in 0..3 {
        let leader = lead(dir.path()).await;
        drawn.push(leader.store().next_checkpoint_id(JOB).await.unwrap());
        drawn.push(leader.store().next_checkpoint_id(JOB).await.unwrap());
        assert_eq!(leader.store().next_checkpoint_id(OTHER).await.unwrap(), leader.session());
    }
    assert_eq!(drawn, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn concurrent_draws_give_different_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let leader = lead(dir.path()).await;
    let draws =
        (0..16).map(|_| leader.store()).map(|store| async move { store.next_checkpoint_id(JOB).await.unwrap() });
    let mut drawn = futures::future::join_all(draws).await;
    drawn.sort_unstable();
    assert_eq!(drawn, (1..=16).collect::<Vec<_>>());
}

// P290 (testPathConversion): names are padded, so that their order is that of the numbers.
#[tokio::test]
async fn pointers_are_read_by_number() {
    let dir = tempfile::tempdir().unwrap();
    let leader = lead(dir.path()).await;
    let store = leader.store();
    for id in [100, 9, 10] {
        store.add_checkpoint(JOB, &pointer(id)).await.unwrap();
    }
    store.add_checkpoint(JOB, &pointer(9)).await.unwrap();
    let elsewhere = CheckpointPointer { key: "elsewhere".into(), ..pointer(9) };
    assert!(matches!(store.add_checkpoint(JOB, &elsewhere).await.unwrap_err(), HaError::Exists { .. }));
    assert_eq!(store.checkpoints(JOB).await.unwrap(), [pointer(9), pointer(10), pointer(100)]);
    assert!(dir.path().join(format!("checkpoints/{JOB}/0000000000000000009.json")).exists());
    store.remove_checkpoint(JOB, 10).await.unwrap();
    store.remove_checkpoint(JOB, 10).await.unwrap();
    assert_eq!(store.checkpoints(JOB).await.unwrap(), [pointer(9), pointer(100)]);
    assert!(store.checkpoints(OTHER).await.unwrap().is_empty());
    store.remove_checkpoints(JOB).await.unwrap();
    assert!(store.checkpoints(JOB).await.unwrap().is_empty());
    assert_eq!(store.next_checkpoint_id(JOB).await.unwrap(), 1);
}

// P240: nothing of an outdated leader takes effect.
#[tokio::test]
async fn every_write_of_an_old_session_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let old = lead(dir.path()).await;
    let store = old.store();
    store.add_job(&record(JOB)).await.unwrap();
    store.add_checkpoint(JOB, &pointer(1)).await.unwrap();
    store.put_result(&result(OTHER)).await.unwrap();
    drop(old);
    let leader = lead(dir.path()).await;
    leader.publish(info("c1")).await.unwrap();
    let refused = [
        store.add_job(&record(JobId([3; 16]))).await.unwrap_err(),
        store.request_cancel(JOB).await.unwrap_err(),
        store.remove_job(JOB).await.unwrap_err(),
        store.next_checkpoint_id(JOB).await.unwrap_err(),
        store.add_checkpoint(JOB, &pointer(2)).await.unwrap_err(),
        store.remove_checkpoint(JOB, 1).await.unwrap_err(),
        store.remove_checkpoints(JOB).await.unwrap_err(),
        store.put_result(&result(JOB)).await.unwrap_err(),
        store.mark_result_clean(OTHER).await.unwrap_err(),
        store.remove_result(OTHER).await.unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, HaError::Fenced { ours: 1, current: Some(2), .. }), "{error:?}");
        assert!(error.to_string().ends_with("was refused: leader session 1 is over, session 2 leads"), "{error}");
    }
    let now = leader.store();
    assert_eq!(now.jobs().await.unwrap(), [record(JOB)]);
    assert_eq!(now.checkpoints(JOB).await.unwrap(), [pointer(1)]);
    assert_eq!(now.results().await.unwrap(), [result(OTHER)]);
}

#[tokio::test]
async fn a_reader_reads_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let leader = lead(dir.path()).await;
    leader.store().add_job(&record(JOB)).await.unwrap();
    let reader = EmbeddedHaStore::open(dir.path()).await.unwrap();
    assert_eq!((reader.session(), leader.store().session()), (None, Some(1)));
    assert_eq!(reader.jobs().await.unwrap(), [record(JOB)]);
    assert!(matches!(reader.remove_job(JOB).await.unwrap_err(), HaError::ReadOnly { .. }));
}

#[tokio::test]
async fn damage_is_named_and_leftovers_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let leader = lead(dir.path()).await;
    let store = leader.store();
    store.add_job(&record(JOB)).await.unwrap();
    store.add_checkpoint(JOB, &pointer(1)).await.unwrap();
    store.next_checkpoint_id(JOB).await.unwrap();
    for folder in ["jobs", "results", &format!("checkpoints/{JOB}")] {
        fs::write(dir.path().join(folder).join(".tmp-77-0"), "{\"half").unwrap();
        fs::write(dir.path().join(folder).join("README"), "hello").unwrap();
    }
    assert_eq!(store.jobs().await.unwrap(), [record(JOB)]);
    assert_eq!(store.checkpoints(JOB).await.unwrap(), [pointer(1)]);
    assert!(store.results().await.unwrap().is_empty());

    let job = dir.path().join(format!("jobs/{JOB}.json"));
    let whole = fs::read(&job).unwrap();
    for content in [&whole[..whole.len() / 2], b"", b"null"] {
        fs::write(&job, content).unwrap();
        let error = store.jobs().await.unwrap_err();
        assert!(matches!(error, HaError::Corrupt { .. }) && !error.is_transient(), "{error:?}");
        assert!(error.to_string().contains(job.to_str().unwrap()), "{error}");
    }
    fs::write(dir.path().join(format!("checkpoints/{JOB}/counter")), "").unwrap();
    let error = store.next_checkpoint_id(JOB).await.unwrap_err();
    assert!(error.to_string().contains("counter is damaged (it is empty)"), "{error}");
    fs::write(dir.path().join("session"), "{").unwrap();
    assert!(matches!(store.remove_job(JOB).await.unwrap_err(), HaError::Corrupt { .. }));
}

// P272 (the part of the HA store): whoever follows the address learns of every change.
#[tokio::test]
async fn followers_see_the_leader_only_while_it_can_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let mut watch = leader_watch(dir.path().join("ha")).unwrap();
    assert_eq!(*watch.borrow_and_update(), None);
    let first = lead(&dir.path().join("ha")).await;
    assert_eq!(first.store().leader().await.unwrap(), None, "leading is not yet being usable");
    first.publish(info("c1")).await.unwrap();
    let seen = async |watch: &mut tokio::sync::watch::Receiver<Option<LeaderInfo>>, wanted: Option<LeaderInfo>| {
        let found = tokio::time::timeout(PATIENCE, watch.wait_for(|leader| *leader == wanted)).await;
        assert_eq!(*found.expect("the change must be seen").unwrap(), wanted);
    };
    seen(&mut watch, Some(LeaderInfo { session: 1, ..info("c1") })).await;
    first.resign().await.unwrap();
    seen(&mut watch, None).await;
    let second = lead(&dir.path().join("ha")).await;
    second.publish(info("c2")).await.unwrap();
    seen(&mut watch, Some(LeaderInfo { session: 2, ..info("c2") })).await;
    let late = leader_watch(dir.path().join("ha")).unwrap();
    assert_eq!(late.borrow().as_ref().unwrap().name, "c2");
}

#[tokio::test]
async fn a_standby_takes_over_and_the_old_address_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let leader = lead(dir.path()).await;
    leader.publish(info("c1")).await.unwrap();
    let standby = election(dir.path(), "c2");
    let waiting = tokio::spawn(async move { standby.campaign().await });
    assert!(!waiting.is_finished());
    drop(leader);
    let successor = tokio::time::timeout(PATIENCE, waiting).await.expect("a takeover").unwrap().unwrap();
    assert_eq!(successor.session(), 2);
    assert_eq!(successor.store().leader().await.unwrap(), None, "nobody may dial the old leader any more");
}

// P238: a grant that nobody waits for any more starts nothing.
#[tokio::test]
async fn a_withdrawn_candidate_takes_no_session() {
    let dir = tempfile::tempdir().unwrap();
    let leader = lead(dir.path()).await;
    let standby = election(dir.path(), "c2");
    assert!(tokio::time::timeout(Duration::from_millis(20), standby.campaign()).await.is_err());
    drop(leader);
    // Its thread still gets the lock in one of the gaps, and must let go of it without a trace.
    for session in 2..20 {
        assert_eq!(lead(dir.path()).await.session(), session);
    }
}

#[tokio::test]
async fn a_folder_emptied_under_the_leader_deposes_it() {
    let dir = tempfile::tempdir().unwrap();
    let old = lead(dir.path()).await;
    fs::remove_dir_all(dir.path()).unwrap();
    let new = lead(dir.path()).await;
    assert_eq!((old.session(), new.session()), (1, 1), "the count began again");
    assert!(matches!(old.store().next_checkpoint_id(JOB).await.unwrap_err(), HaError::Fenced { .. }));
}
