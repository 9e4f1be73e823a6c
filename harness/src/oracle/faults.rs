//! Did every fault bite, and was every fault healed? This is judged in every run, expected or not.

use std::collections::{BTreeMap, BTreeSet};

use super::{Judgement, judgement};
use crate::plural::{counted, effects};
use crate::timeline::{FaultEvent, RecordKind, Timeline};
use crate::verdict::Verdict;

const ORACLE: &str = "faults";

#[derive(Default)]
struct Course {
    what: String,
    injected: bool,
    effective: bool,
    healed: bool,
    broke: Option<String>,
    /// From the fact that its trigger waited for until it was in place.
    after_fact_ms: Option<u64>,
    /// Last state of each counter of the effect ledger.
    effects: BTreeMap<String, u64>,
}

/// Judges the faults of a run; `None` for a control run without faults.
///
/// *Invalid* if an injector broke or a fault was never verified to be healed, *vacuous* if a fault was never put in
/// place or had no effect.
#[must_use]
pub fn judge(timeline: &Timeline) -> Option<Judgement> {
    let courses = courses(timeline);
    if courses.is_empty() {
        return None;
    }
    let found: Vec<_> = courses.iter().map(|(fault, course)| (*fault, course, course.assess())).collect();
    let verdict = Verdict::of_run(found.iter().map(|(_, _, (verdict, _))| *verdict));
    let of = |wanted| found.iter().filter(|(_, _, (verdict, _))| *verdict == wanted).count();
    let summary = match verdict {
        Verdict::Pass if found.len() == 1 => "1 fault took effect and was healed".to_owned(),
        Verdict::Pass => format!("{} faults took effect and were healed", found.len()),
        _ => format!(
            "of {}, {} broke and {} had no effect",
            counted(found.len(), "fault"),
            of(Verdict::Invalid),
            of(Verdict::Vacuous)
        ),
    };
    let line = |(fault, course, (_, word)): &(&str, &Course, (Verdict, String))| {
        let lag = course.after_fact_ms.map(|ms| format!("{ms} ms after its fact"));
        let did = course.effects.iter().map(|(what, count)| effects(*count, what));
        let ledger: Vec<_> = did.chain(lag).collect();
        let ledger = if ledger.is_empty() { String::new() } else { format!(" ({})", ledger.join(", ")) };
        let what = if course.what.is_empty() { String::new() } else { format!(" [{}]", course.what) };
        format!("{fault}{what}: {word}{ledger}")
    };
    Some(judgement(ORACLE, verdict, summary, found.iter().map(line).collect()))
}

/// The faults that did nothing, by name: what they should have caused proves nothing by its absence.
#[must_use]
pub fn without_effect(timeline: &Timeline) -> BTreeSet<&str> {
    let vacuous = |(fault, course): (_, Course)| (course.assess().0 == Verdict::Vacuous).then_some(fault);
    courses(timeline).into_iter().filter_map(vacuous).collect()
}

/// The verdict on something that is missing although the plan's faults should have caused it, and why: *fail* only if
/// all of them did something.
pub(super) fn missing(timeline: &Timeline) -> (Verdict, String) {
    let idle: Vec<_> = without_effect(timeline).into_iter().map(|fault| format!("`{fault}`")).collect();
    if idle.is_empty() {
        return (Verdict::Fail, String::new());
    }
    (Verdict::Vacuous, format!("; {} had no effect, so nothing is proved", idle.join(", ")))
}

fn courses(timeline: &Timeline) -> BTreeMap<&str, Course> {
    let mut courses: BTreeMap<&str, Course> = BTreeMap::new();
    for record in timeline.records() {
        let RecordKind::Fault { fault, event } = &record.kind else { continue };
        let course = courses.entry(fault).or_default();
        match event {
            FaultEvent::Described { what, .. } => course.what.clone_from(what),
            FaultEvent::Injected => (course.injected, course.healed) = (true, false),
            FaultEvent::InPlace { after_fact_ms } => course.after_fact_ms = *after_fact_ms,
            FaultEvent::Effective { .. } => course.effective = true,
            FaultEvent::Effects { count, what } => drop(course.effects.insert(what.clone(), *count)),
            FaultEvent::Healed => {}
            FaultEvent::HealVerified => course.healed = true,
            FaultEvent::Broke { step, error } => course.broke = Some(format!("{step} failed: {error}")),
        }
    }
    courses
}

impl Course {
    fn assess(&self) -> (Verdict, String) {
        let bit = self.effective || self.effects.values().any(|count| *count > 0);
        if let Some(error) = &self.broke {
            (Verdict::Invalid, error.clone())
        } else if !self.injected {
            (Verdict::Vacuous, "never injected: its trigger did not come".into())
        } else if !self.healed {
            (Verdict::Invalid, "never verified to be healed".into())
        } else if !bit {
            (Verdict::Vacuous, "had no effect".into())
        } else {
            (Verdict::Pass, "took effect and was healed".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::timeline::Losses;

    fn verdict(story: &Story) -> Verdict {
        judge(&story.timeline()).unwrap().verdict
    }

    #[test]
    fn a_fault_must_be_injected_bite_and_be_healed() {
        let mut story = Story::new();
        assert!(judge(&story.timeline()).is_none(), "a control run");
        story.event("toxic", FaultEvent::Described { what: "blackhole the store".into(), is_stage_direction: false });
        assert_eq!(verdict(&story), Verdict::Vacuous);
        story.injected("toxic");
        assert_eq!(verdict(&story), Verdict::Invalid, "it still acts");
        story.event("toxic", FaultEvent::Healed).event("toxic", FaultEvent::HealVerified);
        assert_eq!(verdict(&story), Verdict::Vacuous, "no effect");
        let effects = |count| FaultEvent::Effects { count, what: "connections held".into() };
        story.event("toxic", effects(0));
        assert_eq!(verdict(&story), Verdict::Vacuous);
        story.event("toxic", effects(4));
        let judgement = judge(&story.timeline()).unwrap();
        assert_eq!(judgement.verdict, Verdict::Pass);
        assert_eq!(judgement.summary, "1 fault took effect and was healed");
        assert_eq!(
            judgement.evidence,
            ["toxic [blackhole the store]: took effect and was healed (4 connections held)"]
        );
    }

    #[test]
    fn one_broken_or_idle_fault_spoils_the_run() {
        let mut story = Story::new();
        story.fault("good", Losses::default()).event("good", FaultEvent::HealVerified);
        assert_eq!(verdict(&story), Verdict::Pass);
        story.event("idle", FaultEvent::Described { what: String::new(), is_stage_direction: false });
        assert_eq!(verdict(&story), Verdict::Vacuous);
        story.event("bad", FaultEvent::Broke { step: "inject".into(), error: "no such process".into() });
        assert_eq!(without_effect(&story.timeline()), BTreeSet::from(["idle"]));
        let judgement = judge(&story.timeline()).unwrap();
        assert_eq!(judgement.verdict, Verdict::Invalid);
        assert_eq!(judgement.summary, "of 3 faults, 1 broke and 1 had no effect");
    }
}
