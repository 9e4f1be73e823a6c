//! What a real Toxiproxy does where we differ on purpose: each row of the list in `main.rs` that can be shown in a
//! moment. When one of these turns red, Toxiproxy has changed and the list is to be thought over.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::json;
use stormproof_chaos::toxiproxy::{Proxy, ProxyUpdate, Stream, Toxic};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fixture::{RealProcess, World, connect, connect_through, echo, is_closed, receive, receive_to_end, send};
use crate::live::{fill, hanging_upstream};

/// It answers nothing for 25 s where it hangs; a healthy one takes milliseconds.
const HANGS: Duration = Duration::from_secs(2);

async fn half_closes_become_closes() {
    // P72
    let world = World::of_real().await;
    let mut pair = world.pair().await;
    send(&mut pair.client, b"question").await;
    pair.client.shutdown().await.expect("half closed");
    assert_eq!(receive_to_end(&mut pair.server).await, b"question");
    // The server would answer now, but its connection is gone in both directions.
    assert_eq!(receive_to_end(&mut pair.client).await, b"");
}

async fn reset_peer_spares_open_connections_and_hits_later_ones() {
    // P71
    let world = World::of_real().await;
    let mut ends = vec![];
    // How such a connection ends is a race inside the real one, so that one of several has to do.
    while !ends.contains(&ErrorKind::ConnectionReset) && ends.len() < 20 {
        let mut pair = world.pair().await;
        world.client.add_toxic("p", &Toxic::reset_peer(Stream::Upstream, Duration::ZERO)).await.expect("added");
        let (mut during, far) = connect_through(&pair.proxy, &pair.upstream).await;
        send(&mut pair.client, b"x").await;
        assert_eq!(receive_to_end(&mut pair.client).await, b"", "a normal close");
        world.client.remove_toxic("p", "reset_peer_upstream").await.expect("removed");
        // The toxic is gone, its mark on this connection is not.
        drop(far);
        ends.push(during.read_u8().await.expect_err("an end").kind());
        world.client.delete("p").await.expect("deleted");
    }
    assert!(ends.contains(&ErrorKind::ConnectionReset), "{ends:?}");
}

async fn toxics_in_an_entry_are_ignored() {
    // P65
    let world = World::of_real().await;
    let asked = Proxy::new("p", "127.0.0.1:0", echo().await).with_toxic(Toxic::noop(Stream::Upstream));
    assert!(world.client.create(&asked).await.expect("created").toxics.is_empty());
    assert!(world.client.populate(&[Proxy { name: "q".into(), ..asked }]).await.expect("made")[0].toxics.is_empty());
}

async fn bad_values_are_taken_and_kill_it() {
    // P68
    let world = World::of_real().await;
    let pair = world.pair().await;
    for toxic in [
        Toxic::of_kind("latency", Stream::Upstream).with("latency", -1),
        Toxic::noop(Stream::Upstream).with_toxicity(1.5),
        Toxic::of_kind("slicer", Stream::Downstream),
        Toxic::of_kind("bandwidth", Stream::Upstream).with("rate", -1),
    ] {
        world.client.add_toxic("p", &toxic).await.expect("added");
    }
    // A refused update has done half of its work.
    let change = json!({"attributes": {"latency": 5, "jitter": 0.5}}).to_string();
    let answer = world.raw("PATCH", "/proxies/p/toxics/latency_upstream", change).await;
    assert_eq!(
        (
            answer.status,
            world.client.toxic("p", "latency_upstream").await.expect("there").attributes["latency"].clone()
        ),
        (400, json!(5))
    );
    let mut client = pair.client;
    send(&mut client, b"through the negative rate").await;
    crate::fixture::within("its end", async {
        while world.client.version().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn a_full_sink_hangs_the_api() {
    // P46 P60
    let world = World::of_real().await;
    let mut pair = world.pair().await;
    fill(&mut pair.client).await;
    let client = world.client.clone().with_request_limit(HANGS);
    assert_eq!(client.add_toxic("p", &Toxic::noop(Stream::Upstream)).await.expect_err("no answer").status(), None);
    assert_eq!(client.get("p").await.expect_err("reads hang, too").status(), None);
}

async fn a_hanging_dial_holds_up_the_next_client() {
    // P73
    let world = World::of_real().await;
    let (_socket, _waiting, address) = hanging_upstream().await;
    let proxy = world.proxy("p", &address).await;
    let _first = connect(&proxy.listen).await;
    let client = world.client.clone().with_request_limit(HANGS);
    assert_eq!(client.disable("p").await.expect_err("no answer").status(), None);
}

async fn reset_does_not_name_what_failed() {
    // P76
    let world = World::of_real().await;
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let stuck = Proxy::new("stuck", taken.local_addr().expect("bound").to_string(), "127.0.0.1:1");
    world.client.create(&Proxy { enabled: false, ..stuck }).await.expect("created");
    let error = world.client.reset().await.expect_err("it cannot start").to_string();
    assert!(error.contains("address already in use") && !error.contains("stuck"), "{error}");
}

async fn a_move_that_fails_leaves_the_new_address_and_nothing_there() {
    // P77
    let world = World::of_real().await;
    let proxy = world.proxy("p", &echo().await).await;
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let listen = taken.local_addr().expect("bound").to_string();
    let change = ProxyUpdate { listen: Some(listen.clone()), ..ProxyUpdate::default() };
    assert_eq!(world.client.update("p", &change).await.expect_err("taken").status(), Some(500));
    let left = world.client.get("p").await.expect("there");
    assert_eq!((left.listen, left.enabled), (listen, false));
    assert!(is_closed(&proxy.listen).await);
}

async fn a_bad_config_file_does_not_stop_it() {
    // P79
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("proxies.json");
    std::fs::write(&file, "[{\"name\":\"\"}]").expect("written");
    let process = RealProcess::start(&["-config", file.to_str().expect("a plain path")]);
    let world = World::of(process).await;
    assert!(world.client.list().await.expect("a list").is_empty());
}

async fn all_interfaces_of_one_family_become_those_of_both() {
    // P14
    let world = World::of_real().await;
    let proxy = world.proxy_on("0.0.0.0", "p", "127.0.0.1:1").await;
    assert!(proxy.listen.starts_with("[::]:"), "{}", proxy.listen);
}

async fn a_logger_must_be_an_object() {
    // P15
    let world = World::of_real().await;
    let answer = world.raw("POST", "/proxies", json!({"Logger": 1}).to_string()).await;
    let field = "Go struct field Proxy.Logger of type zerolog.Logger";
    answer.is_error(400, &format!("bad request body: json: cannot unmarshal number into {field}"));
}

async fn what_we_add_is_not_there() {
    // P61 P62 P70 P75
    let world = World::of_real().await;
    let mut pair = world.pair().await;
    assert_eq!(world.raw("GET", "/metrics", "").await.status, 404, "it needs its flags");
    assert!(world.client.effects("p").await.expect_err("unknown").is_not_found());
    let refused = world.client.add_toxic("p", &Toxic::hold(Stream::Upstream)).await.expect_err("unknown");
    assert!(refused.to_string().ends_with("invalid toxic type"), "{refused}");
    let unknown = Toxic::timeout(Stream::Upstream, Duration::ZERO).with("deadline", 1);
    assert!(!world.client.add_toxic("p", &unknown).await.expect("added").attributes.contains_key("deadline"));
    world.client.remove_toxic("p", "timeout_upstream").await.expect("removed");
    assert_eq!(receive_to_end(&mut pair.client).await, b"");
    let (mut client, mut server) = connect_through(&pair.proxy, &pair.upstream).await;
    send(&mut client, b"x").await;
    assert_eq!(receive(&mut server, 1).await, b"x");
}

crate::trials! {
    real: [
        half_closes_become_closes, reset_peer_spares_open_connections_and_hits_later_ones,
        toxics_in_an_entry_are_ignored, bad_values_are_taken_and_kill_it, a_full_sink_hangs_the_api,
        a_hanging_dial_holds_up_the_next_client, reset_does_not_name_what_failed,
        a_move_that_fails_leaves_the_new_address_and_nothing_there, a_bad_config_file_does_not_stop_it,
        all_interfaces_of_one_family_become_those_of_both, a_logger_must_be_an_object, what_we_add_is_not_there
    ]
}
