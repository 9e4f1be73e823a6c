//! "What restarts if this task or this executor fails, with these partitions lost?" — for a job that is running, from
//! its REST answers, or as it stood in a recorded run (`stormproof explain`).
//!
//! ```text
//! REST answers ──read──> Picture <──facts── timeline
//!                           │
//!                        Question ──> Explanation ──> text, JSON
//! ```
//!
//! The coordinator's own [`failover::restart_set`] gives the answer; the reasons come from a search of the same
//! kind, in the terms of the oracle's tree. All of it is linear in tasks, so that wide jobs are answered at once.
//!
//! [`failover::restart_set`]: stormproof_coordinator::core::failover::restart_set

mod answer;
mod cases;
mod error;
mod json;
mod live;
mod names;
mod picture;
mod question;
mod rest;
mod search;
mod summary;
mod text;
mod vertices;

pub use answer::{Explanation, Wave, WaveKind};
pub use cases::{CasesOutcome, answer_cases};
pub use error::ExplainError;
pub use live::look;
pub use picture::{JobHead, Picture};
pub use question::Question;
pub use rest::Saved;
pub use summary::{Summary, VertexSummary};
