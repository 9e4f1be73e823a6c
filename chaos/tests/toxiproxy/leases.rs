//! Faults under a lease end in the proxy itself, when nobody renews it.

use std::time::Duration;

use stormproof_chaos::fault::{BlackholeStore, Fault, RefuseStore, StoreLink};
use stormproof_chaos::toxiproxy::{Proxy, ProxyLease, Stream, Toxic};

use crate::fixture::{Server, World, connect, echo, is_closed, round_trip, within};

/// Not renewed by anybody, this is over soon; a test that is delayed for longer must not depend on it.
const BRIEF: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(600);

async fn until(world: &World, what: &str, fact: impl Fn(&Proxy) -> bool) {
    within(what, async {
        while !fact(&world.client.get("p").await.expect("there")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn take_raw(world: &World, id: &str, ttl: Duration) {
    let body = serde_json::json!({ "id": id, "ttl_ms": u64::try_from(ttl.as_millis()).expect("short") });
    assert_eq!(world.raw("POST", "/leases", body.to_string()).await.status, 201);
}

/// Sends a change that belongs to a lease.
async fn under(world: &World, lease: &str, method: &str, path: &str, body: &str) -> u16 {
    let url = format!("{}{path}", world.client.base_url());
    let request = world.http.request(method.parse().expect("a method"), url).header("x-stormproof-lease", lease);
    within(path, request.body(body.to_owned()).send()).await.expect("an answer").status().as_u16()
}

async fn what_nobody_renews_ends_and_the_rest_stays() {
    let world = World::of_ours().await;
    let proxy = world.proxy("p", &echo().await).await;
    let theirs = Toxic::noop(Stream::Upstream).named("theirs");
    world.client.add_toxic("p", &theirs).await.expect("added");
    take_raw(&world, "long", LONG).await;
    take_raw(&world, "brief", BRIEF).await;
    let toxic = r#"{"name": "kept", "type": "noop"}"#;
    assert_eq!(under(&world, "long", "POST", "/proxies/p/toxics", toxic).await, 200);
    // If this machine took so long that it has ended already, the toxic is refused: that is right as well.
    let hole = r#"{"name": "hole", "type": "timeout"}"#;
    let added = under(&world, "brief", "POST", "/proxies/p/toxics", hole).await;
    let disabled = under(&world, "brief", "PATCH", "/proxies/p", r#"{"enabled": false}"#).await;
    assert!([200, 404].contains(&added) && [200, 404].contains(&disabled), "{added} {disabled}");
    until(&world, "the brief lease ends", |proxy| proxy.enabled && proxy.toxics.len() == 2).await;
    let left = world.client.toxics("p").await.expect("listed");
    assert_eq!(left.iter().map(|toxic| toxic.name.as_str()).collect::<Vec<_>>(), ["theirs", "kept"]);
    round_trip(&mut connect(&proxy.listen).await, b"it works again").await;
    assert_eq!(world.raw("PATCH", "/leases/brief", r#"{"ttl_ms": 1000}"#).await.status, 404, "it has ended");
    assert_eq!(under(&world, "brief", "POST", "/proxies/p/toxics", hole).await, 404, "nothing is done under it");
    assert_eq!(world.client.toxics("p").await.expect("listed").len(), 2);
    assert_eq!(world.raw("DELETE", "/leases/long", "").await.status, 204);
    assert_eq!(world.client.toxics("p").await.expect("listed"), [theirs]);
}

async fn what_somebody_else_disabled_later_stays_disabled() {
    let world = World::of_ours().await;
    world.proxy("p", "127.0.0.1:9").await;
    take_raw(&world, "a", LONG).await;
    assert_eq!(under(&world, "a", "PATCH", "/proxies/p", r#"{"enabled": false}"#).await, 200);
    // A guardian heals, and a person disables it for a reason of their own.
    world.client.enable("p").await.expect("enabled");
    world.client.disable("p").await.expect("disabled");
    assert_eq!(world.raw("DELETE", "/leases/a", "").await.status, 204);
    assert!(!world.client.get("p").await.expect("there").enabled);
}

async fn a_lease_lasts_while_its_holder_renews_it() {
    let world = World::of_ours().await;
    world.proxy("p", &echo().await).await;
    // Generous: a starved machine may delay a renewal.
    let ttl = Duration::from_secs(3);
    let lease = ProxyLease::take(&world.client, ttl).await.expect("an answer").expect("it is our server");
    lease.client().disable("p").await.expect("disabled");
    // Longer than it would last by itself.
    tokio::time::sleep(ttl + ttl / 3).await;
    assert!(!world.client.get("p").await.expect("there").enabled);
    assert!(!lease.is_lost());
    drop(lease);
    until(&world, "it ends when nobody renews it", |proxy| proxy.enabled).await;
}

async fn leases_that_make_no_sense_are_refused() {
    let world = World::of_ours().await;
    for body in
        ["{}", r#"{"id": "a"}"#, r#"{"ttl_ms": 5}"#, r#"{"id": "a", "ttl_ms": 0}"#, r#"{"id": "a", "ttl_ms": 3600001}"#]
    {
        assert_eq!(world.raw("POST", "/leases", body).await.status, 400, "{body}");
    }
    take_raw(&world, "a", LONG).await;
    assert_eq!(world.raw("POST", "/leases", r#"{"id": "a", "ttl_ms": 5}"#).await.status, 409);
    assert_eq!(world.raw("DELETE", "/leases/b", "").await.status, 404);
}

async fn a_fault_that_the_proxy_ended_is_no_success() {
    let world = World::of_ours().await;
    let proxy = world.proxy("p", &echo().await).await;
    let link = || StoreLink {
        client: world.client.clone(),
        proxy: "p".to_owned(),
        address: proxy.listen.clone(),
        lease_ttl: LONG,
    };
    let mut faults: [Box<dyn Fault>; 2] =
        [Box::new(BlackholeStore::new(link(), "t")), Box::new(RefuseStore::new(link()))];
    for fault in &mut faults {
        fault.inject().await.expect("injected");
        fault.effect().await.expect("held");
        fault.heal().await.expect("healed");
        until(&world, "nothing is left", |proxy| proxy.enabled && proxy.toxics.is_empty()).await;
    }
    assert!(!is_closed(&proxy.listen).await);
    let brief = StoreLink { lease_ttl: Duration::from_millis(1), ..link() };
    let mut fault = RefuseStore::new(brief);
    // A lease of a millisecond has ended before anything is done under it, or right afterwards.
    let refused = match fault.inject().await {
        Err(error) => error.to_string(),
        Ok(()) => {
            within("it is told", async {
                loop {
                    match fault.effect().await {
                        Err(error) => return error.to_string(),
                        Ok(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                    }
                }
            })
            .await
        }
    };
    assert!(!refused.is_empty());
    until(&world, "the proxy is enabled", |proxy| proxy.enabled).await;
}

async fn a_real_one_knows_no_leases(server: Server) {
    let world = World::new(server).await;
    let lease = ProxyLease::take(&world.client, LONG).await.expect("an answer");
    assert_eq!(lease.is_some(), server == Server::Ours);
}

crate::trials! {
    both: [a_real_one_knows_no_leases]
    ours: [
        what_nobody_renews_ends_and_the_rest_stays,
        what_somebody_else_disabled_later_stays_disabled,
        a_lease_lasts_while_its_holder_renews_it,
        leases_that_make_no_sense_are_refused,
        a_fault_that_the_proxy_ended_is_no_success
    ]
}
