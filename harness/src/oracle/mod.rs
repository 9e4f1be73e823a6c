//! Judgements over a timeline. Each oracle is a pure function of [`crate::timeline::Timeline`] and its parameters.

pub mod expectation;

pub use expectation::Expectation;

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
