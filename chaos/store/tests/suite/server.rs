//! Start and stop.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use reqwest::Method;
use stormproof_store::{Effect, Limits, Outcome, Rule, S3Server, StoreError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{BUCKET, KEY, Lab, Presigner, SECRET, soon};

#[tokio::test]
async fn a_taken_port_is_one_clear_error() {
    let lab = Lab::new().await;
    let taken = lab.server.address();
    let error = S3Server::builder().listen(taken).start().await.expect_err("the port is taken");
    assert!(matches!(error, StoreError::AddressInUse { address } if address == taken));
    assert!(error.to_string().starts_with(&format!("cannot listen on {taken}: the address is in use")), "{error}");
    let not_ours = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 0));
    let error = S3Server::builder().listen(not_ours).start().await.expect_err("not an address of this machine");
    assert!(matches!(error, StoreError::Listen { .. }), "{error}");
}

/// Every refusal of a signature, with the code that tells a user what to mend.
#[tokio::test]
async fn keys_signatures_and_clocks_are_checked() {
    let lab = Lab::new().await;
    lab.server.backend().put(BUCKET, "k", "v").expect("put");
    let ask = async |keys, ahead_seconds| {
        let path = format!("{BUCKET}/k");
        let endpoint = lab.server.endpoint();
        let url = Presigner { keys, ahead_seconds, ..Presigner::new(&endpoint) }.url(&Method::GET, &path, &[]);
        let answer = soon(lab.http.get(url).send()).await.expect("an answer");
        let status = answer.status().as_u16();
        let text = soon(answer.text()).await.expect("a body");
        let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
        (status, code.map_or(text.clone(), |(code, _)| code.to_owned()))
    };
    let refused = |code: &str| (403, code.to_owned());
    assert_eq!(ask((KEY, SECRET), 0).await, (200, "v".to_owned()));
    assert_eq!(ask((KEY, "wrong"), 0).await, refused("SignatureDoesNotMatch"));
    assert_eq!(ask(("nobody", SECRET), 0).await, refused("InvalidAccessKeyId"));
    assert_eq!(ask((KEY, SECRET), 14 * 60).await, (200, "v".to_owned()));
    assert_eq!(ask((KEY, SECRET), 16 * 60).await, refused("RequestTimeTooSkewed"));
    assert_eq!(ask((KEY, SECRET), -9 * 60).await, (200, "v".to_owned()));
    assert_eq!(ask((KEY, SECRET), -11 * 60).await, refused("AccessDenied"));
    let unsigned = format!("{}/{BUCKET}/k", lab.server.endpoint());
    assert_eq!(soon(lab.http.get(unsigned).send()).await.expect("an answer").status(), 403);
}

/// What AWS refuses although the signature is right.
#[tokio::test]
async fn a_signature_must_be_over_all_and_not_for_ever() {
    let lab = Lab::new().await;
    let (endpoint, path) = (lab.server.endpoint(), format!("{BUCKET}/k"));
    let put = async |url: String| {
        let request = lab.http.put(url).header("x-amz-meta-a", "1").body("v");
        let answer = soon(request.send()).await.expect("an answer");
        (answer.status().as_u16(), soon(answer.text()).await.expect("a body"))
    };
    let (status, text) = put(Presigner::new(&endpoint).url(&Method::PUT, &path, &[])).await;
    assert_eq!(status, 403);
    assert!(text.contains("<Code>AccessDenied</Code>") && text.contains("not signed: x-amz-meta-a"), "{text}");
    let signer = Presigner { headers: &[("x-amz-meta-a", "1")], ..Presigner::new(&endpoint) };
    let too_long = Presigner { expires_seconds: 604_801, ..signer };
    let (status, text) = put(too_long.url(&Method::PUT, &path, &[])).await;
    assert_eq!(status, 400);
    assert!(text.contains("<Code>AuthorizationQueryParametersError</Code>"), "{text}");
    let a_week = Presigner { expires_seconds: 604_800, ..too_long };
    assert_eq!(put(a_week.url(&Method::PUT, &path, &[])).await.0, 200);
}

#[tokio::test]
async fn a_shutdown_leaves_no_port_and_no_connection() {
    let lab = Lab::new().await;
    let address = lab.server.address();
    lab.put("k", "v", &[]).await;
    let mut idle = TcpStream::connect(address).await.expect("a connection");
    idle.write_all(b"HEAD / HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("a request");
    soon(idle.read(&mut [0; 1_000])).await.expect("an answer: the connection is accepted, and idle from now on");
    let report = soon(lab.server.shutdown()).await.expect("a shutdown");
    assert_eq!(report.cut_connections, 0, "idle connections end at once");
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens");
    assert_eq!(soon(idle.read(&mut [0; 1])).await.expect("an orderly end"), 0);
    // The port is free for the next server.
    let next = S3Server::builder().listen(address).start().await.expect("the same port");
    assert_eq!(next.address(), address);
}

#[tokio::test]
async fn a_shutdown_cuts_what_does_not_end() {
    let lab = Lab::with(Limits { shutdown_grace: Duration::from_millis(100), ..Limits::default() }).await;
    lab.server.rules().add(Rule::new("hang", Effect::StallRequest { ms: 600_000 })).expect("a rule");
    let ledger = lab.server.ledger();
    let url = lab.presigned(&Method::GET, &format!("{BUCKET}/k"), &[]);
    let hanging = tokio::spawn(lab.http.get(url).send());
    soon(ledger.wait_for(0, |entry| entry.in_flight())).await;
    let report = soon(lab.server.shutdown()).await.expect("a shutdown");
    assert_eq!(report.cut_connections, 1);
    assert!(soon(hanging).await.expect("the task ends").is_err(), "the client sees the cut");
    let entry = ledger.entries_since(0).remove(0);
    assert_eq!(entry.outcome, Outcome::ServerCut, "the ledger outlives the server: {entry:?}");
}

#[tokio::test]
async fn a_running_request_may_end_within_the_grace() {
    let lab = Lab::with(Limits { shutdown_grace: Duration::from_secs(15), ..Limits::default() }).await;
    lab.server.backend().put(BUCKET, "k", "v").expect("put");
    lab.server.rules().add(Rule::new("slow", Effect::StallHeaders { ms: 300 })).expect("a rule");
    let ledger = lab.server.ledger();
    let url = lab.presigned(&Method::GET, &format!("{BUCKET}/k"), &[]);
    let slow = tokio::spawn(lab.http.get(url).send());
    soon(ledger.wait_for(0, |entry| entry.in_flight())).await;
    let report = soon(lab.server.shutdown()).await.expect("a shutdown");
    assert_eq!(report.cut_connections, 0);
    assert_eq!(soon(slow).await.expect("the task ends").expect("an answer").status(), 200);
}

#[tokio::test]
async fn a_dropped_server_stops() {
    let lab = Lab::new().await;
    let address = lab.server.address();
    let mut idle = TcpStream::connect(address).await.expect("a connection");
    lab.get(&format!("{BUCKET}/k")).await;
    drop(lab);
    assert_eq!(soon(idle.read(&mut [0; 1])).await.unwrap_or(0), 0, "connections end");
    soon(async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
