//! Clients and upstreams: a thread and a blocking socket for each end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// What all connections together send to measure throughput.
const TOTAL_BYTES: usize = 512 << 20;
const CHUNK_BYTES: usize = 64 << 10;
const ROUND_TRIPS: usize = 3_000;
const CONNECTS: usize = 2_000;
/// Who connects at the same time.
const CONNECTERS: usize = 8;

/// A server behind the proxies.
pub(crate) struct Upstream {
    pub(crate) address: String,
}

impl Upstream {
    /// Gives everything back.
    pub(crate) fn echo() -> Self {
        Self::of(|mut stream| {
            let mut bytes = [0; CHUNK_BYTES];
            while let Ok(length @ 1..) = stream.read(&mut bytes) {
                if stream.write_all(&bytes[..length]).is_err() {
                    break;
                }
            }
        })
    }

    /// Is told in eight bytes how many follow, and answers with one byte when it has them.
    pub(crate) fn sink() -> Self {
        Self::of(|mut stream| {
            let (mut length, mut bytes) = ([0; 8], [0; CHUNK_BYTES]);
            if stream.read_exact(&mut length).is_err() {
                return;
            }
            let mut left = usize::from_be_bytes(length);
            while left > 0
                && let Ok(length @ 1..) = stream.read(&mut bytes)
            {
                left -= length;
            }
            // Whoever is gone does not want it.
            let _ = stream.write_all(b"!");
        })
    }

    fn of(serve: impl Fn(TcpStream) + Send + Copy + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = stream.set_nodelay(true);
                thread::spawn(move || serve(stream));
            }
        });
        Self { address }
    }
}

pub(crate) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("connect to {address}: {error}"));
    stream.set_nodelay(true).expect("a live socket");
    stream
}

/// Sends to a sink until it has everything.
pub(crate) fn transfer(address: &str, bytes: usize) -> Duration {
    let mut stream = connect(address);
    let chunk = [7; CHUNK_BYTES];
    let begin = Instant::now();
    stream.write_all(&bytes.to_be_bytes()).expect("sent");
    let mut left = bytes;
    while left > 0 {
        let length = left.min(chunk.len());
        stream.write_all(&chunk[..length]).expect("sent");
        left -= length;
    }
    stream.read_exact(&mut [0]).expect("an answer");
    begin.elapsed()
}

pub(crate) fn megabytes_a_second(address: &str, connections: usize) -> f64 {
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| transfer(address, TOTAL_BYTES / connections));
        }
    });
    TOTAL_BYTES as f64 / 1e6 / begin.elapsed().as_secs_f64()
}

/// A quantile of small round trips on one connection.
pub(crate) fn quantiles(address: &str, which: f64) -> Duration {
    let mut stream = connect(address);
    let first = round_trip(&mut stream);
    // Slow ones are slow on purpose.
    let count = if first > Duration::from_millis(10) { 20 } else { ROUND_TRIPS };
    let mut times: Vec<Duration> = (0..count).map(|_| round_trip(&mut stream)).collect();
    times.sort();
    times[((times.len() - 1) as f64 * which) as usize]
}

pub(crate) fn round_trip(stream: &mut TcpStream) -> Duration {
    let mut bytes = [7; 64];
    let begin = Instant::now();
    stream.write_all(&bytes).expect("sent");
    stream.read_exact(&mut bytes).expect("an echo");
    begin.elapsed()
}

/// Connections that are opened, used once and closed.
pub(crate) fn connections_a_second(address: &str) -> f64 {
    let start = Barrier::new(CONNECTERS + 1);
    let begin = thread::scope(|scope| {
        for _ in 0..CONNECTERS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..CONNECTS / CONNECTERS {
                    round_trip(&mut connect(address));
                }
            });
        }
        start.wait();
        Instant::now()
    });
    CONNECTS as f64 / begin.elapsed().as_secs_f64()
}
