//! The proxy beside a real Toxiproxy, in one run: `ci/bench`, or `cargo bench --package stormproof-chaos`.
//!
//! Every number is the median of rounds that take turns: direct, ours, the real one, and again. Each server is a
//! process of its own, started anew for this run; the clients and the upstream are this process, with a thread for
//! each end of a connection. Without a real Toxiproxy its columns stay empty.

mod measure;
mod servers;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use stormproof_chaos::toxiproxy::{Stream, Toxic};

use measure::{Upstream, connections_a_second, megabytes_a_second, quantiles, transfer};
use servers::{Server, serve_if_asked};
use table::{Better, Table};

/// A median of fewer says little.
const ROUNDS: usize = 5;
const IDLE_CONNECTIONS: usize = 1_000;
const LATENCY: Duration = Duration::from_millis(50);
const RATE_KILOBYTES: u32 = 2_000;
const RATED_BYTES: usize = 1_000_000;

fn main() -> ExitCode {
    if serve_if_asked() {
        return ExitCode::SUCCESS;
    }
    // Whatever builds and lists all targets as tests finds none here.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let servers: Vec<Server> =
        [Some(Server::direct()), Some(Server::ours()), Server::real()].into_iter().flatten().collect();
    let mut table = Table::new(servers.iter().map(Server::name));
    // First, because memory that a server has freed would hide what it takes again.
    let echo = Upstream::echo();
    let row = medians(&servers, 1, |server| server.kilobytes_for_each_of(IDLE_CONNECTIONS, &echo));
    table.row("memory of an idle connection", "KB", Better::Less, &row);
    for connections in [1, 32] {
        let sink = Upstream::sink();
        let row = medians(&servers, ROUNDS, |server| megabytes_a_second(&server.address_of(&sink), connections));
        table.row(&format!("throughput, {connections} connections"), "MB/s", Better::More, &row);
    }
    for (name, which) in [("round trip p50", 0.5), ("round trip p99", 0.99)] {
        let row = medians(&servers, ROUNDS, |server| quantiles(&server.address_of(&echo), which).as_secs_f64() * 1e6);
        let added: Vec<f64> = row.iter().map(|micros| micros - row[0]).collect();
        table.row(name, "µs", Better::Less, &row);
        table.row(&format!("{name}, added"), "µs", Better::Less, &added);
    }
    let row = medians(&servers, ROUNDS, |server| connections_a_second(&server.address_of(&echo)));
    table.row("connections", "1/s", Better::More, &row);
    let row = medians(&servers, ROUNDS, |server| {
        server.with_toxic(&Toxic::latency(Stream::Downstream, LATENCY, Duration::ZERO), &echo, |address| {
            quantiles(address, 0.5).abs_diff(LATENCY).as_secs_f64() * 1e3
        })
    });
    table.row("error of 50 ms latency, at most 2", "ms", Better::Less, &row);
    let ideal = RATED_BYTES as f64 / f64::from(RATE_KILOBYTES * 1_000);
    let sink = Upstream::sink();
    let row = medians(&servers, ROUNDS, |server| {
        server.with_toxic(&Toxic::bandwidth(Stream::Upstream, RATE_KILOBYTES), &sink, |address| {
            (transfer(address, RATED_BYTES).as_secs_f64() - ideal).abs() / ideal * 1e2
        })
    });
    table.row("error of 2 MB/s bandwidth, at most 2", "%", Better::Less, &row);
    println!("{table}");
    ExitCode::SUCCESS
}

/// One number for each server.
fn medians(servers: &[Server], rounds: usize, mut measure: impl FnMut(&Server) -> f64) -> Vec<f64> {
    let mut found = vec![Vec::new(); servers.len()];
    for _ in 0..rounds {
        for (server, found) in servers.iter().zip(&mut found) {
            found.push(measure(server));
        }
    }
    found.into_iter().map(table::median).collect()
}
