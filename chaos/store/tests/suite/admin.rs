//! The admin port, asked from outside.

use reqwest::Method;
use serde_json::{Value, json};
use stormproof_store::{S3Server, StoreError};
use tokio::net::TcpStream;

use crate::support::{BUCKET, soon};

const ANY_PORT: &str = "127.0.0.1:0";

struct Desk {
    server: S3Server,
    endpoint: String,
    http: reqwest::Client,
}

impl Desk {
    async fn new() -> Self {
        let server = S3Server::builder().admin(ANY_PORT.parse().expect("an address")).start().await.expect("a server");
        server.backend().create_bucket(BUCKET).expect("a bucket");
        let endpoint = server.admin_endpoint().expect("an admin port");
        Self { server, endpoint, http: reqwest::Client::new() }
    }

    async fn ask(&self, method: Method, path: &str, body: impl Into<reqwest::Body>) -> (u16, Value) {
        let request = self.http.request(method, format!("{}{path}", self.endpoint)).body(body);
        let answer = soon(request.send()).await.expect("an answer");
        let status = answer.status().as_u16();
        (status, serde_json::from_slice(&soon(answer.bytes()).await.expect("a body")).expect("JSON"))
    }

    async fn error(&self, method: Method, path: &str, body: &'static str) -> (u16, String) {
        let (status, answer) = self.ask(method, path, body).await;
        (status, answer["error"].as_str().expect("an error").to_owned())
    }
}

#[tokio::test]
async fn the_ledger_and_what_is_left_are_told() {
    let desk = Desk::new().await;
    desk.server.backend().put(BUCKET, "k", "value").expect("put");
    // Refused, as it is not signed, and recorded.
    for key in ["a", "b"] {
        let url = format!("{}/{BUCKET}/{key}", desk.server.endpoint());
        soon(desk.http.get(url).send()).await.expect("an answer");
    }
    let (status, ledger) = desk.ask(Method::GET, "/ledger", "").await;
    let keys: Vec<&str> =
        ledger["entries"].as_array().expect("a list").iter().flat_map(|e| e["key"].as_str()).collect();
    assert_eq!((status, keys), (200, vec!["a", "b"]));
    assert_eq!((&ledger["last_seq"], &ledger["in_flight"], &ledger["dropped"]), (&json!(2), &json!(0), &json!(0)));
    assert_eq!((&ledger["entries"][0]["status"], &ledger["entries"][0]["outcome"]), (&json!(403), &json!("answered")));
    let (_, ledger) = desk.ask(Method::GET, "/ledger?since=1", "").await;
    assert_eq!((ledger["entries"].as_array().map(Vec::len), &ledger["entries"][0]["key"]), (Some(1), &json!("b")));
    let (status, error) = desk.error(Method::GET, "/ledger?since=x", "").await;
    assert!(status == 400 && error.contains("\"since=x\" cannot be asked of the ledger"), "{status} {error}");

    let (status, left) = desk.ask(Method::GET, "/leftovers", "").await;
    assert_eq!((status, &left["objects"][BUCKET][0]["key"], &left["total_bytes"]), (200, &json!("k"), &json!(5)));
}

#[tokio::test]
async fn a_bucket_is_set_back() {
    let desk = Desk::new().await;
    let backend = desk.server.backend();
    backend.put(BUCKET, "kept", "old").expect("put");
    let body = format!(r#"{{"name": "before it", "bucket": "{BUCKET}"}}"#);
    let kept = json!({"name": "before it", "bucket": BUCKET, "objects": 1, "total_bytes": 3});
    assert_eq!(desk.ask(Method::POST, "/snapshots", body.clone()).await, (201, kept.clone()));
    let (status, answer) = desk.ask(Method::POST, "/snapshots", body).await;
    assert_eq!(status, 409, "{answer}");
    assert_eq!(desk.ask(Method::GET, "/snapshots", "").await, (200, json!({ "snapshots": [kept] })));
    backend.put(BUCKET, "kept", "new").expect("put");
    backend.put(BUCKET, "more", "1").expect("put");
    assert_eq!(desk.ask(Method::POST, "/snapshots/before%20it/restore", "").await, (200, kept.clone()));
    let objects = backend.list_objects(BUCKET, "").expect("list");
    assert_eq!((objects.len(), backend.get(BUCKET, "kept").expect("get")), (1, "old".into()));
    assert_eq!(desk.ask(Method::DELETE, "/snapshots/before%20it", "").await, (200, kept));
    let gone = (404, "there is no snapshot \"before it\"".to_owned());
    assert_eq!(desk.error(Method::POST, "/snapshots/before%20it/restore", "").await, gone);
    let elsewhere = desk.error(Method::POST, "/snapshots", r#"{"name": "a", "bucket": "elsewhere"}"#).await;
    assert_eq!(elsewhere, (404, "bucket elsewhere does not exist".to_owned()));
}

#[tokio::test]
async fn rules_are_put_in_and_healed() {
    let desk = Desk::new().await;
    let counts = |matched, acted| json!({"rules": {"slow": {"matched": matched, "acted": acted}}});
    let rules = r#"{"rules": [{"name": "slow", "effect": {"kind": "internal-error"}}]}"#;
    assert_eq!(desk.ask(Method::PUT, "/rules", rules).await, (200, counts(0, 0)));
    let ask = async || {
        let url = format!("{}/{BUCKET}/k", desk.server.endpoint());
        soon(desk.http.get(url).send()).await.expect("an answer").status().as_u16()
    };
    assert_eq!(ask().await, 500);
    assert_eq!(desk.ask(Method::DELETE, "/rules/slow", "").await, (200, counts(1, 1)));
    assert_eq!(ask().await, 403);
    assert_eq!(desk.error(Method::DELETE, "/rules/slow", "").await, (404, "there is no rule \"slow\"".to_owned()));
    let idle = r#"{"rules": [{"name": "idle", "effect": {"kind": "stall-request", "ms": 0}}]}"#;
    let refused = (400, "rule \"idle\": effect.ms is 0, it must be at least 1".to_owned());
    assert_eq!(desk.error(Method::PUT, "/rules", idle).await, refused);
    assert_eq!(desk.ask(Method::GET, "/rules", "").await, (200, counts(1, 1)), "nothing has changed");
    assert_eq!(desk.ask(Method::DELETE, "/rules", "").await, (200, counts(1, 1)));
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_in_a_sentence() {
    let desk = Desk::new().await;
    for (method, path, body, expected) in [
        (Method::GET, "/", "", (404, "there is no /; there are /ledger, /leftovers, /rules and /snapshots")),
        (Method::POST, "/ledger", "", (405, "POST cannot be asked of /ledger")),
        (Method::POST, "/snapshots", r#"{"name": "", "bucket": "b"}"#, (400, "the snapshot needs a name")),
    ] {
        assert_eq!(desk.error(method, path, body).await, (expected.0, expected.1.to_owned()));
    }
    for body in ["", "[]", "{\"name\": \"a\"}", "{\"name\": \"a\", \"bucket\": \"b\", \"x\": 1}"] {
        let (status, error) = desk.error(Method::POST, "/snapshots", body).await;
        assert!(status == 400 && error.starts_with("the body is not what is wanted here: "), "{status} {error}");
    }
    let (status, error) = desk.ask(Method::PUT, "/rules", vec![b' '; (1 << 20) + 1]).await;
    assert_eq!(status, 400, "{error}");
    let page = desk.http.get(format!("{}/ledger", desk.endpoint)).header("Origin", "http://example.org");
    assert_eq!(soon(page.send()).await.expect("an answer").status(), 403);
}

#[tokio::test]
async fn it_is_of_this_machine_and_ends_with_the_server() {
    let everywhere = S3Server::builder().admin("0.0.0.0:0".parse().expect("an address")).start().await;
    assert!(matches!(everywhere, Err(StoreError::AdminNotLocal { .. })), "{everywhere:?}");
    assert_eq!(S3Server::builder().start().await.expect("a server").admin_endpoint(), None);
    let desk = Desk::new().await;
    // Its connection stays open.
    desk.ask(Method::GET, "/rules", "").await;
    let address = desk.endpoint.strip_prefix("http://").expect("an HTTP endpoint").to_owned();
    let taken = S3Server::builder().admin(address.parse().expect("an address")).start().await;
    assert!(matches!(taken, Err(StoreError::AddressInUse { .. })), "{taken:?}");
    let report = soon(desk.server.shutdown()).await.expect("a shutdown");
    assert_eq!(report.cut_connections, 0);
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens");
}
