//! The eight verdicts, how several combine into one, and the exit codes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a run, or one oracle of it, comes to.
///
/// Ordered by severity *across* suites: [`Verdict::Fail`] is the worst, since a real failure must not hide behind the
/// broken run of another suite. Within one run another rule holds, see [`Verdict::of_run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Not run: the target lacks a capability. Carries a reason in the judgement; counted, never silent.
    Skipped,
    /// The engine did what it promises.
    Pass,
    /// The facts do not decide.
    Inconclusive,
    /// Nothing was proved: a fault had no effect.
    Vacuous,
    /// The target was sick before anything was broken.
    Precondition,
    /// Not run: it would have hurt what it must not hurt.
    Refused,
    /// The measurement cannot be trusted: the injector or the harness broke.
    Invalid,
    /// The engine broke a promise.
    Fail,
}

impl Verdict {
    /// All eight, mildest first.
    pub const ALL: [Self; 8] = [
        Self::Skipped,
        Self::Pass,
        Self::Inconclusive,
        Self::Vacuous,
        Self::Precondition,
        Self::Refused,
        Self::Invalid,
        Self::Fail,
    ];

    /// The verdict of one run from its judgements.
    ///
    /// *Refused*, *precondition* and *invalid* come before *fail*: they say that the run cannot blame the engine (an
    /// injector that killed two executors instead of one explains a wrong restart set). *Fail* comes before
    /// *vacuous*: an engine that loses records although the fault had no effect has failed all the same. (What is missing
    /// only because the fault had no effect is judged *vacuous* by the oracle that misses it.) No judgement at all is
    /// *inconclusive*, never a pass.
    #[must_use]
    pub fn of_run(judgements: impl IntoIterator<Item = Self>) -> Self {
        judgements.into_iter().max_by_key(|verdict| verdict.rank_in_run()).unwrap_or(Self::Inconclusive)
    }

    /// The verdict of several suites: the worst, with *fail* worst of all. No suite at all is *skipped*.
    #[must_use]
    pub fn of_suites(suites: impl IntoIterator<Item = Self>) -> Self {
        suites.into_iter().max().unwrap_or(Self::Skipped)
    }

    fn rank_in_run(self) -> u8 {
        match self {
            Self::Skipped => 0,
            Self::Pass => 1,
            Self::Inconclusive => 2,
            Self::Vacuous => 3,
            Self::Fail => 4,
            Self::Invalid => 5,
            Self::Precondition => 6,
            Self::Refused => 7,
        }
    }

    /// Exit code of the command: 0 pass (and skipped) · 1 fail · 3 invalid · 4 vacuous · 5 inconclusive ·
    /// 6 precondition · 7 refused. 2 is bad usage, see [`EXIT_USAGE`].
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Pass | Self::Skipped => 0,
            Self::Fail => 1,
            Self::Invalid => 3,
            Self::Vacuous => 4,
            Self::Inconclusive => 5,
            Self::Precondition => 6,
            Self::Refused => 7,
        }
    }

    /// Pass or skipped.
    #[must_use]
    pub fn is_green(self) -> bool {
        self.exit_code() == 0
    }

    /// The word of the design page, e.g. `vacuous`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Pass => "pass",
            Self::Inconclusive => "inconclusive",
            Self::Vacuous => "vacuous",
            Self::Precondition => "precondition",
            Self::Refused => "refused",
            Self::Invalid => "invalid",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Exit code for bad usage or bad input.
pub const EXIT_USAGE: u8 = 2;

/// Exit code after an interrupt, once everything is healed.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Exit code of a test binary with failures: libtest's.
pub const EXIT_TESTS_FAILED: u8 = 101;

#[cfg(test)]
mod tests {
    use super::Verdict::{self, Fail, Inconclusive, Invalid, Pass, Precondition, Refused, Skipped, Vacuous};

    #[test]
    fn exit_codes_are_those_of_the_design_page() {
        let codes: Vec<_> = Verdict::ALL.iter().map(|verdict| (verdict.name(), verdict.exit_code())).collect();
        let expected = [
            ("skipped", 0),
            ("pass", 0),
            ("inconclusive", 5),
            ("vacuous", 4),
            ("precondition", 6),
            ("refused", 7),
            ("invalid", 3),
            ("fail", 1),
        ];
        assert_eq!(codes, expected);
    }

    #[test]
    fn a_broken_injector_explains_a_failure_within_its_run_only() {
        assert_eq!(Verdict::of_run([Pass, Fail, Invalid]), Invalid);
        assert_eq!(Verdict::of_run([Fail, Precondition, Invalid]), Precondition);
        assert_eq!(Verdict::of_run([Fail, Refused]), Refused);
        assert_eq!(Verdict::of_suites([Pass, Fail, Invalid]), Fail);
    }

    #[test]
    fn an_ineffective_fault_does_not_excuse_lost_data_and_is_not_green() {
        assert_eq!(Verdict::of_run([Vacuous, Fail, Pass]), Fail);
        assert_eq!(Verdict::of_run([Vacuous, Pass]), Vacuous);
        assert!(!Vacuous.is_green());
    }

    #[test]
    fn nothing_judged_is_never_a_pass() {
        assert_eq!(Verdict::of_run([]), Inconclusive);
        assert_eq!(Verdict::of_suites([]), Skipped);
        assert_eq!(Verdict::of_run([Skipped, Pass]), Pass);
        assert_eq!(Verdict::of_run([Skipped]), Skipped);
    }

    #[test]
    fn verdicts_are_written_by_name() {
        for verdict in Verdict::ALL {
            let text = serde_json::to_string(&verdict).unwrap();
            assert_eq!(text, format!("\"{verdict}\""));
            assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
        }
    }
}
