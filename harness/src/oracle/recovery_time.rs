//! How long from a failure until every task that was hit runs again?

use std::collections::{BTreeMap, BTreeSet};

use super::expectation::RecoveryTime as Params;
use super::{Judgement, faults, judgement};
use crate::timeline::query::task_fact;
use crate::timeline::{FaultEvent, Record, RecordKind, TaskName, Timeline};
use crate::verdict::Verdict;

const ORACLE: &str = "recovery-time";

/// One recovery, milliseconds since the run started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// The last thing before that which can have been the cause: a fault was injected or seen to act, or an executor was
    /// lost. Stage directions and faults without effect cause nothing.
    pub failed_ms: u64,
    /// A task was first seen to be no longer RUNNING or in a new attempt.
    pub noticed_ms: u64,
    /// Every task whose attempt was disturbed runs or has finished; `None` if that never came.
    pub recovered_ms: Option<u64>,
}

/// The recovery in these positions of the timeline; `None` if nothing failed or no task was disturbed.
///
/// A task is disturbed once it is seen in a new attempt, in FAILED, or in CANCELING or CANCELED with a later attempt
/// to come (else the job was cancelled). In a batch job a task that waits for its inputs to be computed again is still
/// disturbed: lost work is part of the recovery.
#[must_use]
pub fn measure(timeline: &Timeline, job: &str, from: usize, to: usize) -> Option<Recovery> {
    let end = timeline.first_status(job, from, &["CANCELLING", "CANCELED", "FINISHED"]).map_or(to, |end| end.min(to));
    let records = &timeline.records()[from..=end];
    let harmless = &stage_directions(timeline) | &faults::without_effect(timeline);
    let is_cause = |record: &Record| match &record.kind {
        RecordKind::ExecutorLost { .. } => true,
        RecordKind::Fault { fault, event: FaultEvent::Injected | FaultEvent::Effective { .. } } => {
            !harmless.contains(fault.as_str())
        }
        _ => false,
    };
    let first = records.iter().position(is_cause)?;
    let mut failed_ms = records[first].at_ms;
    let mut newest: BTreeMap<&TaskName, u32> = BTreeMap::new();
    let before = timeline.tasks(job, from + first);
    let last = timeline.tasks(job, end + 1);
    let mut disturbed: BTreeSet<&TaskName> = BTreeSet::new();
    let (mut noticed_ms, mut recovered_ms) = (None, None);
    for record in &records[first..] {
        if noticed_ms.is_none() && is_cause(record) {
            failed_ms = record.at_ms;
        }
        let Some((task, fact)) = task_fact(record, job) else { continue };
        let known = newest.get(task).copied();
        if known.is_some_and(|known| fact.attempt < known) {
            // News of an attempt that is already replaced.
            continue;
        }
        newest.insert(task, fact.attempt);
        let is_new = fact.attempt > before.get(task).map_or(0, |before| before.attempt);
        let is_first_news = known.is_none_or(|known| fact.attempt > known);
        let is_hit = match fact.state.as_str() {
            "RUNNING" | "FINISHED" => false,
            "FAILED" => true,
            "CANCELING" | "CANCELED" => last.get(task).is_some_and(|last| last.attempt > fact.attempt),
            _ => is_new,
        };
        let runs = matches!(fact.state.as_str(), "RUNNING" | "FINISHED");
        if is_hit {
            disturbed.insert(task);
            noticed_ms.get_or_insert(record.at_ms);
            recovered_ms = None;
        } else if runs && (disturbed.remove(task) || is_new && is_first_news) {
            noticed_ms.get_or_insert(record.at_ms);
            recovered_ms = disturbed.is_empty().then_some(record.at_ms);
        }
    }
    let noticed_ms = noticed_ms?;
    Some(Recovery { failed_ms, noticed_ms, recovered_ms })
}

/// Faults that only hold the job still for others.
fn stage_directions(timeline: &Timeline) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for record in timeline.records() {
        if let RecordKind::Fault { fault, event: FaultEvent::Described { is_stage_direction: true, .. } } = &record.kind
        {
            names.insert(fault.as_str());
        }
    }
    names
}

/// Judges the recovery time.
#[must_use]
pub fn judge(timeline: &Timeline, params: &Params) -> Judgement {
    let inconclusive = |why: &str| judgement(ORACLE, Verdict::Inconclusive, why.into(), vec![]);
    let Some(job) = timeline.job(params.job.as_deref()) else { return inconclusive("no such job was submitted") };
    let bounds = timeline.position(&params.window.from, 0);
    let Some((from, to)) = bounds.and_then(|from| Some((from, timeline.position(&params.window.to, from)?))) else {
        return inconclusive("the window never came");
    };
    let Some(recovery) = measure(timeline, job, from, to) else {
        return judgement(ORACLE, Verdict::Vacuous, "no fault disturbed a task, so nothing recovered".into(), vec![]);
    };
    let noticed =
        format!("the first task was disturbed {} ms after the failure", recovery.noticed_ms - recovery.failed_ms);
    let Some(recovered_ms) = recovery.recovered_ms else {
        let status = timeline.job_status(job, to + 1).unwrap_or("unknown");
        // Cancelled on purpose is not a failed recovery.
        let verdict = if status == "CANCELED" { Verdict::Inconclusive } else { Verdict::Fail };
        return judgement(ORACLE, verdict, format!("not every task ran again; the job is {status}"), vec![noticed]);
    };
    let took = recovered_ms - recovery.failed_ms;
    let (verdict, limit) = match params.max_ms {
        Some(limit) if took > limit => (Verdict::Fail, format!(", and the limit is {limit} ms")),
        Some(limit) => (Verdict::Pass, format!(" of at most {limit} ms")),
        None => (Verdict::Pass, String::new()),
    };
    judgement(ORACLE, verdict, format!("all tasks ran again after {took} ms{limit}"), vec![noticed])
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::timeline::Losses;

    fn running() -> Story {
        let mut story = Story::new();
        for subtask in 0..2 {
            story.task("map", subtask, 0, "RUNNING", Some("executor-1"));
        }
        story.at(1000).injected("kill");
        story
    }

    fn times(story: &Story) -> Option<(u64, Option<u64>)> {
        let timeline = story.timeline();
        let recovery = measure(&timeline, super::super::story::JOB, 0, timeline.records().len() - 1)?;
        assert_eq!(recovery.failed_ms, 1000);
        Some((recovery.noticed_ms, recovery.recovered_ms))
    }

    #[test]
    fn it_takes_until_the_last_disturbed_task_runs() {
        let mut story = running();
        story.at(1200).task("map", 0, 0, "FAILED", None).at(1210).task("map", 1, 0, "CANCELING", None);
        story.at(1300).task("map", 0, 1, "RUNNING", None);
        assert_eq!(times(&story), Some((1200, Some(1300))), "nothing tells yet that map[1] restarts too");
        story.at(1400).task("map", 1, 1, "CREATED", None).at(1500).task("map", 1, 1, "RUNNING", None);
        assert_eq!(times(&story), Some((1200, Some(1500))));
        let judge = |max_ms| judge(&story.timeline(), &Params { max_ms, ..Params::default() });
        assert_eq!(judge(Some(500)).verdict, Verdict::Pass);
        assert_eq!(judge(Some(499)).verdict, Verdict::Fail);
        assert_eq!(judge(None).summary, "all tasks ran again after 500 ms");
    }

    #[test]
    fn a_second_failure_prolongs_it_and_old_news_does_not() {
        let mut story = running();
        story.at(1100).task("map", 0, 1, "CREATED", None).at(1200).task("map", 0, 1, "RUNNING", None);
        story.at(1250).task("map", 0, 0, "FAILED", None);
        assert_eq!(times(&story), Some((1100, Some(1200))), "attempt 0 is long replaced");
        story.at(1300).task("map", 0, 1, "FAILED", None);
        assert_eq!(times(&story), Some((1100, None)));
        story.at(1600).task("map", 0, 2, "RUNNING", None);
        assert_eq!(times(&story), Some((1100, Some(1600))));
    }

    #[test]
    fn a_restart_between_two_polls_counts() {
        let mut story = running();
        story.at(1700).task("map", 1, 1, "RUNNING", None);
        assert_eq!(times(&story), Some((1700, Some(1700))));
        story.at(1800).task("map", 0, 1, "RUNNING", None).at(9000).task("map", 0, 1, "FINISHED", None);
        assert_eq!(times(&story), Some((1700, Some(1800))), "finishing later is no part of it");
    }

    #[test]
    fn it_counts_from_the_fault_that_was_last_before_and_from_no_stage_direction() {
        let mut story = Story::new();
        for (fault, is_stage_direction) in [("hold", true), ("fail", false), ("later", false)] {
            let what = String::new();
            story.event(fault, FaultEvent::Described { what, is_stage_direction });
        }
        // Armed long before it acts.
        story.at(10).injected("fail").injected("hold").effective("hold", Losses::default());
        story.task("map", 0, 0, "RUNNING", None);
        story.at(990).injected("hold").at(1000).effective("fail", Losses::default());
        story.at(1001).effective("hold", Losses::default());
        story.at(1200).task("map", 0, 0, "FAILED", None).at(1250).injected("later");
        story.at(1300).task("map", 0, 1, "RUNNING", None);
        assert_eq!(times(&story), Some((1200, Some(1300))));
    }

    #[test]
    fn cancelling_the_job_at_the_end_disturbs_nothing() {
        let mut story = running();
        story.at(1200).task("map", 0, 0, "FAILED", None).at(1300).task("map", 0, 1, "RUNNING", None);
        story.at(2000).task("map", 1, 0, "CANCELING", None).status("CANCELLING").task("map", 0, 1, "CANCELED", None);
        assert_eq!(times(&story), Some((1200, Some(1300))));
    }

    #[test]
    fn nothing_disturbed_is_vacuous_and_never_recovered_is_a_failure() {
        let story = running();
        assert_eq!(judge(&story.timeline(), &Params::default()).verdict, Verdict::Vacuous);
        let mut story = running();
        story.task("map", 0, 0, "FAILED", None).status("FAILED");
        assert_eq!(judge(&story.timeline(), &Params::default()).verdict, Verdict::Fail);
        story.status("CANCELED");
        assert_eq!(judge(&story.timeline(), &Params::default()).verdict, Verdict::Inconclusive);
    }

    #[test]
    fn what_a_task_gets_over_after_a_fault_without_effect_is_not_its_doing() {
        let mut story = running();
        story.at(1100).event("kill", FaultEvent::HealVerified);
        story.at(9000).task("map", 0, 0, "FAILED", None).at(9100).task("map", 0, 1, "RUNNING", None);
        let strict = Params { max_ms: Some(1000), ..Params::default() };
        assert_eq!(judge(&story.timeline(), &strict).verdict, Verdict::Vacuous);
        story.effective("kill", Losses::default());
        assert_eq!(judge(&story.timeline(), &strict).verdict, Verdict::Fail, "it took 8100 ms");
    }
}
