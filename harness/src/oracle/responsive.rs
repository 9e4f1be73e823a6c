//! Did the control plane keep answering?
//!
//! Latency counts from the moment a probe was *due*, so a stall cannot hide the probes it delayed.

use std::collections::BTreeMap;

use super::expectation::Responsive as Params;
use super::{Judgement, judgement};
use crate::timeline::{ProbeAnswer, Record, RecordKind, Timeline};
use crate::verdict::Verdict;

const ORACLE: &str = "responsive";

/// Probes of a window in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Probes that were due in the window.
    pub probes: u64,
    /// Those without an answer: no connection, an error, too late, not sent.
    pub unanswered: u64,
    /// Median latency of the answers, microseconds.
    pub p50_us: u64,
    /// 99th percentile, microseconds.
    pub p99_us: u64,
    /// Longest, microseconds.
    pub max_us: u64,
    /// Longest time without an answer, milliseconds, from due time to due time.
    pub max_gap_ms: u64,
    /// What the answers said, with how many said so.
    pub seen: BTreeMap<String, u64>,
    /// What went wrong, with how often.
    pub errors: BTreeMap<String, u64>,
}

/// Numbers over the probes among these records; all kinds of probes if `wanted` is absent.
#[must_use]
pub fn stats(records: &[Record], wanted: Option<&str>) -> Stats {
    let mut probes: Vec<(u64, u64, &ProbeAnswer)> = records
        .iter()
        .filter_map(|record| match &record.kind {
            RecordKind::Probe { probe, due_ms, latency_us, answer } if wanted.is_none_or(|wanted| wanted == probe) => {
                Some((*due_ms, *latency_us, answer))
            }
            _ => None,
        })
        .collect();
    probes.sort_by_key(|(due_ms, ..)| *due_ms);
    let mut stats = Stats { probes: probes.len() as u64, ..Stats::default() };
    let (Some(first), Some(last)) = (probes.first(), probes.last()) else { return stats };
    let (end_ms, mut answered_ms) = (last.0, first.0);
    let mut latencies = vec![];
    for (due_ms, latency_us, answer) in probes {
        match answer {
            ProbeAnswer::Answered { saw } => {
                *stats.seen.entry(saw.clone()).or_default() += 1;
                latencies.push(latency_us);
                stats.max_gap_ms = stats.max_gap_ms.max(due_ms.saturating_sub(answered_ms));
                answered_ms = due_ms;
            }
            other => {
                stats.unanswered += 1;
                *stats.errors.entry(word(other)).or_default() += 1;
            }
        }
    }
    stats.max_gap_ms = stats.max_gap_ms.max(end_ms - answered_ms);
    latencies.sort_unstable();
    stats.p50_us = percentile(&latencies, 50);
    stats.p99_us = percentile(&latencies, 99);
    stats.max_us = latencies.last().copied().unwrap_or(0);
    stats
}

fn word(answer: &ProbeAnswer) -> String {
    match answer {
        ProbeAnswer::Answered { saw } => saw.clone(),
        ProbeAnswer::Unavailable { error } | ProbeAnswer::Error { error } => error.clone(),
        ProbeAnswer::TimedOut => "timed out".into(),
        ProbeAnswer::NotSent => "not sent, too many were waiting".into(),
    }
}

/// The smallest value that `percent` % of the sorted values do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// Judges responsiveness.
#[must_use]
pub fn judge(timeline: &Timeline, params: &Params) -> Judgement {
    let records = match timeline.window(&params.window) {
        Ok(records) => records,
        Err(mark) => return judgement(ORACLE, Verdict::Inconclusive, format!("{mark:?} never came"), vec![]),
    };
    let stats = stats(records, params.probe.as_deref());
    let facts = format!(
        "{} probes, {} unanswered; p50 {}, p99 {}, max {}; longest gap {} ms",
        stats.probes,
        stats.unanswered,
        ms(stats.p50_us),
        ms(stats.p99_us),
        ms(stats.max_us),
        stats.max_gap_ms
    );
    let broken = broken_limits(&stats, params);
    let verdict = if !broken.is_empty() {
        Verdict::Fail
    } else if stats.probes < params.min_probes || stats.probes == stats.unanswered {
        Verdict::Inconclusive
    } else if params.must_see.iter().any(|wanted| !stats.seen.contains_key(wanted)) {
        Verdict::Vacuous
    } else {
        Verdict::Pass
    };
    let unseen = params.must_see.iter().filter(|wanted| !stats.seen.contains_key(*wanted));
    let unseen = unseen.map(|wanted| format!("no probe saw {wanted}, so this state was not put to the test"));
    let seen = stats.seen.iter().map(|(saw, count)| format!("{count} × {saw}"));
    let errors = stats.errors.iter().map(|(error, count)| format!("{count} × {error}"));
    let evidence = broken.into_iter().chain(unseen).chain(seen).chain(errors).collect();
    judgement(ORACLE, verdict, facts, evidence)
}

fn broken_limits(stats: &Stats, params: &Params) -> Vec<String> {
    let over = |what: &str, value: u64, limit: Option<u64>, unit: &str| {
        let limit = limit.filter(|limit| value > *limit)?;
        Some(format!("{what} is {value} {unit}, and the limit {limit} {unit}"))
    };
    let us = |limit: Option<u64>| limit.map(|ms| ms.saturating_mul(1000));
    let unanswered = (!params.allow_unanswered && stats.unanswered > 0).then_some(0);
    [
        over("the number of unanswered probes", stats.unanswered, unanswered, "probes"),
        over("the 99th percentile of latency", stats.p99_us, us(params.max_p99_ms), "us"),
        over("the longest latency", stats.max_us, us(params.max_ms), "us"),
        over("the longest time without an answer", stats.max_gap_ms, params.max_gap_ms, "ms"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn ms(us: u64) -> String {
    format!("{}.{} ms", us / 1000, us % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;

    fn saw(what: &str) -> ProbeAnswer {
        ProbeAnswer::Answered { saw: what.into() }
    }

    /// 100 probes, 20 ms apart; `answer` gives latency (ms) and answer of each.
    fn story(answer: impl Fn(u64) -> (u64, ProbeAnswer)) -> Story {
        let mut story = Story::new();
        for number in 0..100 {
            let (latency_ms, answer) = answer(number);
            story.probe(number * 20, latency_ms, answer);
        }
        story
    }

    fn limits() -> Params {
        Params { max_p99_ms: Some(50), max_ms: Some(500), max_gap_ms: Some(100), ..Params::default() }
    }

    #[test]
    fn quick_answers_pass_and_are_counted() {
        let story = story(|number| (1 + number % 3, saw(if number < 50 { "RUNNING" } else { "INITIALIZING" })));
        let judgement = judge(&story.timeline(), &Params { must_see: vec!["INITIALIZING".into()], ..limits() });
        assert_eq!(judgement.verdict, Verdict::Pass);
        assert_eq!(
            judgement.summary,
            "100 probes, 0 unanswered; p50 2.0 ms, p99 3.0 ms, max 3.0 ms; longest gap 20 ms"
        );
        assert_eq!(judgement.evidence, ["50 × INITIALIZING", "50 × RUNNING"]);
    }

    #[test]
    fn one_stall_shows_in_every_probe_that_was_due_in_it() {
        // Nothing is answered from 400 to 900 ms; a closed loop would see one slow probe of 100.
        let stalled = |number: u64| if (20..45).contains(&number) { 900 - number * 20 } else { 1 };
        let story = story(|number| (stalled(number), saw("RUNNING")));
        let stats = stats(story.timeline().records(), None);
        assert_eq!((stats.p99_us, stats.max_us), (480_000, 500_000));
        assert_eq!(judge(&story.timeline(), &limits()).verdict, Verdict::Fail);
    }

    #[test]
    fn gaps_and_unanswered_probes_have_limits_of_their_own() {
        let gap = |from: u64, to: u64| {
            story(move |n| (1, if (from..to).contains(&n) { ProbeAnswer::TimedOut } else { saw("RUNNING") }))
        };
        let judge = |story: &Story, params| judge(&story.timeline(), &params);
        assert_eq!(judge(&gap(10, 12), limits()).verdict, Verdict::Fail);
        let lenient = || Params { allow_unanswered: true, ..limits() };
        assert_eq!(judge(&gap(10, 12), lenient()).verdict, Verdict::Pass);
        let long = judge(&gap(10, 16), lenient());
        assert_eq!(long.evidence[0], "the longest time without an answer is 140 ms, and the limit 100 ms");
        assert_eq!(judge(&gap(94, 100), lenient()).verdict, Verdict::Fail, "a gap to the end counts");
        assert_eq!(judge(&gap(0, 7), lenient()).verdict, Verdict::Fail, "a gap from the start counts");
    }

    #[test]
    fn too_few_probes_and_unseen_states_prove_nothing() {
        let story = story(|_| (1, saw("RUNNING")));
        let judge = |params| judge(&story.timeline(), &params);
        assert_eq!(judge(Params { min_probes: 101, ..limits() }).verdict, Verdict::Inconclusive);
        let unseen = judge(Params { must_see: vec!["INITIALIZING".into()], ..limits() });
        assert_eq!(unseen.verdict, Verdict::Vacuous);
        assert!(unseen.evidence[0].contains("INITIALIZING"));
        assert_eq!(judge(Params { probe: Some("overview".into()), ..limits() }).verdict, Verdict::Inconclusive);
    }
}
