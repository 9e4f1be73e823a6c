//! Everything that a run is judged by.

use super::{Expectation, Judgement, faults, job, judgement, leftovers, output, recovery_time, responsive};
use super::{restart_set, store_traffic};
use crate::timeline::{RecordKind, Timeline};
use crate::verdict::Verdict;

/// A judged run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunJudgement {
    /// Over all judgements.
    pub verdict: Verdict,
    /// The harness's own first, then faults, then expectations in the order of the plan.
    pub judgements: Vec<Judgement>,
}

/// Judges a run by what its timeline says it is to be judged by. A run that the runner itself gave up (skipped,
/// refused, a sick target) is not judged further.
#[must_use]
pub fn judge(timeline: &Timeline) -> RunJudgement {
    let outcomes: Vec<_> = timeline.records().iter().filter_map(outcome).collect();
    let gave_up = outcomes
        .iter()
        .any(|outcome| matches!(outcome.verdict, Verdict::Skipped | Verdict::Refused | Verdict::Precondition));
    let mut judgements = outcomes;
    if !gave_up {
        judgements.push(harness(timeline));
        judgements.extend(faults::judge(timeline));
        judgements.extend(timeline.records().iter().filter_map(|record| match &record.kind {
            RecordKind::Expected(expectation) => Some(judge_one(timeline, expectation)),
            RecordKind::Waived { expectation, reason } => {
                Some(judgement(expectation.oracle(), Verdict::Skipped, reason.clone(), vec![]))
            }
            _ => None,
        }));
    }
    let verdict = Verdict::of_run(judgements.iter().map(|judgement| judgement.verdict));
    RunJudgement { verdict, judgements }
}

/// Judges one expectation.
#[must_use]
pub fn judge_one(timeline: &Timeline, expectation: &Expectation) -> Judgement {
    match expectation {
        Expectation::RestartSet(params) => restart_set::judge(timeline, params),
        Expectation::ExactlyOnce(params) => output::judge(timeline, params),
        Expectation::Responsive(params) => responsive::judge(timeline, params),
        Expectation::NoLeftovers(params) => leftovers::judge(timeline, params),
        Expectation::RecoveryTime(params) => recovery_time::judge(timeline, params),
        Expectation::StoreTraffic(params) => store_traffic::judge(timeline, params),
        Expectation::JobResult(params) => job::judge_result(timeline, params),
        Expectation::RestartCount(params) => job::judge_restarts(timeline, params),
    }
}

fn outcome(record: &crate::timeline::Record) -> Option<Judgement> {
    match &record.kind {
        RecordKind::Outcome { verdict, reason } => Some(judgement("runner", *verdict, reason.clone(), vec![])),
        _ => None,
    }
}

/// Can the record itself be trusted?
fn harness(timeline: &Timeline) -> Judgement {
    let dropped: u64 = timeline
        .records()
        .iter()
        .map(|record| if let RecordKind::Dropped { count } = record.kind { count } else { 0 })
        .sum();
    let is_expected = |record: &&crate::timeline::Record| matches!(record.kind, RecordKind::Expected(_));
    let expected = timeline.records().iter().filter(is_expected).count();
    let (verdict, summary) = if dropped > 0 {
        (Verdict::Invalid, format!("{dropped} records did not fit into the timeline"))
    } else if timeline.is_truncated() || !timeline.is_ended() {
        (Verdict::Invalid, "the timeline has no end: the runner was killed".into())
    } else if expected == 0 {
        (Verdict::Inconclusive, "nothing was expected, so nothing is judged".into())
    } else {
        (Verdict::Pass, format!("the timeline is whole: {} records", timeline.records().len()))
    };
    judgement("timeline", verdict, summary, vec![])
}

#[cfg(test)]
mod tests {
    use super::super::expectation::{JobResult, StoreTraffic};
    use super::super::story::Story;
    use super::*;
    use crate::timeline::FaultEvent;

    fn story() -> Story {
        let mut story = Story::new();
        let expected = Expectation::JobResult(JobResult { job: None, state: "FINISHED".into() });
        story.record(RecordKind::Expected(expected));
        story
    }

    #[test]
    fn a_whole_run_is_judged_by_its_expectations() {
        let mut story = story();
        story.status("FINISHED").record(RecordKind::RunEnded);
        let run = judge(&story.timeline());
        assert_eq!(run.verdict, Verdict::Pass);
        let oracles: Vec<_> = run.judgements.iter().map(|judgement| judgement.oracle.as_str()).collect();
        assert_eq!(oracles, ["timeline", "job-result"]);
        story.event("f", FaultEvent::Broke { step: "heal".into(), error: "gone".into() });
        assert_eq!(judge(&story.timeline()).verdict, Verdict::Invalid);
    }

    #[test]
    fn what_was_waived_is_skipped_with_its_reason_and_proves_nothing() {
        let waived = || RecordKind::Waived {
            expectation: Expectation::StoreTraffic(StoreTraffic::default()),
            reason: "target bundled+minio lacks store-requests".into(),
        };
        let mut story = story();
        story.record(waived()).status("FINISHED").record(RecordKind::RunEnded);
        let run = judge(&story.timeline());
        assert_eq!(run.verdict, Verdict::Pass);
        let skipped = run.judgements.iter().find(|judgement| judgement.oracle == "store-traffic").expect("told");
        assert_eq!(
            (skipped.verdict, skipped.summary.as_str()),
            (Verdict::Skipped, "target bundled+minio lacks store-requests")
        );
        let mut nothing_else = Story::new();
        nothing_else.record(waived()).record(RecordKind::RunEnded);
        assert_eq!(judge(&nothing_else.timeline()).verdict, Verdict::Inconclusive);
    }

    #[test]
    fn a_run_without_end_or_with_dropped_records_is_invalid() {
        let mut story = story();
        story.status("FINISHED");
        assert_eq!(judge(&story.timeline()).verdict, Verdict::Invalid);
        story.record(RecordKind::RunEnded);
        assert_eq!(judge(&story.timeline()).verdict, Verdict::Pass);
        assert_eq!(judge(&Timeline::truncated(story.timeline().records().to_vec())).verdict, Verdict::Invalid);
        story.record(RecordKind::Dropped { count: 1 });
        assert_eq!(judge(&story.timeline()).verdict, Verdict::Invalid);
    }

    #[test]
    fn a_run_that_was_given_up_is_not_judged_further() {
        let mut story = story();
        story.record(RecordKind::Outcome { verdict: Verdict::Precondition, reason: "no executor".into() });
        let run = judge(&story.timeline());
        assert_eq!((run.verdict, run.judgements.len()), (Verdict::Precondition, 1));
    }

    #[test]
    fn nothing_expected_is_not_a_pass() {
        let mut story = Story::new();
        story.record(RecordKind::RunEnded);
        assert_eq!(judge(&story.timeline()).verdict, Verdict::Inconclusive);
    }
}
