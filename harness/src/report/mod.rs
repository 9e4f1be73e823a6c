//! What a run leaves for people and machines.
//!
//! * [`folder`]: the run folder, and judging it again;
//! * [`markdown`]: `report.md`, whose first screen is the table of verdicts and whose last line repeats the run;
//! * [`summary`](mod@summary): `summary.json`;
//! * [`junit`]: JUnit XML;
//! * [`course`]: the course of a run in lines, for reports.

pub mod course;
pub mod folder;
pub mod junit;
pub mod markdown;
pub mod summary;

use std::fmt::Write as _;

pub use folder::{ReportError, RunFolder, TIMELINE, judge_folder};

use crate::oracle::{self, Judgement};
use crate::timeline::{RunStart, Timeline};
use crate::verdict::Verdict;

/// One judged suite.
#[derive(Debug, Clone, PartialEq)]
pub struct SuiteReport {
    /// What was run.
    pub run: RunStart,
    /// Over all judgements.
    pub verdict: Verdict,
    /// Each oracle's.
    pub judgements: Vec<Judgement>,
    /// From the first record to the last, milliseconds.
    pub took_ms: u64,
    /// What happened when.
    pub course: Vec<course::Moment>,
}

/// All suites of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunReport {
    /// In the order they were run.
    pub suites: Vec<SuiteReport>,
    /// The command that repeats all of it, if there is one.
    pub command: Option<String>,
}

impl SuiteReport {
    /// Judges a timeline.
    #[must_use]
    pub fn of(timeline: &Timeline) -> Self {
        let judged = oracle::judge(timeline);
        let ends = timeline.records().first().zip(timeline.records().last());
        Self {
            run: timeline.run().cloned().unwrap_or_default(),
            verdict: judged.verdict,
            judgements: judged.judgements,
            took_ms: ends.map_or(0, |(first, last)| last.at_ms.saturating_sub(first.at_ms)),
            course: course::of(timeline),
        }
    }

    /// The judgement that decided the verdict.
    #[must_use]
    pub fn decisive(&self) -> Option<&Judgement> {
        self.judgements.iter().find(|judgement| judgement.verdict == self.verdict)
    }

    /// One line that says why: the decisive judgement, or how many oracles passed, and what restarted.
    #[must_use]
    pub fn why(&self) -> String {
        match self.decisive() {
            Some(judgement) if self.verdict != Verdict::Pass => format!("{}: {}", judgement.oracle, judgement.summary),
            _ => {
                let of = |verdict| self.judgements.iter().filter(move |judgement| judgement.verdict == verdict);
                let mut why = format!("{} judgements, all good", of(Verdict::Pass).count());
                if let Some(restarts) = of(Verdict::Pass).find(|judgement| judgement.oracle == "restart-set") {
                    // Writing to a string cannot fail.
                    let _ = write!(why, "; {}", restarts.summary);
                }
                for skipped in of(Verdict::Skipped) {
                    let _ = write!(why, "; {} skipped: {}", skipped.oracle, skipped.summary);
                }
                why
            }
        }
    }
}

impl RunReport {
    /// The worst of all suites.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict::of_suites(self.suites.iter().map(|suite| suite.verdict))
    }

    /// The command that repeats the run, if all is well; else that of the suite that decided the verdict, so that a
    /// failure is repeated alone.
    #[must_use]
    pub fn repeat(&self) -> &str {
        let verdict = self.verdict();
        if let (true, Some(command)) = (verdict.is_green(), &self.command) {
            return command;
        }
        let decisive = self.suites.iter().find(|suite| suite.verdict == verdict);
        decisive.map_or("", |suite| suite.run.repeat.as_str())
    }
}

#[cfg(test)]
pub(crate) mod sample {
    use super::*;
    use crate::oracle::Expectation;
    use crate::oracle::expectation::{JobResult, RestartSet};
    use crate::timeline::{FaultEvent, Losses, ObservedPlan, ObservedVertex, Record, RecordKind, TaskName};

    const JOB: &str = "00000000000000000000000000c0ffee";

    /// A run that kills an executor with one task; `restarts` says whether the task comes back, `ends` how the job
    /// ends.
    pub(crate) fn timeline(suite: &str, restarts: bool, ends: &str) -> Timeline {
        let job = || JOB.to_owned();
        let status = |status: &str| RecordKind::JobStatus { job: job(), status: status.into() };
        let task = |attempt, state: &str| {
            let (task, executor) = (TaskName::new("map", 0), Some("executor-1".into()));
            RecordKind::TaskState { job: job(), task, attempt, state: state.into(), executor }
        };
        let fault = |event| RecordKind::Fault { fault: "kill".into(), event };
        let losses = Losses { executors: vec!["executor-1".into()], ..Losses::default() };
        let vertices = vec![ObservedVertex { name: "map".into(), parallelism: 1 }];
        let mut kinds = vec![
            RecordKind::RunStarted(RunStart {
                suite: suite.into(),
                about: "kills the only executor | once".into(),
                plan_hash: "abc123".into(),
                seed: 7,
                target: "bundled".into(),
                engine: "Stormproof 0.1.0".into(),
                repeat: format!("stormproof run {suite} --seed 7"),
            }),
            RecordKind::Expected(Expectation::RestartSet(RestartSet::default())),
            RecordKind::Expected(Expectation::JobResult(JobResult { job: None, state: "FINISHED".into() })),
            RecordKind::JobSubmitted { job: job(), name: "map".into() },
            RecordKind::Plan { job: job(), plan: ObservedPlan { vertices, edges: vec![] } },
            status("RUNNING"),
            task(0, "RUNNING"),
            fault(FaultEvent::Described { what: "kill executor-1".into(), is_stage_direction: false }),
            fault(FaultEvent::Injected),
            fault(FaultEvent::Effective { losses }),
            fault(FaultEvent::Healed),
            fault(FaultEvent::HealVerified),
        ];
        if restarts {
            kinds.extend([task(1, "RUNNING")]);
        }
        kinds.extend([status(ends), RecordKind::RunEnded]);
        let stamp = |(seq, kind): (usize, RecordKind)| {
            let seq = seq as u64;
            Record { seq, at_ms: seq * 100, wall_ms: 1_000, kind }
        };
        Timeline::new(kinds.into_iter().enumerate().map(stamp).collect())
    }

    /// One suite that passes and one that fails.
    pub(crate) fn run() -> RunReport {
        let suites = [("batch::good", true), ("batch::bad", false)];
        let suites = suites.map(|(name, good)| SuiteReport::of(&timeline(name, good, "FINISHED"))).into();
        RunReport { suites, command: Some("stormproof run --seed 7".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_as_good_as_its_worst_suite_and_repeats_that_one() {
        let run = sample::run();
        let verdicts: Vec<_> = run.suites.iter().map(|suite| suite.verdict).collect();
        assert_eq!(verdicts, [Verdict::Pass, Verdict::Fail]);
        assert_eq!(run.verdict(), Verdict::Fail);
        assert_eq!(run.repeat(), "stormproof run batch::bad --seed 7");
        let why = "4 judgements, all good; exactly the right tasks restarted: 1 of 1 tasks restarted";
        assert!(run.suites[0].why().starts_with(why), "{}", run.suites[0].why());
        let good = RunReport { suites: vec![run.suites[0].clone()], ..run.clone() };
        assert_eq!(good.repeat(), "stormproof run --seed 7", "all of it");
        assert!(run.suites[1].why().starts_with("restart-set: 1 missing"), "{}", run.suites[1].why());
        assert_eq!(RunReport::default().verdict(), Verdict::Skipped);
    }
}
