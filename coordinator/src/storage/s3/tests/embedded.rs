//! The client before the embedded S3 server, well behaved and by rule not.

use std::sync::Arc;

use stormproof_store::{Effect, Nth, Operation, Rule, S3Server};

use super::*;
use crate::core::checkpoint::{CompletedCheckpoint, TaskSnapshot};
use crate::graph::{AttemptId, JobId, TaskId, VertexId};
use crate::leadership::{Candidate, LeaderElection};
use crate::storage::{CheckpointStorage, INLINE_LIMIT_BYTES, blob, layout};

const BUCKET: &str = "checkpoints";

struct Fixture {
    server: S3Server,
    store: S3BlobStore,
}

impl Fixture {
    async fn new(deadlines: Deadlines) -> Self {
        let server = S3Server::builder().credentials("key", "secret").start().await.unwrap();
        server.backend().create_bucket(BUCKET).unwrap();
        let store = S3BlobStore::new(&config(server.endpoint()), deadlines).unwrap();
        Self { server, store }
    }

    fn rule(&self, operation: Operation, nth: Nth, effect: Effect) {
        self.server.rules().add(Rule::new("rule", effect).on(operation).nth(nth)).unwrap();
    }

    /// All requests so far, in order.
    fn requests(&self) -> Vec<Operation> {
        self.server.ledger().entries_since(0).iter().map(|entry| entry.operation).collect()
    }

    fn keys(&self) -> Vec<String> {
        let objects = self.server.backend().list_objects(BUCKET, "").unwrap();
        objects.into_iter().map(|object| object.key).collect()
    }
}

#[tokio::test]
async fn objects_are_written_read_listed_and_deleted_with_one_request_each() {
    let fixture = Fixture::new(PATIENT).await;
    let store = &fixture.store;
    assert!(fixture.requests().is_empty(), "nothing is asked before it is needed");
    store.put("j/chk-1/_metadata", Bytes::from_static(b"one"), PutMode::CreateOnly).await.unwrap();
    let taken = store.put("j/chk-1/_metadata", Bytes::from_static(b"two"), PutMode::CreateOnly).await.unwrap_err();
    assert_eq!(taken.kind, BlobErrorKind::PreconditionFailed);
    store.put("j/empty", Bytes::new(), PutMode::Overwrite).await.unwrap();
    store.put("k", Bytes::from_static(b"other"), PutMode::Overwrite).await.unwrap();
    assert_eq!(store.get("j/chk-1/_metadata").await.unwrap(), "one");
    assert_eq!(store.get("j/empty").await.unwrap(), "");
    assert_eq!(store.get("nothing").await.unwrap_err().kind, BlobErrorKind::NotFound);
    let listed = store.list("j/").await.unwrap();
    let expected = [("j/chk-1/_metadata", 3), ("j/empty", 0)];
    assert_eq!(listed, expected.map(|(key, size)| BlobInfo { key: key.into(), size }));
    store.delete("j/empty").await.unwrap();
    store.delete("j/empty").await.unwrap();
    assert_eq!(fixture.keys(), ["j/chk-1/_metadata", "k"]);
    use Operation::{DeleteObject, GetObject, ListObjectsV2, PutObject};
    let mut expected = vec![PutObject; 4];
    expected.extend([GetObject, GetObject, GetObject, ListObjectsV2, DeleteObject, DeleteObject]);
    assert_eq!(fixture.requests(), expected);
}

#[tokio::test]
async fn a_listing_of_several_pages_is_whole() {
    let fixture = Fixture::new(PATIENT).await;
    for number in 0..2_100 {
        fixture.server.backend().put(BUCKET, &format!("j/{number:05}"), "x").unwrap();
    }
    let listed = fixture.store.list("j/").await.unwrap();
    assert_eq!(listed.len(), 2_100);
    assert!(listed.is_sorted_by(|a, b| a.key < b.key));
    assert_eq!(fixture.requests().len(), 3);
}

#[tokio::test]
async fn a_large_object_is_still_one_conditional_request() {
    let fixture = Fixture::new(PATIENT).await;
    let large = Bytes::from(vec![7; 6 << 20]);
    fixture.store.put("large", large.clone(), PutMode::CreateOnly).await.unwrap();
    assert_eq!(fixture.requests(), [Operation::PutObject]);
    assert_eq!(fixture.store.get("large").await.unwrap(), large);
}

#[tokio::test]
async fn wrong_keys_and_an_absent_bucket_are_refusals() {
    let fixture = Fixture::new(PATIENT).await;
    let wrong = StoreConfig { secret_key: "other".into(), ..config(fixture.server.endpoint()) };
    let absent = StoreConfig { bucket: "nowhere".into(), ..config(fixture.server.endpoint()) };
    for config in [wrong, absent] {
        let store = S3BlobStore::new(&config, PATIENT).unwrap();
        let before = fixture.requests().len();
        let kinds = [
            store.get("k").await.unwrap_err().kind,
            store.put("k", Bytes::from_static(b"v"), PutMode::CreateOnly).await.unwrap_err().kind,
            store.list("").await.unwrap_err().kind,
        ];
        assert_eq!(kinds, [BlobErrorKind::Fatal; 3], "{config:?}");
        assert_eq!(fixture.requests().len(), before + 3, "a refusal is not repeated");
    }
}

// The write happened each time, and its answer was an error, a reset, or too late.
#[tokio::test]
async fn a_write_whose_first_answer_is_bad_succeeds_once() {
    for effect in [Effect::ErrorAfterSuccess, Effect::ResetAfter, Effect::StallHeaders { ms: 60_000 }] {
        let deadlines = Deadlines { attempt: Duration::from_secs(2), ..PATIENT };
        let fixture = Fixture::new(deadlines).await;
        fixture.rule(Operation::PutObject, Nth::only(1), effect.clone());
        blob::put_once(&fixture.store, "k", Bytes::from_static(b"v")).await.unwrap();
        use Operation::{GetObject, PutObject};
        assert_eq!(fixture.requests(), [PutObject, PutObject, GetObject], "{effect:?}");
        assert_eq!(fixture.server.backend().get(BUCKET, "k").unwrap(), "v");
    }
}

#[tokio::test]
async fn a_write_that_never_gets_an_answer_is_ambiguous_and_may_be_there() {
    let fixture = Fixture::new(Deadlines { retries: 0, ..PATIENT }).await;
    fixture.rule(Operation::PutObject, Nth::default(), Effect::ErrorAfterSuccess);
    let put = fixture.store.put("k", Bytes::from_static(b"v"), PutMode::CreateOnly);
    assert_eq!(put.await.unwrap_err().kind, BlobErrorKind::Ambiguous);
    assert_eq!(fixture.keys(), ["k"]);
}

#[tokio::test]
async fn reads_are_repeated_over_passing_faults() {
    let faults = [
        Effect::SlowDown { retry_after_seconds: 1 },
        Effect::InternalError,
        Effect::ResetBefore,
        Effect::TruncateBody { at_bytes: 3 },
        Effect::ResetBody { at_bytes: 3 },
        Effect::StallBody { at_bytes: 3, ms: 60_000 },
    ];
    for effect in faults {
        let deadlines = Deadlines { body_idle: Duration::from_secs(2), ..PATIENT };
        let fixture = Fixture::new(deadlines).await;
        fixture.server.backend().put(BUCKET, "k", "content").unwrap();
        fixture.rule(Operation::GetObject, Nth::only(1), effect.clone());
        assert_eq!(fixture.store.get("k").await.unwrap(), "content", "{effect:?}");
        assert_eq!(fixture.server.rules().counts()["rule"].acted, 1, "{effect:?}");
    }
}

// A body that moves is left alone, however slow: here it takes longer than an attempt may.
#[tokio::test]
async fn a_slow_body_is_no_stalled_one() {
    let deadlines = Deadlines { attempt: Duration::from_millis(1_000), retries: 0, ..PATIENT };
    let fixture = Fixture::new(deadlines).await;
    let content = Bytes::from(vec![7; 3_000]);
    fixture.server.backend().put(BUCKET, "k", content.clone()).unwrap();
    fixture.rule(Operation::GetObject, Nth::default(), Effect::Trickle { bytes_per_second: 2_000 });
    assert_eq!(fixture.store.get("k").await.unwrap(), content);
}

#[tokio::test]
async fn a_checkpoint_lives_and_goes_without_a_trace() {
    let fixture = Fixture::new(PATIENT).await;
    let dir = tempfile::tempdir().unwrap();
    let leadership = LeaderElection::new(dir.path(), Candidate { name: "c".into() }).campaign().await.unwrap();
    let Fixture { server, store } = fixture;
    let storage = CheckpointStorage::new(Arc::new(store), leadership.store());

    let (job, task) = (JobId([1; 16]), TaskId { vertex: VertexId([2; 16]), subtask: 0 });
    let snapshot = TaskSnapshot { operator: vec![7; INLINE_LIMIT_BYTES], keyed: Default::default() };
    let handle = storage.write_snapshot(AttemptId { job, task, attempt: 0 }, 1, &snapshot).await.unwrap();
    let checkpoint = CompletedCheckpoint {
        job,
        id: 1,
        trigger_ms: 1,
        completed_ms: 2,
        tasks: vec![(task, handle.clone())],
        is_final: false,
    };
    let stored = storage.store(&checkpoint).await.unwrap();
    assert_eq!(stored.external_path, format!("s3://{BUCKET}/{job}/chk-1"));
    assert_eq!(storage.recover(job).await.unwrap(), [(checkpoint, stored)]);
    assert_eq!(storage.read_snapshot(&handle).await.unwrap(), snapshot);
    let metadata = layout::metadata_key(job, 1);
    assert_eq!(server.ledger().count(|entry| entry.is(Operation::GetObject, &metadata)), 1);

    storage.discard_job(job).await.unwrap();
    let left = server.backend().leftovers();
    assert!(left.objects.values().all(Vec::is_empty) && left.uploads.is_empty(), "{left:?}");
}
