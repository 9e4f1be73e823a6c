//! `summary.json`.

use serde::{Deserialize, Serialize};

use super::{RunReport, SuiteReport};
use crate::oracle::Judgement;
use crate::verdict::Verdict;

/// Version of the form. Raised with every change that an older reader would misread.
pub const VERSION: u32 = 1;

/// A run in short, for machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// [`VERSION`].
    pub version: u32,
    /// The worst of all suites.
    pub verdict: Verdict,
    /// Exit code of the command.
    pub exit_code: u8,
    /// The command that repeats the run.
    pub repeat: String,
    /// In the order they were run.
    pub suites: Vec<SuiteSummary>,
}

/// A suite in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteSummary {
    /// Its name.
    pub name: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// Duration, milliseconds.
    pub took_ms: u64,
    /// The target.
    pub target: String,
    /// Engine and version.
    pub engine: String,
    /// Seed.
    pub seed: u64,
    /// Hash of the resolved plan.
    pub plan_hash: String,
    /// The command that repeats it.
    pub repeat: String,
    /// Each oracle's.
    pub judgements: Vec<Judgement>,
}

impl Summary {
    /// The summary of a run.
    #[must_use]
    pub fn of(run: &RunReport) -> Self {
        Self {
            version: VERSION,
            verdict: run.verdict(),
            exit_code: run.verdict().exit_code(),
            repeat: run.repeat().to_owned(),
            suites: run.suites.iter().map(SuiteSummary::of).collect(),
        }
    }

    /// As JSON with line breaks.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a summary has string keys only");
        text.push('\n');
        text
    }
}

impl SuiteSummary {
    fn of(suite: &SuiteReport) -> Self {
        let run = suite.run.clone();
        Self {
            name: run.suite,
            verdict: suite.verdict,
            took_ms: suite.took_ms,
            target: run.target,
            engine: run.engine,
            seed: run.seed,
            plan_hash: run.plan_hash,
            repeat: run.repeat,
            judgements: suite.judgements.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let summary = Summary::of(&sample::run());
        assert_eq!((summary.verdict, summary.exit_code), (Verdict::Fail, 1));
        assert_eq!(serde_json::from_str::<Summary>(&summary.to_json()).unwrap(), summary);
    }
}
