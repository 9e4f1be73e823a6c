//! Properties that need more than one file of the backend.

use super::checksum::Checksums;
use super::state::Part;
use super::uploads::Completion;
use super::*;

fn backend(limits: Limits) -> Backend {
    let backend = Backend::new(limits);
    backend.create_bucket("bucket").expect("a new bucket");
    backend
}

fn create_only() -> WriteCondition {
    WriteCondition { absent: true, matches: None }
}

fn new_object(bytes: &'static str) -> NewObject {
    NewObject::single(Content::from(Bytes::from_static(bytes.as_bytes())), ObjectHeaders::default())
}

#[test]
fn a_create_that_a_delete_overtakes_conflicts() {
    let backend = backend(Limits::default());
    backend.put("bucket", "leader", "old").expect("put");
    let window = backend.open_window("bucket", "leader").expect("window");
    assert_eq!(backend.delete("bucket", "leader"), Ok(true));
    let put = |window| {
        let now = SystemTime::UNIX_EPOCH;
        backend.put_object("bucket", "leader", new_object("new"), &create_only(), window, now).map(|o| o.etag.clone())
    };
    assert_eq!(put(Some(&window)), Err(BackendError::ConditionalConflict));
    // One that begins after the delete wins, also while the other is still open.
    let later = backend.open_window("bucket", "leader").expect("window");
    assert!(put(Some(&later)).is_ok());
    drop((window, later));
    assert!(backend.lock().buckets["bucket"].windows.is_empty(), "closed windows are forgotten");
}

#[test]
fn bytes_are_counted_through_every_change() {
    let backend = backend(Limits { min_part_bytes: 1, ..Limits::default() });
    backend.put("bucket", "a", "12345").expect("put");
    backend.put("bucket", "a", "123").expect("overwrite");
    let now = SystemTime::UNIX_EPOCH;
    let upload = backend.create_upload("bucket", "m", ObjectHeaders::default(), None, now).expect("upload");
    for number in 1..=3 {
        let content = Content::from(Bytes::from_static(b"0123456789"));
        backend.put_part("bucket", "m", &upload, number, Part::new(content, Checksums::default(), now)).expect("part");
    }
    assert_eq!(backend.total_bytes(), 33);
    let wanted = [(1, None), (3, None)];
    let done = Completion { parts: &wanted, condition: &create_only(), checksums: &Checksums::default(), bytes: None };
    backend.complete_upload("bucket", "m", &upload, done, now).expect("complete");
    let bytes = backend.get("bucket", "m").expect("get").len();
    assert_eq!((bytes, backend.total_bytes()), (20, 23), "the part that was left out is gone");
    assert_eq!(backend.open_uploads("bucket"), Ok(vec![]));
    backend.delete("bucket", "m").expect("delete");
    backend.delete("bucket", "a").expect("delete");
    assert_eq!(backend.total_bytes(), 0);
}

#[test]
fn a_full_store_refuses_growth_and_still_shrinks() {
    let backend = backend(Limits { max_total_bytes: 10, ..Limits::default() });
    backend.put("bucket", "a", "12345678").expect("fits");
    let refused = backend.put("bucket", "b", "123").expect_err("11 bytes");
    assert_eq!(refused, BackendError::Full { total_bytes: 11, max_bytes: 10 });
    assert!(matches!(backend.get("bucket", "b"), Err(BackendError::NoSuchKey { .. })));
    backend.put("bucket", "a", "1").expect("smaller");
    backend.put("bucket", "b", "123").expect("fits now");
}

#[test]
fn a_refused_completion_changes_nothing() {
    let backend = backend(Limits { min_part_bytes: 4, ..Limits::default() });
    let now = SystemTime::UNIX_EPOCH;
    let upload = backend.create_upload("bucket", "m", ObjectHeaders::default(), None, now).expect("upload");
    for (number, bytes) in [(1, "1234"), (2, "12"), (3, "1")] {
        let content = Content::from(Bytes::from_static(bytes.as_bytes()));
        backend.put_part("bucket", "m", &upload, number, Part::new(content, Checksums::default(), now)).expect("part");
    }
    let none = WriteCondition::default();
    let complete = |wanted: &[uploads::WantedPart]| {
        let completion = Completion { parts: wanted, condition: &none, checksums: &Checksums::default(), bytes: None };
        backend.complete_upload("bucket", "m", &upload, completion, now).map(|done| done.etag)
    };
    assert_eq!(complete(&[]), Err(BackendError::NoParts));
    assert_eq!(complete(&[(2, None), (1, None)]), Err(BackendError::InvalidPartOrder));
    assert_eq!(complete(&[(1, None), (1, None)]), Err(BackendError::InvalidPartOrder));
    assert_eq!(complete(&[(1, None), (9, None)]), Err(BackendError::InvalidPart { number: 9 }));
    assert_eq!(complete(&[(1, Some("00".to_owned()))]), Err(BackendError::InvalidPart { number: 1 }));
    let small = BackendError::PartTooSmall { number: 2, size_bytes: 2, min_bytes: 4 };
    assert_eq!(complete(&[(1, None), (2, None), (3, None)]), Err(small));
    assert_eq!(backend.open_uploads("bucket").expect("uploads")[0].parts, 3);
    let done = complete(&[(1, None), (2, None)]).expect("it is good");
    assert_eq!(backend.get("bucket", "m").expect("get"), "123412");
    backend.delete("bucket", "m").expect("delete");
    assert_eq!(complete(&[(1, None), (2, None)]), Ok(done), "a repeated one changes nothing");
    assert_eq!(backend.get("bucket", "m").ok(), None);
    assert!(matches!(complete(&[(1, None)]), Err(BackendError::NoSuchUpload { .. })));
}

#[test]
fn a_bucket_goes_back_to_its_snapshot() {
    let backend = backend(Limits::default());
    backend.put("bucket", "kept", "1").expect("put");
    backend.put("bucket", "changed", "22").expect("put");
    let snapshot = backend.snapshot("bucket").expect("snapshot");
    let before = backend.list_objects("bucket", "").expect("list");
    backend.put("bucket", "changed", "333333").expect("put");
    backend.put("bucket", "new", "4").expect("put");
    backend.delete("bucket", "kept").expect("delete");
    backend.restore("bucket", &snapshot).expect("restore");
    assert_eq!(backend.list_objects("bucket", "").expect("list"), before);
    assert_eq!(backend.get("bucket", "changed").expect("get"), "22");
    assert_eq!(backend.total_bytes(), 3);
}

#[test]
fn an_old_listing_is_exact() {
    let backend = backend(Limits::default());
    backend.put("bucket", "a", "1").expect("put");
    backend.put("bucket", "b", "1").expect("put");
    backend.delete("bucket", "a").expect("delete");
    backend.put("bucket", "b", "22").expect("put");
    let listing = |changes_ago| -> Vec<(String, u64)> {
        let query = list::ListQuery { max_entries: 10, ..Default::default() };
        let past = backend.list_past("bucket", query, changes_ago).expect("list");
        let page = past.unwrap_or_else(|| backend.list("bucket", query).expect("list"));
        page.objects.into_iter().map(|object| (object.key, object.size_bytes)).collect()
    };
    let of = |list: &[(&str, u64)]| list.iter().map(|(key, size)| ((*key).to_owned(), *size)).collect::<Vec<_>>();
    assert_eq!(listing(0), of(&[("b", 2)]));
    assert_eq!(listing(1), of(&[("b", 1)]));
    assert_eq!(listing(2), of(&[("a", 1), ("b", 1)]));
    assert_eq!(listing(3), of(&[("a", 1)]));
    assert_eq!(listing(99), of(&[]));
    let elsewhere = list::ListQuery { prefix: "c", max_entries: 10, ..Default::default() };
    assert_eq!(backend.list_past("bucket", elsewhere, 99).expect("list"), None, "it is the same as now");
}

#[test]
fn a_bucket_with_objects_is_not_deleted() {
    let backend = backend(Limits::default());
    backend.put("bucket", "a", "1").expect("put");
    let not_empty = BackendError::BucketNotEmpty { bucket: "bucket".to_owned(), objects: 1 };
    assert_eq!(backend.delete_bucket("bucket"), Err(not_empty));
    backend.delete("bucket", "a").expect("delete");
    assert_eq!(backend.delete_bucket("bucket"), Ok(()));
    assert!(backend.create_bucket("No").is_err());
}
