//! Proxies: create, show, change, delete.

use serde_json::json;
use stormproof_chaos::toxiproxy::{Proxy, ProxyUpdate, Stream, Toxic};
use tokio::net::TcpListener;

use crate::fixture::{Server, World, connect, echo, is_closed, receive_to_end, round_trip, spare_address};

async fn an_empty_server_lists_nothing(server: Server) {
    // P03
    let world = World::new(server).await;
    let answer = world.raw("GET", "/proxies", "").await;
    assert_eq!((answer.status, answer.text.as_str()), (200, "{}"));
}

async fn a_proxy_is_shown_as_it_runs(server: Server) {
    // P14 P15 P22
    let world = World::new(server).await;
    let upstream = echo().await;
    let created = world.client.create(&Proxy::new("p", "localhost:0", &upstream)).await.expect("created");
    assert!(created.listen.starts_with("127.0.0.1:") && created.listen != "127.0.0.1:0", "{}", created.listen);
    let mut shown = world.raw("GET", "/proxies/p", "").await.json();
    let mut listed = world.raw("GET", "/proxies", "").await.json();
    if server == Server::Real {
        // It shows a part of itself by mistake; nobody can make use of it.
        for proxy in [&mut shown, &mut listed["p"]] {
            assert_eq!(proxy.as_object_mut().expect("an object").remove("Logger"), Some(json!({})));
        }
    }
    let expected = json!({"name": "p", "listen": created.listen, "upstream": upstream, "enabled": true, "toxics": []});
    assert_eq!(shown, expected);
    assert_eq!(listed, json!({"p": expected}));
    round_trip(&mut connect(&created.listen).await, b"hello").await;
}

async fn a_disabled_proxy_keeps_its_text_and_its_port_closed(server: Server) {
    // P16 P17
    let world = World::new(server).await;
    let disabled = |name, listen: &str| Proxy { enabled: false, ..Proxy::new(name, listen, "127.0.0.1:1") };
    let named = world.client.create(&disabled("named", "localhost:0")).await.expect("created");
    assert_eq!((named.listen.as_str(), named.enabled), ("localhost:0", false));
    let spare = spare_address().await;
    world.client.create(&disabled("p", &spare)).await.expect("created");
    assert!(is_closed(&spare).await);
    assert!(world.client.enable("p").await.expect("enabled").enabled);
    assert!(!is_closed(&spare).await);
    assert!(!world.client.disable("p").await.expect("disabled").enabled);
    assert!(is_closed(&spare).await);
}

async fn stopping_and_starting_again_is_harmless(server: Server) {
    // P37 P39
    let world = World::new(server).await;
    let proxy = world.proxy("p", &echo().await).await;
    for _ in 0..3 {
        assert!(!world.client.disable("p").await.expect("harmless").enabled);
    }
    for _ in 0..2 {
        assert_eq!(world.client.enable("p").await.expect("enabled"), proxy);
    }
    round_trip(&mut connect(&proxy.listen).await, b"up").await;
}

async fn down_cuts_connections_and_keeps_toxics(server: Server) {
    let world = World::new(server).await;
    let proxy = world.proxy("p", &echo().await).await;
    world.client.add_toxic("p", &Toxic::noop(Stream::Upstream)).await.expect("added");
    let mut open = connect(&proxy.listen).await;
    round_trip(&mut open, b"before").await;
    world.client.disable("p").await.expect("disabled");
    assert_eq!(receive_to_end(&mut open).await, b"");
    let enabled = world.client.enable("p").await.expect("enabled");
    assert_eq!((enabled.listen, enabled.toxics.len()), (proxy.listen.clone(), 1));
    round_trip(&mut connect(&proxy.listen).await, b"after").await;
}

async fn delete_closes_the_port(server: Server) {
    // P18
    let world = World::new(server).await;
    let proxy = world.proxy("p", &echo().await).await;
    world.client.delete("p").await.expect("deleted");
    assert!(is_closed(&proxy.listen).await);
    assert!(world.client.list().await.expect("a list").is_empty());
    world.raw("DELETE", "/proxies/p", "").await.is_error(404, "proxy not found");
    assert!(world.client.delete("p").await.expect_err("gone").is_not_found());
}

async fn a_port_in_use_is_refused_until_it_is_free(server: Server) {
    // P19 P38 P42
    let world = World::new(server).await;
    let first = world.proxy("first", &echo().await).await;
    let second = Proxy::new("second", &first.listen, echo().await);
    let error = world.client.create(&second).await.expect_err("the port is taken");
    assert_eq!(error.status(), Some(500));
    assert!(
        error.to_string().contains(&format!("listen tcp {}: bind: address already in use", first.listen)),
        "{error}"
    );
    assert!(!world.client.list().await.expect("a list").contains_key("second"));
    world.client.delete("first").await.expect("deleted");
    let created = world.client.create(&second).await.expect("the port is free");
    round_trip(&mut connect(&created.listen).await, b"mine").await;
}

async fn a_conflict_at_enable_can_be_solved(server: Server) {
    // P42
    let world = World::new(server).await;
    let first = world.proxy("first", &echo().await).await;
    let asked = Proxy { enabled: false, ..Proxy::new("second", &first.listen, echo().await) };
    world.client.create(&asked).await.expect("created");
    assert_eq!(world.client.enable("second").await.expect_err("taken").status(), Some(500));
    world.client.disable("first").await.expect("disabled");
    assert!(world.client.enable("second").await.expect("free").enabled);
}

async fn a_name_in_use_is_refused_until_it_is_free(server: Server) {
    // P20
    let world = World::new(server).await;
    world.proxy("p", &echo().await).await;
    let body = json!({"name": "p", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1"}).to_string();
    world.raw("POST", "/proxies", body.clone()).await.is_error(409, "proxy already exists");
    world.client.delete("p").await.expect("deleted");
    assert_eq!(world.raw("POST", "/proxies", body).await.status, 201);
}

async fn reset_removes_toxics_and_enables(server: Server) {
    // P21
    let world = World::new(server).await;
    let proxy = world.proxy("p", &echo().await).await;
    world.client.add_toxic("p", &Toxic::noop(Stream::Upstream)).await.expect("added");
    world.client.disable("p").await.expect("disabled");
    let answer = world.raw("POST", "/reset", "").await;
    assert_eq!((answer.status, answer.text.as_str()), (204, ""));
    let shown = world.client.get("p").await.expect("still there");
    assert!(shown.enabled && shown.toxics.is_empty());
    round_trip(&mut connect(&proxy.listen).await, b"up").await;
}

async fn reset_goes_on_after_a_failure_and_names_it() {
    // P76
    let world = World::of_ours().await;
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let stuck = Proxy::new("a-stuck", taken.local_addr().expect("bound").to_string(), "127.0.0.1:1");
    world.client.create(&Proxy { enabled: false, ..stuck }).await.expect("created");
    world.proxy("b-good", &echo().await).await;
    world.client.add_toxic("b-good", &Toxic::noop(Stream::Upstream)).await.expect("added");
    world.client.disable("b-good").await.expect("disabled");
    let error = world.client.reset().await.expect_err("one cannot start").to_string();
    assert!(error.contains("a-stuck: listen tcp") && !error.contains("b-good"), "{error}");
    let good = world.client.get("b-good").await.expect("there");
    assert!(good.enabled && good.toxics.is_empty());
}

async fn a_new_address_moves_the_proxy(server: Server) {
    // P40
    let world = World::new(server).await;
    let proxy = world.proxy("p", &echo().await).await;
    let to = |listen: &str| ProxyUpdate { listen: Some(listen.to_owned()), ..ProxyUpdate::default() };
    let moved = world.client.update("p", &to("127.0.0.1:0")).await.expect("moved");
    assert_ne!(moved.listen, proxy.listen);
    assert!(is_closed(&proxy.listen).await);
    let same = world.client.update("p", &to(&moved.listen)).await.expect("the same");
    assert_eq!(same.listen, moved.listen);
    round_trip(&mut connect(&moved.listen).await, b"moved").await;
    world.client.disable("p").await.expect("disabled");
    assert!(is_closed(&moved.listen).await);
}

async fn another_spelling_of_the_address_keeps_connections(server: Server) {
    // P41
    let world = World::new(server).await;
    let proxy = world.proxy_on("127.0.0.1", "p", &echo().await).await;
    let mut open = connect(&proxy.listen).await;
    round_trip(&mut open, b"before").await;
    let change = ProxyUpdate { listen: Some(proxy.listen.replace("127.0.0.1", "localhost")), ..ProxyUpdate::default() };
    assert_eq!(world.client.update("p", &change).await.expect("unchanged").listen, proxy.listen);
    round_trip(&mut open, b"after").await;
}

async fn another_upstream_cuts_connections_and_keeps_the_address(server: Server) {
    let world = World::new(server).await;
    let proxy = world.proxy("p", &echo().await).await;
    let mut open = connect(&proxy.listen).await;
    round_trip(&mut open, b"before").await;
    let change = ProxyUpdate { upstream: Some(echo().await), ..ProxyUpdate::default() };
    assert_eq!(world.client.update("p", &change).await.expect("changed").listen, proxy.listen);
    assert_eq!(receive_to_end(&mut open).await, b"");
    round_trip(&mut connect(&proxy.listen).await, b"after").await;
    // POST does the same as PATCH, and the name cannot change.
    let answer = world.raw("POST", "/proxies/p", json!({"name": "q", "enabled": false}).to_string()).await;
    assert_eq!((answer.status, answer.json()["name"].clone()), (200, json!("p")));
    world.raw("POST", "/proxies/q", "{}").await.is_error(404, "proxy not found");
}

async fn a_move_that_fails_changes_nothing() {
    // P77
    let world = World::of_ours().await;
    let proxy = world.proxy("p", &echo().await).await;
    let mut open = connect(&proxy.listen).await;
    round_trip(&mut open, b"before").await;
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let taken = taken.local_addr().map(|address| (address.to_string(), taken)).expect("bound");
    let change = ProxyUpdate { listen: Some(taken.0.clone()), ..ProxyUpdate::default() };
    let error = world.client.update("p", &change).await.expect_err("taken").to_string();
    assert!(error.contains("address already in use") && error.contains(&format!("still listens on {}", proxy.listen)));
    assert_eq!(world.client.get("p").await.expect("there"), proxy);
    round_trip(&mut open, b"after").await;
}

crate::trials! {
    both: [an_empty_server_lists_nothing, a_proxy_is_shown_as_it_runs, a_disabled_proxy_keeps_its_text_and_its_port_closed, stopping_and_starting_again_is_harmless, down_cuts_connections_and_keeps_toxics, delete_closes_the_port, a_port_in_use_is_refused_until_it_is_free, a_conflict_at_enable_can_be_solved, a_name_in_use_is_refused_until_it_is_free, reset_removes_toxics_and_enables, a_new_address_moves_the_proxy, another_spelling_of_the_address_keeps_connections, another_upstream_cuts_connections_and_keeps_the_address]
    ours: [reset_goes_on_after_a_failure_and_names_it, a_move_that_fails_changes_nothing]
}
