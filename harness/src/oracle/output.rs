//! Is every record of the output there, once?

use super::expectation::ExactlyOnce as Params;
use super::{Judgement, judgement};
use crate::timeline::{RecordKind, Timeline};
use crate::verdict::Verdict;

const ORACLE: &str = "exactly-once";

/// Judges the output by the last comparison that was recorded.
#[must_use]
pub fn judge(timeline: &Timeline, params: &Params) -> Judgement {
    let last = timeline.records().iter().rev().find_map(|record| match &record.kind {
        RecordKind::Output { expected, seen, lost, doubled, alien, examples } => {
            Some((*expected, *seen, *lost, *doubled, *alien, examples.clone()))
        }
        _ => None,
    });
    let Some((expected, seen, lost, doubled, alien, examples)) = last else {
        return judgement(ORACLE, Verdict::Inconclusive, "the output was never looked at".into(), vec![]);
    };
    let facts = format!("{expected} records expected, {seen} seen, {lost} lost, {doubled} doubled, {alien} alien");
    if seen.checked_add(lost) != Some(expected) {
        let summary = format!("the comparison contradicts itself: {facts}");
        return judgement(ORACLE, Verdict::Invalid, summary, examples);
    }
    let is_wrong = lost > 0 || alien > 0 || (doubled > 0 && !params.allow_doubled);
    let verdict = if is_wrong {
        Verdict::Fail
    } else if expected < params.min_expected {
        Verdict::Vacuous
    } else {
        Verdict::Pass
    };
    judgement(ORACLE, verdict, facts, examples)
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;

    fn verdict(expected: u64, seen: u64, lost: u64, doubled: u64, alien: u64, params: &Params) -> Verdict {
        let mut story = Story::new();
        story.record(RecordKind::Output { expected, seen, lost, doubled, alien, examples: vec![] });
        judge(&story.timeline(), params).verdict
    }

    #[test]
    fn lost_doubled_and_alien_records_fail() {
        let params = Params { allow_doubled: false, min_expected: 10 };
        assert_eq!(verdict(10, 10, 0, 0, 0, &params), Verdict::Pass);
        assert_eq!(verdict(10, 9, 1, 0, 0, &params), Verdict::Fail);
        assert_eq!(verdict(10, 10, 0, 1, 0, &params), Verdict::Fail);
        assert_eq!(verdict(10, 10, 0, 0, 1, &params), Verdict::Fail);
        let at_least_once = Params { allow_doubled: true, ..params };
        assert_eq!(verdict(10, 10, 0, 1, 0, &at_least_once), Verdict::Pass);
        assert_eq!(verdict(10, 9, 1, 1, 0, &at_least_once), Verdict::Fail);
    }

    #[test]
    fn little_or_contradictory_output_proves_nothing() {
        let params = Params { allow_doubled: false, min_expected: 10 };
        assert_eq!(verdict(9, 9, 0, 0, 0, &params), Verdict::Vacuous);
        assert_eq!(verdict(9, 8, 1, 0, 0, &params), Verdict::Fail, "lost is lost, however little there was");
        assert_eq!(verdict(10, 10, 3, 0, 0, &params), Verdict::Invalid);
        assert_eq!(judge(&Story::new().timeline(), &params).verdict, Verdict::Inconclusive);
    }
}
