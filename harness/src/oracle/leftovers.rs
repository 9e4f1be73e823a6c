//! Is anything left behind?

use super::expectation::NoLeftovers as Params;
use super::{Judgement, judgement};
use crate::timeline::{RecordKind, Timeline};
use crate::verdict::Verdict;

const ORACLE: &str = "no-leftovers";

/// Judges what was found after the run, by the last look at each kind of thing.
#[must_use]
pub fn judge(timeline: &Timeline, params: &Params) -> Judgement {
    let mut looks = std::collections::BTreeMap::new();
    for record in timeline.records() {
        if let RecordKind::Leftovers { what, looked_at, found } = &record.kind {
            looks.insert(what.as_str(), (*looked_at, found));
        }
    }
    let unlooked: Vec<_> = params.looked_for.iter().filter(|what| !looks.contains_key(what.as_str())).collect();
    let left: usize = looks.values().map(|(_, found)| found.len()).sum();
    let mut evidence: Vec<String> = vec![];
    for (what, (looked_at, found)) in &looks {
        evidence.extend(found.iter().map(|thing| format!("left behind ({what}): {thing}")));
        if found.is_empty() {
            evidence.push(format!("{what}: none left, {looked_at} looked at"));
        }
    }
    evidence.sort_by_key(|line| !line.starts_with("left behind"));
    let (verdict, summary) = if left > 0 {
        (Verdict::Fail, format!("{left} things were left behind"))
    } else if !unlooked.is_empty() || looks.is_empty() {
        let what = unlooked.iter().map(|what| what.as_str()).collect::<Vec<_>>().join(", ");
        (Verdict::Inconclusive, format!("nobody looked for {}", if what.is_empty() { "anything" } else { &what }))
    } else {
        (Verdict::Pass, format!("nothing left behind: {}", looks.keys().copied().collect::<Vec<_>>().join(", ")))
    };
    judgement(ORACLE, verdict, summary, evidence)
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;

    fn look(story: &mut Story, what: &str, found: &[&str]) {
        let found = found.iter().map(|thing| (*thing).to_owned()).collect();
        story.record(RecordKind::Leftovers { what: what.into(), looked_at: 4, found });
    }

    #[test]
    fn leftovers_fail_and_the_last_look_counts() {
        let mut story = Story::new();
        look(&mut story, "processes", &["executor-2 (pid 77)"]);
        look(&mut story, "partitions", &[]);
        let judgement = judge(&story.timeline(), &Params::default());
        assert_eq!(judgement.verdict, Verdict::Fail);
        assert_eq!(
            judgement.evidence,
            ["left behind (processes): executor-2 (pid 77)", "partitions: none left, 4 looked at"]
        );
        look(&mut story, "processes", &[]);
        assert_eq!(judge(&story.timeline(), &Params::default()).verdict, Verdict::Pass);
    }

    #[test]
    fn not_looking_is_not_finding_nothing() {
        assert_eq!(judge(&Story::new().timeline(), &Params::default()).verdict, Verdict::Inconclusive);
        let mut story = Story::new();
        look(&mut story, "partitions", &[]);
        let judgement = judge(&story.timeline(), &Params { looked_for: vec!["toxics".into()] });
        assert_eq!(
            (judgement.verdict, judgement.summary.as_str()),
            (Verdict::Inconclusive, "nobody looked for toxics")
        );
    }
}
