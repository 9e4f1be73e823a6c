//! A folder through every change, and folders that are not fit.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use s3s::dto::{Timestamp, TimestampFormat};

use super::super::Backend;
use super::super::checksum::{Algorithm, ChecksumKind, Checksums};
use super::super::condition::WriteCondition;
use super::super::content::Content;
use super::super::error::BackendError;
use super::super::object::ObjectHeaders;
use super::super::objects::NewObject;
use super::super::state::Part;
use super::super::uploads::Completion;
use super::record::{ObjectRecord, PartRecord, UploadRecord};
use crate::config::Limits;

fn open(folder: &Path) -> Backend {
    let limits = Limits { min_part_bytes: 1, ..Limits::default() };
    Backend::open(limits, Some(folder)).expect("a folder that is fit")
}

/// Why it is not.
fn refused(folder: &Path) -> String {
    Backend::open(Limits::default(), Some(folder)).expect_err("it is not fit").to_string()
}

fn time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(1_800_000_000, 123_456_789)
}

fn headers() -> ObjectHeaders {
    let expires = Timestamp::parse(TimestampFormat::HttpDate, "Mon, 30 Nov 2026 08:00:00 GMT").expect("a date");
    ObjectHeaders {
        content_type: Some("text/plain".to_owned()),
        expires: Some(expires),
        user: [("job".to_owned(), "42".to_owned())].into(),
        ..ObjectHeaders::default()
    }
}

fn put(backend: &Backend, key: &str, bytes: &'static str) {
    let content = Content::from(Bytes::from_static(bytes.as_bytes()));
    let checksums = Checksums::compute(&content, [Algorithm::Sha256]);
    let new = NewObject { checksums, ..NewObject::single(content, headers()) };
    backend.put_object("bucket", key, new, &WriteCondition::default(), None, time()).expect("put");
}

fn part(bytes: &'static str) -> Part {
    let content = Content::from(Bytes::from_static(bytes.as_bytes()));
    let checksums = Checksums::compute(&content, [Algorithm::Crc32]);
    Part::new(content, checksums, time())
}

/// All that is in it, line by line.
fn picture(backend: &Backend) -> Vec<String> {
    let line = |about: &dyn std::fmt::Debug, content: &Content| format!("{about:?} {:?}", content.to_bytes());
    let mut lines = vec![format!("{:?}", backend.leftovers())];
    for bucket in backend.lock().buckets.values() {
        lines.push(format!("{:?}", bucket.created));
        lines.extend(bucket.objects.iter().map(|(key, object)| line(&ObjectRecord::of(key, object), &object.content)));
        for ((key, id), upload) in &bucket.uploads {
            lines.push(format!("{id} {:?}", UploadRecord::of(key, upload)));
            lines.extend(upload.parts.values().map(|part| line(&(PartRecord::of(part), part.etag()), &part.content)));
        }
    }
    lines
}

#[test]
fn everything_is_there_again() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("new/data");
    let backend = open(&folder);
    backend.create_bucket_at("bucket", time()).expect("bucket");
    backend.create_bucket("gone").expect("bucket");
    for (key, bytes) in [("a", "one"), ("a/b", ""), ("../ключ\n", "three"), (&*"k".repeat(1_024), "long")] {
        put(&backend, key, bytes);
    }
    put(&backend, "a", "another one");
    put(&backend, "deleted", "bytes");
    assert_eq!(backend.delete("bucket", "deleted"), Ok(true));
    let kind = Some(ChecksumKind { algorithm: Algorithm::Crc32, full_object: false });
    let [open_one, done, aborted] =
        [(); 3].map(|()| backend.create_upload("bucket", "m", headers(), kind, time()).expect("an upload"));
    for upload in [&open_one, &done, &aborted] {
        for (number, bytes) in [(1, "hello"), (2, "old"), (2, "world")] {
            backend.put_part("bucket", "m", upload, number, part(bytes)).expect("a part");
        }
    }
    backend.abort_upload("bucket", "m", &aborted).expect("aborted");
    let completion = Completion {
        parts: &[(1, None), (2, None)],
        condition: &WriteCondition::default(),
        checksums: &Checksums::default(),
        bytes: None,
    };
    backend.complete_upload("bucket", "m", &done, completion, time()).expect("completed");
    backend.create_upload("gone", "m", headers(), None, time()).expect("an upload");
    backend.delete_bucket("gone").expect("it holds no objects");
    let snapshot = backend.snapshot("bucket").expect("a snapshot");
    put(&backend, "a", "later");
    put(&backend, "later", "later");
    backend.restore("bucket", &snapshot).expect("restored");

    let before = picture(&backend);
    drop((backend, snapshot));
    // What a server leaves that is killed in the middle of a change.
    fs::write(folder.join("tmp/7"), "{").expect("written");
    let again = open(&folder);
    assert_eq!(picture(&again), before);
    assert_eq!(again.get("bucket", "m").expect("get"), "helloworld");
    assert_eq!(again.total_bytes(), again.leftovers().total_bytes);
    assert_eq!(fs::read_dir(folder.join("tmp")).expect("a folder").count(), 0);
    again.complete_upload("bucket", "m", &open_one, completion, time()).expect("it can go on");
}

#[test]
fn a_folder_has_one_server_at_a_time() {
    let root = tempfile::tempdir().expect("a folder");
    let backend = open(root.path());
    assert!(refused(root.path()).contains("is in use by another server"), "{}", refused(root.path()));
    drop(backend);
    open(root.path());
}

#[test]
fn what_others_put_there_is_left_alone() {
    let root = tempfile::tempdir().expect("a folder");
    fs::write(root.path().join("thesis.txt"), "years of work").expect("written");
    let why = refused(root.path());
    assert!(why.contains("is no data folder of this server") && why.contains("thesis.txt"), "{why}");
    assert_eq!(fs::read_dir(root.path()).expect("a folder").count(), 1, "nothing was added");

    let other = tempfile::tempdir().expect("a folder");
    fs::write(other.path().join("stormproof-s3"), "stormproof-s3 2\n").expect("written");
    assert!(refused(other.path()).contains("has another form"), "{}", refused(other.path()));
    let file = root.path().join("thesis.txt");
    assert!(refused(&file).contains("cannot use"), "{}", refused(&file));
}

#[test]
fn a_damaged_file_is_named_and_nothing_is_touched() {
    let root = tempfile::tempdir().expect("a folder");
    let backend = open(root.path());
    backend.create_bucket("bucket").expect("bucket");
    put(&backend, "k", "0123456789");
    drop(backend);
    let objects = root.path().join("buckets/bucket/objects");
    let file = fs::read_dir(&objects).expect("a folder").next().expect("an object").expect("readable").path();
    let whole = fs::read(&file).expect("read");
    let mut flipped = whole.clone();
    *flipped.last_mut().expect("bytes") ^= 1;
    for (bytes, expected) in [
        (&whole[..whole.len() - 4], "it should hold 10 bytes and holds 6"),
        (&whole[..20], "it ends within its first line"),
        (&[], "it ends within its first line"),
        (&*flipped, "its bytes have another CRC32"),
        (b"{}\n", "its first line cannot be read: missing field"),
    ] {
        fs::write(&file, bytes).expect("written");
        let why = refused(root.path());
        assert!(why.starts_with(&format!("{} is damaged: {expected}", file.display())), "{why}");
        assert_eq!(why.lines().count(), 1, "{why}");
        assert_eq!(fs::read(&file).expect("read"), bytes);
    }
    fs::rename(&file, objects.join("other")).expect("moved");
    fs::write(objects.join("other"), &whole).expect("written");
    assert!(refused(root.path()).contains("which has another name"), "{}", refused(root.path()));
    fs::remove_file(objects.join("other")).expect("removed");
    assert_eq!(open(root.path()).list_objects("bucket", "").expect("a list"), []);
}

#[test]
fn a_folder_that_cannot_be_written_ends_all_writing() {
    let root = tempfile::tempdir().expect("a folder");
    let backend = open(root.path());
    backend.create_bucket("bucket").expect("bucket");
    put(&backend, "k", "kept");
    fs::remove_dir(root.path().join("tmp")).expect("removed");
    let not_kept = |error: Result<String, BackendError>| matches!(error, Err(BackendError::NotKept { .. }));
    assert!(not_kept(backend.put("bucket", "k", "lost")));
    fs::create_dir(root.path().join("tmp")).expect("made");
    assert!(not_kept(backend.put("bucket", "k", "refused")), "memory does not run ahead");
    assert_eq!(backend.get("bucket", "k").expect("reads go on"), "lost");
    drop(backend);
    assert_eq!(open(root.path()).get("bucket", "k").expect("get"), "kept");
}
