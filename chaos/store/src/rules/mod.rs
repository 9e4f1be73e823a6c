//! Rule faults: which request is to be hurt, decided from its operation, key and turn, never from a clock.
//!
//! [`RuleSet`] is what people write, [`Rules`] what a running server asks. The effects are in
//! [`effects`](crate::effects).

pub(crate) mod glob;
mod rule;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub use rule::{Nth, Rule, RuleError, RuleSet};

use crate::effects::Effect;
use crate::ledger::Entry;

/// The rules of a running server. Clones are handles to the same rules.
///
/// Rules are asked at the edge, before signatures are checked, so a request that will be refused counts as a match
/// too. Removing a rule ends the stalls it causes at that moment.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    inner: Arc<Mutex<Armed>>,
}

#[derive(Debug, Default)]
struct Armed {
    seed: u64,
    rules: Vec<ArmedRule>,
    /// Kept when a rule is removed: what it did is asked for afterwards.
    counts: BTreeMap<String, RuleCount>,
}

#[derive(Debug)]
struct ArmedRule {
    rule: Rule,
    removed: CancellationToken,
}

/// What a rule has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RuleCount {
    /// Requests it was for.
    pub matched: u64,
    /// Requests it acted on. A fault in the middle of a body that is shorter acts without a trace.
    pub acted: u64,
}

/// The fault a request is to have.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    pub(crate) rule: String,
    pub(crate) effect: Effect,
    /// Cancelled when the rule is removed.
    pub(crate) removed: CancellationToken,
}

impl Rules {
    fn armed(&self) -> MutexGuard<'_, Armed> {
        // Nothing panics under this lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces all rules and forgets all counts.
    ///
    /// # Errors
    /// [`RuleError`] if a rule could not act as written; the rules stay as they were.
    pub fn set(&self, set: RuleSet) -> Result<(), RuleError> {
        set.check()?;
        let counts = set.rules.iter().map(|rule| (rule.name.clone(), RuleCount::default())).collect();
        let rules = set.rules.into_iter().map(ArmedRule::new).collect();
        let old = std::mem::replace(&mut *self.armed(), Armed { seed: set.seed, rules, counts });
        old.rules.iter().for_each(|old| old.removed.cancel());
        Ok(())
    }

    /// Adds a rule behind the others. Its count starts at 0.
    ///
    /// # Errors
    /// [`RuleError`] if it could not act as written or has the name of another.
    pub fn add(&self, rule: Rule) -> Result<(), RuleError> {
        let mut armed = self.armed();
        let mut set = RuleSet::of(armed.rules.iter().map(|armed| armed.rule.clone()));
        set.rules.push(rule.clone());
        set.check()?;
        armed.counts.insert(rule.name.clone(), RuleCount::default());
        armed.rules.push(ArmedRule::new(rule));
        Ok(())
    }

    /// Removes a rule, ends its stalls, keeps its count; false if there is none of that name.
    pub fn remove(&self, name: &str) -> bool {
        let mut armed = self.armed();
        let Some(at) = armed.rules.iter().position(|armed| armed.rule.name == name) else { return false };
        armed.rules.remove(at).removed.cancel();
        true
    }

    /// True if there is a rule of that name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.armed().rules.iter().any(|armed| armed.rule.name == name)
    }

    /// Removes all rules, ends their stalls, keeps their counts.
    pub fn clear(&self) {
        let old = std::mem::take(&mut self.armed().rules);
        old.iter().for_each(|old| old.removed.cancel());
    }

    /// What each rule has done, removed ones included, by name.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, RuleCount> {
        self.armed().counts.clone()
    }

    /// Counts the request as a match of every rule it fits, and gives the first that acts on it.
    pub(crate) fn decide(&self, entry: &Entry) -> Option<Decision> {
        let mut armed = self.armed();
        let Armed { seed, rules, counts } = &mut *armed;
        let bucket = entry.bucket.as_deref().unwrap_or_default();
        let key = entry.key.as_deref().unwrap_or_default();
        let mut decision = None;
        for ArmedRule { rule, removed } in rules {
            if !rule.matches(entry.operation, bucket, key) {
                continue;
            }
            let count = counts.entry(rule.name.clone()).or_default();
            count.matched += 1;
            if decision.is_none() && rule.nth.chooses(*seed, &rule.name, count.matched, count.acted) {
                count.acted += 1;
                let (rule, effect) = (rule.name.clone(), rule.effect.clone());
                decision = Some(Decision { rule, effect, removed: removed.clone() });
            }
        }
        decision
    }
}

impl ArmedRule {
    fn new(rule: Rule) -> Self {
        Self { rule, removed: CancellationToken::new() }
    }
}
