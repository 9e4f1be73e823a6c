//! A proxy server that outlives whoever breaks something in it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;
use stormproof::chaos::toxiproxy::{Proxy, ToxiproxyClient};
use tokio::runtime::Runtime;

use super::{DEADLINE, Running, Sandbox};

/// Name of its only proxy.
pub(crate) const NAME: &str = "db";

/// Its API, and one proxy in front of that same API: whatever is asked through it has an answer.
pub(crate) struct ProxyServer {
    pub(crate) api: String,
    client: ToxiproxyClient,
    listen: String,
    runtime: Runtime,
}

impl ProxyServer {
    /// `stormproof proxy`, a process of its own.
    pub(crate) fn start(sandbox: &Sandbox) -> (Running, Self) {
        let running = sandbox.start(&["proxy", "--port", "0", "--json"]);
        let ready: Value = serde_json::from_str(&running.line()).unwrap();
        let server = Self::at(ready["proxy-api"].as_str().unwrap());
        (running, server)
    }

    /// The server whose API is at `api`.
    pub(crate) fn at(api: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = ToxiproxyClient::new(api);
        let upstream = api.strip_prefix("http://").unwrap();
        let proxy = runtime.block_on(client.create(&Proxy::new(NAME, "127.0.0.1:0", upstream))).unwrap();
        Self { api: api.to_owned(), client, listen: proxy.listen, runtime }
    }

    /// The proxy as it is.
    pub(crate) fn proxy(&self) -> Proxy {
        self.runtime.block_on(self.client.get(NAME)).unwrap()
    }

    /// Where the proxy listens.
    pub(crate) fn listen(&self) -> &str {
        &self.listen
    }

    /// Where it leads to: the server's own API.
    pub(crate) fn upstream(&self) -> &str {
        self.api.strip_prefix("http://").unwrap()
    }

    /// Nothing is broken.
    pub(crate) fn is_whole(&self) -> bool {
        let proxy = self.proxy();
        proxy.enabled && proxy.toxics.is_empty()
    }

    /// Connections through it; only ours tells.
    pub(crate) fn open_connections(&self) -> u64 {
        self.runtime.block_on(self.client.effects(NAME)).unwrap().connections_open
    }

    pub(crate) fn enable(&self) {
        self.runtime.block_on(self.client.enable(NAME)).unwrap();
    }

    pub(crate) fn disable(&self) {
        self.runtime.block_on(self.client.disable(NAME)).unwrap();
    }

    /// A connection through the proxy that has sent nothing yet.
    pub(crate) fn idle(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.listen).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// A connection through the proxy that has sent a request.
    pub(crate) fn ask(&self) -> TcpStream {
        let mut stream = self.idle();
        stream.write_all(b"GET /version HTTP/1.0\r\nHost: test\r\n\r\n").unwrap();
        stream
    }
}

/// All that comes until the end; nothing if the connection is cut.
pub(crate) fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}
