//! What a coordinator answers that does not lead.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::*;
use crate::leadership::LeaderInfo;
use crate::rest::ANSWERED_BY;

fn led_by(address: SocketAddr) -> watch::Receiver<Option<LeaderInfo>> {
    let info = LeaderInfo { session: 1, name: "c".into(), pid: 1, rest: address.to_string(), rpc: String::new() };
    watch::channel(Some(info)).1
}

/// A coordinator that does not lead, and knows this one to lead.
async fn standby(leader: SocketAddr) -> Running {
    let cluster = Arc::new(FakeCluster::new());
    cluster.lead(false);
    let server = RestServer::start("127.0.0.1:0", cluster.clone(), led_by(leader)).await.unwrap();
    Running { server, cluster, client: Client::builder().no_proxy().build().unwrap() }
}

#[tokio::test]
async fn a_standby_answers_with_what_the_leader_says() {
    let leader = Running::start().await;
    let standby = standby(leader.server.address()).await;
    for (method, path, body) in [
        (Method::GET, "/v1/jobs/JOB/exceptions?maxExceptions=1", ""),
        (Method::GET, "/jobs/JOB/status", ""),
        (Method::GET, "/jobs/ffffffffffffffffffffffffffffffff", ""),
        (Method::GET, "/nowhere", ""),
        (Method::PATCH, "/jobs/JOB?mode=cancel", ""),
        (Method::PATCH, "/jobs/JOB?mode=stop", ""),
        (Method::POST, "/jars/word%20count/run", r#"{"programArgsList": ["--records", "7"]}"#),
        (Method::POST, "/jars/word%20count/run", "{"),
    ] {
        let answer = standby.call(method.clone(), path, body).await;
        assert_ne!(answer.0, StatusCode::SERVICE_UNAVAILABLE, "{method} {path}");
        if method == Method::GET {
            assert_eq!(answer, leader.call(method, path, body).await, "{path}");
        }
    }
    assert_eq!(leader.cluster.cancelled(), [JOB]);
    assert_eq!(leader.cluster.submitted()[0].params, Params::default().with("records", 7));
    assert_eq!((standby.cluster.cancelled(), standby.cluster.submitted()), (vec![], vec![]));

    let of = |running: &Running| format!("http://{}/overview", running.server.address());
    let answered = standby.client.get(of(&standby)).send().await.unwrap();
    assert_eq!(answered.headers()[ANSWERED_BY], leader.server.address().to_string());
    assert_eq!(answered.headers()["content-type"], "application/json");
    assert!(!standby.client.get(of(&leader)).send().await.unwrap().headers().contains_key(ANSWERED_BY));
    // As soon as it leads it answers itself.
    standby.cluster.lead(true);
    assert!(!standby.client.get(of(&standby)).send().await.unwrap().headers().contains_key(ANSWERED_BY));
}

#[tokio::test]
async fn without_a_leader_that_leads_the_answer_is_503() {
    let spare = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = spare.local_addr().unwrap();
    drop(spare);
    let orphan = standby(nobody).await;
    // Each takes the next for the leader: a request must not go on for ever.
    let deposed = standby(orphan.server.address()).await;
    for standby in [&orphan, &deposed] {
        let (status, answer) = standby.get("/jobs").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(error_of(&answer).contains("ongoing leader election"), "{answer}");
    }
}

#[tokio::test]
async fn a_leader_that_hangs_up_may_have_done_it() {
    let broken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let standby = standby(broken.local_addr().unwrap()).await;
    let hang_up = tokio::spawn(async move {
        loop {
            drop(broken.accept().await);
        }
    });
    let (status, answer) = standby.call(Method::PATCH, "/jobs/JOB?mode=cancel", "").await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    assert!(error_of(&answer).contains("hung up; what was asked of it may have been done"), "{answer}");
    hang_up.abort();
}
