//! Reads: ranges, conditions, snapshots.

use reqwest::Method;

use crate::support::{BUCKET, Lab, soon};

#[tokio::test]
async fn ranges_of_every_form() {
    let lab = Lab::new().await;
    lab.server.backend().put(BUCKET, "k", "0123456789").expect("put");
    lab.server.backend().put(BUCKET, "empty", "").expect("put");
    let path = format!("{BUCKET}/k");
    for (range, expected, content_range) in [
        ("bytes=0-0", "0", "bytes 0-0/10"),
        ("bytes=2-5", "2345", "bytes 2-5/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=8-99", "89", "bytes 8-9/10"),
        ("bytes=-3", "789", "bytes 7-9/10"),
        ("bytes=-99", "0123456789", "bytes 0-9/10"),
    ] {
        let got = lab.send(Method::GET, &path, &[], &[("Range", range)], "").await;
        assert_eq!(got.status, 206, "{range}");
        assert_eq!((got.text().as_str(), got.header("content-range")), (expected, content_range), "{range}");
        let head = lab.send(Method::HEAD, &path, &[], &[("Range", range)], "").await;
        assert_eq!((head.status.as_u16(), head.header("content-range")), (206, content_range), "{range}");
        assert_eq!(head.header("content-length"), expected.len().to_string(), "{range}");
    }
    for (key, range) in
        [("k", "bytes=10-"), ("k", "bytes=10-12"), ("k", "bytes=-0"), ("empty", "bytes=0-"), ("empty", "bytes=-1")]
    {
        let refused = lab.send(Method::GET, &format!("{BUCKET}/{key}"), &[], &[("Range", range)], "").await;
        assert_eq!(refused.refusal(), "416 InvalidRange", "{key} {range}");
        assert_eq!(refused.header("content-range"), if key == "k" { "bytes */10" } else { "bytes */0" });
    }
    // S3 takes what it cannot read, and what has several pieces, for no range at all.
    for range in ["bytes=5-2", "elephants", "bytes=0-1,3-4", "bytes=-", "bytes=x-1"] {
        for method in [Method::GET, Method::HEAD] {
            let whole = lab.send(method.clone(), &path, &[], &[("Range", range)], "").await;
            assert_eq!((whole.status.as_u16(), whole.header("content-length")), (200, "10"), "{method} {range}");
            assert_eq!(whole.header("content-range"), "");
            assert_eq!(whole.text(), if method == Method::GET { "0123456789" } else { "" });
        }
        let url = format!("{}/{path}", lab.server.endpoint());
        let unsigned = soon(lab.http.get(url).header("Range", range).send()).await.expect("an answer");
        assert_eq!(unsigned.status(), 403, "the signature is looked at all the same");
        let absent = lab.send(Method::GET, &format!("{BUCKET}/absent"), &[], &[("Range", range)], "").await;
        assert_eq!(absent.refusal(), "404 NoSuchKey");
    }
    let whole = lab.get(&format!("{BUCKET}/empty")).await;
    assert_eq!((whole.status.as_u16(), whole.header("content-length"), whole.body.len()), (200, "0", 0));
}

#[tokio::test]
async fn conditional_reads() {
    let lab = Lab::new().await;
    lab.server.backend().put(BUCKET, "k", "hello").expect("put");
    let path = format!("{BUCKET}/k");
    let read = |method: Method, name: &'static str, value: String| {
        let (lab, path) = (&lab, &path);
        async move { lab.send(method, path, &[], &[(name, &value)], "").await }
    };
    let first = lab.get(&path).await;
    let (etag, modified) = (first.header("etag").to_owned(), first.header("last-modified").to_owned());
    assert_eq!(etag, "\"5d41402abc4b2a76b9719d911017c592\"");
    let fresh = read(Method::GET, "If-None-Match", etag.clone()).await;
    assert_eq!((fresh.status.as_u16(), fresh.body.len(), fresh.header("etag")), (304, 0, &*etag));
    assert_eq!(read(Method::HEAD, "If-None-Match", etag.clone()).await.status, 304);
    assert_eq!(read(Method::GET, "If-Match", "\"0\"".into()).await.refusal(), "412 PreconditionFailed");
    assert_eq!(read(Method::GET, "If-Match", etag).await.text(), "hello");
    assert_eq!(read(Method::GET, "If-Modified-Since", modified.clone()).await.status, 304);
    let past = "Mon, 01 Jan 2001 00:00:00 GMT";
    assert_eq!(read(Method::GET, "If-Modified-Since", past.into()).await.status, 200);
    assert_eq!(read(Method::GET, "If-Unmodified-Since", past.into()).await.refusal(), "412 PreconditionFailed");
    assert_eq!(read(Method::GET, "If-Unmodified-Since", modified).await.status, 200);
}

#[tokio::test]
async fn a_slow_reader_sees_one_version() {
    let lab = Lab::new().await;
    // Far more than socket buffers hold, so most of it is still in the server when the object is replaced.
    let (old, new) = (vec![1_u8; 16 << 20], vec![2_u8; 16 << 20]);
    lab.server.backend().put(BUCKET, "k", old.clone()).expect("put");
    let url = lab.presigned(&Method::GET, &format!("{BUCKET}/k"), &[]);
    let mut response = soon(lab.http.get(url).send()).await.expect("an answer");
    let first = soon(response.chunk()).await.expect("a chunk").expect("bytes");
    lab.server.backend().put(BUCKET, "k", new.clone()).expect("put");
    let mut read = first.to_vec();
    while let Some(chunk) = soon(response.chunk()).await.expect("a chunk") {
        read.extend_from_slice(&chunk);
    }
    assert!(read == old, "the reader got {} bytes, not all of the old version", read.len());
    assert!(lab.minio_get("k").await.expect("get") == new);
}

#[tokio::test]
async fn headers_come_back_and_absent_things_are_named() {
    let lab = Lab::new().await;
    let headers = [
        ("content-type", "application/x-state"),
        ("cache-control", "no-store"),
        ("content-disposition", "attachment"),
        ("content-language", "de"),
        ("x-amz-meta-Job-Id", "42"),
    ];
    lab.put("k", "v", &headers).await;
    for method in [Method::GET, Method::HEAD] {
        let read = lab.send(method, &format!("{BUCKET}/k"), &[], &[], "").await;
        for (name, value) in headers {
            assert_eq!(read.header(name), value, "{name}");
        }
        assert_eq!((read.header("content-length"), read.header("accept-ranges")), ("1", "bytes"));
        assert_eq!(read.header("x-amz-request-id").len(), 16);
    }
    let overridden = [("response-content-type", "text/html")];
    let read = lab.send(Method::GET, &format!("{BUCKET}/k"), &overridden, &[], "").await;
    assert_eq!(read.header("content-type"), "text/html");
    assert_eq!(lab.get(&format!("{BUCKET}/absent")).await.refusal(), "404 NoSuchKey");
    assert_eq!(lab.get("no-such-bucket/k").await.refusal(), "404 NoSuchBucket");
    assert_eq!(lab.send(Method::HEAD, &format!("{BUCKET}/absent"), &[], &[], "").await.status, 404);
    assert_eq!(
        lab.send(Method::GET, &format!("{BUCKET}/k"), &[("tagging", "")], &[], "").await.refusal(),
        "501 NotImplemented"
    );
    let version = async |id| lab.send(Method::GET, &format!("{BUCKET}/k"), &[("versionId", id)], &[], "").await;
    assert_eq!(version("null").await.text(), "v");
    assert_eq!(version("xyz").await.refusal(), "400 InvalidArgument");
}
