//! `run` on real parts. The suite is the one that needs most of them: it breaks the way to the store.

use serde_json::Value;

use crate::FLAGS;
use crate::support::Sandbox;

const SUITE: &str = "stream::failover_without_store";

/// Runs the suite with these flags; the summary of it and the command that repeats it.
fn green(flags: &[&str]) -> (Value, String) {
    let sandbox = Sandbox::new();
    let finished = sandbox.run(&[&["run", SUITE, "--report", "report", "--json"], flags].concat());
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    sandbox.assert_nothing_left();
    let summary = finished.json();
    let repeat = summary["repeat"].as_str().unwrap().to_owned();
    (summary["suites"][0].clone(), repeat)
}

/// The verdict and the finding of the store-traffic oracle.
fn store_traffic(suite: &Value) -> (&str, &str) {
    let judgements = suite["judgements"].as_array().unwrap();
    let judgement = judgements.iter().find(|judgement| judgement["oracle"] == "store-traffic").unwrap();
    (judgement["verdict"].as_str().unwrap(), judgement["summary"].as_str().unwrap())
}

pub(crate) fn both_are_green_and_say_what_is_not_seen() {
    let (suite, repeat) = green(&FLAGS);
    assert_eq!((&suite["verdict"], &suite["target"]), (&"pass".into(), &"bundled+minio+toxiproxy".into()));
    assert_eq!(store_traffic(&suite), ("skipped", "target bundled+minio+toxiproxy lacks store-requests"));
    assert!(repeat.contains(" --store minio --proxy toxiproxy "), "{repeat}");
}

pub(crate) fn minio_alone_is_green() {
    let (suite, repeat) = green(&FLAGS[..2]);
    assert_eq!(store_traffic(&suite), ("skipped", "target bundled+minio lacks store-requests"));
    assert!(repeat.contains(" --store minio ") && !repeat.contains("--proxy"), "{repeat}");
}

pub(crate) fn toxiproxy_alone_is_green() {
    let (suite, _) = green(&FLAGS[2..]);
    assert_eq!(suite["target"], "bundled+toxiproxy");
    assert_eq!(store_traffic(&suite).0, "pass");
}
