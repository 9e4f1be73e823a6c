//! What a run comes to.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use super::RunOptions;
use crate::report::SuiteReport;
use crate::target::bundled::Timings;
use crate::timeline::Timeline;
use crate::verdict::Verdict;

/// A judged run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The judgements, and what happened when.
    pub report: SuiteReport,
    /// Where the record lies.
    pub run_dir: PathBuf,
    /// How long it took, bringing the cluster up and down included.
    pub took: Duration,
    /// How long the cluster took to come up, if it did.
    pub start: Option<Timings>,
}

impl Outcome {
    pub(super) fn judge(options: &RunOptions, timeline: &Timeline, took: Duration, start: Option<Timings>) -> Self {
        Self { report: SuiteReport::of(timeline), run_dir: options.run_dir.clone(), took, start }
    }

    /// Name of the suite.
    #[must_use]
    pub fn suite(&self) -> &str {
        &self.report.run.suite
    }

    /// All judgements together.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.report.verdict
    }

    /// The judgements that are not a pass, and how to repeat the run, for a failing test's message. The last line is
    /// the command.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut text = format!("{}: {}\n", self.suite(), self.verdict());
        for judgement in self.report.judgements.iter().filter(|judgement| judgement.verdict != Verdict::Pass) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {} {}: {}", judgement.verdict, judgement.oracle, judgement.summary);
            for line in &judgement.evidence {
                let _ = writeln!(text, "    {line}");
            }
        }
        let _ = write!(text, "record: {}\nrepeat: {}", self.run_dir.display(), self.report.run.repeat);
        text
    }
}
