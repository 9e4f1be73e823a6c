//! Client of Flink's REST API, 1.13 to 2.3. The bundled coordinator serves the same paths.
//!
//! * [`client`]: [`RestClient`], which knows several coordinators and sticks to the one that leads;
//! * [`error`]: what went wrong, and whether it will pass by itself;
//! * [`job`], [`checkpoints`], [`cluster`]: typed answers, tolerant of fields that a version lacks;
//! * [`lenient`]: numbers that may be `"NaN"` or null.

pub mod checkpoints;
pub mod client;
pub mod cluster;
pub mod error;
pub mod job;
pub mod lenient;

pub use client::{RestClient, RunRequest};
pub use error::RestError;
