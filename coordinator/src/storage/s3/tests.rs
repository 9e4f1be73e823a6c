//! The client before servers that do what servers should not. Deadlines are short, so that the tests are, too; none
//! of them is part of a success.

mod embedded;

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use super::*;

/// What the server does with one connection.
#[derive(Debug, Clone)]
enum Behaviour {
    /// Reads, and never says anything.
    Silent,
    /// Reads the request, then closes.
    Close,
    /// Answers with this, then closes.
    Answer(String),
    /// Answers with this, then says no more and keeps the connection.
    AnswerThenSilence(String),
}

struct Server {
    store: S3BlobStore,
    _task: AbortOnDropHandle<()>,
}

const SHORT: Deadlines = Deadlines {
    attempt: Duration::from_millis(150),
    body_idle: Duration::from_millis(150),
    total: Duration::from_secs(5),
    retries: 1,
    backoff: Duration::from_millis(5),
    min_bytes_per_s: 1 << 20,
};

/// For calls that must succeed, however slow the machine is.
const PATIENT: Deadlines = Deadlines {
    attempt: Duration::from_secs(20),
    body_idle: Duration::from_secs(20),
    total: Duration::from_secs(60),
    ..SHORT
};

fn config(endpoint: String) -> StoreConfig {
    StoreConfig { endpoint, bucket: "checkpoints".into(), access_key: "key".into(), secret_key: "secret".into() }
}

impl Server {
    /// Meets the first connections with `behaviours`, all further ones with the last of them.
    async fn start(deadlines: Deadlines, behaviours: Vec<Behaviour>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let mut kept = Vec::new();
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let behaviour = behaviours[number.min(behaviours.len() - 1)].clone();
                kept.push(AbortOnDropHandle::new(tokio::spawn(serve(stream, behaviour))));
            }
        });
        let store = S3BlobStore::new(&config(endpoint), deadlines).unwrap();
        Self { store, _task: AbortOnDropHandle::new(task) }
    }
}

/// Reads a whole request: its head, and as much body as the head announces.
async fn read_request(stream: &mut TcpStream) {
    let mut request = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk).await.unwrap_or(0);
        request.extend_from_slice(&chunk[..length]);
        let text = String::from_utf8_lossy(&request).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            if length == 0 {
                return;
            }
            continue;
        };
        let announced = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
        if length == 0 || body.len() >= announced.unwrap_or(0) {
            return;
        }
    }
}

async fn serve(mut stream: TcpStream, behaviour: Behaviour) {
    stream.set_nodelay(true).unwrap();
    read_request(&mut stream).await;
    match behaviour {
        Behaviour::Silent => std::future::pending::<()>().await,
        Behaviour::Close => {}
        Behaviour::Answer(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
        Behaviour::AnswerThenSilence(answer) => {
            stream.write_all(answer.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        }
    }
}

fn object(body: &str, length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nETag: \"x\"\r\nConnection: close\r\n\r\n{body}")
}

fn refusal(status: &str, code: &str) -> Behaviour {
    let body = format!("<Error><Code>{code}</Code><Message>no</Message></Error>");
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {}", body.len());
    Behaviour::Answer(format!("{head}\r\nConnection: close\r\n\r\n{body}"))
}

#[tokio::test]
async fn a_silent_server_costs_one_deadline_for_each_attempt() {
    let server = Server::start(SHORT, vec![Behaviour::Silent]).await;
    let read = server.store.get("k").await.unwrap_err();
    assert_eq!(read.kind, BlobErrorKind::Timeout);
    assert!(read.to_string().contains("no answer came, attempt 2 was the last"), "{read}");
    assert_eq!(server.store.list("p/").await.unwrap_err().kind, BlobErrorKind::Timeout);
    let write = server.store.put("k", Bytes::from_static(b"v"), PutMode::CreateOnly).await.unwrap_err();
    assert_eq!(write.kind, BlobErrorKind::Ambiguous, "it may happen yet: {write}");
    assert_eq!(server.store.delete("k").await.unwrap_err().kind, BlobErrorKind::Ambiguous);
}

#[tokio::test]
async fn the_whole_call_has_a_deadline_whatever_the_retries() {
    let eager = Deadlines { retries: u32::MAX, total: Duration::from_millis(500), ..SHORT };
    let server = Server::start(eager, vec![Behaviour::Silent]).await;
    let outcome = tokio::time::timeout(Duration::from_secs(20), server.store.get("k")).await;
    assert_eq!(outcome.expect("the call must end by itself").unwrap_err().kind, BlobErrorKind::Timeout);
}

#[tokio::test]
async fn a_body_that_stalls_is_noticed_by_its_silence() {
    let half = Behaviour::AnswerThenSilence(object("half", 8));
    let server = Server::start(Deadlines { attempt: Duration::from_secs(20), ..SHORT }, vec![half]).await;
    let error = server.store.get("k").await.unwrap_err();
    assert_eq!(error.kind, BlobErrorKind::Timeout);
    assert!(error.detail.contains("the body stalled after 4 of 8 bytes"), "{error}");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_read_again() {
    let behaviours = vec![Behaviour::Answer(object("half", 8)), Behaviour::Answer(object("complete", 8))];
    let server = Server::start(PATIENT, behaviours).await;
    assert_eq!(server.store.get("k").await.unwrap(), "complete");
}

#[tokio::test]
async fn a_closed_port_is_no_connection_and_nothing_was_done() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let store = S3BlobStore::new(&config(endpoint), PATIENT).unwrap();
    let error = store.put("k", Bytes::from_static(b"v"), PutMode::CreateOnly).await.unwrap_err();
    assert_eq!(error.kind, BlobErrorKind::Unreachable, "{error}");
    assert_eq!(store.get("k").await.unwrap_err().kind, BlobErrorKind::Unreachable);
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_ambiguous() {
    let server = Server::start(PATIENT, vec![Behaviour::Close]).await;
    let error = server.store.put("k", Bytes::from_static(b"v"), PutMode::CreateOnly).await.unwrap_err();
    assert_eq!(error.kind, BlobErrorKind::Ambiguous, "{error}");
    assert_eq!(server.store.get("k").await.unwrap_err().kind, BlobErrorKind::Unreachable);
}

#[tokio::test]
async fn a_throttled_call_is_repeated() {
    let behaviours = vec![refusal("503 Slow Down", "SlowDown"), Behaviour::Answer(object("", 0))];
    let server = Server::start(PATIENT, behaviours).await;
    server.store.put("k", Bytes::from_static(b"v"), PutMode::CreateOnly).await.unwrap();
    let always = Server::start(PATIENT, vec![refusal("503 Slow Down", "SlowDown")]).await;
    assert_eq!(always.store.get("k").await.unwrap_err().kind, BlobErrorKind::Throttled);
}

// The first attempt was written and its answer lost: the second one finds the key taken, by itself.
#[tokio::test]
async fn a_key_taken_by_an_own_lost_attempt_is_success_if_the_bytes_are_the_same() {
    let taken = || vec![Behaviour::Close, refusal("412 Precondition Failed", "PreconditionFailed")];
    let with = |content: &str| [taken(), vec![Behaviour::Answer(object(content, content.len()))]].concat();
    let same = Server::start(PATIENT, with("value")).await;
    let put = crate::storage::blob::put_once(&same.store, "k", Bytes::from_static(b"value"));
    put.await.unwrap();
    let other = Server::start(PATIENT, with("other")).await;
    let put = crate::storage::blob::put_once(&other.store, "k", Bytes::from_static(b"value"));
    assert_eq!(put.await.unwrap_err().kind, BlobErrorKind::PreconditionFailed);
}

#[tokio::test]
async fn what_the_server_refuses_is_not_repeated() {
    let behaviours = vec![refusal("403 Forbidden", "AccessDenied"), Behaviour::Answer(object("secret", 6))];
    let server = Server::start(PATIENT, behaviours).await;
    let error = server.store.get("k").await.unwrap_err();
    assert_eq!(error.kind, BlobErrorKind::Fatal);
    assert_eq!(error.to_string(), "reading `k`: the store refused (it answered AccessDenied: no)");
}

#[test]
fn bad_configuration_is_told_at_once_and_secrets_never() {
    for (endpoint, bucket) in [("ftp://x", "checkpoints"), ("http://127.0.0.1:1", "x")] {
        let config = StoreConfig { bucket: bucket.into(), ..config(endpoint.into()) };
        let error = S3BlobStore::new(&config, Deadlines::default()).unwrap_err();
        assert_eq!(error.kind, BlobErrorKind::Fatal);
        assert!(error.to_string().contains("cannot be used"), "{error}");
    }
    let store = S3BlobStore::new(&config("http://127.0.0.1:1".into()), Deadlines::default()).unwrap();
    store.client().unwrap();
    assert!(!format!("{store:?}").contains("secret"));
    assert_eq!(store.url("a/b"), "s3://checkpoints/a/b");
}
