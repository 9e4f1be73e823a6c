//! Faults on any proxy, under leases: what they did is known from our server, and nothing is left of them.

use std::time::Duration;

use stormproof_chaos::fault::{Effect, Fault, FaultError, PartitionNetwork, ProxyDown, ProxyToxics, SilentLink};
use stormproof_chaos::journal::DEFAULT_TTL;
use stormproof_chaos::toxiproxy::{Stream, Toxic};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::fixture::{Server, World, connect, echo, receive, round_trip, send, stays_silent, within};

const TAG: &str = "7-f";

/// Asks until `fault` is known to have done something, or for good with a real Toxiproxy.
async fn felt(fault: &mut dyn Fault, server: Server) -> Effect {
    within("somebody feels it", async {
        loop {
            let effect = fault.effect().await.expect("it can be asked");
            if effect.bites || server == Server::Real {
                return effect;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
}

async fn a_black_hole_is_felt_and_leaves_toxics_of_others(server: Server) {
    let world = World::new(server).await;
    let mut pair = world.pair().await;
    let foreign = Toxic::latency(Stream::Upstream, Duration::from_millis(1), Duration::ZERO).named("not-ours");
    world.client.add_toxic("p", &foreign).await.expect("added");
    let is_ours = server == Server::Ours;
    let mut fault = ProxyToxics::blackhole(world.client.clone(), "p", is_ours, TAG, DEFAULT_TTL);
    fault.inject().await.expect("injected");
    assert!(!fault.is_healed().await.expect("known"));
    let before = fault.effect().await.expect("known");
    assert_eq!((before.bites, before.is_unknown()), (false, !is_ours));
    pair.client.write_all(b"into the hole").await.expect("taken");
    let effect = felt(&mut fault, server).await;
    assert_eq!((effect.bites, effect.is_unknown()), (is_ours, !is_ours), "{effect:?}");
    fault.heal().await.expect("healed");
    assert!(fault.is_healed().await.expect("known"));
    fault.heal().await.expect("already gone is done");
    let left = world.client.toxics("p").await.expect("listed");
    assert_eq!(left.iter().map(|toxic| toxic.name.as_str()).collect::<Vec<_>>(), ["not-ours"]);
    if is_ours {
        assert_eq!((effect.counts["connections_hit"], effect.counts["bytes_held"]), (1, 13));
        let mut late = [0; 13];
        within("it arrives late", pair.server.read_exact(&mut late)).await.expect("whole");
        assert_eq!(&late, b"into the hole");
    }
}

async fn a_disabled_proxy_is_enabled_and_tells_what_it_cut(server: Server) {
    let world = World::new(server).await;
    let _pair = world.pair().await;
    let mut fault = ProxyDown::new(world.client.clone(), "p", DEFAULT_TTL);
    fault.inject().await.expect("injected");
    assert!(!fault.is_healed().await.expect("known"));
    assert!(!world.client.get("p").await.expect("there").enabled);
    let effect = felt(&mut fault, server).await;
    if server == Server::Ours {
        assert_eq!(effect.counts["connections_cut"], 1);
    } else {
        assert!(effect.is_unknown(), "{effect:?}");
    }
    fault.heal().await.expect("healed");
    assert!(fault.is_healed().await.expect("known"));
    // The second time there is nobody to cut.
    let mut again = ProxyDown::new(world.client.clone(), "p", DEFAULT_TTL);
    again.inject().await.expect("injected");
    assert!(again.effect().await.expect("known").is_unknown(), "who was refused is not known");
    again.heal().await.expect("healed");
}

async fn a_proxy_that_is_gone_has_nothing_left(server: Server) {
    let world = World::new(server).await;
    world.proxy("p", "127.0.0.1:9").await;
    let mut toxics = ProxyToxics::blackhole(world.client.clone(), "p", false, TAG, DEFAULT_TTL);
    let mut down = ProxyDown::new(world.client.clone(), "p", DEFAULT_TTL);
    toxics.inject().await.expect("injected");
    down.inject().await.expect("injected");
    world.client.delete("p").await.expect("deleted");
    let faults: [&mut dyn Fault; 2] = [&mut toxics, &mut down];
    for fault in faults {
        fault.heal().await.expect("nothing is left");
        assert!(fault.is_healed().await.expect("known"));
    }
}

async fn a_toxic_that_the_server_does_not_know_is_refused(server: Server) {
    let world = World::new(server).await;
    world.proxy("p", "127.0.0.1:9").await;
    let toxic = Toxic::of_kind("latencyy", Stream::Upstream);
    let mut fault = ProxyToxics::one(world.client.clone(), "p", toxic, TAG, DEFAULT_TTL);
    let refused = fault.inject().await.expect_err("refused");
    let source = std::error::Error::source(&refused).expect("the server's words").to_string();
    assert!(source.contains("invalid toxic type"), "{source}");
    fault.heal().await.expect("nothing was done");
}

async fn an_attribute_that_the_server_ignores_is_refused(server: Server) {
    let world = World::new(server).await;
    world.proxy("p", "127.0.0.1:9").await;
    // Without its rate it would be a stall.
    let toxic = Toxic::bandwidth(Stream::Upstream, 0).with("rat", 1000);
    let mut fault = ProxyToxics::one(world.client.clone(), "p", toxic, TAG, DEFAULT_TTL);
    let refused = fault.inject().await.expect_err("refused");
    let source = std::error::Error::source(&refused).expect("why").to_string();
    assert_eq!(source, "a bandwidth toxic has no attribute rat; it has rate");
    fault.heal().await.expect("taken back");
    assert!(fault.is_healed().await.expect("known"));
}

async fn what_somebody_else_ends_has_ended_before_its_time(server: Server) {
    let world = World::new(server).await;
    world.proxy("p", "127.0.0.1:9").await;
    let is_ours = server == Server::Ours;
    let mut toxics = ProxyToxics::blackhole(world.client.clone(), "p", is_ours, TAG, DEFAULT_TTL);
    toxics.inject().await.expect("injected");
    let mut down = ProxyDown::new(world.client.clone(), "p", DEFAULT_TTL);
    down.inject().await.expect("injected");
    let faults: [&mut dyn Fault; 2] = [&mut toxics, &mut down];
    world.client.reset().await.expect("reset");
    for fault in faults {
        let ended = fault.effect().await.expect_err("told");
        assert!(matches!(ended, FaultError::Ended { .. }), "{ended}");
        fault.heal().await.expect("already gone is done");
    }
}

async fn a_lease_that_ends_while_it_is_injected_is_lost() {
    let world = World::of_ours().await;
    world.proxy("p", "127.0.0.1:9").await;
    // Over before anything can be done under it, or right afterwards.
    let brief = Duration::from_millis(1);
    let lost = |fault: Box<dyn Fault>| async {
        let mut fault = fault;
        within("it is told", async {
            loop {
                let told = match fault.inject().await {
                    Ok(()) => fault.effect().await.map(drop),
                    refused => refused,
                };
                match told {
                    Err(FaultError::LeaseLost { .. }) => return,
                    Err(other) => panic!("{other}"),
                    Ok(()) => drop(fault.heal().await),
                }
            }
        })
        .await;
    };
    lost(Box::new(ProxyToxics::blackhole(world.client.clone(), "p", true, TAG, brief))).await;
    lost(Box::new(ProxyDown::new(world.client.clone(), "p", brief))).await;
    within("the proxy is whole", async {
        loop {
            let proxy = world.client.get("p").await.expect("there");
            if proxy.enabled && proxy.toxics.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Two links: what is sent on the first one vanishes, nothing passes the second one, and a third one is none of ours.
async fn a_partition_silences_the_directions_it_names_and_loses_nothing() {
    let world = World::of_ours().await;
    let upstream = echo().await;
    let mut ends = vec![];
    for name in ["one-way", "both", "other"] {
        ends.push(connect(&world.proxy(name, &upstream).await.listen).await);
    }
    let [one_way, both, other] = &mut ends[..] else { unreachable!() };
    for end in [&mut *one_way, &mut *both] {
        round_trip(end, b"before").await;
    }
    let link = |proxy: &str, streams: &[Stream]| SilentLink { proxy: proxy.to_owned(), streams: streams.to_vec() };
    let links = [link("one-way", &[Stream::Upstream]), link("both", &Stream::BOTH)];
    let mut fault = PartitionNetwork::new("partition-network", "a, b", &world.client, &links, TAG, DEFAULT_TTL);
    assert_eq!(fault.describe().to_string(), "partition-network on a, b");
    assert_eq!(fault.undo().len(), 3, "each toxic is undone");
    fault.inject().await.expect("injected");
    let idle = fault.effect().await.expect("known");
    assert!(!idle.bites && !idle.is_unknown(), "nobody has sent anything: {idle:?}");
    for end in [&mut *one_way, &mut *both] {
        send(end, b"meanwhile").await;
        assert!(stays_silent(end).await);
    }
    round_trip(other, b"elsewhere").await;
    let felt = felt(&mut fault, Server::Ours).await;
    assert_eq!(felt.counts["bytes_held"], 18, "{felt:?}");
    assert_eq!(fault.counted().await["connections_hit"], 2);
    assert!(!fault.is_healed().await.expect("known"));
    fault.heal().await.expect("healed");
    assert!(fault.is_healed().await.expect("known"));
    for end in [one_way, both] {
        assert_eq!(receive(end, 9).await, b"meanwhile", "it arrives late");
    }
    for name in ["one-way", "both"] {
        assert!(world.client.toxics(name).await.expect("listed").is_empty());
    }
}

/// A server to which nothing comes still speaks.
async fn the_other_direction_of_a_partition_goes_on() {
    let world = World::of_ours().await;
    let mut pair = world.pair().await;
    let links = [SilentLink { proxy: "p".to_owned(), streams: vec![Stream::Upstream] }];
    let mut fault = PartitionNetwork::new("partition-network", "a", &world.client, &links, TAG, DEFAULT_TTL);
    fault.inject().await.expect("injected");
    send(&mut pair.client, b"into the void").await;
    send(&mut pair.server, b"heard").await;
    assert_eq!(receive(&mut pair.client, 5).await, b"heard");
    assert!(stays_silent(&mut pair.server).await);
    fault.heal().await.expect("healed");
    assert_eq!(receive(&mut pair.server, 13).await, b"into the void");
}

/// What cannot be injected whole is healed whole.
async fn a_partition_of_a_link_that_is_not_there_leaves_nothing() {
    let world = World::of_ours().await;
    world.proxy("p", "127.0.0.1:9").await;
    let links = ["p", "none"].map(|proxy| SilentLink { proxy: proxy.to_owned(), streams: vec![Stream::Downstream] });
    let mut fault = PartitionNetwork::new("partition-network", "a", &world.client, &links, TAG, DEFAULT_TTL);
    fault.inject().await.expect_err("there is no such proxy");
    fault.heal().await.expect("healed");
    assert!(fault.is_healed().await.expect("known"));
    assert!(world.client.toxics("p").await.expect("listed").is_empty());
}

crate::trials! {
    both: [
        a_black_hole_is_felt_and_leaves_toxics_of_others,
        a_disabled_proxy_is_enabled_and_tells_what_it_cut,
        a_proxy_that_is_gone_has_nothing_left,
        a_toxic_that_the_server_does_not_know_is_refused,
        an_attribute_that_the_server_ignores_is_refused,
        what_somebody_else_ends_has_ended_before_its_time
    ]
    ours: [
        a_lease_that_ends_while_it_is_injected_is_lost,
        a_partition_silences_the_directions_it_names_and_loses_nothing,
        the_other_direction_of_a_partition_goes_on,
        a_partition_of_a_link_that_is_not_there_leaves_nothing
    ]
}
