//! Writes and their conditions.

use std::sync::Arc;

use bytes::Bytes;
use reqwest::Method;
use stormproof_store::{Operation, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;

use crate::support::{BUCKET, Lab, code, presign, soon};

const CREATE_ONLY: (&str, &str) = ("If-None-Match", "*");

/// Leader election and commits stand on this: of any number of create-only writers exactly one wins.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn create_only_writers_have_exactly_one_winner() {
    let lab = Arc::new(Lab::new().await);
    let mut winners = 0;
    for round in 0..40 {
        let start = Arc::new(Barrier::new(8));
        let writers: Vec<_> = (0..8_u8)
            .map(|writer| {
                let (lab, start) = (Arc::clone(&lab), Arc::clone(&start));
                tokio::spawn(async move {
                    let body = Bytes::from(vec![writer; 30_000]);
                    start.wait().await;
                    (writer, lab.minio_put(&format!("leader-{round}"), body, &[CREATE_ONLY]).await)
                })
            })
            .collect();
        let mut won = Vec::new();
        for writer in writers {
            match writer.await.expect("a writer ends") {
                (writer, Ok(())) => won.push(writer),
                (_, Err(error)) => assert!(code(&error).contains("preconditionfailed"), "{error}"),
            }
        }
        assert_eq!(won.len(), 1, "round {round}: {won:?} won");
        let stored = lab.server.backend().get(BUCKET, &format!("leader-{round}")).expect("an object");
        assert_eq!(stored[..], vec![won[0]; 30_000][..], "the winner's bytes are stored");
        winners += won.len();
    }
    assert_eq!(winners, 40);
    let puts = |status| lab.server.ledger().count(|e| e.operation == Operation::PutObject && e.status == Some(status));
    assert_eq!((puts(200), puts(412)), (40, 280));
}

/// Compare-and-swap through If-Match: no increment is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_update_is_lost_under_if_match() {
    let lab = Arc::new(Lab::new().await);
    lab.server.backend().put(BUCKET, "counter", "0").expect("put");
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let lab = Arc::clone(&lab);
            tokio::spawn(async move {
                let mut done = 0;
                while done < 10 {
                    let read = lab.get(&format!("{BUCKET}/counter")).await;
                    let next = read.text().parse::<u64>().expect("a number") + 1;
                    let written = lab.put("counter", next.to_string(), &[("If-Match", read.header("etag"))]).await;
                    match written.status.as_u16() {
                        200 => done += 1,
                        412 => {}
                        other => panic!("status {other}: {}", written.text()),
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer ends");
    }
    assert_eq!(lab.server.backend().get(BUCKET, "counter").expect("get"), "40");
}

#[tokio::test]
async fn conditions_answer_as_aws_documents() {
    let lab = Lab::new().await;
    let etag = lab.put("k", "one", &[CREATE_ONLY]).await.header("etag").to_owned();
    assert_eq!(etag, "\"f97c5d29941bfb1b2fdab0874906ab82\"");
    let other = "\"00000000000000000000000000000000\"";
    let put = |key: &'static str, headers: [(&'static str, String); 1]| {
        let lab = &lab;
        async move {
            let headers = headers.each_ref().map(|(name, value)| (*name, &**value));
            lab.put(key, "two", &headers).await
        }
    };
    assert_eq!(put("k", [("If-None-Match", "*".into())]).await.refusal(), "412 PreconditionFailed");
    assert_eq!(put("k", [("If-Match", other.into())]).await.refusal(), "412 PreconditionFailed");
    assert_eq!(put("absent", [("If-Match", other.into())]).await.refusal(), "404 NoSuchKey");
    assert_eq!(put("k", [("If-None-Match", other.into())]).await.refusal(), "501 NotImplemented");
    assert_eq!(lab.server.backend().get(BUCKET, "k").expect("get"), "one", "refused writes change nothing");
    assert_eq!(put("k", [("If-Match", etag)]).await.status, 200);
    // Unquoted ETags are what several SDKs send.
    assert_eq!(put("k", [("If-Match", "b8a9f715dbb64fd5c56e7783c6820a61".into())]).await.status, 200);
}

#[tokio::test]
async fn copies_take_conditions_on_both_sides() {
    let lab = Lab::new().await;
    lab.put("from", "bytes", &[("content-type", "text/plain"), ("x-amz-meta-Owner", "me")]).await;
    let source = format!("/{BUCKET}/from");
    let copy = |key: &str, headers: &[(&'static str, &'static str)]| {
        let (lab, path, headers) =
            (&lab, format!("{BUCKET}/{key}"), [&[("x-amz-copy-source", &*source)], headers].concat());
        async move { lab.send(Method::PUT, &path, &[], &headers, "").await }
    };
    let done = copy("to", &[CREATE_ONLY]).await;
    assert_eq!(done.one("ETag").replace("&quot;", "\""), "\"4b3a6218bb3e3a7303e8a171a60fcf92\"");
    let read = lab.get(&format!("{BUCKET}/to")).await;
    assert_eq!((read.text().as_str(), read.header("content-type")), ("bytes", "text/plain"));
    assert_eq!(read.header("x-amz-meta-owner"), "me");

    assert_eq!(copy("to", &[CREATE_ONLY]).await.refusal(), "412 PreconditionFailed");
    assert_eq!(copy("to", &[("If-Match", "\"0\"")]).await.refusal(), "412 PreconditionFailed");
    assert_eq!(copy("absent", &[("If-Match", "\"0\"")]).await.refusal(), "404 NoSuchKey");
    assert_eq!(copy("to", &[("x-amz-copy-source-if-match", "\"0\"")]).await.refusal(), "412 PreconditionFailed");
    let same = "\"4b3a6218bb3e3a7303e8a171a60fcf92\"";
    assert_eq!(copy("to", &[("x-amz-copy-source-if-none-match", same)]).await.refusal(), "412 PreconditionFailed");
    assert_eq!(copy("from", &[]).await.refusal(), "400 InvalidRequest", "onto itself without a change");
    let replace = [("x-amz-metadata-directive", "REPLACE"), ("content-type", "text/csv")];
    assert_eq!(copy("from", &replace).await.status, 200);
    let read = lab.get(&format!("{BUCKET}/from")).await;
    assert_eq!((read.header("content-type"), read.header("x-amz-meta-owner")), ("text/csv", ""));
}

#[tokio::test]
async fn deletes_take_conditions_and_absent_is_a_success() {
    let lab = Lab::new().await;
    let backend = lab.server.backend();
    let etag = backend.put(BUCKET, "k", "v").expect("put");
    let delete = |key: &'static str, headers: &'static [(&'static str, &'static str)]| {
        let lab = &lab;
        async move { lab.send(Method::DELETE, &format!("{BUCKET}/{key}"), &[], headers, "").await }
    };
    assert_eq!(delete("k", &[("If-Match", "\"0\"")]).await.refusal(), "412 PreconditionFailed");
    assert_eq!(delete("absent", &[("If-Match", "*")]).await.refusal(), "404 NoSuchKey");
    assert_eq!(delete("absent", &[]).await.status, 204);
    assert_eq!(delete("k", &[("If-Match", "*")]).await.status, 204);
    assert!(backend.list_objects(BUCKET, "").expect("list").is_empty());

    for key in ["a", "b", "c"] {
        backend.put(BUCKET, key, "v").expect("put");
    }
    let xml = format!(
        "<Delete><Object><Key>a</Key></Object><Object><Key>absent</Key></Object>\
         <Object><Key>b</Key><ETag>0</ETag></Object><Object><Key>c</Key><ETag>{etag}</ETag></Object></Delete>"
    );
    let many = lab.send(Method::POST, BUCKET, &[("delete", "")], &[], xml).await;
    assert_eq!(
        (many.all("Key"), many.all("Code")),
        (["a", "absent", "c", "b"].map(str::to_owned).to_vec(), vec!["PreconditionFailed".to_owned()],),
        "{}",
        many.text()
    );
    let left: Vec<String> = backend.list_objects(BUCKET, "").expect("list").into_iter().map(|o| o.key).collect();
    assert_eq!(left, ["b"]);
}

/// 409: the key was deleted while a create-only put was under way.
#[tokio::test]
async fn a_create_only_put_that_a_delete_overtakes_is_a_conflict() {
    let lab = Lab::new().await;
    lab.server.backend().put(BUCKET, "lease", "old").expect("put");
    let mut upload = lab.begin_put("lease", "if-none-match: *\r\nexpect: 100-continue\r\n", 10, b"").await;
    // The server asks for the body when it begins to read it: from here on the put is under way.
    let mut asked = [0; 25];
    soon(upload.read_exact(&mut asked)).await.expect("an interim answer");
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    lab.server.backend().delete(BUCKET, "lease").expect("delete");
    upload.write_all(b"1234567890").await.expect("the body");
    let mut answer = [0; 12];
    soon(upload.read_exact(&mut answer)).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 409");
    assert!(lab.server.backend().get(BUCKET, "lease").is_err(), "nothing was written");
    assert_eq!(lab.put("lease", "new", &[CREATE_ONLY]).await.status, 200, "the next one is not hindered");
}

#[tokio::test]
async fn bytes_that_are_not_what_was_sent_are_not_stored() {
    let lab = Lab::new().await;
    let bad = lab.put("k", "hello", &[("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==")]).await;
    assert_eq!(bad.refusal(), "400 BadDigest");
    assert_eq!(lab.put("k", "hello", &[("Content-MD5", "nonsense")]).await.refusal(), "400 InvalidDigest");
    assert_eq!(lab.put("k", "hello", &[("x-amz-checksum-crc32", "AAAAAA==")]).await.refusal(), "400 BadDigest");
    assert_eq!(lab.put("k", "hello", &[("x-amz-checksum-crc32", "zz")]).await.refusal(), "400 InvalidRequest");
    let wrong_hash = "0000000000000000000000000000000000000000000000000000000000000000";
    let bad = lab.put("k", "hello", &[("x-amz-content-sha256", wrong_hash)]).await;
    assert_eq!(bad.refusal(), "400 XAmzContentSHA256Mismatch");
    assert!(lab.server.backend().list_objects(BUCKET, "").expect("list").is_empty());
    let good = [("Content-MD5", "XUFAKrxLKna5cZ2REBfFkg=="), ("x-amz-checksum-crc32", "NhCmhg==")];
    let stored = lab.put("k", "hello", &good).await;
    assert_eq!((stored.status.as_u16(), stored.header("x-amz-checksum-crc32")), (200, "NhCmhg=="));
}

/// Each is refused before its body is read, by a different piece. The client writes all of it, then reads the answer,
/// and goes on with the same connection.
#[tokio::test]
async fn a_refused_put_is_answered_with_its_body_drained() {
    let lab = Lab::new().await;
    let body = vec![7; 12 << 20];
    let whole = format!("content-length: {}\r\n", body.len());
    let path = |key: &str| format!("{BUCKET}/{key}");
    let upload = [("partNumber", "1"), ("uploadId", "none")];
    let unknown_bucket = lab.presigned(&Method::PUT, "no-such-bucket/k", &[]);
    let unknown_upload = lab.presigned(&Method::PUT, &path("k"), &upload);
    let bad_signature = presign(&lab.server.endpoint(), "wrong", &Method::PUT, &path("k"), &[]);
    let long_key = lab.presigned(&Method::PUT, &path(&"k".repeat(1_025)), &[]);
    let taken = lab.presigned(&Method::PUT, &path("taken"), &[]);
    lab.server.backend().put(BUCKET, "taken", "v").expect("put");
    for (url, headers, status) in [
        (&unknown_bucket, "", "404"),
        (&unknown_upload, "", "404"),
        (&unknown_upload, "expect: 100-continue\r\n", "404"),
        (&bad_signature, "", "403"),
        (&long_key, "", "400"),
        (&taken, "if-none-match: *\r\n", "412"),
    ] {
        let (host, target) = url.strip_prefix("http://").and_then(|url| url.split_once('/')).expect("a URL");
        let mut stream = TcpStream::connect(lab.server.address()).await.expect("a connection");
        let head = format!("PUT /{target} HTTP/1.1\r\nhost: {host}\r\n{whole}{headers}\r\n");
        soon(stream.write_all(head.as_bytes())).await.expect("the head is taken");
        soon(stream.write_all(&body)).await.expect("all of the body is taken");
        let last = format!("HEAD /{target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        soon(stream.write_all(last.as_bytes())).await.expect("the next request is taken");
        let mut answers = String::new();
        soon(stream.read_to_string(&mut answers)).await.expect("an orderly end");
        let statuses: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        let finals: Vec<&str> = statuses.into_iter().filter(|status| *status != "100").collect();
        assert_eq!((finals.len(), finals[0]), (2, status), "{url}");
    }
    let drained = lab.server.ledger().count(|entry| entry.request_bytes == body.len() as u64);
    assert_eq!(drained, 6, "what is drained is counted");
}

#[tokio::test]
async fn an_upload_that_ends_early_leaves_nothing() {
    let lab = Lab::new().await;
    let upload = lab.begin_put("half", "", 1_000, &[7; 400]).await;
    let ledger = lab.server.ledger();
    soon(ledger.wait_for(0, |entry| entry.is(Operation::PutObject, "half"))).await;
    drop(upload);
    let cut = soon(ledger.wait_for(0, |entry| entry.is(Operation::PutObject, "half") && !entry.in_flight())).await;
    assert_eq!(cut.outcome, Outcome::ClientCut, "{cut:?}");
    assert!(lab.server.backend().list_objects(BUCKET, "").expect("list").is_empty());
}

/// `aws-chunked` with a checksum behind the body, with and without signed chunks.
#[tokio::test]
async fn chunked_uploads_are_decoded_and_checked() {
    use minio::s3::builders::{PutObject, UploadPart};
    use minio::s3::types::S3Api as _;
    use minio::s3::utils::ChecksumAlgorithm;

    let lab = Lab::new().await;
    let bytes: Bytes = (0..300_000_u32).map(|i| (i * 7) as u8).collect::<Vec<u8>>().into();
    for signed in [false, true] {
        let key = format!("chunked-{signed}");
        let inner = UploadPart::builder()
            .client(lab.minio.clone())
            .bucket(BUCKET.parse::<minio::s3::types::BucketName>().expect("a bucket name"))
            .object(key.parse::<minio::s3::types::ObjectKey>().expect("a key"))
            .data(Arc::new(bytes.clone().into()))
            .checksum_algorithm(ChecksumAlgorithm::CRC32C)
            .use_trailing_checksum(true)
            .use_signed_streaming(signed)
            .build();
        PutObject::builder().inner(inner).build().send().await.expect("a chunked put");
        assert_eq!(lab.server.backend().get(BUCKET, &key).expect("get"), bytes);
        let entry = lab.server.ledger().entries_since(0).pop().expect("an entry");
        assert!(entry.request_bytes > 300_000, "the framing is counted: {entry:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_kept_with_an_object_is_refused() {
    let lab = Lab::new().await;
    let backend = lab.server.backend();
    backend.put(BUCKET, "from", "v").expect("put");
    let source = format!("{BUCKET}/from");
    assert_eq!(lab.put("k", "v", &[("x-amz-tagging", "a=b")]).await.refusal(), "501 NotImplemented");
    let (most, more) = ("v".repeat(2_047), "v".repeat(2_048));
    assert_eq!(lab.put("k", "v", &[("x-amz-meta-n", &more)]).await.refusal(), "400 MetadataTooLarge");
    let copy = [("x-amz-copy-source", &*source), ("x-amz-metadata-directive", "REPLACE"), ("x-amz-meta-n", &*more)];
    assert_eq!(lab.put("k", "", &copy).await.refusal(), "400 MetadataTooLarge");
    let version = [("x-amz-copy-source", &*format!("{source}?versionId=xyz"))];
    assert_eq!(lab.put("k", "", &version).await.refusal(), "400 InvalidArgument");
    let xml = "<Delete><Object><Key>from</Key><VersionId>xyz</VersionId></Object></Delete>";
    let many = lab.send(Method::POST, BUCKET, &[("delete", "")], &[], xml).await;
    assert_eq!(many.one("Code"), "InvalidArgument", "{}", many.text());
    let keys: Vec<String> = backend.list_objects(BUCKET, "").expect("list").into_iter().map(|o| o.key).collect();
    assert_eq!(keys, ["from"]);
    assert_eq!(lab.put("k", "v", &[("x-amz-meta-n", &most)]).await.status, 200);
}

#[tokio::test]
async fn keys_are_not_paths() {
    let lab = Lab::new().await;
    let long = "k".repeat(1_024);
    let keys = ["a", "a/b", "a/b/c", "..dots..", "a//b", "with space+plus%percent", "ключ/鍵", "trailing/", &*long];
    for key in keys {
        assert_eq!(lab.put(key, key.to_owned(), &[]).await.status, 200, "{key}");
    }
    for key in keys {
        assert_eq!(lab.get(&format!("{BUCKET}/{key}")).await.text(), key);
    }
    assert_eq!(lab.put(&"k".repeat(1_025), "", &[]).await.refusal(), "400 KeyTooLongError");
    let mut expected = keys.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(lab.minio_list("", true, false).await, expected, "and the SDK reads them back from a list");
}
