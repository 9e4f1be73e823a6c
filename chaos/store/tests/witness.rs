//! An outside witness: `object_store`, the client of Arrow and DataFusion, finds what it expects of S3 in our server.
//!
//! It brings crates that nothing else needs, so it is built on demand only: `--features object-store-witness`.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, TryStreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder, S3CopyIfNotExists};
use object_store::list::{PaginatedListOptions, PaginatedListStore as _};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion,
    WriteMultipart,
};
use stormproof_store::{Effect, Nth, Operation, Rule, S3Server};

const BUCKET: &str = "witness";
/// Far above anything a loaded machine needs; reaching it is a failure.
const DEADLINE: Duration = Duration::from_secs(60);

struct World {
    server: S3Server,
    client: AmazonS3,
}

impl World {
    async fn new() -> Self {
        let server = S3Server::builder().credentials("key", "secret").start().await.expect("a server");
        server.backend().create_bucket(BUCKET).expect("a bucket");
        let client = AmazonS3Builder::new()
            .with_endpoint(server.endpoint())
            .with_allow_http(true)
            .with_region("us-east-1")
            .with_bucket_name(BUCKET)
            .with_access_key_id("key")
            .with_secret_access_key("secret")
            .with_copy_if_not_exists(S3CopyIfNotExists::Multipart)
            .build()
            .expect("a client");
        Self { server, client }
    }

    async fn read(&self, key: &str) -> Vec<u8> {
        let answer = self.client.get(&path(key)).await.expect("an object");
        answer.bytes().await.expect("its bytes").to_vec()
    }

    fn keys(&self) -> Vec<String> {
        let objects = self.server.backend().list_objects(BUCKET, "").expect("the bucket is there");
        objects.into_iter().map(|object| object.key).collect()
    }

    async fn end(self) {
        self.server.shutdown().await.expect("a shutdown");
    }
}

fn path(key: &str) -> Path {
    Path::parse(key).expect("a path")
}

/// Runs a test within the deadline.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(DEADLINE, test).await.expect("it ends before the deadline") });
}

#[test]
fn objects_are_put_read_in_ranges_and_described() {
    run(async {
        let world = World::new().await;
        let put = world.client.put(&path("dir/k ü+"), "0123456789".into()).await.expect("put");
        assert_eq!(world.read("dir/k ü+").await, b"0123456789");
        let head = world.client.head(&path("dir/k ü+")).await.expect("a head");
        assert_eq!((head.size, head.e_tag.as_ref()), (10, put.e_tag.as_ref()));
        assert_eq!(put.e_tag.as_deref(), Some("\"781e5e245d69b566979b86e28d23f2c7\""));
        let ranges = world.client.get_ranges(&path("dir/k ü+"), &[0..1, 2..4, 9..20]).await.expect("ranges");
        assert_eq!(ranges, ["0", "23", "9"]);
        let options = GetOptions { range: Some(GetRange::Suffix(3)), ..GetOptions::default() };
        let last = world.client.get_opts(&path("dir/k ü+"), options).await.expect("the end");
        assert_eq!((last.range.clone(), last.bytes().await.expect("its bytes").as_ref()), (7..10, &b"789"[..]));
        assert!(world.client.get_range(&path("dir/k ü+"), 10..11).await.is_err(), "no byte of it exists");
        let known = GetOptions { if_none_match: put.e_tag.clone(), ..GetOptions::default() };
        let unchanged = world.client.get_opts(&path("dir/k ü+"), known).await.expect_err("it is known");
        assert!(matches!(unchanged, Error::NotModified { .. }), "{unchanged}");
        let other = GetOptions { if_match: Some("\"0\"".to_owned()), ..GetOptions::default() };
        let other = world.client.get_opts(&path("dir/k ü+"), other).await.expect_err("it is another");
        assert!(matches!(other, Error::Precondition { .. }), "{other}");
        let absent = world.client.get(&path("absent")).await.expect_err("it is not there");
        assert!(matches!(absent, Error::NotFound { .. }), "{absent}");
        world.end().await;
    });
}

#[test]
fn lists_are_whole_over_pages_and_grouped_by_delimiter() {
    run(async {
        let world = World::new().await;
        // More than one page of S3.
        for number in 0..1_005 {
            world.server.backend().put(BUCKET, &format!("many/{number:04}"), "v").expect("put");
        }
        for key in ["a", "dir/x", "dir/y/z"] {
            world.server.backend().put(BUCKET, key, "v").expect("put");
        }
        let many: Vec<_> = world.client.list(Some(&path("many"))).try_collect().await.expect("a list");
        assert_eq!(many.len(), 1_005);
        assert_eq!(many[1_004].location, path("many/1004"));
        let behind = world.client.list_with_offset(Some(&path("many")), &path("many/1002"));
        let behind: Vec<_> = behind.map_ok(|meta| meta.location).try_collect().await.expect("a list");
        assert_eq!(behind, ["many/1003", "many/1004"].map(path));
        let top = world.client.list_with_delimiter(None).await.expect("a list");
        let objects: Vec<Path> = top.objects.into_iter().map(|meta| meta.location).collect();
        assert_eq!((objects, top.common_prefixes), (vec![path("a")], ["dir", "many"].map(path).to_vec()));
        let mut token = None;
        let mut pages = Vec::new();
        loop {
            let options = PaginatedListOptions { max_keys: Some(1), page_token: token, ..Default::default() };
            let page = world.client.list_paginated(Some("dir/"), options).await.expect("a page");
            pages.push(page.result.objects.into_iter().map(|meta| meta.location.to_string()).collect::<Vec<_>>());
            token = page.page_token;
            if token.is_none() {
                break;
            }
        }
        assert_eq!(pages, [["dir/x"], ["dir/y/z"]]);
        world.end().await;
    });
}

#[test]
fn objects_are_copied_renamed_and_deleted() {
    run(async {
        let world = World::new().await;
        for key in ["a", "b", "c"] {
            world.client.put(&path(key), key.into()).await.expect("put");
        }
        world.client.copy(&path("a"), &path("copied")).await.expect("a copy");
        world.client.rename(&path("b"), &path("dir/renamed")).await.expect("a rename");
        assert_eq!(world.keys(), ["a", "c", "copied", "dir/renamed"]);
        assert_eq!((world.read("copied").await, world.read("dir/renamed").await), (b"a".to_vec(), b"b".to_vec()));
        world.client.copy_if_not_exists(&path("a"), &path("new")).await.expect("nothing is there");
        let there = world.client.copy_if_not_exists(&path("a"), &path("c")).await.expect_err("something is there");
        assert!(matches!(there, Error::AlreadyExists { .. }), "{there}");
        assert_eq!((world.read("new").await, world.read("c").await), (b"a".to_vec(), b"c".to_vec()));
        let left = world.server.backend().leftovers();
        assert_eq!(left.uploads, [], "a refused copy is cleared away");
        let gone: Vec<_> = ["a", "absent", "c", "copied", "new"].map(path).to_vec();
        let before = world.server.ledger().last_seq();
        let deleted = world.client.delete_stream(stream::iter(gone.clone()).map(Ok).boxed());
        assert_eq!(deleted.try_collect::<Vec<_>>().await.expect("deleted"), gone);
        assert_eq!(world.keys(), ["dir/renamed"]);
        let asked = world.server.ledger().entries_since(before);
        assert_eq!(asked.iter().map(|entry| entry.operation).collect::<Vec<_>>(), [Operation::DeleteObjects]);
        world.end().await;
    });
}

#[test]
fn conditional_puts_create_once_and_update_by_etag() {
    run(async {
        let world = World::new().await;
        let put = async |mode: PutMode, content: &'static str| {
            world.client.put_opts(&path("lock"), content.into(), PutOptions::from(mode)).await
        };
        let update = |e_tag: Option<String>| PutMode::Update(UpdateVersion { e_tag, version: None });
        let first = put(PutMode::Create, "first").await.expect("nothing is there");
        let late = put(PutMode::Create, "late").await.expect_err("something is there");
        assert!(matches!(late, Error::AlreadyExists { .. }), "{late}");
        let second = put(update(first.e_tag.clone()), "second").await.expect("it is the first");
        let stale = put(update(first.e_tag), "stale").await.expect_err("it is no more the first");
        assert!(matches!(stale, Error::Precondition { .. }), "{stale}");
        put(update(second.e_tag), "third").await.expect("it is the second");
        assert_eq!(world.read("lock").await, b"third");
        world.end().await;
    });
}

#[test]
fn large_objects_go_in_parts() {
    run(async {
        let world = World::new().await;
        let content: Vec<u8> = (0..11_u32 << 20).map(|at| (at >> 8) as u8).collect();
        let upload = world.client.put_multipart(&path("large")).await.expect("an upload");
        let mut writer = WriteMultipart::new_with_chunk_size(upload, 5 << 20);
        for piece in content.chunks(1 << 20) {
            writer.write(piece);
        }
        let done = writer.finish().await.expect("completed");
        assert!(done.e_tag.is_some_and(|etag| etag.ends_with("-3\"")));
        assert!(world.read("large").await == content);
        let mut dropped = world.client.put_multipart(&path("dropped")).await.expect("an upload");
        dropped.put_part("part".into()).await.expect("a part");
        dropped.abort().await.expect("aborted");
        assert_eq!(world.server.backend().leftovers().uploads, []);
        world.end().await;
    });
}

/// It tries again where it should, and resumes a body that broke off.
#[test]
fn it_gets_over_what_a_rule_does_to_it() {
    run(async {
        let world = World::new().await;
        world.server.backend().put(BUCKET, "k", vec![7; 100_000]).expect("put");
        for effect in [
            Effect::SlowDown { retry_after_seconds: 1 },
            Effect::InternalError,
            Effect::ResetBefore,
            Effect::TruncateBody { at_bytes: 400 },
        ] {
            let rule = Rule::new("once", effect.clone()).on(Operation::GetObject).nth(Nth::only(1));
            world.server.rules().add(rule).expect("a rule");
            assert_eq!(world.read("k").await, vec![7; 100_000], "{effect:?}");
            assert_eq!(world.server.rules().counts()["once"].acted, 1, "{effect:?}");
            world.server.rules().remove("once");
        }
        world.end().await;
    });
}
