//! A TCP proxy that misbehaves on request, wire-compatible with Shopify's Toxiproxy 2.12.
//!
//! The rule that rules out Toxiproxy's hangs: **a link is one task that owns its ordered toxics; a change is a message
//! to it; it never blocks on a send.** Bytes wait in queues with a due time; the task waits for whichever comes first
//! of {change, writable, due, readable}. So a change is in effect within one turn, even when the sink is dead.
//!
//! # Layout
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`toxic`] | one toxic a file, each a pure step over (now, event) |
//! | [`chain`] | the ordered toxics of one direction of one connection, pure |
//! | [`random`] | the only source of chance: a function of (seed, proxy, connection, toxic, chunk) |
//! | `link`, `connection`, `proxy`, `registry` | the tokio shell around a chain, from one direction to all proxies |
//! | [`clients`] | which clients a toxic is for |
//! | `reception` | the toxics that act before the upstream is dialled |
//! | `room` | how many connections there may be, so that the API always has a descriptor |
//! | `alarm` | waits that are exact enough for a toxic |
//! | `api` | Toxiproxy's HTTP API |
//! | `go_json` | request bodies, read as a real Toxiproxy reads them |
//! | `leases` | what ends by itself if nobody renews it |
//! | [`server`] | start and stop of the whole |
//! | [`client`] | the async client; works with a real Toxiproxy too |
//! | [`real`] | a real Toxiproxy as a process |
//! | [`effects`] | what each toxic really did ("did it bite?") |
//!
//! # Where we differ from Toxiproxy on purpose
//!
//! Same wire form, better effect: a half-close is forwarded as a half-close; `reset_peer` resets connections that are
//! already open and leaves no trace behind; toxicity is drawn once per connection; the upstream is dialled outside the
//! accept loop with a limit; toxics given inside a create or populate entry are in place before the listener opens;
//! values that make Toxiproxy crash (`rate` below 0, `average_size` 0, …) are refused with 400. Additions: the toxic
//! types `hold`, `limit_time` (a connection is closed after a time of normal traffic), `connect_blackhole` (a new
//! client hears nothing, and its upstream is not dialled until the toxic goes) and `connect_refuse` (a new client is
//! reset), the latter two for the `first` so many connections if that is given; the attributes `deadline` of `timeout`
//! and `shared` of `bandwidth` (all connections of the proxy share the rate), and `clients` of every type (an address
//! or a network: the toxic leaves other clients alone); `GET /proxies/{proxy}/effects`; and leases (`/leases`): a fault
//! whose holder is gone ends in the proxy itself. `packet_loss` is refused with advice.

mod address;
mod alarm;
mod api;
pub mod chain;
pub mod client;
pub mod clients;
mod connection;
pub mod effects;
mod error;
mod go_json;
mod host_port;
mod leases;
mod link;
mod metrics;
mod nearest;
mod proxy;
pub mod random;
pub mod real;
mod reception;
mod registry;
mod request;
mod room;
pub mod server;
pub mod spec;
mod stage;
mod stream;
pub mod toxic;
mod toxics;

pub use client::{ApiUrl, BadApiUrl, BadToxic, ClientError, Proxy, ProxyLease, ProxyUpdate, Toxic, ToxiproxyClient};
pub use effects::{ProxyEffects, ToxicEffects};
pub use server::{ApiLimits, DialFailure, ServerConfig, ServerError, ToxiproxyServer};
pub use stream::Stream;

/// The version of Toxiproxy whose API and effects the server has, and that it answers with at `/version`.
pub const TOXIPROXY_VERSION: &str = "2.12.0";
