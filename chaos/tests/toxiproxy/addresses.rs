//! Addresses to listen on, in all their forms.

use serde_json::json;
use stormproof_chaos::toxiproxy::{Proxy, ProxyUpdate};

use crate::fixture::{Server, World, connect, echo, quiet_host, round_trip};

async fn an_address_that_is_none_is_told_as_go_does(server: Server) {
    // P19
    let world = World::new(server).await;
    world.proxy("p", "127.0.0.1:1").await;
    for (listen, detail) in [
        ("nope", "address nope: missing port in address"),
        ("127.0.0.1", "address 127.0.0.1: missing port in address"),
        ("[::1]", "address [::1]: missing port in address"),
        ("[::1]x:80", "address [::1]x:80: missing port in address"),
        ("[::1", "address [::1: missing ']' in address"),
        ("[::1:80", "address [::1:80: missing ']' in address"),
        ("a:b:c", "address a:b:c: too many colons in address"),
        ("::1", "address ::1: too many colons in address"),
        ("::", "address ::: too many colons in address"),
        ("[::1]:80:90", "address [::1]:80:90: too many colons in address"),
        ("a[b:80", "address a[b:80: unexpected '[' in address"),
        ("a]b:80", "address a]b:80: unexpected ']' in address"),
        ("127.0.0.1:99999", "address 99999: invalid port"),
        ("127.0.0.1:-1", "address -1: invalid port"),
        ("127.0.0.1:4294967296", "address 4294967296: invalid port"),
        ("127.0.0.1:no-such", "lookup tcp/no-such: unknown port"),
        ("127.0.0.1:8 0", "lookup tcp/8 0: unknown port"),
    ] {
        let created = json!({"name": "q", "listen": listen, "upstream": "127.0.0.1:1"}).to_string();
        world.raw("POST", "/proxies", created).await.is_error(500, &format!("listen tcp: {detail}"));
        let change = json!({"listen": listen, "enabled": false}).to_string();
        world.raw("PATCH", "/proxies/p", change).await.is_error(500, detail);
        let entries = json!([{"name": "p", "listen": listen, "upstream": "127.0.0.1:1"}]).to_string();
        let answer = world.raw("POST", "/populate", entries).await;
        assert_eq!(answer.json(), json!({"error": detail, "status": 500, "proxies": null}));
    }
    assert!(world.client.get("p").await.expect("there").enabled);
    let unknown = json!({"name": "q", "listen": "256.0.0.1:0", "upstream": "127.0.0.1:1"}).to_string();
    let answer = world.raw("POST", "/proxies", unknown).await;
    assert!(answer.text.contains("listen tcp: lookup 256.0.0.1: "), "{answer:?}");
}

async fn a_port_may_be_named_signed_or_absent(server: Server) {
    // P14 P41
    let world = World::new(server).await;
    let named = Proxy { enabled: false, ..Proxy::new("named", "127.0.0.1:80", "127.0.0.1:1") };
    world.client.create(&named).await.expect("created");
    for listen in ["127.0.0.1:http", "127.0.0.1:HTTP", "localhost:+80"] {
        let change = ProxyUpdate { listen: Some(listen.to_owned()), ..ProxyUpdate::default() };
        // The same address, so that its text stays.
        assert_eq!(world.client.update("named", &change).await.expect("known").listen, "127.0.0.1:80", "{listen}");
    }
    let host = quiet_host();
    for listen in [format!("{host}:"), format!("{host}:-0")] {
        let proxy = world.client.create(&Proxy::new("p", listen, echo().await)).await.expect("any port");
        round_trip(&mut connect(&proxy.listen).await, b"through").await;
        world.client.delete("p").await.expect("deleted");
    }
}

async fn all_interfaces_of_one_family_stay_that() {
    // P14
    let world = World::of_ours().await;
    let proxy = world.proxy_on("0.0.0.0", "p", &echo().await).await;
    assert!(proxy.listen.starts_with("0.0.0.0:"), "{}", proxy.listen);
    let mut open = connect(&proxy.listen.replace("0.0.0.0", "127.0.0.1")).await;
    round_trip(&mut open, b"before").await;
    assert_eq!(world.client.populate(std::slice::from_ref(&proxy)).await.expect("populated"), [proxy]);
    round_trip(&mut open, b"after").await;
}

crate::trials! {
    both: [an_address_that_is_none_is_told_as_go_does, a_port_may_be_named_signed_or_absent]
    ours: [all_interfaces_of_one_family_stay_that]
}
