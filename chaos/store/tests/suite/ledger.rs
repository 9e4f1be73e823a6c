//! The ledger sees everything, also what is refused and what hangs.

use minio::s3::types::S3Api as _;
use reqwest::Method;
use stormproof_store::{Effect, LedgerEvent, Limits, Operation, Outcome, Rule};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{BUCKET, Lab, code, minio_client, presign, soon};

#[tokio::test]
async fn a_request_is_visible_while_it_hangs() {
    let lab = Lab::new().await;
    let ledger = lab.server.ledger();
    let mut events = ledger.subscribe();
    let mut upload = lab.begin_put("chk-7/_metadata", "", 10, b"12345").await;
    let started = soon(events.recv()).await.expect("an event");
    assert!(matches!(&started, LedgerEvent::Started(entry) if entry.is(Operation::PutObject, "/_metadata")));
    let entry = ledger.entries_since(0).remove(0);
    assert_eq!((entry.seq, entry.outcome, entry.status, entry.duration_us), (1, Outcome::InFlight, None, None));
    assert_eq!((entry.bucket.as_deref(), ledger.in_flight()), (Some(BUCKET), 1));
    assert!(entry.started_ms > 1_700_000_000_000, "{entry:?}");

    upload.write_all(b"67890").await.expect("the rest");
    let mut answer = [0; 12];
    soon(upload.read_exact(&mut answer)).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200");
    let ended = soon(events.recv()).await.expect("an event");
    let entry = ledger.entries_since(0).remove(0);
    assert_eq!(ended, LedgerEvent::Ended(entry.clone()));
    assert_eq!((entry.outcome, entry.status, entry.request_bytes), (Outcome::Answered, Some(200), 10));
    assert!(entry.duration_us.is_some() && ledger.in_flight() == 0);
}

/// An ended entry is there as soon as the client has its answer: tests can ask without waiting.
#[tokio::test]
async fn an_answer_is_in_the_ledger_when_the_client_has_it() {
    let lab = Lab::new().await;
    let ledger = lab.server.ledger();
    lab.server.backend().put(BUCKET, "big", vec![7; 1 << 20]).expect("put");
    for (method, path, status, bytes) in [
        (Method::GET, format!("{BUCKET}/big"), 200, 1 << 20),
        (Method::HEAD, format!("{BUCKET}/big"), 200, 0),
        (Method::GET, format!("{BUCKET}/absent"), 404, 0),
        (Method::HEAD, format!("{BUCKET}/absent"), 404, 0),
        (Method::PUT, format!("{BUCKET}/empty"), 200, 0),
        (Method::DELETE, format!("{BUCKET}/big"), 204, 0),
    ] {
        let answer = lab.send(method.clone(), &path, &[], &[], "").await;
        let entry = ledger.entries_since(0).pop().expect("an entry");
        assert_eq!((entry.outcome, entry.status), (Outcome::Answered, Some(status)), "{method} {path}");
        assert_eq!(entry.response_bytes, answer.body.len() as u64, "{method} {path}");
        assert!(bytes == 0 || entry.response_bytes == bytes, "{entry:?}");
        assert_eq!(answer.header("x-amz-request-id"), format!("{:016X}", entry.seq));
    }
    assert_eq!(ledger.count(|entry| entry.operation == Operation::HeadObject), 2);
}

#[tokio::test]
async fn refused_requests_are_recorded() {
    let lab = Lab::new().await;
    let ledger = lab.server.ledger();
    let stranger = minio_client(&lab.server.endpoint(), "another-secret");
    let read = stranger.get_object(BUCKET, "k").expect("names").build();
    let error = read.send().await.err().expect("a wrong secret is refused");
    assert!(code(&error).contains("signaturedoesnotmatch"), "{error}");
    let wrong = presign(&lab.server.endpoint(), "another-secret", &Method::GET, &format!("{BUCKET}/k"), &[]);
    assert_eq!(lab.http.get(wrong).send().await.expect("an answer").status(), 403);
    let unsigned = format!("{}/{BUCKET}/k", lab.server.endpoint());
    assert_eq!(lab.http.get(unsigned).send().await.expect("an answer").status(), 403);
    let seen: Vec<_> = ledger.entries_since(0).into_iter().map(|e| (e.operation, e.status, e.outcome)).collect();
    assert_eq!(seen, [(Operation::GetObject, Some(403), Outcome::Answered); 3]);
}

#[tokio::test]
async fn a_client_that_leaves_is_recorded() {
    let lab = Lab::new().await;
    let ledger = lab.server.ledger();
    lab.server.backend().put(BUCKET, "big", vec![7; 16 << 20]).expect("put");
    let url = lab.presigned(&Method::GET, &format!("{BUCKET}/big"), &[]);
    let mut response = soon(lab.http.get(url).send()).await.expect("an answer");
    soon(response.chunk()).await.expect("a chunk").expect("bytes");
    drop(response);
    let entry = soon(ledger.wait_for(0, |entry| !entry.in_flight())).await;
    assert_eq!((entry.outcome, entry.status), (Outcome::ClientCut, Some(200)));
    assert!(entry.response_bytes < 16 << 20, "{entry:?}");
}

/// The trigger of a chaos run: when somebody reads `_metadata`, and before they get an answer.
#[tokio::test]
async fn a_harness_acts_on_a_read_of_metadata() {
    let lab = Lab::new().await;
    let ledger = lab.server.ledger();
    lab.server.backend().put(BUCKET, "chk-1/_metadata", "state").expect("put");
    let hold = Rule::new("hold", Effect::StallRequest { ms: 600_000 });
    lab.server.rules().add(hold.on(Operation::GetObject).key("*/_metadata")).expect("a rule");
    let reader = async { lab.get(&format!("{BUCKET}/chk-1/_metadata")).await };
    let harness = async {
        let seen = ledger.wait_for(0, |entry| entry.is(Operation::GetObject, "_metadata")).await;
        assert!(seen.in_flight());
        assert!(lab.server.rules().remove("hold"), "healing lets the request go on");
    };
    let (answer, ()) = soon(futures::future::join(reader, harness)).await;
    assert_eq!(answer.text(), "state");
    assert_eq!(ledger.entries_since(0)[0].rule.as_deref(), Some("hold"));
}

#[tokio::test]
async fn the_ledger_is_bounded() {
    let lab = Lab::with(Limits { ledger_entries: 5, ..Limits::default() }).await;
    for _ in 0..8 {
        lab.get(&format!("{BUCKET}/k")).await;
    }
    let ledger = lab.server.ledger();
    assert_eq!((ledger.entries_since(0).len(), ledger.dropped(), ledger.last_seq()), (5, 3, 8));
    assert_eq!(ledger.entries_since(6).len(), 2);
}
