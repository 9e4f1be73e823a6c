//! "Did it bite?": what the effects say.

use std::time::Duration;

use stormproof_chaos::toxiproxy::{ProxyEffects, Stream, Toxic};

use crate::fixture::{World, connect, connect_through, is_reset, receive_to_end, round_trip, send, spare_address};

async fn effects(world: &World) -> ProxyEffects {
    world.client.effects("p").await.expect("effects")
}

/// Effects are counted by the connection's own task, so they can lag behind what a peer sees.
async fn settled(world: &World, is_right: impl Fn(&ProxyEffects) -> bool) -> ProxyEffects {
    crate::fixture::within("the effects are counted", async {
        loop {
            let effects = effects(world).await;
            if is_right(&effects) {
                return effects;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

async fn a_toxic_without_traffic_has_no_effect() {
    let world = World::of_ours().await;
    let _pair = world.pair().await;
    world.client.add_toxic("p", &Toxic::limit_data(Stream::Upstream, 0)).await.expect("added");
    let effects = effects(&world).await;
    let limit = effects.toxic("limit_data_upstream").expect("listed");
    assert_eq!((limit.connections_hit, limit.connections_closed), (0, 0));
    assert_eq!((effects.connections_accepted, effects.connections_open), (1, 1));
    assert!(world.client.effects("none").await.expect_err("no such proxy").is_not_found());
}

async fn what_was_dropped_and_closed_is_counted() {
    let world = World::of_ours().await;
    let mut pair = world.pair().await;
    world.client.add_toxic("p", &Toxic::limit_data(Stream::Upstream, 2).named("cut")).await.expect("added");
    send(&mut pair.client, b"abcde").await;
    assert_eq!(receive_to_end(&mut pair.server).await, b"ab");
    let effects = settled(&world, |effects| effects.connections_open == 0).await;
    let cut = effects.toxic("cut").expect("listed");
    assert_eq!((cut.connections_hit, cut.connections_closed, cut.dropped_bytes), (1, 1, 3));
    assert_eq!((effects.upstream_received_bytes, effects.upstream_sent_bytes), (5, 2));
    let (mut client, mut server) = connect_through(&pair.proxy, &pair.upstream).await;
    world.client.remove_toxic("p", "cut").await.expect("removed");
    world
        .client
        .add_toxic("p", &Toxic::reset_peer(Stream::Upstream, Duration::ZERO).named("cut"))
        .await
        .expect("added");
    send(&mut client, b"abc").await;
    assert!(is_reset(&mut server).await);
    let effects = settled(&world, |effects| effects.connections_open == 0).await;
    assert_eq!(effects.toxics.len(), 2, "the removed one is remembered");
    let young = effects.toxic("cut").expect("listed");
    assert_eq!((young.kind.as_str(), young.removed, young.dropped_bytes), ("reset_peer", false, 3));
}

async fn cuts_and_refusals_are_counted() {
    let world = World::of_ours().await;
    let proxy = world.proxy("p", &crate::fixture::echo().await).await;
    let mut open = connect(&proxy.listen).await;
    round_trip(&mut open, b"x").await;
    world.client.disable("p").await.expect("disabled");
    let effects = effects(&world).await;
    assert_eq!((effects.connections_cut, effects.connections_refused, effects.connections_open), (1, 0, 0));
    world.client.delete("p").await.expect("deleted");
    let proxy = world.proxy("p", &spare_address().await).await;
    assert_eq!(receive_to_end(&mut connect(&proxy.listen).await).await, b"");
    settled(&world, |effects| effects.connections_refused == 1).await;
}

crate::trials! {
    ours: [a_toxic_without_traffic_has_no_effect, what_was_dropped_and_closed_is_counted, cuts_and_refusals_are_counted]
}
