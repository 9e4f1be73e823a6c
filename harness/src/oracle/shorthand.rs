//! The expectations that most suites want, in a word each.

use super::Expectation;
use super::expectation::{ExactlyOnce, JobResult, NoLeftovers, Responsive, RestartSet};

impl Expectation {
    /// The job ends in this state, e.g. `FINISHED`.
    #[must_use]
    pub fn job_ends(state: impl Into<String>) -> Self {
        Self::JobResult(JobResult { job: None, state: state.into() })
    }

    /// Exactly the tasks restart that Flink's rule names.
    #[must_use]
    pub fn restart_set() -> Self {
        Self::RestartSet(RestartSet::default())
    }

    /// No record is lost or doubled.
    #[must_use]
    pub fn exactly_once() -> Self {
        Self::ExactlyOnce(ExactlyOnce { allow_doubled: false, min_expected: 1 })
    }

    /// The control plane never stays without an answer for longer than this many milliseconds. A single probe may go
    /// unanswered among answered ones: on a starved machine one in a thousand does, and says nothing of the engine.
    #[must_use]
    pub fn answers_within(max_gap_ms: u64) -> Self {
        Self::Responsive(Responsive {
            max_gap_ms: Some(max_gap_ms),
            allow_unanswered: true,
            min_probes: 1,
            ..Responsive::default()
        })
    }

    /// Nothing of these kinds is left behind: `processes`, `partitions`, `objects`, `uploads`.
    #[must_use]
    pub fn no_leftovers<'a>(kinds: impl IntoIterator<Item = &'a str>) -> Self {
        Self::NoLeftovers(NoLeftovers { looked_for: kinds.into_iter().map(str::to_owned).collect() })
    }
}
