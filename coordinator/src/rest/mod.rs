//! Flink's REST API: same paths, same JSON, as of Flink 2.3.0, with and without the `/v1` prefix.
//!
//! ```text
//! server  the listening socket and its shutdown
//! forward  a coordinator that does not lead asks the one that does
//! routes  path -> answer; what is read comes from published snapshots and waits for nothing
//! data_sets  results that outlived their jobs
//! error   Flink's statuses and `{"errors": [..]}`
//! submit  `POST /jars/:name/run`: the body and its program arguments
//! json    snapshot -> JSON, pure
//! ```
//!
//! What Flink does not have stands in one object, `"stormproof"`. On purpose different: `/jobs/:id/checkpoints`
//! answers 200 while a job is INITIALIZING (Flink from 1.18 on: 500), answers are never cached, and registered jobs
//! take the place of uploaded jars.

pub mod cluster;
mod data_sets;
mod error;
mod forward;
mod json;
mod routes;
mod server;
mod submit;
#[cfg(test)]
mod tests;

pub use forward::ANSWERED_BY;
pub use json::aggregate_status;
pub use server::{RestError, RestServer};
