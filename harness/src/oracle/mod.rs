//! Judgements over a timeline. Each oracle is a pure function of [`crate::timeline::Timeline`] and its parameters:
//! no clock, no randomness, and no question to the target.
//!
//! | oracle | asks |
//! | --- | --- |
//! | [`restart_set`] | did exactly the right tasks restart? With [`model`], [`observed`], [`incident`], [`tree`] |
//! | [`output`] | is every record there, once? |
//! | [`responsive`] | did the control plane keep answering? |
//! | [`recovery_time`] | how long until all tasks ran again? |
//! | [`store_traffic`] | which requests reached the object store? |
//! | [`job`] | how did the job end, how often was it restarted? |
//! | [`leftovers`] | is anything left behind? |
//! | [`faults`] | did every fault bite, and was it healed? Judged in every run |
//! | [`run`] | all of these over one run |

#![deny(clippy::disallowed_methods)]

pub mod expectation;
pub mod faults;
pub mod incident;
pub mod job;
pub mod leftovers;
pub mod model;
pub mod observed;
pub mod output;
pub mod recovery_time;
pub mod responsive;
pub mod restart_set;
pub mod run;
mod shorthand;
pub mod store_traffic;
#[cfg(test)]
mod story;
pub mod tree;

pub use expectation::Expectation;
pub use run::{RunJudgement, judge};

use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// What one oracle says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Its name, e.g. `restart-set`.
    pub oracle: String,
    /// The verdict.
    pub verdict: Verdict,
    /// One line.
    pub summary: String,
    /// The facts it rests on, in order of weight.
    pub evidence: Vec<String>,
}

fn judgement(oracle: &str, verdict: Verdict, summary: String, evidence: Vec<String>) -> Judgement {
    Judgement { oracle: oracle.to_owned(), verdict, summary, evidence }
}
