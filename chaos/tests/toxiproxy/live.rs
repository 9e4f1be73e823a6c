//! Changes while traffic flows, and peers that do not play along.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use stormproof_chaos::toxiproxy::{DialFailure, ProxyUpdate, ServerConfig, Stream, Toxic};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::{
    Pair, Server, World, connect, connect_is_reset, connect_through, echo, receive, receive_to_end, round_trip, send,
    spare_address, within,
};

async fn numbered_messages_survive_a_toxic_that_comes_and_goes(server: Server) {
    // P43
    let world = World::new(server).await;
    let Pair { mut client, mut server, upstream: _upstream, .. } = world.pair().await;
    let done = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(async move {
        for number in 0..65_535_u32 {
            client.write_all(&number.to_be_bytes()).await.expect("sent");
        }
        client.shutdown().await.expect("the end");
        client
    });
    let reader_done = Arc::clone(&done);
    let reader = tokio::spawn(async move {
        for expected in 0..65_535_u32 {
            assert_eq!(server.read_u32().await.expect("a message"), expected);
        }
        let end = server.read_u8().await;
        reader_done.store(true, SeqCst);
        end.expect_err("the end of the stream").kind()
    });
    let mut changes = 0;
    let changing = async {
        let kinds = [
            Toxic::latency(Stream::Upstream, Duration::from_millis(1), Duration::from_millis(1)),
            Toxic::noop(Stream::Upstream),
            Toxic::slicer(Stream::Upstream, 100, 50, Duration::ZERO),
            Toxic::bandwidth(Stream::Upstream, 100_000),
        ];
        while !done.load(SeqCst) && !reader.is_finished() {
            let toxic = kinds[changes % kinds.len()].clone();
            world.client.add_toxic("p", &toxic).await.expect("added");
            world.client.remove_toxic("p", &toxic.name).await.expect("removed");
            changes += 1;
        }
    };
    within("the messages", changing).await;
    assert_eq!(within("the reader", reader).await.expect("in order"), std::io::ErrorKind::UnexpectedEof);
    within("the writer", writer).await.expect("sent all");
    assert!(changes > 0);
}

async fn a_thousand_short_connections_while_latency_comes_and_goes(server: Server) {
    // P48
    let world = World::new(server).await;
    let upstream = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let proxy = world.proxy("p", &upstream.local_addr().expect("bound").to_string()).await;
    let total = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&total);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = upstream.accept().await {
            let sum = Arc::clone(&sum);
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes).await;
                sum.fetch_add(bytes.len() as u64, SeqCst);
            });
        }
    });
    let clients = async {
        for _ in 0..1_000 {
            let mut client = connect(&proxy.listen).await;
            send(&mut client, b"hello").await;
        }
    };
    let changes = async {
        let latency = Toxic::latency(Stream::Upstream, Duration::from_millis(3), Duration::ZERO);
        loop {
            world.client.add_toxic("p", &latency).await.expect("added");
            world.client.remove_toxic("p", &latency.name).await.expect("removed");
        }
    };
    tokio::select! {
        () = clients => {}
        () = changes => {}
    }
    within("every byte arrives", async {
        while total.load(SeqCst) < 5_000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(total.load(SeqCst), 5_000);
}

async fn open_connections_survive_noops_and_resets(server: Server) {
    // P58
    let world = World::new(server).await;
    let proxy = world.proxy("p", &echo().await).await;
    let mut open = connect(&proxy.listen).await;
    for _ in 0..2 {
        for stream in Stream::BOTH {
            world.client.add_toxic("p", &Toxic::noop(stream)).await.expect("added");
            round_trip(&mut open, b"with").await;
        }
        world.client.reset().await.expect("reset");
        round_trip(&mut open, b"without").await;
    }
}

async fn echoes_go_on_while_noops_flip(server: Server) {
    // P59
    let world = World::new(server).await;
    let proxy = world.proxy("p", &echo().await).await;
    let mut open = connect(&proxy.listen).await;
    for round in 0..100_u32 {
        let stream = if round % 2 == 0 { Stream::Upstream } else { Stream::Downstream };
        world.client.add_toxic("p", &Toxic::noop(stream).named("flip")).await.expect("added");
        round_trip(&mut open, &round.to_be_bytes()).await;
        world.client.remove_toxic("p", "flip").await.expect("removed");
    }
}

/// Writes until nothing more fits anywhere between the client and a server that does not read.
pub(crate) async fn fill(client: &mut TcpStream) {
    let block = vec![1; 256 * 1024];
    while tokio::time::timeout(Duration::from_millis(300), client.write_all(&block)).await.is_ok() {}
}

async fn every_change_takes_effect_though_the_sink_is_full() {
    // P46 P60: a change that some link has not put into effect would be answered 503.
    let world = World::of_ours().await;
    let mut pair = world.pair().await;
    fill(&mut pair.client).await;
    let toxics = [
        Toxic::noop(Stream::Upstream),
        Toxic::latency(Stream::Upstream, Duration::from_secs(1_000), Duration::ZERO),
        Toxic::bandwidth(Stream::Upstream, 1),
        Toxic::slicer(Stream::Upstream, 100, 0, Duration::from_secs(1)),
        Toxic::limit_data(Stream::Upstream, 1 << 40),
        Toxic::hold(Stream::Upstream),
        Toxic::slow_close(Stream::Upstream, Duration::from_secs(1_000)),
        Toxic::reset_peer(Stream::Upstream, Duration::from_secs(1_000)),
    ];
    for toxic in &toxics {
        world.client.add_toxic("p", toxic).await.expect("added");
        world.client.update_toxic("p", toxic).await.expect("updated");
    }
    for toxic in &toxics {
        world.client.remove_toxic("p", &toxic.name).await.expect("removed");
    }
    world.client.get("p").await.expect("reads do not wait");
    world.client.disable("p").await.expect("disabled");
    assert_eq!(world.client.effects("p").await.expect("effects").connections_open, 0);
}

async fn removing_a_toxic_whose_peers_are_gone_returns(server: Server) {
    // P46
    let world = World::new(server).await;
    for toxic in [
        Toxic::limit_data(Stream::Upstream, 1),
        Toxic::latency(Stream::Upstream, Duration::from_secs(100), Duration::ZERO),
        Toxic::timeout(Stream::Upstream, Duration::ZERO),
    ] {
        let Pair { mut client, server, upstream: _upstream, .. } = world.pair().await;
        world.client.add_toxic("p", &toxic).await.expect("added");
        send(&mut client, b"abc").await;
        drop(server);
        drop(client);
        world.client.remove_toxic("p", &toxic.name).await.expect("removed");
        world.client.delete("p").await.expect("deleted");
    }
}

async fn latency_before_a_black_hole_can_be_removed(server: Server) {
    // P56
    let world = World::new(server).await;
    let mut pair = world.pair().await;
    let latency = Toxic::latency(Stream::Upstream, Duration::from_secs(100), Duration::ZERO);
    world.client.add_toxic("p", &latency).await.expect("added");
    world.client.add_toxic("p", &Toxic::timeout(Stream::Upstream, Duration::from_secs(100))).await.expect("added");
    for _ in 0..5 {
        send(&mut pair.client, b"hello").await;
    }
    world.client.remove_toxic("p", &latency.name).await.expect("removed within a second");
}

/// A listener whose backlog is full: a dial to it hangs.
pub(crate) async fn hanging_upstream() -> (socket2::Socket, Vec<TcpStream>, String) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    socket.listen(1).expect("listens");
    let address = socket.local_addr().expect("bound").as_socket().expect("IPv4").to_string();
    let mut waiting = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(&address)).await {
        waiting.push(stream.expect("connected"));
    }
    (socket, waiting, address)
}

async fn a_hanging_dial_holds_up_nobody() {
    // P73
    let dial_limit = Duration::from_secs(600);
    let world = World::ours(ServerConfig { dial_limit, ..ServerConfig::default() }).await;
    let (_socket, _waiting, address) = hanging_upstream().await;
    let proxy = world.proxy("p", &address).await;
    let mut first = connect(&proxy.listen).await;
    let _second = connect(&proxy.listen).await;
    within("both are accepted", async {
        while world.client.effects("p").await.expect("effects").connections_open < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    world.client.disable("p").await.expect("disabled");
    assert_eq!(receive_to_end(&mut first).await, b"");
    let effects = world.client.effects("p").await.expect("effects");
    assert_eq!((effects.connections_cut, effects.connections_open), (2, 0));
    // With a working upstream the next client is served.
    let change = ProxyUpdate { upstream: Some(echo().await), enabled: Some(true), ..ProxyUpdate::default() };
    world.client.update("p", &change).await.expect("changed");
    round_trip(&mut connect(&proxy.listen).await, b"served").await;
}

async fn a_dial_has_a_limit_and_its_failure_can_be_a_reset() {
    // P36 P73
    let config = ServerConfig {
        dial_limit: Duration::from_millis(30),
        dial_failure: DialFailure::Reset,
        ..ServerConfig::default()
    };
    let world = World::ours(config).await;
    let (_socket, _waiting, address) = hanging_upstream().await;
    let slow = world.proxy("slow", &address).await;
    assert!(connect_is_reset(&slow.listen).await);
    let dead = world.proxy("dead", &spare_address().await).await;
    assert!(connect_is_reset(&dead.listen).await);
    assert_eq!(world.client.effects("dead").await.expect("effects").connections_refused, 1);
}

async fn many_toxics_on_many_connections_change_at_once(server: Server) {
    let world = World::new(server).await;
    let first = world.pair().await;
    let mut pairs = Vec::new();
    for _ in 0..50 {
        pairs.push(connect_through(&first.proxy, &first.upstream).await);
    }
    world.client.add_toxic("p", &Toxic::limit_data(Stream::Downstream, 2)).await.expect("added");
    for (client, server) in &mut pairs {
        send(server, b"abc").await;
        assert_eq!(receive_to_end(client).await, b"ab");
    }
    let start = Instant::now();
    world.client.delete("p").await.expect("deleted");
    assert!(start.elapsed() < Duration::from_secs(10));
}

async fn shutdown_closes_every_port_and_connection() {
    let server = stormproof_chaos::toxiproxy::ToxiproxyServer::start(ServerConfig::default()).await.expect("starts");
    let client = stormproof_chaos::toxiproxy::ToxiproxyClient::new(server.url());
    let upstream = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = upstream.local_addr().expect("bound").to_string();
    let listen = spare_address().await;
    let asked = stormproof_chaos::toxiproxy::Proxy::new("p", listen, address);
    let proxy = client.create(&asked).await.expect("created");
    let (mut open, mut far) = connect_through(&proxy, &upstream).await;
    send(&mut open, b"x").await;
    assert_eq!(receive(&mut far, 1).await, b"x");
    within("shutdown", server.shutdown()).await;
    assert_eq!(receive_to_end(&mut open).await, b"");
    assert!(crate::fixture::is_closed(&proxy.listen).await);
    assert!(client.version().await.is_err(), "the API still answers");
}

crate::trials! {
    both: [numbered_messages_survive_a_toxic_that_comes_and_goes, a_thousand_short_connections_while_latency_comes_and_goes, open_connections_survive_noops_and_resets, echoes_go_on_while_noops_flip, removing_a_toxic_whose_peers_are_gone_returns, latency_before_a_black_hole_can_be_removed, many_toxics_on_many_connections_change_at_once]
    ours: [every_change_takes_effect_though_the_sink_is_full, a_hanging_dial_holds_up_nobody, a_dial_has_a_limit_and_its_failure_can_be_a_reset, shutdown_closes_every_port_and_connection]
}
