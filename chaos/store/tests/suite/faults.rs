//! Rule faults, each seen from the client's side.

use std::time::{Duration, Instant};

use reqwest::Method;
use stormproof_store::{Effect, Nth, Operation, Outcome, Rule, RuleCount, RuleSet};

use crate::support::{BUCKET, Lab, code, soon};

/// A lab whose `GetObject` answers (of `k`, 1000 bytes) have a fault.
async fn faulty(effect: Effect) -> Lab {
    let lab = Lab::new().await;
    lab.server.backend().put(BUCKET, "k", vec![7; 1_000]).expect("put");
    lab.server.rules().add(Rule::new("fault", effect).on(Operation::GetObject)).expect("a rule");
    lab
}

fn outcome(lab: &Lab) -> (Outcome, Option<u16>, u64) {
    let entry = lab.server.ledger().entries_since(0).pop().expect("an entry");
    assert_eq!(entry.rule.as_deref(), Some("fault"));
    (entry.outcome, entry.status, entry.response_bytes)
}

#[tokio::test]
async fn slow_down_and_internal_error_do_nothing() {
    let lab = Lab::new().await;
    let rules = lab.server.rules();
    rules.add(Rule::new("busy", Effect::SlowDown { retry_after_seconds: 3 }).nth(Nth::first(1))).expect("a rule");
    rules.add(Rule::new("broken", Effect::InternalError).nth(Nth::first(2))).expect("a rule");
    // More than the sockets hold: the refusal must still arrive.
    let busy = lab.put("k", vec![1; 20 << 20], &[]).await;
    assert_eq!((busy.refusal().as_str(), busy.header("retry-after")), ("503 SlowDown", "3"));
    let error = lab.minio_put("k", "v".into(), &[]).await.expect_err("a fault");
    assert!(code(&error).contains("internalerror"), "{error}");
    assert_eq!(lab.put("k", "v", &[]).await.refusal(), "500 InternalError");
    assert!(lab.server.backend().get(BUCKET, "k").is_err());
    assert_eq!(lab.put("k", "v", &[]).await.status, 200, "both rules are used up");
    let counts = rules.counts();
    assert_eq!(counts["busy"], RuleCount { matched: 4, acted: 1 });
    // The first of two rules acts; the other one counts the match all the same.
    assert_eq!(counts["broken"], RuleCount { matched: 4, acted: 2 });
}

/// The fault that finds retries which are not idempotent.
#[tokio::test]
async fn an_error_after_success_has_written() {
    let lab = Lab::new().await;
    let rule = Rule::new("lost", Effect::ErrorAfterSuccess).on(Operation::PutObject).nth(Nth::only(1));
    lab.server.rules().add(rule).expect("a rule");
    let create_only = [("If-None-Match", "*")];
    assert_eq!(lab.put("lock", "mine", &create_only).await.refusal(), "500 InternalError");
    assert_eq!(lab.server.backend().get(BUCKET, "lock").expect("get"), "mine");
    assert_eq!(lab.put("lock", "mine", &create_only).await.refusal(), "412 PreconditionFailed", "a blind retry loses");
}

#[tokio::test]
async fn resets_before_and_after_the_write() {
    let lab = Lab::new().await;
    let rules = lab.server.rules();
    for (effect, written) in [(Effect::ResetBefore, false), (Effect::ResetAfter, true)] {
        rules.add(Rule::new("fault", effect).on(Operation::PutObject).nth(Nth::only(1))).expect("a rule");
        let key = format!("k-{written}");
        let error = lab.try_send(Method::PUT, &format!("{BUCKET}/{key}"), &[], &[], "v").await;
        let error = error.expect_err("a reset");
        let text = format!("{error:?}");
        assert!(text.contains("ConnectionReset"), "{text}");
        let ledger = lab.server.ledger();
        soon(ledger.wait_for(ledger.last_seq() - 1, |entry| !entry.in_flight())).await;
        assert_eq!(outcome(&lab), (Outcome::ServerCut, None, 0));
        assert_eq!(lab.server.backend().get(BUCKET, &key).is_ok(), written);
        assert!(rules.remove("fault"));
    }
    assert_eq!(lab.put("k", "v", &[]).await.status, 200, "a new connection works");
}

#[tokio::test]
async fn a_truncated_body_has_the_right_length_header() {
    let lab = faulty(Effect::TruncateBody { at_bytes: 400 }).await;
    let url = lab.presigned(&Method::GET, &format!("{BUCKET}/k"), &[]);
    let mut response = soon(lab.http.get(url).send()).await.expect("an answer");
    assert_eq!(response.content_length(), Some(1_000));
    let (mut read, mut broken) = (0, false);
    while !broken {
        match soon(response.chunk()).await {
            Ok(Some(chunk)) => read += chunk.len(),
            Ok(None) => break,
            Err(_) => broken = true,
        }
    }
    assert_eq!((read, broken), (400, true));
    assert_eq!(outcome(&lab), (Outcome::ServerCut, Some(200), 400));
}

#[tokio::test]
async fn a_body_is_reset_in_the_middle() {
    let lab = faulty(Effect::ResetBody { at_bytes: 400 }).await;
    let error = lab.try_send(Method::GET, &format!("{BUCKET}/k"), &[], &[], "").await.expect_err("a reset");
    assert!(error.is_body() || error.is_decode() || error.is_request(), "{error:?}");
    let ledger = lab.server.ledger();
    soon(ledger.wait_for(0, |entry| !entry.in_flight())).await;
    assert_eq!(outcome(&lab), (Outcome::ServerCut, Some(200), 400));
}

/// The client stays in the middle of a body until the rule is taken away, and then gets the rest.
#[tokio::test]
async fn a_body_stalls_at_the_byte_until_it_is_healed() {
    let lab = faulty(Effect::StallBody { at_bytes: 400, ms: 600_000 }).await;
    let url = lab.presigned(&Method::GET, &format!("{BUCKET}/k"), &[]);
    let mut response = soon(lab.http.get(url).send()).await.expect("an answer");
    let mut read = 0;
    while read < 400 {
        read += soon(response.chunk()).await.expect("a chunk").expect("bytes").len();
    }
    let more = tokio::time::timeout(Duration::from_millis(200), response.chunk()).await;
    assert!(read == 400 && more.is_err(), "{read} bytes, then {more:?}");
    assert_eq!(lab.server.ledger().in_flight(), 1);
    lab.server.rules().clear();
    while let Some(chunk) = soon(response.chunk()).await.expect("a chunk") {
        read += chunk.len();
    }
    assert_eq!(read, 1_000);
    assert_eq!(outcome(&lab), (Outcome::Answered, Some(200), 1_000));
    assert_eq!(lab.server.rules().counts()["fault"], RuleCount { matched: 1, acted: 1 }, "kept after the healing");
}

#[tokio::test]
async fn late_headers_are_late_and_have_written() {
    let lab = Lab::new().await;
    let rule = Rule::new("fault", Effect::StallHeaders { ms: 600_000 }).on(Operation::PutObject);
    lab.server.rules().add(rule).expect("a rule");
    let (lab, ledger) = (&lab, lab.server.ledger());
    let put = async { lab.put("k", "v", &[]).await };
    let harness = async {
        // Held after the write: it becomes visible although there is no answer.
        while lab.server.backend().get(BUCKET, "k").is_err() {
            tokio::task::yield_now().await;
        }
        assert_eq!(ledger.entries_since(0)[0].status, None);
        lab.server.rules().clear();
    };
    let (answer, ()) = soon(futures::future::join(put, harness)).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_stall_ends_by_itself() {
    let lab = faulty(Effect::StallRequest { ms: 150 }).await;
    let begun = Instant::now();
    assert_eq!(lab.get(&format!("{BUCKET}/k")).await.status, 200);
    assert!(begun.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn a_trickle_is_slow_and_whole() {
    let lab = faulty(Effect::Trickle { bytes_per_second: 4_000 }).await;
    let begun = Instant::now();
    let read = lab.get(&format!("{BUCKET}/k")).await;
    assert_eq!(read.body.len(), 1_000);
    // 250 ms at the rate; timers may be coarse, but never early by more than a millisecond a step.
    assert!(begun.elapsed() >= Duration::from_millis(240), "{:?}", begun.elapsed());
    assert_eq!(outcome(&lab), (Outcome::Answered, Some(200), 1_000));
}

#[tokio::test]
async fn a_stale_list_shows_the_past() {
    let lab = Lab::new().await;
    let backend = lab.server.backend();
    for key in ["a", "b", "c"] {
        backend.put(BUCKET, key, "v").expect("put");
    }
    backend.delete(BUCKET, "a").expect("delete");
    let rule = Rule::new("stale", Effect::StaleList { changes_ago: 2 }).nth(Nth::only(1));
    lab.server.rules().add(rule.on(Operation::ListObjectsV2)).expect("a rule");
    assert_eq!(lab.minio_list("", true, false).await, ["a", "b"]);
    assert_eq!(lab.minio_list("", true, false).await, ["b", "c"]);
    assert_eq!(lab.get(&format!("{BUCKET}/c")).await.text(), "v", "reads are not stale");
}

/// What nobody could notice is no effect: a run that rests on it is vacuous.
#[tokio::test]
async fn a_fault_that_changes_nothing_does_not_count() {
    let lab = Lab::new().await;
    let (backend, rules) = (lab.server.backend(), lab.server.rules());
    for (key, bytes) in [("k", 100), ("empty", 0), ("other/k", 1)] {
        backend.put(BUCKET, key, vec![7; bytes]).expect("put");
    }
    let object = |key: &str| format!("{BUCKET}/{key}");
    for (effect, method, path, status) in [
        (Effect::TruncateBody { at_bytes: 5_000 }, Method::GET, object("k"), 200),
        (Effect::TruncateBody { at_bytes: 100 }, Method::GET, object("k"), 200),
        (Effect::TruncateBody { at_bytes: 1 }, Method::HEAD, object("k"), 200),
        (Effect::TruncateBody { at_bytes: 1 }, Method::PUT, object("new"), 200),
        (Effect::StallBody { at_bytes: 100, ms: 600_000 }, Method::GET, object("k"), 200),
        (Effect::ResetBody { at_bytes: 100 }, Method::GET, object("k"), 200),
        (Effect::Trickle { bytes_per_second: 1 }, Method::GET, object("empty"), 200),
        (Effect::ErrorAfterSuccess, Method::GET, object("absent"), 404),
        (Effect::StaleList { changes_ago: 3 }, Method::GET, object("k"), 200),
    ] {
        rules.set(RuleSet::of([Rule::new("idle", effect.clone())])).expect("a rule");
        let answer = lab.send(method, &path, &[], &[], "").await;
        assert_eq!(answer.status, status, "{effect:?}");
        assert_eq!(rules.counts()["idle"], RuleCount { matched: 1, acted: 0 }, "{effect:?}");
        assert_eq!(lab.server.ledger().entries_since(0).pop().and_then(|entry| entry.rule), None, "{effect:?}");
    }
    // The bucket's last change was to another key; the one before it is what this listing shows.
    for (changes_ago, acted) in [(1, 0), (2, 1)] {
        backend.put(BUCKET, "listed/k", "v").expect("put");
        backend.put(BUCKET, "other/k", "v").expect("put");
        rules.set(RuleSet::of([Rule::new("stale", Effect::StaleList { changes_ago })])).expect("a rule");
        lab.send(Method::GET, BUCKET, &[("prefix", "listed/")], &[], "").await;
        assert_eq!(rules.counts()["stale"], RuleCount { matched: 1, acted }, "{changes_ago}");
    }
}

/// A body in flight is left alone by a rule that is gone before its byte is reached.
#[tokio::test]
async fn a_removed_rule_does_not_cut_a_body_in_flight() {
    let lab = Lab::new().await;
    // Far more than the sockets hold: the byte is not reached before the client reads on.
    let bytes = 64 << 20;
    lab.server.backend().put(BUCKET, "k", vec![7; bytes]).expect("put");
    let cut = Rule::new("fault", Effect::TruncateBody { at_bytes: bytes as u64 - 1 });
    lab.server.rules().add(cut.on(Operation::GetObject)).expect("a rule");
    let url = lab.presigned(&Method::GET, &format!("{BUCKET}/k"), &[]);
    let response = soon(lab.http.get(url).send()).await.expect("an answer");
    lab.server.rules().clear();
    assert_eq!(soon(response.bytes()).await.expect("all of it").len(), bytes);
    assert_eq!(lab.server.rules().counts()["fault"], RuleCount { matched: 1, acted: 0 });
}

#[tokio::test]
async fn the_same_seed_hits_the_same_requests() {
    let half = RuleSet {
        seed: 11,
        rules: vec![Rule::new("half", Effect::InternalError).key("*").nth(Nth { percent: 50, ..Nth::default() })],
    };
    let mut runs = Vec::new();
    for _ in 0..2 {
        let lab = Lab::new().await;
        lab.server.rules().set(half.clone()).expect("rules");
        let mut statuses = Vec::new();
        for _ in 0..30 {
            statuses.push(lab.get(&format!("{BUCKET}/k")).await.status.as_u16());
        }
        runs.push(statuses);
    }
    assert_eq!(runs[0], runs[1]);
    assert!(runs[0].contains(&500) && runs[0].contains(&404), "{:?}", runs[0]);
}
