//! `s3 --rules`, `s3 --admin` and `s3 --data`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Running, Sandbox};

/// The status line and headers of the answer to a request that is not signed: rules come before signatures.
fn head(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase()
}

/// The second read of any `_metadata` is refused; nothing ever matches the other rule.
const TOML: &str = r#"
[[rules]]
name = "busy"
operations = ["GetObject"]
key = "*/_metadata"
nth = { first = 2, count = 1 }
effect = { kind = "slow-down", retry_after_seconds = 7 }

[[rules]]
name = "never"
bucket = "elsewhere"
effect = { kind = "reset-before" }
"#;

const JSON: &str = r#"{"rules": [
    {"name": "busy", "operations": ["GetObject"], "key": "*/_metadata", "nth": {"first": 2, "count": 1},
     "effect": {"kind": "slow-down", "retry_after_seconds": 7}},
    {"name": "never", "bucket": "elsewhere", "effect": {"kind": "reset-before"}}
]}"#;

/// Reads one key four times, and another one.
fn read_through(server: &Running) {
    let ready: Value = serde_json::from_str(&server.line()).unwrap();
    let address = ready["endpoint"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    assert!(head(&address, "/data/job/chk-1/state").starts_with("http/1.1 403"), "no rule is for it");
    let metadata: Vec<String> = (0..4).map(|_| head(&address, "/data/job/chk-1/_metadata")).collect();
    let statuses: Vec<&str> = metadata.iter().map(|head| &head[9..12]).collect();
    assert_eq!(statuses, ["403", "503", "403", "403"]);
    assert!(metadata[1].contains("retry-after: 7"), "{}", metadata[1]);
}

#[test]
fn the_rules_that_help_shows_are_taken() {
    let sandbox = Sandbox::new();
    let help = sandbox.run(&["s3", "--help"]);
    let (_, example) = help.ended_quietly(0).stdout.split_once("A rules file: ").unwrap();
    let (_, rules) = example.split_once('\n').unwrap();
    let (rules, _) = rules.split_once("The admin port").unwrap();
    assert!(rules.contains("[[rules]]"), "{rules}");
    sandbox.file("rules.toml", rules);
    let server = sandbox.start(&["s3", "--listen", "127.0.0.1:0", "--rules", "rules.toml"]);
    server.line();
    server.signal(Signal::TERM);
    let told = server.finish();
    assert!(told.ended_quietly(0).stdout.contains("rule \"slow metadata\" matched 0"), "{told:?}");
    sandbox.assert_nothing_left();
}

#[test]
fn rules_of_a_file_act_and_are_counted() {
    for (name, text) in [("rules.toml", TOML), ("rules.json", JSON)] {
        let sandbox = Sandbox::new();
        sandbox.file(name, text);
        let arguments = ["s3", "--listen", "127.0.0.1:0", "--bucket", "data", "--json", "--rules", name];
        let server = sandbox.start(&arguments);
        read_through(&server);
        server.signal(Signal::TERM);
        let finished = server.finish();
        assert_eq!(finished.code(), Some(0), "{finished:?}");
        let told = json!({"rules": {"busy": {"matched": 4, "acted": 1}, "never": {"matched": 0, "acted": 0}}});
        assert_eq!(finished.json(), told);
    }
}

#[test]
fn a_rule_that_did_nothing_is_told() {
    let sandbox = Sandbox::new();
    sandbox.file("rules.toml", TOML);
    let server = sandbox.start(&["s3", "--listen", "127.0.0.1:0", "--rules", "rules.toml"]);
    server.line();
    server.signal(Signal::INT);
    let finished = server.finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    assert!(finished.stdout.contains("rule \"never\" matched 0, acted on 0: it did nothing"), "{finished:?}");
}

/// What the admin port says: status and JSON.
fn ask(admin: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(admin.strip_prefix("http://").unwrap()).unwrap();
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap())
}

#[test]
fn a_server_is_looked_into_and_set_back() {
    let sandbox = Sandbox::new();
    let server =
        sandbox.start(&["s3", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--bucket", "data", "--json"]);
    let ready: Value = serde_json::from_str(&server.line()).unwrap();
    let address = ready["endpoint"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    let admin = ready["admin"].as_str().unwrap();
    let busy = r#"{"rules": [{"name": "busy", "effect": {"kind": "slow-down", "retry_after_seconds": 7}}]}"#;
    assert_eq!(ask(admin, "PUT", "/rules", busy).0, 200);
    assert!(head(&address, "/data/k").starts_with("http/1.1 503"));
    let healed = json!({"rules": {"busy": {"matched": 1, "acted": 1}}});
    assert_eq!(ask(admin, "DELETE", "/rules/busy", ""), (200, healed.clone()));
    assert!(head(&address, "/data/k").starts_with("http/1.1 403"));
    let (_, ledger) = ask(admin, "GET", "/ledger", "");
    let seen = |at: usize| (&ledger["entries"][at]["status"], &ledger["entries"][at]["rule"]);
    assert_eq!((seen(0), seen(1)), ((&json!(503), &json!("busy")), (&json!(403), &Value::Null)), "{ledger}");
    let left = json!({"objects": {"data": []}, "uploads": [], "total_bytes": 0});
    assert_eq!(ask(admin, "GET", "/leftovers", ""), (200, left));
    let snapshot = json!({"name": "empty", "bucket": "data", "objects": 0, "total_bytes": 0});
    assert_eq!(ask(admin, "POST", "/snapshots", r#"{"name": "empty", "bucket": "data"}"#), (201, snapshot.clone()));
    assert_eq!(ask(admin, "POST", "/snapshots/empty/restore", ""), (200, snapshot));
    let (status, refused) = ask(admin, "POST", "/snapshots/full/restore", "");
    assert_eq!((status, refused), (404, json!({"error": "there is no snapshot \"full\""})));
    server.signal(Signal::TERM);
    let finished = server.finish();
    finished.ended_quietly(0);
    assert_eq!(finished.json(), healed, "what its rules did is told at the end");
    let everywhere = sandbox.run(&["s3", "--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0"]);
    everywhere.refused(&["the admin port cannot listen on 0.0.0.0:0", "use 127.0.0.1"]);
    sandbox.assert_nothing_left();
}

/// The endpoint's answer to an unsigned request: there is a server.
fn answers(server: &Running) -> bool {
    let ready: Value = serde_json::from_str(&server.line()).unwrap();
    let address = ready["endpoint"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    head(&address, "/data/k").starts_with("http/1.1 403")
}

#[test]
fn a_data_folder_is_kept_over_a_kill_and_used_by_one_server() {
    let sandbox = Sandbox::new();
    let arguments = ["s3", "--listen", "127.0.0.1:0", "--bucket", "data", "--data", "kept/here", "--json"];
    let first = sandbox.start(&arguments);
    assert!(answers(&first));
    let second = sandbox.run(&arguments);
    assert_eq!(second.code(), Some(2), "{second:?}");
    assert!(second.stderr.contains("the data folder kept/here is in use by another server"), "{second:?}");
    first.signal(Signal::KILL);
    first.finish();
    // Its bucket is there already, which is no error.
    let third = sandbox.start(&arguments);
    assert!(answers(&third));
    third.signal(Signal::TERM);
    third.finish().ended_quietly(0);
    sandbox.assert_nothing_left();
}

#[test]
fn a_folder_of_others_or_a_damaged_one_is_one_sentence() {
    let sandbox = Sandbox::new();
    let arguments = ["s3", "--listen", "127.0.0.1:0", "--data", ".", "--json"];
    let thesis = sandbox.file("thesis.txt", "years of work");
    let refused = sandbox.run(&arguments);
    assert_eq!((refused.code(), refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains("it holds ./thesis.txt; name an empty or a new folder"), "{refused:?}");
    std::fs::remove_file(thesis).unwrap();
    sandbox.file("stormproof-s3", "stormproof-s3 1\n");
    sandbox.file("buckets/data/bucket", "{\"bytes\":0,\"crc");
    let refused = sandbox.run(&arguments);
    assert_eq!((refused.code(), refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains("buckets/data/bucket is damaged: it ends within its first line"), "{refused:?}");
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
}
