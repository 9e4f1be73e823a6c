//! Real request bodies, spoilt in every place: whatever comes, the server answers as Toxiproxy does, changes nothing
//! that it refuses, and goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};
use stormproof_chaos::toxiproxy::{Stream, Toxic};

use crate::fixture::{World, connect, echo, round_trip};

/// What stands in the place of each value, one after the other.
fn replacements() -> Vec<Value> {
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e308),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(""),
        json!("a/b"),
        json!("ü\u{0}\u{202e}"),
        json!("127.0.0.1:99999"),
        json!("203.0.113.7:80"),
        json!("x".repeat(70_000)),
        json!([]),
        json!({}),
        json!([{}, null]),
        deep,
    ]
}

/// Calls `spoil` with every value of `body` in turn.
fn each_place(body: &mut Value, spoil: &mut impl FnMut(&mut Value)) {
    spoil(body);
    match body {
        Value::Array(items) => items.iter_mut().for_each(|item| each_place(item, spoil)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each_place(field, spoil)),
        _ => {}
    }
}

/// `body` with one place spoilt, in every way.
fn spoilt(body: &Value) -> Vec<String> {
    let mut places = 0;
    each_place(&mut body.clone(), &mut |_| places += 1);
    let mut bodies = Vec::new();
    for place in 0..places {
        let with = |change: &dyn Fn(&mut Value)| {
            let (mut spoilt, mut at) = (body.clone(), 0);
            each_place(&mut spoilt, &mut |value| {
                if at == place {
                    change(value);
                }
                at += 1;
            });
            spoilt.to_string()
        };
        for replacement in replacements() {
            bodies.push(with(&|value| *value = replacement.clone()));
        }
        bodies.push(with(&|value| {
            if let Value::Object(fields) = value {
                fields.insert("unheard-of".to_owned(), json!([1, {"a": null}]));
            }
        }));
        bodies.push(with(&|value| {
            let first = value.as_object().and_then(|fields| fields.keys().next().cloned());
            if let (Some(first), Value::Object(fields)) = (first, value) {
                fields.remove(&first);
            }
        }));
    }
    let whole = body.to_string();
    bodies.extend((0..whole.len()).step_by(3).map(|end| whole[..end].to_owned()));
    bodies.extend([format!("{whole}{whole}"), format!("{whole},"), format!("\u{feff}{whole}"), "\0".to_owned()]);
    bodies
}

/// One proxy with one toxic, as the tests begin.
async fn begin(world: &World, upstream: &str) -> String {
    for name in world.client.list().await.expect("a list").keys() {
        // Names are anything at all here, so the client's own encoding is in question as well.
        world.client.delete(name).await.unwrap_or_else(|error| panic!("{name:?}: {error}"));
    }
    let listen = world.proxy_on("127.0.0.1", "p", upstream).await.listen;
    world.client.add_toxic("p", &Toxic::noop(Stream::Upstream).named("t")).await.expect("added");
    listen
}

async fn whatever_comes_is_answered_and_what_is_refused_changes_nothing() {
    // P04 P05 P16 P68
    let world = World::of_ours().await;
    let upstream = echo().await;
    let mut listen = begin(&world, &upstream).await;
    let toxic = |kind: &str, attributes: Value| json!({"name": "n", "type": kind, "stream": "downstream", "toxicity": 0.5, "attributes": attributes});
    let proxy = json!({"name": "q", "listen": "127.0.0.1:0", "upstream": upstream, "enabled": true});
    let with_toxics = json!({"name": "q", "listen": "127.0.0.1:0", "upstream": upstream, "enabled": true,
        "toxics": [toxic("latency", json!({"latency": 1, "jitter": 1}))]});
    let requests = [
        ("POST", "/proxies", proxy.clone()),
        ("POST", "/proxies", with_toxics.clone()),
        ("POST", "/proxies/p", json!({"listen": listen, "upstream": upstream, "enabled": true})),
        ("PATCH", "/proxies/p", json!({"upstream": upstream})),
        ("POST", "/populate", json!([proxy, with_toxics])),
        ("POST", "/proxies/p/toxics", toxic("bandwidth", json!({"rate": 100}))),
        ("POST", "/proxies/p/toxics", toxic("slicer", json!({"average_size": 9, "size_variation": 3, "delay": 1}))),
        ("POST", "/proxies/p/toxics/t", json!({"toxicity": 0.5, "attributes": {}})),
        ("PATCH", "/proxies/p/toxics/t", json!({"attributes": {}})),
    ];
    let (mut refused, mut taken) = (0, 0);
    for (method, path, body) in requests {
        for text in spoilt(&body) {
            let before = world.raw("GET", "/proxies", "").await.text;
            let answer = world.raw(method, path, text.clone()).await;
            let shown: String = text.chars().take(300).collect();
            // As a real one: an address that cannot be listened on is 500.
            let unusable = ["listen tcp", "address ", "lookup "].map(|begin| format!("\"error\":\"{begin}"));
            let is_known = answer.status < 500 || unusable.iter().any(|begin| answer.text.contains(begin));
            assert!(is_known, "{method} {path} {shown}: {answer:?}");
            let after = world.raw("GET", "/proxies", "").await.text;
            if answer.status >= 400 {
                refused += 1;
                let error = catch_unwind(AssertUnwindSafe(|| answer.json()));
                let error = error.unwrap_or_else(|_| panic!("{method} {path} {shown}: no JSON: {answer:?}"));
                assert!(error["error"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
                // Entries of /populate before the one that is refused are there, as with a real one (P06).
                assert!(after == before || path == "/populate", "{method} {path} {shown}: {answer:?}\n{before}{after}");
            } else {
                taken += 1;
            }
            if after != before {
                listen = begin(&world, &upstream).await;
            }
        }
        round_trip(&mut connect(&listen).await, b"it still works").await;
    }
    assert!(refused > 1_000 && taken > 100, "{refused} refused, {taken} taken: are these still real requests?");
}

crate::trials! { ours: [whatever_comes_is_answered_and_what_is_refused_changes_nothing] }
