//! An outside witness: `toxiproxy_rust`, written by others for Shopify's server, drives ours.
//!
//! It is blocking and ignores HTTP statuses, so it runs on the plain test thread while the server has a runtime of its
//! own, and every change is read back. Needs OpenSSL's headers: `--features toxiproxy-witness`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use stormproof_chaos::toxiproxy::{ServerConfig, ToxiproxyServer};
use tokio::runtime::Runtime;
use toxiproxy_rust::client::Client;
use toxiproxy_rust::proxy::ProxyPack;

/// No read may hang the test.
const READ_LIMIT: Duration = Duration::from_secs(20);

struct World {
    client: Client,
    echo: String,
    server: ToxiproxyServer,
    runtime: Runtime,
}

impl World {
    fn new() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let server = runtime.block_on(ToxiproxyServer::start(ServerConfig::default())).expect("the server starts");
        let client = Client::new(server.api_address());
        Self { client, echo: echo(), server, runtime }
    }

    /// One proxy in front of the echo server.
    fn populate(&self) -> toxiproxy_rust::proxy::Proxy {
        let entry = ProxyPack::new("p".to_owned(), "127.0.0.1:0".to_owned(), self.echo.clone());
        self.client.populate(vec![entry]).expect("populated").remove(0)
    }

    fn end(self) {
        self.runtime.block_on(self.server.shutdown());
    }
}

fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut read = stream.try_clone().expect("a live socket");
                let _ = std::io::copy(&mut read, &mut stream);
            });
        }
    });
    address
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(READ_LIMIT)).expect("a live socket");
    stream
}

fn round_trip(stream: &mut TcpStream) -> std::io::Result<Duration> {
    let start = Instant::now();
    stream.write_all(b"ping")?;
    stream.read_exact(&mut [0; 4])?;
    Ok(start.elapsed())
}

#[test]
fn the_witness_sees_a_toxiproxy() {
    let world = World::new();
    assert!(world.client.is_running());
    assert_eq!(world.client.version().expect("a version"), "{\"version\": \"2.12.0\"}\n"); // P32
    let proxy = world.populate(); // P06 P07
    assert_ne!(proxy.proxy_pack.listen, "127.0.0.1:0");
    assert_eq!(world.client.all().expect("a list").into_keys().collect::<Vec<_>>(), ["p"]);
    round_trip(&mut connect(&proxy.proxy_pack.listen)).expect("an echo");
    proxy.delete().expect("deleted");
    assert!(world.client.all().expect("a list").is_empty());
    assert!(world.client.find_proxy("p").is_err());
    world.end();
}

#[test]
fn every_toxic_of_the_witness_reads_back() {
    let world = World::new();
    let proxy = world.populate();
    proxy
        .with_latency("upstream".to_owned(), 100, 10, 0.5)
        .with_bandwidth("upstream".to_owned(), 5, 1.0)
        .with_slow_close("downstream".to_owned(), 7, 1.0)
        .with_timeout("downstream".to_owned(), 3_000, 0.0)
        .with_slicer("downstream".to_owned(), 64, 8, 9, 1.0)
        .with_limit_data("downstream".to_owned(), 1_000, 1.0);
    let toxics = proxy.toxics().expect("toxics");
    let names: Vec<_> = toxics.iter().map(|toxic| toxic.name.as_str()).collect();
    let expected = [
        "latency_upstream",
        "bandwidth_upstream",
        "slow_close_downstream",
        "timeout_downstream",
        "slicer_downstream",
        "limit_data_downstream",
    ];
    assert_eq!(names, expected); // P23 P27
    assert_eq!((toxics[0].attributes["jitter"], toxics[0].toxicity), (10, 0.5)); // P28
    assert_eq!(toxics[4].attributes["average_size"], 64);
    world.client.reset().expect("reset"); // P21
    assert!(proxy.toxics().expect("toxics").is_empty());
    world.end();
}

#[test]
fn what_the_witness_asks_for_happens() {
    let world = World::new();
    let proxy = world.populate();
    let listen = proxy.proxy_pack.listen.clone();
    let mut open = connect(&listen);
    round_trip(&mut open).expect("an echo");
    proxy.with_latency("downstream".to_owned(), 80, 0, 1.0);
    assert!(round_trip(&mut open).expect("an echo") >= Duration::from_millis(80)); // P47
    proxy.delete_all_toxics().expect("deleted");
    assert!(proxy.toxics().expect("toxics").is_empty());
    proxy
        .with_down(|| {
            assert!(TcpStream::connect(&listen).is_err(), "a disabled proxy accepts");
            assert!(round_trip(&mut open).is_err(), "a disabled proxy keeps connections");
        })
        .expect("up again"); // P17
    let mut cut = connect(&listen);
    proxy.with_limit_data("downstream".to_owned(), 2, 1.0);
    cut.write_all(b"ping").expect("sent");
    let mut seen = Vec::new();
    cut.read_to_end(&mut seen).expect("a normal close");
    assert_eq!(seen, b"pi"); // P52
    let proxy = world.client.find_and_reset_proxy("p").expect("found");
    assert!(proxy.toxics().expect("toxics").is_empty());
    round_trip(&mut connect(&listen)).expect("an echo");
    world.end();
}
