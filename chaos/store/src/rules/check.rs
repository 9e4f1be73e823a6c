//! Refusing rules that could not act as written: a fault that does nothing proves nothing.

use super::rule::{Nth, RuleSet};
use crate::backend::state::MAX_HISTORY_CHANGES;
use crate::edge::operation::Operation;
use crate::effects::Effect;

/// Why a set of rules is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// A rule without a name, or a name twice.
    #[error("rule number {number} needs a name of its own, {name:?} is not one")]
    Name {
        /// Position, counted from 1.
        number: usize,
        /// The name it has.
        name: String,
    },
    /// A number with which it would never act.
    #[error("rule {rule:?}: {field} is {value}, it must be {want}")]
    Value {
        /// The rule.
        rule: String,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What would be accepted.
        want: &'static str,
    },
    /// An operation on which its effect can never act.
    #[error("rule {rule:?}: {effect} never acts on {operation}, {why}")]
    Operation {
        /// The rule.
        rule: String,
        /// The effect's kind, as in a rules file.
        effect: &'static str,
        /// The operation.
        operation: Operation,
        /// Why not, and what to name instead.
        why: &'static str,
    },
}

impl RuleSet {
    /// Refuses what could not act as written.
    ///
    /// # Errors
    /// [`RuleError`] for the first rule that is wrong.
    pub fn check(&self) -> Result<(), RuleError> {
        for (index, rule) in self.rules.iter().enumerate() {
            let twice = self.rules[..index].iter().any(|earlier| earlier.name == rule.name);
            if rule.name.is_empty() || twice {
                return Err(RuleError::Name { number: index + 1, name: rule.name.clone() });
            }
            if let Some((field, value, want)) = wrong_turn(rule.nth).or_else(|| wrong_number(&rule.effect)) {
                return Err(RuleError::Value { rule: rule.name.clone(), field, value, want });
            }
            for operation in &rule.operations {
                if let Some(why) = rule.effect.idle_on(*operation) {
                    let (rule, effect, operation) = (rule.name.clone(), rule.effect.kind(), *operation);
                    return Err(RuleError::Operation { rule, effect, operation, why });
                }
            }
        }
        Ok(())
    }
}

/// The field, its value, and what would be accepted.
type Wrong = (&'static str, u64, &'static str);

fn wrong_turn(nth: Nth) -> Option<Wrong> {
    if nth.first == 0 {
        return Some(("nth.first", 0, "at least 1"));
    }
    if nth.every == 0 {
        return Some(("nth.every", 0, "at least 1"));
    }
    if nth.count == Some(0) {
        return Some(("nth.count", 0, "at least 1, or left out"));
    }
    (nth.percent == 0 || nth.percent > 100).then(|| ("nth.percent", u64::from(nth.percent), "1 to 100"))
}

fn wrong_number(effect: &Effect) -> Option<Wrong> {
    match *effect {
        Effect::StallRequest { ms: 0 } | Effect::StallHeaders { ms: 0 } | Effect::StallBody { ms: 0, .. } => {
            Some(("effect.ms", 0, "at least 1"))
        }
        Effect::Trickle { bytes_per_second: 0 } => Some(("effect.bytes_per_second", 0, "at least 1")),
        Effect::StaleList { changes_ago } if !(1..=MAX_HISTORY_CHANGES).contains(&changes_ago) => {
            Some(("effect.changes_ago", changes_ago as u64, "1 to 1024, the changes that are remembered"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rule;
    use super::*;

    fn refusal(rule: Rule) -> String {
        RuleSet::of([rule]).check().expect_err("it can never act").to_string()
    }

    #[test]
    fn a_rule_needs_a_name_of_its_own() {
        let stall = Effect::StallHeaders { ms: 1 };
        let twice = RuleSet::of([Rule::new("a", stall.clone()), Rule::new("a", stall)]);
        assert_eq!(twice.check(), Err(RuleError::Name { number: 2, name: "a".to_owned() }));
    }

    #[test]
    fn a_rule_that_cannot_act_is_refused_by_name() {
        let rule = || Rule::new("a", Effect::InternalError);
        for (nth, expected) in [
            (Nth::only(0), "nth.first is 0, it must be at least 1"),
            (Nth { every: 0, ..Nth::default() }, "nth.every is 0, it must be at least 1"),
            (Nth::first(0), "nth.count is 0, it must be at least 1, or left out"),
            (Nth { percent: 0, ..Nth::default() }, "nth.percent is 0, it must be 1 to 100"),
            (Nth { percent: 101, ..Nth::default() }, "nth.percent is 101, it must be 1 to 100"),
        ] {
            assert_eq!(refusal(rule().nth(nth)), format!("rule \"a\": {expected}"));
        }
        let remembered = "it must be 1 to 1024, the changes that are remembered";
        for (effect, expected) in [
            (Effect::StallRequest { ms: 0 }, "effect.ms is 0, it must be at least 1".to_owned()),
            (Effect::StallHeaders { ms: 0 }, "effect.ms is 0, it must be at least 1".to_owned()),
            (Effect::StallBody { at_bytes: 7, ms: 0 }, "effect.ms is 0, it must be at least 1".to_owned()),
            (Effect::Trickle { bytes_per_second: 0 }, "effect.bytes_per_second is 0, it must be at least 1".to_owned()),
            (Effect::StaleList { changes_ago: 0 }, format!("effect.changes_ago is 0, {remembered}")),
            (Effect::StaleList { changes_ago: 1_025 }, format!("effect.changes_ago is 1025, {remembered}")),
        ] {
            assert_eq!(refusal(Rule::new("a", effect)), format!("rule \"a\": {expected}"));
        }
    }

    #[test]
    fn an_effect_is_refused_for_operations_it_never_acts_on() {
        let cut = Effect::TruncateBody { at_bytes: 1 };
        let stale = Effect::StaleList { changes_ago: 1 };
        assert_eq!(
            refusal(Rule::new("a", cut.clone()).on(Operation::GetObject).on(Operation::HeadObject)),
            "rule \"a\": truncate-body never acts on HeadObject, which is answered without a body; \
             name operations such as GetObject or ListObjectsV2"
        );
        assert_eq!(
            refusal(Rule::new("a", stale.clone()).on(Operation::GetObject)),
            "rule \"a\": stale-list never acts on GetObject, which lists no objects; name ListObjects or ListObjectsV2"
        );
        for effect in [
            cut,
            Effect::StallBody { at_bytes: 1, ms: 1 },
            Effect::ResetBody { at_bytes: 1 },
            Effect::Trickle { bytes_per_second: 1 },
        ] {
            assert!(RuleSet::of([Rule::new("a", effect.clone()).on(Operation::PutObject)]).check().is_err());
            assert_eq!(RuleSet::of([Rule::new("a", effect).on(Operation::GetObject)]).check(), Ok(()));
        }
        let lists = Rule::new("a", stale).on(Operation::ListObjects).on(Operation::ListObjectsV2);
        assert_eq!(RuleSet::of([lists]).check(), Ok(()));
    }
}
