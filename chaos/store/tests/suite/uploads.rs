//! Multipart uploads.

use bytes::Bytes;
use reqwest::Method;
use stormproof_store::{Limits, Operation};

use crate::support::{Answer, BUCKET, Lab};

async fn small_parts() -> Lab {
    Lab::with(Limits { min_part_bytes: 3, ..Limits::default() }).await
}

async fn create(lab: &Lab, key: &str) -> String {
    let created = lab.send(Method::POST, &format!("{BUCKET}/{key}"), &[("uploads", "")], &[], "").await;
    created.one("UploadId")
}

async fn part(lab: &Lab, key: &str, upload: &str, number: &str, body: &'static str) -> String {
    let query = [("partNumber", number), ("uploadId", upload)];
    let answer = lab.send(Method::PUT, &format!("{BUCKET}/{key}"), &query, &[], body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("etag").to_owned()
}

async fn complete(lab: &Lab, key: &str, upload: &str, parts: &[(&str, &str)], headers: &[(&str, &str)]) -> Answer {
    let listed: String = parts
        .iter()
        .map(|(number, etag)| format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"))
        .collect();
    let xml = format!("<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>");
    lab.send(Method::POST, &format!("{BUCKET}/{key}"), &[("uploadId", upload)], headers, xml).await
}

#[tokio::test]
async fn parts_become_an_object_with_the_etag_of_s3() {
    let lab = small_parts().await;
    let upload = create(&lab, "m").await;
    let second = part(&lab, "m", &upload, "2", "world").await;
    let first = part(&lab, "m", &upload, "1", "hello").await;
    let list = lab.send(Method::GET, &format!("{BUCKET}/m"), &[("uploadId", &upload)], &[], "").await;
    assert_eq!(
        (list.all("PartNumber"), list.all("Size")),
        (["1", "2"].map(str::to_owned).to_vec(), vec!["5".to_owned(); 2])
    );
    let done = complete(&lab, "m", &upload, &[("1", &first), ("2", &second)], &[]).await;
    // md5(md5("hello") ++ md5("world")), computed elsewhere.
    let etag = "\"065947336a2f2a95ba8899f3675c3be6-2\"";
    assert_eq!(done.one("ETag").replace("&quot;", "\""), etag, "{}", done.text());
    let read = lab.get(&format!("{BUCKET}/m")).await;
    assert_eq!((read.text().as_str(), read.header("etag")), ("helloworld", etag));
    let of_part = lab.send(Method::GET, &format!("{BUCKET}/m"), &[("partNumber", "2")], &[], "").await;
    assert_eq!((of_part.text().as_str(), of_part.header("x-amz-mp-parts-count")), ("world", "2"));
    assert_eq!(of_part.header("content-range"), "bytes 5-9/10");
    // A client that lost the answer gets it again; one that wants something else does not.
    let again = complete(&lab, "m", &upload, &[("1", &first), ("2", &second)], &[("If-None-Match", "*")]).await;
    assert_eq!((again.status.as_u16(), again.one("ETag").replace("&quot;", "\"").as_str()), (200, etag));
    assert_eq!(complete(&lab, "m", &upload, &[("1", &first)], &[]).await.refusal(), "404 NoSuchUpload");
}

#[tokio::test]
async fn completions_are_checked_and_conditional() {
    let lab = small_parts().await;
    let upload = create(&lab, "m").await;
    let first = part(&lab, "m", &upload, "1", "hello").await;
    let small = part(&lab, "m", &upload, "2", "no").await;
    let third = part(&lab, "m", &upload, "3", "x").await;
    let try_it = |parts: Vec<(&'static str, String)>, headers: &'static [(&'static str, &'static str)]| {
        let (lab, upload) = (&lab, &upload);
        async move {
            let parts: Vec<(&str, &str)> = parts.iter().map(|(number, etag)| (*number, &**etag)).collect();
            complete(lab, "m", upload, &parts, headers).await.refusal()
        }
    };
    let (one, two, three) = (("1", first.clone()), ("2", small), ("3", third.clone()));
    assert_eq!(try_it(vec![two.clone(), one.clone()], &[]).await, "400 InvalidPartOrder");
    assert_eq!(try_it(vec![("1", "\"0\"".to_owned())], &[]).await, "400 InvalidPart");
    assert_eq!(try_it(vec![one.clone(), ("7", first)], &[]).await, "400 InvalidPart");
    assert_eq!(try_it(vec![one.clone(), two.clone(), three.clone()], &[]).await, "400 EntityTooSmall");
    assert_eq!(try_it(vec![one.clone(), two, ("7", third)], &[]).await, "400 InvalidPart", "also behind a small one");
    assert_eq!(try_it(vec![one.clone()], &[("x-amz-mp-object-size", "6")]).await, "400 InvalidRequest");
    assert_eq!(try_it(vec![one.clone()], &[("x-amz-checksum-crc32", "zz")]).await, "400 InvalidRequest");
    assert_eq!(try_it(vec![], &[]).await, "400 MalformedXML");
    assert_eq!(try_it(vec![one.clone()], &[("If-Match", "\"0\"")]).await, "404 NoSuchKey");
    lab.server.backend().put(BUCKET, "m", "somebody was faster").expect("put");
    assert_eq!(try_it(vec![one.clone()], &[("If-None-Match", "*")]).await, "412 PreconditionFailed");
    assert_eq!(lab.server.backend().open_uploads(BUCKET).expect("uploads").len(), 1, "it can be tried again");
    lab.server.backend().delete(BUCKET, "m").expect("delete");
    assert_eq!(try_it(vec![one, three], &[("If-None-Match", "*"), ("x-amz-mp-object-size", "6")]).await, "200 ");
    assert_eq!(lab.server.backend().get(BUCKET, "m").expect("get"), "hellox");
}

#[tokio::test]
async fn an_upload_nobody_finishes_is_a_leftover() {
    let lab = small_parts().await;
    let upload = create(&lab, "orphan").await;
    part(&lab, "orphan", &upload, "1", "12345").await;
    let other = create(&lab, "dir/other").await;
    let left = lab.server.backend().leftovers();
    let of: Vec<_> = left.uploads.iter().map(|u| (u.key.as_str(), u.parts, u.part_bytes)).collect();
    assert_eq!(of, [("dir/other", 0, 0), ("orphan", 1, 5)]);
    assert_eq!((left.objects[BUCKET].len(), left.total_bytes), (0, 5));
    let list = |query: Vec<(&'static str, &'static str)>| {
        let lab = &lab;
        async move { lab.send(Method::GET, BUCKET, &[&[("uploads", "")][..], &query].concat(), &[], "").await }
    };
    assert_eq!(list(vec![]).await.all("Key"), ["dir/other", "orphan"]);
    let grouped = list(vec![("delimiter", "/")]).await;
    assert_eq!(
        (grouped.all("Key"), grouped.one("CommonPrefixes")),
        (vec!["orphan".to_owned()], "<Prefix>dir/</Prefix>".to_owned())
    );
    let page = list(vec![("max-uploads", "1")]).await;
    assert_eq!((page.one("IsTruncated").as_str(), page.one("NextKeyMarker").as_str()), ("true", "dir/other"));
    assert_eq!(page.one("NextUploadIdMarker"), other);
    assert_eq!(list(vec![("key-marker", "dir/other")]).await.all("Key"), ["orphan"]);
    for (key, upload) in [("orphan", &upload), ("dir/other", &other)] {
        let aborted = lab.send(Method::DELETE, &format!("{BUCKET}/{key}"), &[("uploadId", upload)], &[], "").await;
        assert_eq!(aborted.status, 204);
    }
    assert_eq!(lab.server.backend().leftovers().uploads, []);
    assert_eq!(lab.server.backend().total_bytes(), 0);
    let gone = lab
        .send(Method::PUT, &format!("{BUCKET}/orphan"), &[("partNumber", "1"), ("uploadId", &upload)], &[], "x")
        .await;
    assert_eq!(gone.refusal(), "404 NoSuchUpload");
}

#[tokio::test]
async fn parts_are_copied_from_ranges_of_objects() {
    let lab = small_parts().await;
    lab.server.backend().put(BUCKET, "from", "0123456789").expect("put");
    let upload = create(&lab, "m").await;
    let copy = |number: &'static str, range: &'static str| {
        let (lab, upload, source) = (&lab, &upload, format!("{BUCKET}/from"));
        async move {
            let query = [("partNumber", number), ("uploadId", &**upload)];
            let headers = [("x-amz-copy-source", &*source), ("x-amz-copy-source-range", range)];
            lab.send(Method::PUT, &format!("{BUCKET}/m"), &query, &headers, "").await
        }
    };
    let first = copy("1", "bytes=5-9").await.one("ETag");
    let second = copy("2", "bytes=0-1").await.one("ETag");
    assert_eq!(copy("3", "bytes=5-10").await.refusal(), "416 InvalidRange");
    assert_eq!(copy("3", "bytes=5-").await.refusal(), "416 InvalidRange");
    assert_eq!(complete(&lab, "m", &upload, &[("1", &first), ("2", &second)], &[]).await.status, 200);
    assert_eq!(lab.server.backend().get(BUCKET, "m").expect("get"), "5678901");
    let copies = lab.server.ledger().count(|entry| entry.operation == Operation::UploadPartCopy);
    assert_eq!(copies, 4);
}

#[tokio::test]
async fn the_checksum_of_the_whole_is_checked_and_kept() {
    let lab = small_parts().await;
    let whole = ("x-amz-checksum-crc32", "+esgrQ==");
    for kind in ["FULL_OBJECT", "COMPOSITE"] {
        let headers = [("x-amz-checksum-algorithm", "CRC32"), ("x-amz-checksum-type", kind)];
        let created = lab.send(Method::POST, &format!("{BUCKET}/{kind}"), &[("uploads", "")], &headers, "").await;
        let upload = created.one("UploadId");
        let mut parts = Vec::new();
        for (number, body, crc) in [("1", "hello", "NhCmhg=="), ("2", "world", "OncRQw==")] {
            let query = [("partNumber", number), ("uploadId", &*upload)];
            let headers = [("x-amz-checksum-crc32", crc)];
            let answer = lab.send(Method::PUT, &format!("{BUCKET}/{kind}"), &query, &headers, body).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            parts.push((number, answer.header("etag").to_owned()));
        }
        let parts: Vec<(&str, &str)> = parts.iter().map(|(number, etag)| (*number, &**etag)).collect();
        let wrong = complete(&lab, kind, &upload, &parts, &[("x-amz-checksum-crc32", "AAAAAA==")]).await;
        assert_eq!(wrong.refusal(), "400 BadDigest");
        let given: &[_] = if kind == "FULL_OBJECT" { &[whole] } else { &[] };
        assert_eq!(complete(&lab, kind, &upload, &parts, given).await.status, 200);
        let asked = [("x-amz-checksum-mode", "ENABLED")];
        let read = lab.send(Method::GET, &format!("{BUCKET}/{kind}"), &[], &asked, "").await;
        let expected = if kind == "FULL_OBJECT" { whole.1 } else { "wpn7tg==-2" };
        assert_eq!((read.header("x-amz-checksum-crc32"), read.header("x-amz-checksum-type")), (expected, kind));
    }
}

/// The SDK's own multipart upload, with S3's real least part size.
#[tokio::test]
async fn the_sdk_uploads_in_parts() {
    let lab = Lab::new().await;
    let bytes: Bytes = (0..11_u32 << 20).map(|i| (i >> 8) as u8).collect::<Vec<u8>>().into();
    let put = lab.minio.put_object_content(BUCKET, "big", bytes.clone()).expect("names");
    put.part_size(5_u64 << 20).build().send().await.expect("an upload");
    assert!(lab.minio_get("big").await.expect("get") == bytes);
    let info = lab.server.backend().list_objects(BUCKET, "").expect("list").remove(0);
    assert!(info.etag.ends_with("-3") && info.size_bytes == 11 << 20, "{info:?}");
    assert_eq!(lab.server.backend().leftovers().uploads, []);
}
