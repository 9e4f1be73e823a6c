//! What new clients meet before their upstream is dialled.

use std::time::Duration;

use serde_json::json;
use stormproof_chaos::toxiproxy::{ServerConfig, Stream, Toxic};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fixture::{
    Pair, World, connect, connect_is_reset, echo, receive, round_trip, send, stays_silent, until, within,
};

async fn a_connect_blackhole_dials_nobody_until_it_is_removed() {
    let world = World::of_ours().await;
    let Pair { proxy, upstream, mut client, mut server } = world.pair().await;
    world.client.add_toxic("p", &Toxic::connect_blackhole(0)).await.expect("added");
    let mut fresh = connect(&proxy.listen).await;
    send(&mut fresh, b"for later").await;
    assert!(stays_silent(&mut fresh).await);
    let dial = tokio::time::timeout(Duration::from_millis(60), upstream.accept());
    assert!(dial.await.is_err(), "the upstream is dialled");
    send(&mut client, b"open already").await;
    assert_eq!(receive(&mut server, 12).await, b"open already");
    world.client.remove_toxic("p", "connect_blackhole_upstream").await.expect("removed");
    let (mut far, _) = within("the proxy dials", upstream.accept()).await.expect("accepts");
    assert_eq!(receive(&mut far, 9).await, b"for later");
    let effects = world.client.effects("p").await.expect("effects");
    let toxic = effects.toxic("connect_blackhole_upstream").expect("remembered");
    assert_eq!((toxic.connections_hit, toxic.connections_closed, toxic.dropped_bytes), (1, 0, 0));
}

async fn a_connect_blackhole_keeps_no_client_that_leaves() {
    let world = World::of_ours().await;
    let proxy = world.proxy("p", "127.0.0.1:9").await;
    world.client.add_toxic("p", &Toxic::connect_blackhole(0)).await.expect("added");
    for sent in [&b""[..], b"x"] {
        let mut client = connect(&proxy.listen).await;
        send(&mut client, sent).await;
        until(&world, |effects| effects.connections_open == 1).await;
        drop(client);
        until(&world, |effects| effects.connections_open == 0).await;
    }
    let mut client = connect(&proxy.listen).await;
    until(&world, |effects| effects.connections_open == 1).await;
    world.client.disable("p").await.expect("disabled");
    assert_eq!(crate::fixture::receive_to_end(&mut client).await, b"");
    assert_eq!(world.client.effects("p").await.expect("effects").connections_cut, 1);
}

async fn the_first_connections_fail_and_the_next_ones_work() {
    let world = World::of_ours().await;
    let proxy = world.proxy("p", &echo().await).await;
    world.client.add_toxic("p", &Toxic::connect_refuse(2)).await.expect("added");
    for _ in 0..2 {
        assert!(connect_is_reset(&proxy.listen).await);
    }
    round_trip(&mut connect(&proxy.listen).await, b"the third").await;
    let effects = world.client.effects("p").await.expect("effects");
    let toxic = effects.toxic("connect_refuse_upstream").expect("listed");
    assert_eq!((toxic.connections_hit, toxic.connections_closed), (2, 2));
    world.client.remove_toxic("p", "connect_refuse_upstream").await.expect("removed");
    world.client.add_toxic("p", &Toxic::connect_refuse(0)).await.expect("added");
    for _ in 0..5 {
        assert!(connect_is_reset(&proxy.listen).await);
    }
}

/// Which of 40 connections are refused.
async fn refused(seed: u64) -> Vec<bool> {
    let world = World::ours(ServerConfig { seed, ..ServerConfig::default() }).await;
    let proxy = world.proxy("p", &echo().await).await;
    world.client.add_toxic("p", &Toxic::connect_refuse(0).with_toxicity(0.5)).await.expect("added");
    let mut refused = vec![];
    for _ in 0..40 {
        // A reset may come before the client has noticed that it is connected.
        let echoed = async {
            let mut client = TcpStream::connect(&proxy.listen).await?;
            client.write_all(b"x").await?;
            client.read_u8().await
        };
        refused.push(within("an answer or a reset", echoed).await.is_err());
    }
    refused
}

async fn the_seed_decides_which_connections_are_refused() {
    let once = refused(7).await;
    assert_eq!(once, refused(7).await);
    assert!(once.contains(&true) && once.contains(&false), "{once:?}");
}

async fn packet_loss_is_refused_with_advice() {
    let world = World::of_ours().await;
    world.proxy("p", "127.0.0.1:9").await;
    let toxic = json!({"type": "packet_loss", "stream": "upstream", "attributes": {"loss_rate": 0.1}});
    let answer = world.raw("POST", "/proxies/p/toxics", toxic.to_string()).await;
    let said = answer.json()["error"].as_str().expect("a message").to_owned();
    assert_eq!(answer.status, 400);
    assert!(said.starts_with("invalid toxic type packet_loss: ") && said.contains("use latency with jitter"), "{said}");
    let toxic = Toxic::of_kind("packet_loss", Stream::Upstream);
    assert_eq!(world.client.add_toxic("p", &toxic).await.expect_err("refused").status(), Some(400));
}

crate::trials! {
    ours: [
        a_connect_blackhole_dials_nobody_until_it_is_removed,
        a_connect_blackhole_keeps_no_client_that_leaves,
        the_first_connections_fail_and_the_next_ones_work,
        the_seed_decides_which_connections_are_refused,
        packet_loss_is_refused_with_advice
    ]
}
