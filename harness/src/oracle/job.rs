//! How did the job end, and how often was it restarted?

use super::expectation::{JobResult, RestartCount};
use super::{Judgement, faults, judgement};
use crate::timeline::{RecordKind, Timeline};
use crate::verdict::Verdict;

/// How a job ends that nothing disturbs.
const UNDISTURBED: &str = "FINISHED";

/// Judges the job's last state. A job that finished although its faults should have kept it from that fails only if all
/// of them had an effect.
#[must_use]
pub fn judge_result(timeline: &Timeline, params: &JobResult) -> Judgement {
    const ORACLE: &str = "job-result";
    let Some(job) = timeline.job(params.job.as_deref()) else {
        return judgement(ORACLE, Verdict::Inconclusive, "no such job was submitted".into(), vec![]);
    };
    let states = timeline.records().iter().filter_map(|record| match &record.kind {
        RecordKind::JobStatus { job: of, status } if of == job => Some(format!("{} ms: {status}", record.at_ms)),
        _ => None,
    });
    let mut evidence: Vec<String> = states.collect();
    let Some(last) = timeline.job_status(job, usize::MAX) else {
        return judgement(ORACLE, Verdict::Inconclusive, "the job's state was never seen".into(), evidence);
    };
    evidence.extend(exceptions(timeline, job));
    if last == params.state {
        return judgement(ORACLE, Verdict::Pass, format!("the job is {last}"), evidence);
    }
    let (verdict, why) = if last == UNDISTURBED { faults::missing(timeline) } else { (Verdict::Fail, String::new()) };
    judgement(ORACLE, verdict, format!("the job is {last}, and {} was expected{why}", params.state), evidence)
}

/// Judges how often the job was restarted: by the engine's own `numRestarts` where it was recorded, else by entries
/// into RESTARTING, of which polling may miss some. Too few fail only if all faults had an effect.
#[must_use]
pub fn judge_restarts(timeline: &Timeline, params: &RestartCount) -> Judgement {
    const ORACLE: &str = "restart-count";
    let Some(job) = timeline.job(params.job.as_deref()) else {
        return judgement(ORACLE, Verdict::Inconclusive, "no such job was submitted".into(), vec![]);
    };
    let entries = timeline
        .records()
        .iter()
        .filter(|record| matches!(&record.kind, RecordKind::JobStatus { job: of, status } if of == job && status == "RESTARTING"))
        .count() as u64;
    // The highest, for a new leader counts from 0 again.
    let counted = timeline.records().iter().filter_map(|record| match &record.kind {
        RecordKind::Metric { job: of, name, value } if of == job && name == "numRestarts" => Some(*value),
        _ => None,
    });
    let counted = counted.reduce(f64::max);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count; the cast saturates")]
    let counted = counted.map(|value| value.round() as u64);
    let count = counted.unwrap_or(entries);
    let is_low = count < params.min;
    let is_high = params.max.is_some_and(|max| count > max);
    let (verdict, why) = match counted {
        _ if is_high => (Verdict::Fail, String::new()),
        // Unseen entries could still make it enough.
        None if is_low => (Verdict::Inconclusive, String::new()),
        _ if is_low => faults::missing(timeline),
        _ => (Verdict::Pass, String::new()),
    };
    let limits = match params.max {
        Some(max) => format!("from {} to {max}", params.min),
        None => format!("at least {}", params.min),
    };
    let source = if counted.is_some() { "by numRestarts" } else { "by entries into RESTARTING that were seen" };
    let summary = format!("{count} restarts {source}, expected {limits}{why}");
    judgement(ORACLE, verdict, summary, exceptions(timeline, job))
}

fn exceptions(timeline: &Timeline, job: &str) -> Vec<String> {
    let of_job = timeline.records().iter().filter_map(|record| match &record.kind {
        RecordKind::Exception { job: of, name, task, message } if of == job => {
            let task = task.as_deref().unwrap_or("the job");
            Some(format!("exception of {task}: {name}: {message}"))
        }
        _ => None,
    });
    of_job.collect()
}

#[cfg(test)]
mod tests {
    use super::super::story::{JOB, Story};
    use super::*;
    use crate::timeline::{FaultEvent, Losses};

    #[test]
    fn the_last_state_counts() {
        let params = JobResult { job: None, state: "FINISHED".into() };
        let mut story = Story::new();
        assert_eq!(judge_result(&story.timeline(), &params).verdict, Verdict::Inconclusive);
        story.at(5).status("RUNNING").at(9).status("FINISHED");
        let judgement = judge_result(&story.timeline(), &params);
        assert_eq!((judgement.verdict, judgement.evidence.len()), (Verdict::Pass, 2));
        assert_eq!(judgement.evidence[1], "9 ms: FINISHED");
        let (job, name) = (JOB.into(), "Boom".into());
        story.status("FAILED").record(RecordKind::Exception { job, name, task: None, message: "why".into() });
        let judgement = judge_result(&story.timeline(), &params);
        assert_eq!(judgement.summary, "the job is FAILED, and FINISHED was expected");
        assert_eq!(judgement.evidence[3], "exception of the job: Boom: why");
    }

    #[test]
    fn restarts_are_counted_by_the_engine_or_by_eye() {
        let judge = |story: &Story, min, max| {
            judge_restarts(&story.timeline(), &RestartCount { job: None, min, max: Some(max) }).verdict
        };
        let mut story = Story::new();
        story.status("RESTARTING").status("RUNNING").status("RESTARTING");
        assert_eq!(judge(&story, 2, 2), Verdict::Pass);
        assert_eq!(judge(&story, 0, 1), Verdict::Fail, "two were seen");
        assert_eq!(judge(&story, 3, 3), Verdict::Inconclusive, "a third may have been missed");
        let metric = |value| RecordKind::Metric { job: JOB.into(), name: "numRestarts".into(), value };
        story.record(metric(3.0)).record(metric(0.0));
        assert_eq!(judge(&story, 3, 3), Verdict::Pass, "a new leader's 0 does not undo it");
        assert_eq!(judge(&story, 4, 9), Verdict::Fail);
    }

    /// A run with a fault that was healed, and that had an effect or not.
    fn with_fault(has_effect: bool) -> Story {
        let mut story = Story::new();
        story.injected("fail");
        if has_effect {
            story.effective("fail", Losses::default());
        }
        story.event("fail", FaultEvent::HealVerified);
        story
    }

    #[test]
    fn what_a_fault_without_effect_should_have_caused_is_not_missed() {
        let judge = |has_effect, last: &str, restarts: f64| {
            let mut story = with_fault(has_effect);
            story.status(last).record(RecordKind::Metric {
                job: JOB.into(),
                name: "numRestarts".into(),
                value: restarts,
            });
            let failed = judge_result(&story.timeline(), &JobResult { job: None, state: "FAILED".into() });
            let twice = RestartCount { job: None, min: 2, max: Some(2) };
            [failed, judge_restarts(&story.timeline(), &twice)]
        };
        let verdicts = |judgements: [Judgement; 2]| judgements.map(|judgement| judgement.verdict);
        assert_eq!(verdicts(judge(true, "FINISHED", 0.0)), [Verdict::Fail; 2], "it was there, and nothing came of it");
        let [result, restarts] = judge(false, "FINISHED", 0.0);
        assert_eq!((result.verdict, restarts.verdict), (Verdict::Vacuous, Verdict::Vacuous));
        assert!(result.summary.ends_with("; `fail` had no effect, so nothing is proved"), "{}", result.summary);
        assert!(restarts.summary.ends_with("; `fail` had no effect, so nothing is proved"), "{}", restarts.summary);
        // Neither comes of a fault that did nothing.
        assert_eq!(verdicts(judge(false, "RUNNING", 3.0)), [Verdict::Fail; 2]);
        assert_eq!(verdicts(judge(false, "FAILED", 2.0)), [Verdict::Pass; 2]);
    }
}
