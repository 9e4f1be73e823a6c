//! Listings and buckets.

use reqwest::Method;
use stormproof_store::Operation;

use crate::support::{Answer, BUCKET, Lab};

async fn list(lab: &Lab, query: &[(&str, &str)]) -> Answer {
    let answer = lab.send(Method::GET, BUCKET, query, &[], "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// The SDK sends `delimiter=` for a recursive listing: an empty delimiter is none.
#[tokio::test]
async fn the_sdk_lists_everything_page_by_page() {
    let lab = Lab::new().await;
    let keys: Vec<String> = (0..2_345).map(|i| format!("dir-{}/part {i:04}", i % 3)).collect();
    for key in &keys {
        lab.server.backend().put(BUCKET, key, "v").expect("put");
    }
    let mut sorted = keys.clone();
    sorted.sort();
    for v1 in [false, true] {
        let before = lab.server.ledger().last_seq();
        assert_eq!(lab.minio_list("", true, v1).await, sorted);
        let operation = if v1 { Operation::ListObjects } else { Operation::ListObjectsV2 };
        let pages = lab.server.ledger().count(|entry| entry.seq > before && entry.operation == operation);
        assert_eq!(pages, 3, "2345 keys in pages of 1000");
        assert_eq!(lab.minio_list("", false, v1).await, ["dir-0/", "dir-1/", "dir-2/"]);
        assert_eq!(lab.minio_list("dir-1/part 000", true, v1).await.len(), 3);
    }
}

#[tokio::test]
async fn pages_are_cut_and_continued_with_delimiters() {
    let lab = Lab::new().await;
    for key in ["a", "a/1", "a/2", "b/1", "c"] {
        lab.server.backend().put(BUCKET, key, "hello").expect("put");
    }
    let (mut names, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let mut query = vec![("list-type", "2"), ("delimiter", "/"), ("max-keys", "1")];
        if !token.is_empty() {
            query.push(("continuation-token", &token));
        }
        let page = list(&lab, &query).await;
        pages += 1;
        assert_eq!(page.one("KeyCount"), "1");
        names.extend(page.all("Key"));
        names.extend(page.all("Prefix").into_iter().filter(|prefix| !prefix.is_empty()));
        if page.one("IsTruncated") == "false" {
            break;
        }
        token = page.one("NextContinuationToken");
        assert!(!token.is_empty() && pages < 9);
    }
    assert_eq!(names, ["a", "a/", "b/", "c"]);

    let after = list(&lab, &[("list-type", "2"), ("start-after", "a/1")]).await;
    assert_eq!(after.all("Key"), ["a/2", "b/1", "c"]);
    assert_eq!(after.one("ETag").replace("&quot;", "\""), "\"5d41402abc4b2a76b9719d911017c592\"");
    assert_eq!(after.one("Size"), "5");
    let none = list(&lab, &[("list-type", "2"), ("max-keys", "0")]).await;
    assert_eq!((none.all("Key").len(), none.one("IsTruncated").as_str()), (0, "false"));
    let marker = list(&lab, &[("marker", "a/"), ("delimiter", "/")]).await;
    assert_eq!(
        (marker.all("Key"), marker.one("CommonPrefixes")),
        (vec!["c".to_owned()], "<Prefix>b/</Prefix>".to_owned())
    );
    let bad = lab.send(Method::GET, BUCKET, &[("list-type", "2"), ("continuation-token", "zz")], &[], "").await;
    assert_eq!(bad.refusal(), "400 InvalidArgument");
}

#[tokio::test]
async fn keys_are_encoded_on_request() {
    let lab = Lab::new().await;
    lab.server.backend().put(BUCKET, "a b/ü+<", "v").expect("put");
    let plain = list(&lab, &[("list-type", "2")]).await;
    assert_eq!(plain.all("Key"), ["a b/ü+&lt;"]);
    let encoded = list(&lab, &[("list-type", "2"), ("encoding-type", "url"), ("prefix", "a b/")]).await;
    assert_eq!(
        (encoded.all("Key"), encoded.one("EncodingType").as_str()),
        (vec!["a%20b/%C3%BC%2B%3C".to_owned()], "url")
    );
    assert_eq!(encoded.one("Prefix"), "a%20b/");
}

#[tokio::test]
async fn buckets_are_created_listed_and_deleted_when_empty() {
    let lab = Lab::new().await;
    let bucket = |method: Method, name: &'static str| {
        let lab = &lab;
        async move { lab.send(method, name, &[], &[], "").await }
    };
    assert_eq!(bucket(Method::PUT, "another").await.status, 200);
    assert_eq!(bucket(Method::PUT, "another").await.refusal(), "409 BucketAlreadyOwnedByYou");
    assert_eq!(bucket(Method::PUT, "No_Bucket").await.refusal(), "400 InvalidBucketName");
    assert_eq!(bucket(Method::HEAD, "another").await.status, 200);
    assert_eq!(bucket(Method::HEAD, "absent").await.status, 404);
    assert_eq!(bucket(Method::GET, "").await.all("Name"), ["another", BUCKET]);
    let location = lab.send(Method::GET, BUCKET, &[("location", "")], &[], "").await;
    assert!(location.status == 200 && location.text().contains("LocationConstraint"), "{}", location.text());
    let versioning = lab.send(Method::GET, BUCKET, &[("versioning", "")], &[], "").await;
    assert_eq!((versioning.status.as_u16(), versioning.one("Status").as_str()), (200, ""), "{}", versioning.text());
    assert_eq!(lab.send(Method::GET, "absent", &[("versioning", "")], &[], "").await.refusal(), "404 NoSuchBucket");
    lab.server.backend().put("another", "k", "v").expect("put");
    assert_eq!(bucket(Method::DELETE, "another").await.refusal(), "409 BucketNotEmpty");
    lab.server.backend().delete("another", "k").expect("delete");
    assert_eq!(bucket(Method::DELETE, "another").await.status, 204);
    assert_eq!(bucket(Method::GET, "another").await.refusal(), "404 NoSuchBucket");
}
