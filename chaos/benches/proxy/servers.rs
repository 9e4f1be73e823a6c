//! What is measured: no proxy, ours, and a real Toxiproxy.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use stormproof_chaos::part::RealPart;
use stormproof_chaos::process::ProcessId;
use stormproof_chaos::toxiproxy::{Proxy, ServerConfig, Toxic, ToxiproxyClient, ToxiproxyServer, real};
use tokio::runtime::Runtime;

use crate::measure::{Upstream, connect, round_trip};

/// Set for the process that is our server.
const ROLE: &str = "STORMPROOF_BENCH_SERVES";
const READY: Duration = Duration::from_secs(20);

/// A way to an upstream.
pub(crate) struct Server {
    name: &'static str,
    proxies: Option<Proxies>,
}

struct Proxies {
    client: ToxiproxyClient,
    runtime: Runtime,
    process: Child,
}

/// Becomes our server, if this process was started for that. It ends when nobody holds its input any more.
pub(crate) fn serve_if_asked() -> bool {
    if std::env::var_os(ROLE).is_none() {
        return false;
    }
    let runtime = Runtime::new().expect("a runtime");
    let server = runtime.block_on(ToxiproxyServer::start(ServerConfig::default())).expect("our server starts");
    println!("{}", server.url());
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    true
}

impl Server {
    pub(crate) fn direct() -> Self {
        Self { name: "direct", proxies: None }
    }

    pub(crate) fn ours() -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.env(ROLE, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("our server starts");
        let mut url = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut url).expect("a line with its address");
        Self { name: "ours", proxies: Some(Proxies::of(process, |_| url.trim().to_owned())) }
    }

    /// None where it is not found.
    pub(crate) fn real() -> Option<Self> {
        let program = match RealPart::ToxiproxyServer.find() {
            Ok(program) => program,
            Err(missing) => {
                eprintln!("ours alone: {missing}");
                return None;
            }
        };
        let mut command = Command::new(program);
        command.args(real::ARGUMENTS).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("the real server starts");
        let id = ProcessId::of(process.id()).expect("it was just started");
        let ready = |runtime: &Runtime| runtime.block_on(real::ready(id, READY)).expect("it gets ready");
        Some(Self { name: "real", proxies: Some(Proxies::of(process, ready)) })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Where to connect for that upstream: a new proxy in front of it, if this is one.
    pub(crate) fn address_of(&self, upstream: &Upstream) -> String {
        self.proxies.as_ref().map_or(upstream.address.clone(), |proxies| proxies.in_front_of(upstream).listen)
    }

    /// Measures through a proxy with a toxic. Without a proxy there is nothing to measure.
    pub(crate) fn with_toxic(&self, toxic: &Toxic, upstream: &Upstream, measure: impl Fn(&str) -> f64) -> f64 {
        let Some(proxies) = &self.proxies else { return f64::NAN };
        let proxy = proxies.in_front_of(upstream);
        proxies.runtime.block_on(proxies.client.add_toxic(&proxy.name, toxic)).expect("a toxic");
        measure(&proxy.listen)
    }

    /// Memory that `count` connections take that have passed something and are idle since, divided among them.
    pub(crate) fn kilobytes_for_each_of(&self, count: usize, upstream: &Upstream) -> f64 {
        let Some(proxies) = &self.proxies else { return f64::NAN };
        let address = proxies.in_front_of(upstream).listen;
        let before = proxies.resident_kilobytes();
        let mut connections: Vec<_> = (0..count).map(|_| connect(&address)).collect();
        for connection in &mut connections {
            round_trip(connection);
        }
        (proxies.resident_kilobytes() - before) / count as f64
    }
}

impl Proxies {
    fn of(process: Child, url: impl FnOnce(&Runtime) -> String) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        Self { client: ToxiproxyClient::new(url(&runtime)), runtime, process }
    }

    fn in_front_of(&self, upstream: &Upstream) -> Proxy {
        self.runtime.block_on(async {
            let name = format!("p{}", self.client.list().await.expect("a list").len());
            self.client.create(&Proxy::new(name, "127.0.0.1:0", &upstream.address)).await.expect("a proxy")
        })
    }

    fn resident_kilobytes(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        // Already gone is fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
