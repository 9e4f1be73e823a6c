//! Proxies and toxics as clients see them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::toxiproxy::stream::Stream;

/// A proxy, to be created or as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proxy {
    /// Unique per server.
    pub name: String,
    /// Where clients connect; port 0 is replaced by the real one when it starts.
    pub listen: String,
    /// Where it connects.
    pub upstream: String,
    /// Whether it listens.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// Upstream ones first.
    #[serde(default)]
    pub toxics: Vec<Toxic>,
}

fn enabled() -> bool {
    true
}

impl Proxy {
    /// An enabled proxy without toxics.
    #[must_use]
    pub fn new(name: impl Into<String>, listen: impl Into<String>, upstream: impl Into<String>) -> Self {
        Self { name: name.into(), listen: listen.into(), upstream: upstream.into(), enabled: true, toxics: Vec::new() }
    }

    /// The same proxy with one toxic more.
    #[must_use]
    pub fn with_toxic(mut self, toxic: Toxic) -> Self {
        self.toxics.push(toxic);
        self
    }
}

/// A change to a proxy; absent fields keep their value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ProxyUpdate {
    /// See [`Proxy::listen`]. Another address cuts all connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// See [`Proxy::upstream`]. Another text cuts all connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// See [`Proxy::enabled`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A toxic, to be added or as it is. The constructors know all types of Toxiproxy 2.12 and ours; others can be built
/// with [`Toxic::of_kind`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Toxic {
    /// Unique per proxy, over both streams.
    pub name: String,
    /// The type, e.g. `latency`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The direction it acts on.
    pub stream: Stream,
    /// The share of connections it acts on, 0 to 1.
    pub toxicity: f32,
    /// By name; what is absent is 0, or unchanged in an update.
    #[serde(default)]
    pub attributes: BTreeMap<String, Value>,
}

impl Toxic {
    /// A toxic of any type, without attributes, on every connection, named `<kind>_<stream>` as Toxiproxy does.
    #[must_use]
    pub fn of_kind(kind: impl Into<String>, stream: Stream) -> Self {
        let kind = kind.into();
        Self { name: format!("{kind}_{stream}"), kind, stream, toxicity: 1.0, attributes: BTreeMap::new() }
    }

    /// Each chunk waits `latency` ± `jitter`. Whole milliseconds.
    #[must_use]
    pub fn latency(stream: Stream, latency: Duration, jitter: Duration) -> Self {
        Self::of_kind("latency", stream).with("latency", millis(latency)).with("jitter", millis(jitter))
    }

    /// At most this many KB (1000 bytes) a second; 0 is a stall without loss.
    #[must_use]
    pub fn bandwidth(stream: Stream, kilobytes_per_second: u32) -> Self {
        Self::of_kind("bandwidth", stream).with("rate", kilobytes_per_second)
    }

    /// The same for all connections of the proxy together. Our server only; a real one gives each its own.
    #[must_use]
    pub fn shared_bandwidth(stream: Stream, kilobytes_per_second: u32) -> Self {
        Self::bandwidth(stream, kilobytes_per_second).with("shared", 1)
    }

    /// Holds back the close. Whole milliseconds.
    #[must_use]
    pub fn slow_close(stream: Stream, delay: Duration) -> Self {
        Self::of_kind("slow_close", stream).with("delay", millis(delay))
    }

    /// Swallows everything and closes after this long without a byte; zero: never. Bytes are lost, so removing it
    /// closes the connection. Whole milliseconds.
    #[must_use]
    pub fn timeout(stream: Stream, timeout: Duration) -> Self {
        Self::of_kind("timeout", stream).with("timeout", millis(timeout))
    }

    /// Resets the connection this long after the first byte or close. Whole milliseconds.
    #[must_use]
    pub fn reset_peer(stream: Stream, timeout: Duration) -> Self {
        Self::of_kind("reset_peer", stream).with("timeout", millis(timeout))
    }

    /// Cuts chunks into pieces of `average_size` ± `size_variation` bytes, with a pause after each. Whole microseconds.
    #[must_use]
    pub fn slicer(stream: Stream, average_size: u32, size_variation: u32, delay: Duration) -> Self {
        Self::of_kind("slicer", stream)
            .with("average_size", average_size)
            .with("size_variation", size_variation)
            .with("delay", u64::try_from(delay.as_micros()).unwrap_or(u64::MAX))
    }

    /// Closes the connection after this many bytes.
    #[must_use]
    pub fn limit_data(stream: Stream, bytes: u64) -> Self {
        Self::of_kind("limit_data", stream).with("bytes", bytes)
    }

    /// Does nothing.
    #[must_use]
    pub fn noop(stream: Stream) -> Self {
        Self::of_kind("noop", stream)
    }

    /// Holds everything until it is removed, then lets it arrive: a black hole without loss. Our server only.
    #[must_use]
    pub fn hold(stream: Stream) -> Self {
        Self::of_kind("hold", stream)
    }

    /// Passes everything, and closes the connection this long after it began to act on it. Whole milliseconds. Our
    /// server only.
    #[must_use]
    pub fn limit_time(stream: Stream, time: Duration) -> Self {
        Self::of_kind("limit_time", stream).with("time", millis(time))
    }

    /// New clients stay connected and hear nothing; their upstream is not dialled until it is removed. Only the first so
    /// many connections; 0: all. Our server only.
    #[must_use]
    pub fn connect_blackhole(first: u32) -> Self {
        Self::of_kind("connect_blackhole", Stream::Upstream).with("first", first)
    }

    /// New clients are reset before their upstream is dialled. Only the first so many connections; 0: all. Our server only.
    #[must_use]
    pub fn connect_refuse(first: u32) -> Self {
        Self::of_kind("connect_refuse", Stream::Upstream).with("first", first)
    }

    /// The same toxic under another name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The same toxic on this share of connections, 0 to 1.
    #[must_use]
    pub fn with_toxicity(mut self, toxicity: f32) -> Self {
        self.toxicity = toxicity;
        self
    }

    /// The same toxic for clients at this address or in this network (CIDR) alone. Our server only.
    #[must_use]
    pub fn for_clients(self, clients: &str) -> Self {
        self.with("clients", clients)
    }

    /// The same toxic with an attribute set.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Serialize)]
pub(super) struct ToxicUpdate<'a> {
    pub(super) toxicity: f32,
    pub(super) attributes: &'a BTreeMap<String, Value>,
}

#[derive(Deserialize)]
pub(super) struct PopulateAnswer {
    pub(super) proxies: Option<Vec<Proxy>>,
}

#[derive(Deserialize)]
pub(super) struct VersionAnswer {
    pub(super) version: String,
}
