use std::collections::BTreeSet;

use super::*;
use crate::graph::{TaskId, VertexId};
use crate::leadership::{Candidate, LeaderElection, Leadership};
use crate::storage::blob::BlobOp;
use crate::storage::memory::{FaultOutcome, MemoryBlobStore};

const JOB: JobId = JobId([1; 16]);
const OTHER: JobId = JobId([2; 16]);

struct Fixture {
    blobs: Arc<MemoryBlobStore>,
    leadership: Leadership,
    storage: CheckpointStorage,
    dir: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let election = LeaderElection::new(dir.path(), Candidate { name: "c1".into() });
        let leadership = election.campaign().await.unwrap();
        let blobs = Arc::new(MemoryBlobStore::new());
        let storage = CheckpointStorage::new(blobs.clone(), leadership.store());
        Self { blobs, leadership, storage, dir }
    }

    /// Fails every call of this kind from now on.
    fn fail(&self, wanted: BlobOp, outcome: FaultOutcome) {
        self.blobs.set_fault(move |op, _| if op == wanted { outcome } else { FaultOutcome::Proceed });
    }

    async fn pointers(&self) -> Vec<u64> {
        self.leadership.store().checkpoints(JOB).await.unwrap().iter().map(|pointer| pointer.id).collect()
    }
}

fn checkpoint(job: JobId, id: u64) -> CompletedCheckpoint {
    let task = |subtask| TaskId { vertex: VertexId([7; 16]), subtask };
    let key = format!("{job}/chk-{id}/state");
    CompletedCheckpoint {
        job,
        id,
        trigger_ms: 100 + id,
        completed_ms: 200 + id,
        tasks: vec![
            (task(0), TaskSnapshotHandle::Inline(vec![1, 2, 3])),
            (task(1), TaskSnapshotHandle::File { key, size: 50_000 }),
        ],
        is_final: false,
    }
}

fn ids(recovered: &[(CompletedCheckpoint, StoredCheckpoint)]) -> Vec<u64> {
    recovered.iter().map(|(checkpoint, _)| checkpoint.id).collect()
}

// P281, P287: any order of writing, one order of reading; numeric, not by text.
#[tokio::test]
async fn recovery_gives_all_retained_checkpoints_oldest_first() {
    let fixture = Fixture::new().await;
    for id in [10, 2, 9] {
        let stored = fixture.storage.store(&checkpoint(JOB, id)).await.unwrap();
        assert_eq!(stored.external_path, format!("memory://{JOB}/chk-{id}"));
    }
    fixture.storage.store(&checkpoint(OTHER, 3)).await.unwrap();
    let recovered = fixture.storage.recover(JOB).await.unwrap();
    assert_eq!(ids(&recovered), [2, 9, 10]);
    assert_eq!(recovered[0].0, checkpoint(JOB, 2));
    assert_eq!(recovered[2].1.external_path, format!("memory://{JOB}/chk-10"));
    let reads: BTreeSet<String> =
        fixture.blobs.requests().into_iter().filter(|(op, _)| *op == BlobOp::Get).map(|(_, key)| key).collect();
    let metadata = [2, 9, 10].map(|id| layout::metadata_key(JOB, id));
    assert_eq!(reads, BTreeSet::from(metadata), "recovery reads metadata, once, and no state");
    assert!(fixture.storage.recover(JobId([9; 16])).await.unwrap().is_empty());
}

#[tokio::test]
async fn storing_again_is_fine_and_replaces_nothing_of_others() {
    let fixture = Fixture::new().await;
    fixture.storage.store(&checkpoint(JOB, 1)).await.unwrap();
    fixture.storage.store(&checkpoint(JOB, 1)).await.unwrap();
    let foreign = CompletedCheckpoint { trigger_ms: 999, ..checkpoint(JOB, 1) };
    let failure = fixture.storage.store(&foreign).await.unwrap_err();
    assert!(failure.maybe_written, "the other checkpoint counts, and nothing of it may be deleted: {failure:?}");
    assert!(failure.reason.contains("the key is taken"), "{failure:?}");
    assert_eq!(fixture.storage.recover(JOB).await.unwrap()[0].0, checkpoint(JOB, 1));
}

// P297: what failed for sure may be cleaned up, what is in doubt must not (FLINK-22494).
#[tokio::test]
async fn a_failed_store_says_whether_it_may_have_happened() {
    let fixture = Fixture::new().await;
    for (outcome, maybe_written) in [
        (FaultOutcome::Fail(BlobErrorKind::Unreachable), false),
        (FaultOutcome::Fail(BlobErrorKind::Throttled), false),
        (FaultOutcome::Fail(BlobErrorKind::Fatal), false),
        (FaultOutcome::FailAfter(BlobErrorKind::Ambiguous), true),
    ] {
        fixture.fail(BlobOp::Put, outcome);
        let failure = fixture.storage.store(&checkpoint(JOB, 1)).await.unwrap_err();
        assert_eq!(failure.maybe_written, maybe_written, "{outcome:?}: {failure:?}");
        assert!(failure.reason.contains("chk-1/_metadata"), "{failure:?}");
        assert!(fixture.pointers().await.is_empty(), "metadata must be durable before its pointer");
    }
    // The answer of the last one was lost; trying again finds its own bytes.
    fixture.blobs.clear_fault();
    fixture.storage.store(&checkpoint(JOB, 1)).await.unwrap();
    assert_eq!(fixture.pointers().await, [1]);
}

#[tokio::test]
async fn a_key_that_is_taken_and_cannot_be_looked_at_is_in_doubt() {
    let fixture = Fixture::new().await;
    fixture.storage.store(&checkpoint(JOB, 1)).await.unwrap();
    fixture.fail(BlobOp::Get, FaultOutcome::Fail(BlobErrorKind::Timeout));
    let failure = fixture.storage.store(&checkpoint(JOB, 1)).await.unwrap_err();
    assert!(failure.maybe_written, "{failure:?}");
}

// P240: a deposed leader adds nothing, and leaves nothing behind.
#[tokio::test]
async fn a_deposed_leader_adds_no_checkpoint() {
    let Fixture { blobs, leadership, storage, dir } = Fixture::new().await;
    storage.store(&checkpoint(JOB, 1)).await.unwrap();
    drop(leadership);
    let election = LeaderElection::new(dir.path(), Candidate { name: "c2".into() });
    let successor = election.campaign().await.unwrap();
    let failure = storage.store(&checkpoint(JOB, 2)).await.unwrap_err();
    assert!(!failure.maybe_written && failure.reason.contains("session 2 leads"), "{failure:?}");
    assert_eq!(blobs.keys(), [layout::metadata_key(JOB, 1)], "its metadata without a pointer goes");
    let recovered = CheckpointStorage::new(blobs, successor.store()).recover(JOB).await.unwrap();
    assert_eq!(ids(&recovered), [1]);
}

// P282: corrupt metadata is never skipped, though an older checkpoint is whole.
#[tokio::test]
async fn damaged_metadata_fails_recovery_and_is_named() {
    let fixture = Fixture::new().await;
    for id in [1, 2] {
        fixture.storage.store(&checkpoint(JOB, id)).await.unwrap();
    }
    let key = layout::metadata_key(JOB, 2);
    let whole = fixture.blobs.get(&key).await.unwrap();
    let first = fixture.blobs.get(&layout::metadata_key(JOB, 1)).await.unwrap();
    for (content, problem) in [
        (Some(whole.slice(..30)), "truncated: it has 30 bytes of".to_owned()),
        (Some("<html>".into()), "it is not checkpoint metadata".to_owned()),
        (Some(first), format!("it holds checkpoint 1 of job {JOB}")),
        (None, "the object does not exist".to_owned()),
    ] {
        match content {
            Some(content) => fixture.blobs.tamper(&key, content),
            None => fixture.blobs.delete(&key).await.unwrap(),
        }
        let error = fixture.storage.recover(JOB).await.unwrap_err();
        assert!(matches!(error, RecoverError::Corrupt { .. }) && !error.is_transient(), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&problem) && text.contains(&key) && text.contains("checkpoint 2"), "{text}");
    }
}

// P287 (testRetrievingCheckpointsFailsIfRetrievalOfAnyCheckpointFails), P290 (testRecoverFailsIfDownloadFails)
#[tokio::test]
async fn an_unreachable_store_is_told_from_a_damaged_one() {
    let fixture = Fixture::new().await;
    for id in [1, 2] {
        fixture.storage.store(&checkpoint(JOB, id)).await.unwrap();
    }
    let oldest = layout::metadata_key(JOB, 1);
    for (kind, transient) in [
        (BlobErrorKind::Unreachable, true),
        (BlobErrorKind::Timeout, true),
        (BlobErrorKind::Throttled, true),
        (BlobErrorKind::Fatal, false),
    ] {
        let oldest = oldest.clone();
        fixture
            .blobs
            .set_fault(move |_, key| if key == oldest { FaultOutcome::Fail(kind) } else { FaultOutcome::Proceed });
        let error = fixture.storage.recover(JOB).await.unwrap_err();
        assert_eq!(error.is_transient(), transient, "{kind:?}");
        assert!(!matches!(error, RecoverError::Corrupt { .. }), "{error:?}");
    }
    fixture.blobs.clear_fault();
    assert_eq!(ids(&fixture.storage.recover(JOB).await.unwrap()), [1, 2], "nothing was lost by failing");
}

// P290 (testDiscardingSubsumedCheckpoints): pointer and files go, others stay.
#[tokio::test]
async fn discarding_takes_the_pointer_first() {
    let fixture = Fixture::new().await;
    for id in [1, 2] {
        fixture.storage.store(&checkpoint(JOB, id)).await.unwrap();
        fixture.blobs.tamper(&format!("{JOB}/chk-{id}/state"), "state");
    }
    fixture.fail(BlobOp::Delete, FaultOutcome::Fail(BlobErrorKind::Unreachable));
    let error = fixture.storage.discard(&checkpoint(JOB, 1)).await.unwrap_err();
    assert!(matches!(error, DiscardError::Objects { failed: 2, total: 2, .. }), "{error:?}");
    assert_eq!(fixture.pointers().await, [2], "nothing may point to what is half gone");
    fixture.blobs.clear_fault();
    fixture.storage.discard(&checkpoint(JOB, 1)).await.unwrap();
    assert_eq!(fixture.blobs.keys(), [layout::metadata_key(JOB, 2), format!("{JOB}/chk-2/state")]);
    assert_eq!(ids(&fixture.storage.recover(JOB).await.unwrap()), [2]);
}

#[tokio::test]
async fn state_of_an_aborted_checkpoint_goes_without_touching_pointers() {
    let fixture = Fixture::new().await;
    fixture.storage.store(&checkpoint(JOB, 1)).await.unwrap();
    fixture.blobs.tamper("aborted", "state");
    let handles = [
        TaskSnapshotHandle::Inline(vec![1]),
        TaskSnapshotHandle::File { key: "aborted".into(), size: 5 },
        TaskSnapshotHandle::File { key: "never-written".into(), size: 5 },
    ];
    fixture.storage.discard_state(&handles).await.unwrap();
    assert_eq!(fixture.blobs.keys(), [layout::metadata_key(JOB, 1)]);
    assert_eq!(fixture.pointers().await, [1]);
}

#[tokio::test]
async fn discarding_a_job_leaves_nothing_of_it_and_all_of_others() {
    let fixture = Fixture::new().await;
    for job in [JOB, OTHER] {
        fixture.storage.store(&checkpoint(job, 1)).await.unwrap();
    }
    fixture.blobs.tamper(&format!("{JOB}/chk-7/orphan"), "late");
    fixture.leadership.store().next_checkpoint_id(JOB).await.unwrap();
    fixture.storage.discard_job(JOB).await.unwrap();
    assert_eq!(fixture.blobs.keys(), [layout::metadata_key(OTHER, 1)]);
    assert!(fixture.storage.recover(JOB).await.unwrap().is_empty());
    assert_eq!(fixture.leadership.store().next_checkpoint_id(JOB).await.unwrap(), 1);
    fixture.storage.discard_job(JOB).await.unwrap();
}
