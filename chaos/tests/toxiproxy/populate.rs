//! `/populate`, and toxics inside entries.

use serde_json::{Value, json};
use stormproof_chaos::toxiproxy::{Proxy, ServerConfig, Stream, Toxic};
use tokio::net::TcpListener;

use crate::fixture::{Server, World, connect, echo, is_closed, receive_to_end, round_trip, spare_address};

async fn populate(world: &World, entries: Value) -> (u16, Value) {
    let answer = world.raw("POST", "/populate", entries.to_string()).await;
    assert_eq!(answer.header("content-type"), "application/json");
    assert!(!answer.text.ends_with('\n'));
    (answer.status, answer.json())
}

async fn entries_come_up_in_request_order(server: Server) {
    // P06 P07 P13
    let world = World::new(server).await;
    let entry = |name: &str, upstream: &str| json!({"name": name, "listen": "127.0.0.1:0", "upstream": upstream});
    let (first, second) = (echo().await, echo().await);
    let (status, answer) = populate(&world, json!([entry("z", &first), entry("a", &second)])).await;
    assert_eq!((status, answer["proxies"][0]["name"].clone()), (201, json!("z")));
    assert_eq!(answer["proxies"][1]["name"], "a");
    for proxy in answer["proxies"].as_array().expect("two") {
        assert_eq!(proxy["enabled"], true);
        round_trip(&mut connect(proxy["listen"].as_str().expect("text")).await, b"up").await;
    }
    world.client.add_toxic("a", &Toxic::noop(Stream::Downstream)).await.expect("accepted at once");
}

async fn a_disabled_entry_is_listed_and_closed(server: Server) {
    // P08
    let world = World::new(server).await;
    let spare = spare_address().await;
    let entry = json!([{"name": "p", "listen": spare, "upstream": "127.0.0.1:1", "enabled": false}]);
    let (status, answer) = populate(&world, entry).await;
    assert_eq!((status, answer["proxies"][0]["enabled"].clone()), (201, json!(false)));
    assert!(world.client.list().await.expect("a list").contains_key("p"));
    assert!(is_closed(&spare).await);
}

async fn an_unchanged_proxy_is_left_alone(server: Server) {
    // P09 P64
    let world = World::new(server).await;
    let proxy = world.proxy_on("127.0.0.1", "p", &echo().await).await;
    world.client.add_toxic("p", &Toxic::noop(Stream::Downstream)).await.expect("added");
    let mut open = connect(&proxy.listen).await;
    round_trip(&mut open, b"before").await;
    let listen = proxy.listen.replace("127.0.0.1", "localhost");
    let entry = json!([{"name": "p", "listen": listen, "upstream": proxy.upstream, "enabled": false, "toxics": []}]);
    let (status, answer) = populate(&world, entry).await;
    assert_eq!((status, answer["proxies"][0]["enabled"].clone()), (201, json!(true)));
    assert_eq!(world.client.toxics("p").await.expect("toxics").len(), 1);
    round_trip(&mut open, b"after").await;
}

async fn a_strict_server_applies_enabled() {
    // P64
    let world = World::ours(ServerConfig { strict: true, ..ServerConfig::default() }).await;
    let proxy = world.proxy("p", &echo().await).await;
    let toxic = json!({"type": "noop", "name": "n"});
    let entry =
        json!([{"name": "p", "listen": proxy.listen, "upstream": proxy.upstream, "enabled": false, "toxics": [toxic]}]);
    let (status, answer) = populate(&world, entry).await;
    assert_eq!((status, answer["proxies"][0]["enabled"].clone()), (201, json!(false)));
    assert_eq!(answer["proxies"][0]["toxics"][0]["name"], "n");
    assert!(is_closed(&proxy.listen).await);
}

async fn a_changed_proxy_is_replaced(server: Server) {
    // P10
    let world = World::new(server).await;
    let proxy = world.proxy("p", &echo().await).await;
    world.client.add_toxic("p", &Toxic::noop(Stream::Downstream)).await.expect("added");
    let mut open = connect(&proxy.listen).await;
    round_trip(&mut open, b"before").await;
    let entry = json!([{"name": "p", "listen": "127.0.0.1:0", "upstream": proxy.upstream}]);
    let (status, answer) = populate(&world, entry).await;
    let listen = answer["proxies"][0]["listen"].as_str().expect("text").to_owned();
    assert_eq!((status, listen == proxy.listen), (201, false));
    assert_eq!(receive_to_end(&mut open).await, b"");
    assert!(is_closed(&proxy.listen).await);
    assert!(world.client.toxics("p").await.expect("toxics").is_empty());
    round_trip(&mut connect(&listen).await, b"new").await;
}

async fn a_gap_anywhere_creates_nothing(server: Server) {
    // P11
    let world = World::new(server).await;
    let good = json!({"name": "p", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1"});
    let error = |message: &str| json!({"error": message, "status": 400, "proxies": null});
    let (status, answer) = populate(&world, json!([good, {"name": "", "upstream": ""}])).await;
    assert_eq!((status, answer), (400, error("missing required field: name at proxy 2")));
    let (status, answer) = populate(&world, json!([good, {"name": "q"}])).await;
    assert_eq!((status, answer), (400, error("missing required field: upstream at proxy 2")));
    assert!(world.client.list().await.expect("a list").is_empty());
    assert_eq!(populate(&world, json!([])).await, (201, json!({"proxies": null})));
    assert_eq!(populate(&world, json!({})).await.0, 400);
}

async fn a_bad_address_stops_the_rest(server: Server) {
    // P12
    let world = World::new(server).await;
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let taken_address = taken.local_addr().expect("bound").to_string();
    let entry = |name: &str, listen: &str| json!({"name": name, "listen": listen, "upstream": "127.0.0.1:1"});
    let entries = json!([entry("a", "127.0.0.1:0"), entry("b", &taken_address), entry("c", "127.0.0.1:0")]);
    let (status, answer) = populate(&world, entries).await;
    assert_eq!((status, answer["status"].clone()), (500, json!(500)));
    assert!(answer["error"].as_str().expect("text").contains("address already in use"), "{answer}");
    assert_eq!(answer["proxies"].as_array().expect("the first").len(), 1);
    assert_eq!(world.client.list().await.expect("a list").into_keys().collect::<Vec<_>>(), ["a"]);
}

async fn toxics_in_an_entry_are_in_place_from_the_first_connection() {
    // P65
    let world = World::of_ours().await;
    let toxic = Toxic::limit_data(Stream::Downstream, 3).named("cut");
    let created = world.client.create(&Proxy::new("p", "127.0.0.1:0", echo().await).with_toxic(toxic.clone())).await;
    let created = created.expect("created");
    assert_eq!(created.toxics, std::slice::from_ref(&toxic));
    let mut stream = connect(&created.listen).await;
    crate::fixture::send(&mut stream, b"abcdef").await;
    assert_eq!(receive_to_end(&mut stream).await, b"abc");
    let populated = world.client.populate(&[Proxy::new("q", "127.0.0.1:0", echo().await).with_toxic(toxic)]).await;
    assert_eq!(populated.expect("populated")[0].toxics.len(), 1);
    // A bad toxic creates nothing.
    let bad = Proxy::new("r", "127.0.0.1:0", echo().await).with_toxic(Toxic::of_kind("nonsense", Stream::Upstream));
    assert_eq!(world.client.create(&bad).await.expect_err("a bad toxic").status(), Some(400));
    assert!(world.client.populate(&[bad]).await.is_err());
    assert_eq!(world.client.list().await.expect("a list").into_keys().collect::<Vec<_>>(), ["p", "q"]);
}

crate::trials! {
    both: [entries_come_up_in_request_order, a_disabled_entry_is_listed_and_closed, an_unchanged_proxy_is_left_alone, a_changed_proxy_is_replaced, a_gap_anywhere_creates_nothing, a_bad_address_stops_the_rest]
    ours: [a_strict_server_applies_enabled, toxics_in_an_entry_are_in_place_from_the_first_connection]
}
