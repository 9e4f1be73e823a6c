//! Toxics over the API: add, show, update, remove.

use serde_json::{Value, json};
use stormproof_chaos::toxiproxy::{Stream, Toxic};

use crate::fixture::{Answer, Server, World};

async fn world_with_proxy(server: Server) -> World {
    let world = World::new(server).await;
    world.proxy("p", "127.0.0.1:1").await;
    world
}

async fn add(world: &World, toxic: Value) -> Answer {
    world.raw("POST", "/proxies/p/toxics", toxic.to_string()).await
}

async fn a_toxic_reads_back_as_it_was_given(server: Server) {
    // P23 P28
    let world = world_with_proxy(server).await;
    let sent = json!({"name": "slow", "type": "latency", "stream": "upstream", "toxicity": 0.2,
                      "attributes": {"latency": 100, "jitter": 10}});
    let answer = add(&world, sent.clone()).await;
    assert_eq!((answer.status, answer.json()), (200, sent.clone()));
    assert_eq!(world.raw("GET", "/proxies/p/toxics/slow", "").await.json(), sent);
    assert_eq!(world.raw("GET", "/proxies/p/toxics", "").await.json(), json!([sent]));
    assert_eq!(world.raw("GET", "/proxies/p", "").await.json()["toxics"], json!([sent]));
}

async fn names_are_unique_over_both_streams(server: Server) {
    // P24 P25 P26 P27
    let world = world_with_proxy(server).await;
    assert_eq!(add(&world, json!({"type": "latency", "name": "one"})).await.status, 200);
    let second = add(&world, json!({"type": "latency", "name": "two"})).await.json();
    assert_eq!((&second["attributes"], &second["toxicity"]), (&json!({"latency": 0, "jitter": 0}), &json!(1)));
    add(&world, json!({"type": "bandwidth", "name": "one"})).await.is_error(409, "toxic already exists");
    let other_stream = json!({"type": "latency", "name": "one", "stream": "upstream"});
    add(&world, other_stream).await.is_error(409, "toxic already exists");
    assert_eq!(world.client.toxic("p", "one").await.expect("unchanged").kind, "latency");
    let up = add(&world, json!({"type": "latency", "stream": "upstream"})).await.json();
    let down = add(&world, json!({"type": "latency"})).await.json();
    assert_eq!((&up["name"], &down["name"]), (&json!("latency_upstream"), &json!("latency_downstream")));
    let names: Vec<_> = world.client.toxics("p").await.expect("toxics").into_iter().map(|toxic| toxic.name).collect();
    assert_eq!(names, ["latency_upstream", "one", "two", "latency_downstream"]);
}

async fn streams_and_types_are_checked(server: Server) {
    // P29 P33 P34
    let world = world_with_proxy(server).await;
    let noop = add(&world, json!({"type": "noop"})).await.json();
    assert_eq!((&noop["stream"], &noop["attributes"]), (&json!("downstream"), &json!({})));
    let invalid = "stream was invalid, can be either upstream or downstream";
    add(&world, json!({"type": "noop", "stream": "sideways"})).await.is_error(400, invalid);
    add(&world, json!({"type": "noop", "stream": ""})).await.is_error(400, invalid);
    assert_eq!(add(&world, json!({"type": "noop", "stream": 1})).await.status, 400);
    let loud = add(&world, json!({"type": "noop", "stream": "UpStream", "name": "loud"})).await.json();
    assert_eq!(loud["stream"], "UpStream");
    add(&world, json!({"type": "nonsense"})).await.is_error(400, "invalid toxic type");
    world.raw("POST", "/proxies/q/toxics", "{}").await.is_error(404, "proxy not found");
}

async fn an_update_changes_what_is_given(server: Server) {
    // P30 P66
    let world = world_with_proxy(server).await;
    add(&world, json!({"type": "latency", "toxicity": 0.5, "attributes": {"latency": 100, "jitter": 10}})).await;
    let path = "/proxies/p/toxics/latency_downstream";
    let change = json!({"name": "x", "type": "noop", "stream": "upstream", "attributes": {"latency": 7}});
    for method in ["POST", "PATCH"] {
        let answer = world.raw(method, path, change.to_string()).await;
        let expected = json!({"name": "latency_downstream", "type": "latency", "stream": "downstream", "toxicity": 0.5,
                              "attributes": {"latency": 7, "jitter": 10}});
        assert_eq!((answer.status, answer.json()), (200, expected));
    }
    let answer = world.raw("PATCH", path, json!({"toxicity": 1}).to_string()).await.json();
    assert_eq!((&answer["toxicity"], &answer["attributes"]["latency"]), (&json!(1), &json!(7)));
    world.raw("PATCH", "/proxies/p/toxics/none", "{}").await.is_error(404, "toxic not found");
}

async fn a_refused_update_changes_nothing() {
    // P68
    let world = World::of_ours().await;
    world.proxy("p", "127.0.0.1:1").await;
    add(&world, json!({"type": "latency", "attributes": {"latency": 100}})).await;
    let before = world.client.toxics("p").await.expect("toxics");
    let path = "/proxies/p/toxics/latency_downstream";
    for attributes in [json!({"latency": 5, "jitter": -1}), json!({"latency": 5, "jitter": 0.5})] {
        let answer = world.raw("PATCH", path, json!({"attributes": attributes, "toxicity": 0.1}).to_string()).await;
        assert_eq!(answer.status, 400);
    }
    assert_eq!(world.client.toxics("p").await.expect("toxics"), before);
}

async fn values_that_crash_toxiproxy_are_refused() {
    // P68
    let world = World::of_ours().await;
    world.proxy("p", "127.0.0.1:1").await;
    let refused = [
        json!({"type": "bandwidth", "attributes": {"rate": -1}}),
        json!({"type": "latency", "attributes": {"latency": -1}}),
        json!({"type": "latency", "attributes": {"jitter": -1}}),
        json!({"type": "limit_data", "attributes": {"bytes": -1}}),
        json!({"type": "timeout", "attributes": {"timeout": -1}}),
        json!({"type": "slicer"}),
        json!({"type": "slicer", "attributes": {"average_size": 5, "size_variation": 5}}),
        json!({"type": "noop", "toxicity": 1.5}),
        json!({"type": "noop", "toxicity": -1}),
    ];
    for toxic in refused {
        let answer = add(&world, toxic.clone()).await;
        assert_eq!(answer.status, 400, "{toxic}: {}", answer.text);
    }
    assert!(world.client.toxics("p").await.expect("toxics").is_empty());
}

async fn a_removed_toxic_is_gone(server: Server) {
    // P31
    let world = world_with_proxy(server).await;
    world.client.add_toxic("p", &Toxic::noop(Stream::Upstream).named("n")).await.expect("added");
    let answer = world.raw("DELETE", "/proxies/p/toxics/n", "").await;
    assert_eq!((answer.status, answer.text.as_str()), (204, ""));
    assert!(world.client.toxics("p").await.expect("toxics").is_empty());
    world.raw("DELETE", "/proxies/p/toxics/n", "").await.is_error(404, "toxic not found");
    world.raw("GET", "/proxies/p/toxics/n", "").await.is_error(404, "toxic not found");
    world.client.add_toxic("p", &Toxic::noop(Stream::Upstream).named("n")).await.expect("the name is free");
}

crate::trials! {
    both: [a_toxic_reads_back_as_it_was_given, names_are_unique_over_both_streams, streams_and_types_are_checked, an_update_changes_what_is_given, a_removed_toxic_is_gone]
    ours: [a_refused_update_changes_nothing, values_that_crash_toxiproxy_are_refused]
}
