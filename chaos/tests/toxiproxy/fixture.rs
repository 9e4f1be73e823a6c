//! What the tests share: a server, a client, upstreams, deadlines.

use std::future::Future;
use std::io::ErrorKind;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use stormproof_chaos::part::RealPart;
use stormproof_chaos::process::ProcessId;
use stormproof_chaos::toxiproxy::{Proxy, ProxyEffects, ServerConfig, ToxiproxyClient, ToxiproxyServer, real};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Nothing that goes well takes this long, not even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(20);

/// The future's value, or a failed test.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("{what}: not within {LIMIT:?}"))
}

/// A loopback address of this process alone: a port that it frees is not taken by another process's tests.
pub(crate) fn quiet_host() -> String {
    let id = std::process::id();
    format!("127.{}.{}.{}", 1 + (id >> 16) % 250, (id >> 8) % 256, 2 + id % 250)
}

/// An address where nobody listens.
pub(crate) async fn spare_address() -> String {
    let listener = TcpListener::bind((quiet_host(), 0)).await.expect("a free port");
    listener.local_addr().expect("bound").to_string()
}

/// Which server a test is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// Our embedded one.
    Ours,
    /// A real Toxiproxy, a process for this test alone.
    Real,
}

/// A server under test and its client.
pub(crate) struct World {
    pub(crate) client: ToxiproxyClient,
    pub(crate) http: reqwest::Client,
    /// Runs as long as the test does.
    _server: Running,
}

#[expect(dead_code, reason = "held only to be dropped with the test")]
enum Running {
    Ours(ToxiproxyServer),
    Real(RealProcess),
}

/// A process that ends with its test. It stays in the test's process group, so what ends the test by force ends it.
pub(crate) struct RealProcess(Child);

impl RealProcess {
    /// Starts it with these arguments besides those that make it listen.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let program = RealPart::ToxiproxyServer.find().unwrap_or_else(|missing| panic!("{missing}"));
        let mut command = Command::new(&program);
        command.args(real::ARGUMENTS).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap_or_else(|error| panic!("could not start {}: {error}", program.display())))
    }

    pub(crate) async fn url(&self) -> String {
        let process = ProcessId::of(self.0.id()).expect("it was just started");
        real::ready(process, LIMIT).await.unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for RealProcess {
    fn drop(&mut self) {
        // Already gone is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An answer of the API, undecoded.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("printable"))
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {:?}", self.text))
    }

    /// Fails unless this is an error with exactly this status and message.
    #[track_caller]
    pub(crate) fn is_error(&self, status: u16, message: &str) {
        assert_eq!(self.json(), serde_json::json!({"error": message, "status": status}));
        assert_eq!(self.status, status);
    }
}

impl World {
    pub(crate) async fn new(server: Server) -> Self {
        match server {
            Server::Ours => Self::of_ours().await,
            Server::Real => Self::of_real().await,
        }
    }

    /// Our server, as it is by default.
    pub(crate) async fn of_ours() -> Self {
        Self::ours(ServerConfig::default()).await
    }

    /// Our server.
    pub(crate) async fn ours(config: ServerConfig) -> Self {
        let server = ToxiproxyServer::start(config).await.expect("the server starts");
        Self::around(&server.url(), Running::Ours(server))
    }

    /// A real Toxiproxy.
    pub(crate) async fn of_real() -> Self {
        Self::of(RealProcess::start(&[])).await
    }

    /// A real Toxiproxy that has been started.
    pub(crate) async fn of(process: RealProcess) -> Self {
        Self::around(&process.url().await, Running::Real(process))
    }

    fn around(url: &str, server: Running) -> Self {
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build();
        Self { client: ToxiproxyClient::new(url), http: http.expect("a plain client"), _server: server }
    }

    pub(crate) async fn raw(&self, method: &str, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        self.raw_as("stormproof-tests", method, path, body).await
    }

    pub(crate) async fn raw_as(&self, agent: &str, method: &str, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        let method = method.parse().expect("a method");
        let url = format!("{}{path}", self.client.base_url());
        let request = self.http.request(method, url).header("user-agent", agent).body(body);
        within(path, async {
            let response = request.send().await.expect("an answer");
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            Answer { status, headers, text: response.text().await.expect("a body") }
        })
        .await
    }

    /// A proxy on a free port.
    pub(crate) async fn proxy(&self, name: &str, upstream: &str) -> Proxy {
        self.proxy_on(&quiet_host(), name, upstream).await
    }

    /// A proxy on a free port of the host.
    pub(crate) async fn proxy_on(&self, host: &str, name: &str, upstream: &str) -> Proxy {
        self.client.create(&Proxy::new(name, format!("{host}:0"), upstream)).await.expect("the proxy is created")
    }

    /// A proxy `p` with one open connection through it.
    pub(crate) async fn pair(&self) -> Pair {
        let upstream = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let proxy = self.proxy("p", &upstream.local_addr().expect("bound").to_string()).await;
        let (client, server) = connect_through(&proxy, &upstream).await;
        Pair { proxy, upstream, client, server }
    }
}

/// Both ends of a connection through a proxy.
pub(crate) struct Pair {
    pub(crate) proxy: Proxy,
    pub(crate) upstream: TcpListener,
    pub(crate) client: TcpStream,
    pub(crate) server: TcpStream,
}

pub(crate) async fn connect_through(proxy: &Proxy, upstream: &TcpListener) -> (TcpStream, TcpStream) {
    let client = connect(&proxy.listen).await;
    let (server, _) = within("the proxy dials", upstream.accept()).await.expect("accepts");
    server.set_nodelay(true).expect("a live socket");
    (client, server)
}

pub(crate) async fn connect(address: &str) -> TcpStream {
    let stream = within("connect", TcpStream::connect(address)).await;
    let stream = stream.unwrap_or_else(|error| panic!("connect to {address}: {error}"));
    stream.set_nodelay(true).expect("a live socket");
    stream
}

/// Whether nobody listens there.
pub(crate) async fn is_closed(address: &str) -> bool {
    match within("connect", TcpStream::connect(address)).await {
        Ok(_) => false,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => true,
        Err(error) => panic!("connect to {address}: {error}"),
    }
}

/// An echo server on a free port; answers with its address.
pub(crate) async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.set_nodelay(true).expect("a live socket");
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

/// Sends the bytes and reads as many back.
pub(crate) async fn round_trip(stream: &mut TcpStream, bytes: &[u8]) {
    send(stream, bytes).await;
    assert!(receive(stream, bytes.len()).await == bytes, "other bytes came back");
}

pub(crate) async fn send(stream: &mut TcpStream, bytes: &[u8]) {
    within("send", stream.write_all(bytes)).await.expect("the bytes are taken");
}

pub(crate) async fn receive(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    within("receive", stream.read_exact(&mut bytes)).await.expect("the bytes arrive");
    bytes
}

/// Everything up to the end of the stream.
pub(crate) async fn receive_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    within("receive to the end", stream.read_to_end(&mut bytes)).await.expect("a normal close");
    bytes
}

/// Whether a connection to the address is reset, by then or later.
pub(crate) async fn connect_is_reset(address: &str) -> bool {
    match within("connect", TcpStream::connect(address)).await {
        Ok(mut stream) => is_reset(&mut stream).await,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => true,
        Err(error) => panic!("connect to {address}: {error}"),
    }
}

/// Reads until the stream ends; whether it ended with a reset.
pub(crate) async fn is_reset(stream: &mut TcpStream) -> bool {
    match within("the connection ends", stream.read_to_end(&mut Vec::new())).await {
        Ok(_) => false,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => true,
        Err(error) => panic!("the connection ended with {error}"),
    }
}

/// Waits for what the proxy `p` tells of itself.
pub(crate) async fn until(world: &World, holds: impl Fn(&ProxyEffects) -> bool) {
    within("the effects are as expected", async {
        while !holds(&world.client.effects("p").await.expect("effects")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Ends the connection with a reset.
pub(crate) fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("a live socket");
}

/// Whether nothing arrives for a while. A slow machine can only make this pass too easily, never fail.
pub(crate) async fn stays_silent(stream: &mut TcpStream) -> bool {
    tokio::time::timeout(Duration::from_millis(60), stream.read_u8()).await.is_err()
}

/// Bytes that show if any is lost or moved.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
