//! The HTTP API as such: headers, messages, decoding.

use std::time::{Duration, Instant};

use serde_json::json;
use stormproof_chaos::toxiproxy::{ApiLimits, ServerConfig, ToxiproxyServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::{Server, World, echo, receive_to_end, within};

async fn every_answer_of_a_handler_has_a_request_id(server: Server) {
    // P01
    let world = World::new(server).await;
    let requests =
        [("GET", "/version"), ("GET", "/proxies"), ("GET", "/proxies/none"), ("POST", "/proxies"), ("POST", "/reset")];
    let mut ids = std::collections::BTreeSet::new();
    for (method, path) in requests {
        let id = world.raw(method, path, "").await.header("x-toxiproxy-request-id").to_owned();
        assert!(!id.is_empty(), "{method} {path} has no request id");
        ids.insert(id);
    }
    assert_eq!(ids.len(), requests.len(), "ids repeat");
}

async fn browsers_are_turned_away(server: Server) {
    // P02
    let world = World::new(server).await;
    let answer = world.raw_as("Mozilla/5.0 (Linux)", "GET", "/version", "").await;
    assert_eq!((answer.status, answer.text.as_str()), (403, "User agent not allowed\n"));
    assert_eq!(world.raw_as("Not-Mozilla/5.0", "GET", "/version", "").await.status, 200);
}

async fn the_version_is_exact(server: Server) {
    // P32
    let world = World::new(server).await;
    let answer = world.raw("GET", "/version", "").await;
    assert_eq!(answer.text, "{\"version\": \"2.12.0\"}\n");
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json;charset=utf-8"));
}

async fn routing_is_gos(server: Server) {
    let world = World::new(server).await;
    let missing = world.raw("GET", "/nowhere", "").await;
    assert_eq!((missing.status, missing.text.as_str()), (404, "404 page not found\n"));
    assert_eq!(missing.header("x-toxiproxy-request-id"), "");
    for (method, path) in [("PUT", "/proxies"), ("HEAD", "/version"), ("OPTIONS", "/proxies/a"), ("GET", "/reset")] {
        let answer = world.raw(method, path, "").await;
        assert_eq!((answer.status, answer.text.as_str()), (405, ""), "{method} {path}");
        assert_eq!(answer.header("allow"), "", "{method} {path}");
    }
    let moved = world.raw("GET", "//proxies", "").await;
    assert_eq!((moved.status, moved.header("location")), (301, "/proxies"));
    let moved = world.raw("GET", "//proxies?all=1", "").await;
    assert_eq!((moved.status, moved.header("location")), (301, "/proxies?all=1"));
    for path in ["/proxies/%", "/proxies/%zz"] {
        let answer = world.raw("GET", path, "").await;
        assert_eq!((answer.status, answer.text.as_str()), (400, "400 Bad Request"), "{path}");
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    }
    // The router answers before the browser check.
    assert_eq!(world.raw_as("Mozilla/5.0", "GET", "/nowhere", "").await.status, 404);
}

/// The first line of the answer to a GET of this path, byte for byte: clients clean up paths.
async fn status_of(world: &World, path: &str) -> String {
    let address = world.client.base_url().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("the API listens");
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let answer = String::from_utf8(receive_to_end(&mut stream).await).expect("text");
    answer.lines().next().expect("a status").to_owned()
}

async fn any_name_can_stand_in_a_path(server: Server) {
    // P16. A real one takes an escaped slash or dot for a plain one.
    let world = World::new(server).await;
    for (name, path) in [("a/b", "/proxies/a%2Fb"), ("..", "/proxies/%2e%2e"), (".", "/proxies/%2E")] {
        let body = json!({"name": name, "upstream": "127.0.0.1:1", "enabled": false}).to_string();
        assert_eq!(world.raw("POST", "/proxies", body).await.status, 201);
        let (ours, real) = ("200 OK", if name == "a/b" { "404 Not Found" } else { "301 Moved Permanently" });
        let expected = if server == Server::Ours { ours } else { real };
        assert_eq!(status_of(&world, path).await, format!("HTTP/1.1 {expected}"), "{path}");
    }
}

async fn errors_are_json_named_plain_text(server: Server) {
    let world = World::new(server).await;
    let answer = world.raw("GET", "/proxies/none", "").await;
    assert_eq!(answer.text, "{\"error\":\"proxy not found\",\"status\":404}\n");
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
}

async fn required_fields_are_named(server: Server) {
    // P04 P05
    let world = World::new(server).await;
    let create = |body: serde_json::Value| world.raw("POST", "/proxies", body.to_string());
    create(json!({"name": "", "upstream": ""})).await.is_error(400, "missing required field: name");
    create(json!({"name": "p"})).await.is_error(400, "missing required field: upstream");
    world.raw("POST", "/proxies", "").await.is_error(400, "bad request body: EOF");
    assert!(create(json!({"name": 5})).await.json()["error"].as_str().expect("text").starts_with("bad request body: "));
}

async fn decoding_is_loose_where_gos_is(server: Server) {
    let world = World::new(server).await;
    let body =
        json!({"NAME": "p", "Listen": "127.0.0.1:0", "uPSTREAM": echo().await, "color": "blue", "enabled": null});
    let answer = world.raw("POST", "/proxies", body.to_string() + " trailing").await;
    assert_eq!((answer.status, answer.header("content-type")), (201, "application/json"));
    assert_eq!(answer.json()["enabled"], true);
    let toxic = json!({"Type": "latency", "Attributes": {"Latency": 5, "unknown": 1}}); // P67
    let answer = world.raw("POST", "/proxies/p/toxics", toxic.to_string()).await;
    assert_eq!((answer.status, answer.json()["attributes"]["latency"].clone()), (200, json!(5)));
    let fraction = json!({"type": "bandwidth", "attributes": {"rate": 1.5}});
    assert_eq!(world.raw("POST", "/proxies/p/toxics", fraction.to_string()).await.status, 400);
}

async fn a_slow_handler_is_answered_in_json() {
    // P78
    let limit = std::time::Duration::from_millis(50);
    let world = World::ours(ServerConfig { handler_limit: limit, ..ServerConfig::default() }).await;
    let address = world.client.base_url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(address).await.expect("the API listens");
    // The body never comes.
    let head = "POST /proxies HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut text = String::new();
    within("the answer", async {
        while !text.ends_with("}\n") {
            text.push(char::from(stream.read_u8().await.expect("an answer")));
        }
    })
    .await;
    assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
    assert!(text.ends_with("{\"error\":\"no answer within 50 ms\",\"status\":503}\n"), "{text}");
}

async fn whoever_keeps_the_api_waiting_is_sent_away() {
    let limits =
        ApiLimits { read: Duration::from_millis(50), idle: Duration::from_millis(150), ..ApiLimits::default() };
    let world = World::ours(ServerConfig { api_limits: limits, ..ServerConfig::default() }).await;
    let address = world.client.base_url().strip_prefix("http://").expect("a URL");
    for (sent, answered, limit) in [
        ("", "", limits.read),
        ("GET /version HTTP/1.1\r\nHost: x\r\n", "", limits.read),
        ("POST /proxies HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{", "HTTP/1.1 503 ", limits.read),
        ("GET /version HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 ", limits.idle),
    ] {
        let began = Instant::now();
        let mut stream = crate::fixture::connect(address).await;
        crate::fixture::send(&mut stream, sent.as_bytes()).await;
        let answer = String::from_utf8(crate::fixture::receive_to_end(&mut stream).await).expect("text");
        assert!(answer.starts_with(answered) && answer.is_empty() == answered.is_empty(), "{sent}: {answer}");
        assert!(began.elapsed() >= limit, "{sent}: sent away after {:?}", began.elapsed());
    }
}

async fn the_client_names_itself_and_its_content() {
    // P63
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let client = stormproof_chaos::toxiproxy::ToxiproxyClient::new(url);
    let call = tokio::spawn(async move { client.version().await });
    let (mut stream, _) = within("a request", listener.accept()).await.expect("accepts");
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(stream.read_u8().await.expect("a head")));
    }
    let head = head.to_ascii_lowercase();
    assert!(head.contains("user-agent: stormproof-chaos/"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    call.abort();
}

async fn bad_initial_proxies_stop_the_start_unless_lenient() {
    // P79
    let bad = ServerConfig { proxies_json: Some("[{\"name\":\"\"}]".to_owned()), ..ServerConfig::default() };
    let error = ToxiproxyServer::start(bad.clone()).await.expect_err("a bad entry");
    assert!(error.to_string().contains("missing required field: name at proxy 1"), "{error}");
    let server = ToxiproxyServer::start(ServerConfig { lenient: true, ..bad }).await.expect("started all the same");
    assert_eq!(server.proxies_error(), Some("missing required field: name at proxy 1"));
    server.shutdown().await;
    assert_eq!(World::of_ours().await.client.version().await.expect("a running server"), "2.12.0");
}

async fn metrics_count_live_and_need_their_flags() {
    // P61 P62 P75
    let world = World::of_ours().await;
    let proxy = world.proxy("p", &echo().await).await;
    let mut stream = crate::fixture::connect(&proxy.listen).await;
    crate::fixture::round_trip(&mut stream, &[1; 700]).await;
    let text = world.raw("GET", "/metrics", "").await.text;
    for (family, direction) in [("received", "upstream"), ("sent", "upstream"), ("received", "downstream")] {
        let line = format!(
            "toxiproxy_proxy_{family}_bytes_total{{direction=\"{direction}\",listener=\"{}\",proxy=\"p\",upstream=\"{}\"}} 700",
            proxy.listen, proxy.upstream
        );
        assert!(text.lines().any(|found| found == line), "no {line} in {text}");
    }
    assert!(text.contains("go_build_info{checksum="), "{text}");
    let dark = ServerConfig { proxy_metrics: false, runtime_metrics: false, ..ServerConfig::default() };
    assert_eq!(World::ours(dark).await.raw("GET", "/metrics", "").await.status, 404);
}

crate::trials! {
    both: [every_answer_of_a_handler_has_a_request_id, browsers_are_turned_away, the_version_is_exact, routing_is_gos, any_name_can_stand_in_a_path, errors_are_json_named_plain_text, required_fields_are_named, decoding_is_loose_where_gos_is]
    ours: [a_slow_handler_is_answered_in_json, whoever_keeps_the_api_waiting_is_sent_away, the_client_names_itself_and_its_content, bad_initial_proxies_stop_the_start_unless_lenient, metrics_count_live_and_need_their_flags]
}
