//! Rules as people write them, in TOML, JSON or Rust.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::glob::glob_matches;
use crate::edge::operation::Operation;
use crate::effects::Effect;

/// A rules file.
///
/// ```
/// let rules: stormproof_store::RuleSet = toml::from_str(
///     r#"
///     seed = 7
///
///     [[rules]]
///     name = "slow metadata"
///     operations = ["GetObject"]
///     key = "*/_metadata"
///     nth = { first = 2, count = 1 }
///     effect = { kind = "stall-headers", ms = 3000 }
///     "#,
/// )?;
/// rules.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSet {
    /// Decides the rules that act on a share of their matches; the same seed and the same matches give the same hits.
    #[serde(default)]
    pub seed: u64,
    /// In order: of several that want to act on one request, the first does.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// One rule: which requests, which of them in turn, and what happens to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Names the rule in the ledger and in the counts. Unique.
    pub name: String,
    /// The operations it is for; none means all.
    #[serde(default)]
    pub operations: Vec<Operation>,
    /// Glob for the bucket: `*` any text, `?` one character. Requests without a bucket have an empty one.
    #[serde(default = "anything")]
    pub bucket: String,
    /// Glob for the key; `*` also crosses `/`. Requests without a key have an empty one.
    #[serde(default = "anything")]
    pub key: String,
    /// Which of the matching requests it acts on.
    #[serde(default)]
    pub nth: Nth,
    /// What it does.
    pub effect: Effect,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations: Vec<_> = self.operations.iter().map(|operation| operation.name()).collect();
        let operations = if operations.is_empty() { "any request".to_owned() } else { operations.join(" or ") };
        write!(f, "`{}`: {:?} to {operations} of {}", self.name, self.effect, self.key)
    }
}

fn anything() -> String {
    "*".to_owned()
}

impl Rule {
    /// A rule for every request.
    #[must_use]
    pub fn new(name: impl Into<String>, effect: Effect) -> Self {
        let nth = Nth::default();
        Self { name: name.into(), operations: Vec::new(), bucket: anything(), key: anything(), nth, effect }
    }

    /// Only for this operation (and others it was limited to before).
    #[must_use]
    pub fn on(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Only for keys that match this glob.
    #[must_use]
    pub fn key(mut self, glob: impl Into<String>) -> Self {
        self.key = glob.into();
        self
    }

    /// Only for some of the matching requests.
    #[must_use]
    pub fn nth(mut self, nth: Nth) -> Self {
        self.nth = nth;
        self
    }

    pub(super) fn matches(&self, operation: Operation, bucket: &str, key: &str) -> bool {
        (self.operations.is_empty() || self.operations.contains(&operation))
            && glob_matches(&self.bucket, bucket)
            && glob_matches(&self.key, key)
    }
}

/// Which of a rule's matches it is for. The default is all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nth {
    /// The first match it is for, counted from 1.
    pub first: u64,
    /// From then on every so-manieth match.
    pub every: u64,
    /// How many matches it is for at most, one on which it then has no effect (a body that is too short to be cut)
    /// included; none is without end.
    pub count: Option<u64>,
    /// Of the matches chosen by the other fields, the share it is for, in percent, drawn from the seed.
    pub percent: u8,
}

impl Default for Nth {
    fn default() -> Self {
        Self { first: 1, every: 1, count: None, percent: 100 }
    }
}

impl Nth {
    /// Exactly one match, counted from 1.
    #[must_use]
    pub fn only(first: u64) -> Self {
        Self { first, count: Some(1), ..Self::default() }
    }

    /// The first so many matches.
    #[must_use]
    pub fn first(count: u64) -> Self {
        Self { count: Some(count), ..Self::default() }
    }

    /// True if the match of that number is one to act on, when so many were chosen before. Pure.
    pub(super) fn chooses(self, seed: u64, rule: &str, number: u64, chosen_before: u64) -> bool {
        number >= self.first
            && (number - self.first).is_multiple_of(self.every)
            && self.count.is_none_or(|count| chosen_before < count)
            && draw(seed, rule, number) % 100 < u64::from(self.percent)
    }
}

/// A number that depends on nothing but its arguments: FNV-1a over them, finished by SplitMix64.
fn draw(seed: u64, rule: &str, number: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let words = [seed.to_le_bytes(), number.to_le_bytes()];
    for byte in words.as_flattened().iter().chain(rule.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

impl RuleSet {
    /// A set of these rules with seed 0.
    #[must_use]
    pub fn of(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { seed: 0, rules: rules.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(nth: Nth, seed: u64, matches: u64) -> Vec<u64> {
        let mut chosen = Vec::new();
        for number in 1..=matches {
            if nth.chooses(seed, "rule", number, chosen.len() as u64) {
                chosen.push(number);
            }
        }
        chosen
    }

    #[test]
    fn the_nth_match_is_chosen() {
        assert_eq!(chosen(Nth::default(), 0, 3), [1, 2, 3]);
        assert_eq!(chosen(Nth::only(2), 0, 5), [2]);
        assert_eq!(chosen(Nth { first: 2, every: 3, count: Some(2), percent: 100 }, 0, 20), [2, 5]);
        assert_eq!(chosen(Nth { percent: 0, ..Nth::default() }, 0, 20), [0_u64; 0]);
    }

    #[test]
    fn a_share_is_drawn_from_the_seed_alone() {
        let third = Nth { percent: 33, ..Nth::default() };
        let first = chosen(third, 7, 1_000);
        assert_eq!(first, chosen(third, 7, 1_000));
        assert_ne!(first, chosen(third, 8, 1_000));
        assert!((250..420).contains(&first.len()), "{} of 1000", first.len());
    }

    #[test]
    fn files_are_read_and_mistakes_are_named() {
        let json = r#"{"rules":[{"name":"x","operations":["PutObject"],"effect":{"kind":"error-after-success"}}]}"#;
        let rules: RuleSet = serde_json::from_str(json).expect("a rules file");
        assert_eq!(rules.rules, [Rule::new("x", Effect::ErrorAfterSuccess).on(Operation::PutObject)]);
        let back = serde_json::to_string(&rules).expect("rules are JSON");
        assert_eq!(serde_json::from_str::<RuleSet>(&back).expect("read back"), rules);

        for (toml, expected) in [
            ("[[rules]]\nname='x'\nefect={kind='reset-after'}", "unknown field `efect`"),
            ("[[rules]]\nname='x'\neffect={kind='explode'}", "unknown variant `explode`"),
            ("[[rules]]\nname='x'\neffect={kind='slow-down',seconds=1}", "unknown field `seconds`"),
            (
                "[[rules]]\nname='x'\noperations=['getObject']\neffect={kind='reset-after'}",
                "unknown variant `getObject`",
            ),
        ] {
            let message = toml::from_str::<RuleSet>(toml).expect_err("a mistake").to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
