//! What toxics do to connections.

use std::time::{Duration, Instant};

use stormproof_chaos::toxiproxy::{Stream, Toxic};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use crate::fixture::{
    Pair, Server, World, connect, connect_through, echo, is_reset, receive, receive_to_end, reset, round_trip, send,
    spare_address, stays_silent, until, within,
};

async fn latency_delays_and_leaves_again(server: Server) {
    // P47: the exact times are asserted in virtual time; here only that it waits at least that long.
    let world = World::new(server).await;
    let mut pair = world.pair().await;
    for (stream, millis) in [(Stream::Upstream, 100), (Stream::Downstream, 60)] {
        let latency = Duration::from_millis(millis);
        world.client.add_toxic("p", &Toxic::latency(stream, latency, Duration::ZERO)).await.expect("added");
        let start = Instant::now();
        send(&mut pair.client, b"ping").await;
        assert_eq!(receive(&mut pair.server, 4).await, b"ping");
        send(&mut pair.server, b"pong").await;
        assert_eq!(receive(&mut pair.client, 4).await, b"pong");
        assert!(start.elapsed() >= latency, "{:?}", start.elapsed());
        world.client.remove_toxic("p", &format!("latency_{stream}")).await.expect("removed");
    }
    // Were the latency still there, this would not end in time.
    world
        .client
        .add_toxic("p", &Toxic::latency(Stream::Upstream, Duration::from_secs(3_600), Duration::ZERO))
        .await
        .expect("added");
    send(&mut pair.client, b"held").await;
    world.client.remove_toxic("p", "latency_upstream").await.expect("removed");
    assert_eq!(receive(&mut pair.server, 4).await, b"held");
}

async fn timeout_swallows_then_closes(server: Server) {
    let world = World::new(server).await;
    let mut pair = world.pair().await;
    let start = Instant::now();
    world.client.add_toxic("p", &Toxic::timeout(Stream::Downstream, Duration::from_millis(50))).await.expect("added");
    send(&mut pair.server, b"lost").await;
    assert_eq!(receive_to_end(&mut pair.client).await, b"");
    assert!(start.elapsed() >= Duration::from_millis(50));
    assert_eq!(receive_to_end(&mut pair.server).await, b"");
}

async fn removing_a_black_hole_closes_both_ends(server: Server) {
    // P57
    let world = World::new(server).await;
    let mut pair = world.pair().await;
    world.client.add_toxic("p", &Toxic::timeout(Stream::Upstream, Duration::ZERO)).await.expect("added");
    send(&mut pair.client, b"lost").await;
    assert!(stays_silent(&mut pair.server).await);
    let start = Instant::now();
    world.client.remove_toxic("p", "timeout_upstream").await.expect("removed");
    assert_eq!(receive_to_end(&mut pair.client).await, b"");
    assert_eq!(receive_to_end(&mut pair.server).await, b"");
    assert!(start.elapsed() < Duration::from_secs(10));
    let (mut client, mut server) = connect_through(&pair.proxy, &pair.upstream).await;
    send(&mut client, b"new").await;
    assert_eq!(receive(&mut server, 3).await, b"new");
}

async fn a_server_that_goes_is_heard_through_a_black_hole(server: Server) {
    let world = World::new(server).await;
    let mut pair = world.pair().await;
    world.client.add_toxic("p", &Toxic::timeout(Stream::Downstream, Duration::ZERO)).await.expect("added");
    send(&mut pair.server, b"lost").await;
    drop(pair.server);
    assert_eq!(receive_to_end(&mut pair.client).await, b"");
}

async fn a_black_hole_keeps_no_connection_whose_peers_are_gone() {
    let world = World::of_ours().await;
    let proxy = world.proxy("p", &echo().await).await;
    for stream in Stream::BOTH {
        world.client.add_toxic("p", &Toxic::timeout(stream, Duration::ZERO)).await.expect("added");
        for _ in 0..20 {
            send(&mut connect(&proxy.listen).await, b"x").await;
        }
        until(&world, |effects| effects.connections_open == 0).await;
        world.client.remove_toxic("p", &format!("timeout_{stream}")).await.expect("removed");
    }
}

async fn hold_keeps_no_connection_whose_peers_are_gone() {
    let world = World::of_ours().await;
    let Pair { proxy, upstream, mut client, server } = world.pair().await;
    for stream in Stream::BOTH {
        world.client.add_toxic("p", &Toxic::hold(stream)).await.expect("added");
    }
    drop(server);
    assert!(stays_silent(&mut client).await, "the client hears of the server's end");
    drop(client);
    until(&world, |effects| effects.connections_open == 0).await;
    // What is held would never arrive: the server is dead.
    let (mut client, server) = connect_through(&proxy, &upstream).await;
    send(&mut client, b"for later").await;
    // A server that is reset while it is still dialled is one that was never reached.
    until(&world, |effects| effects.upstream_received_bytes == 9).await;
    reset(server);
    assert!(stays_silent(&mut client).await, "the client hears of the server's end");
    drop(client);
    until(&world, |effects| effects.connections_open == 0).await;
    // Half-closed ends may still read: what is held for them is kept.
    let (mut client, mut server) = connect_through(&proxy, &upstream).await;
    send(&mut client, b"question").await;
    send(&mut server, b"answer").await;
    client.shutdown().await.expect("half closed");
    server.shutdown().await.expect("half closed");
    assert!(stays_silent(&mut client).await && stays_silent(&mut server).await);
    for stream in Stream::BOTH {
        world.client.remove_toxic("p", &format!("hold_{stream}")).await.expect("removed");
    }
    assert_eq!(receive_to_end(&mut client).await, b"answer");
    assert_eq!(receive_to_end(&mut server).await, b"question");
}

async fn reset_peer_resets_open_connections_and_leaves_nothing_behind() {
    // P53 P71
    let world = World::of_ours().await;
    for stream in Stream::BOTH {
        for timeout in [0, 10] {
            let mut pair = world.pair().await;
            let toxic = Toxic::reset_peer(stream, Duration::from_millis(timeout));
            world.client.add_toxic("p", &toxic).await.expect("added");
            let (mut during, mut far) = connect_through(&pair.proxy, &pair.upstream).await;
            for (client, server) in [(&mut pair.client, &mut pair.server), (&mut during, &mut far)] {
                send(if stream == Stream::Upstream { &mut *client } else { &mut *server }, b"x").await;
                assert!(is_reset(client).await, "the client saw a normal close ({stream}, {timeout} ms)");
                assert!(is_reset(server).await, "the server saw a normal close ({stream}, {timeout} ms)");
            }
            let (mut spared, mut spared_far) = connect_through(&pair.proxy, &pair.upstream).await;
            world.client.remove_toxic("p", &toxic.name).await.expect("removed");
            send(&mut spared, b"y").await;
            assert_eq!(receive(&mut spared_far, 1).await, b"y");
            drop(spared);
            assert_eq!(receive_to_end(&mut spared_far).await, b"", "a reset was left behind");
            world.client.delete("p").await.expect("deleted");
        }
    }
}

async fn hold_keeps_everything_for_later() {
    let world = World::of_ours().await;
    let mut pair = world.pair().await;
    world.client.add_toxic("p", &Toxic::hold(Stream::Upstream)).await.expect("added");
    send(&mut pair.client, b"for later").await;
    let (mut fresh, mut fresh_far) = connect_through(&pair.proxy, &pair.upstream).await;
    send(&mut fresh, b"me too").await;
    assert!(stays_silent(&mut pair.server).await);
    assert!(stays_silent(&mut fresh_far).await);
    let effects = world.client.effects("p").await.expect("effects");
    let hold = effects.toxic("hold_upstream").expect("listed");
    assert_eq!((hold.connections_hit, hold.held_bytes, hold.dropped_bytes, hold.removed), (2, 15, 0, false));
    world.client.remove_toxic("p", "hold_upstream").await.expect("removed");
    assert_eq!(receive(&mut pair.server, 9).await, b"for later");
    assert_eq!(receive(&mut fresh_far, 6).await, b"me too");
    assert!(world.client.effects("p").await.expect("effects").toxic("hold_upstream").expect("remembered").removed);
}

async fn a_toxic_for_some_clients_leaves_the_others_alone() {
    let world = World::of_ours().await;
    let proxy = world.proxy_on("127.0.0.1", "p", &echo().await).await;
    // A client on loopback comes from the address that it is bound to.
    let from = async |host: &str| {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(format!("{host}:0").parse().expect("an address")).expect("bound");
        let address = proxy.listen.parse().expect("an address");
        within("connect", socket.connect(address)).await
    };
    let mut here = from("127.0.0.1").await.expect("connected");
    world.client.add_toxic("p", &Toxic::hold(Stream::Upstream).for_clients("127.9.0.0/16")).await.expect("added");
    world.client.add_toxic("p", &Toxic::connect_refuse(0).for_clients("127.8.8.8")).await.expect("added");
    let mut there = from("127.9.1.1").await.expect("connected");
    send(&mut there, b"held").await;
    assert!(stays_silent(&mut there).await);
    round_trip(&mut here, b"passes").await;
    // The reset may come before the client has noticed that it is connected.
    if let Ok(mut refused) = from("127.8.8.8").await {
        assert!(is_reset(&mut refused).await);
    }
    let effects = world.client.effects("p").await.expect("effects");
    assert_eq!(effects.toxic("connect_refuse_upstream").expect("listed").connections_closed, 1);
    let hold = world.client.toxic("p", "hold_upstream").await.expect("there");
    assert_eq!(hold.attributes["clients"], "127.9.0.0/16");
    world.client.update_toxic("p", &hold.with("clients", "127.0.0.1")).await.expect("changed");
    assert_eq!(receive(&mut there, 4).await, b"held");
    send(&mut here, b"held").await;
    assert!(stays_silent(&mut here).await);
    let bad = Toxic::noop(Stream::Upstream).for_clients("localhost");
    assert_eq!(world.client.add_toxic("p", &bad).await.expect_err("no address").status(), Some(400));
}

async fn a_time_limit_cuts_what_has_passed_freely() {
    let world = World::of_ours().await;
    let mut pair = world.pair().await;
    let start = Instant::now();
    let limit = Duration::from_millis(300);
    world.client.add_toxic("p", &Toxic::limit_time(Stream::Downstream, limit)).await.expect("added");
    send(&mut pair.server, b"passes").await;
    assert_eq!(receive_to_end(&mut pair.client).await, b"passes");
    assert!(start.elapsed() >= limit, "{:?}", start.elapsed());
    assert_eq!(receive_to_end(&mut pair.server).await, b"");
    let effects = world.client.effects("p").await.expect("effects");
    let toxic = effects.toxic("limit_time_downstream").expect("listed");
    assert_eq!((toxic.connections_hit, toxic.connections_closed), (1, 1));
}

async fn a_half_close_stays_half() {
    // P72
    let world = World::of_ours().await;
    let mut pair = world.pair().await;
    send(&mut pair.client, b"question").await;
    pair.client.shutdown().await.expect("half closed");
    assert_eq!(receive_to_end(&mut pair.server).await, b"question");
    send(&mut pair.server, &[7; 100_000]).await;
    drop(pair.server);
    assert_eq!(receive_to_end(&mut pair.client).await.len(), 100_000);
}

async fn a_dead_upstream_is_a_close_and_the_proxy_lives_on(server: Server) {
    // P36
    let world = World::new(server).await;
    let proxy = world.proxy("p", &spare_address().await).await;
    for _ in 0..3 {
        assert_eq!(receive_to_end(&mut connect(&proxy.listen).await).await, b"");
    }
    let change =
        stormproof_chaos::toxiproxy::ProxyUpdate { upstream: Some(crate::fixture::echo().await), ..Default::default() };
    world.client.update("p", &change).await.expect("changed");
    round_trip(&mut connect(&proxy.listen).await, b"alive").await;
}

crate::trials! {
    both: [
        latency_delays_and_leaves_again,
        timeout_swallows_then_closes,
        removing_a_black_hole_closes_both_ends,
        a_server_that_goes_is_heard_through_a_black_hole,
        a_dead_upstream_is_a_close_and_the_proxy_lives_on
    ]
    ours: [
        a_black_hole_keeps_no_connection_whose_peers_are_gone,
        hold_keeps_no_connection_whose_peers_are_gone,
        reset_peer_resets_open_connections_and_leaves_nothing_behind,
        hold_keeps_everything_for_later,
        a_toxic_for_some_clients_leaves_the_others_alone,
        a_time_limit_cuts_what_has_passed_freely,
        a_half_close_stays_half
    ]
}
