//! Rule faults: which request is to be hurt, decided from its operation, key and turn, never from a clock.
//!
//! [`RuleSet`] is what people write, [`Rules`] what a running server asks. The effects are in
//! [`effects`](crate::effects).

mod check;
pub(crate) mod glob;
mod rule;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub use check::RuleError;
pub use rule::{Nth, Rule, RuleSet};

use crate::effects::Effect;
use crate::ledger::{Entry, Ticket};

/// The rules of a running server. Clones are handles to the same rules.
///
/// Rules are asked at the edge, before signatures are checked, so a request that will be refused counts as a match
/// too. Removing a rule ends the stalls it causes at that moment, and it acts no more, also on requests in flight.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    inner: Arc<Mutex<Armed>>,
}

#[derive(Debug, Default)]
struct Armed {
    seed: u64,
    rules: Vec<ArmedRule>,
    /// Kept when a rule is removed: what it did is asked for afterwards.
    tallies: BTreeMap<String, Arc<Tally>>,
}

#[derive(Debug)]
struct ArmedRule {
    rule: Rule,
    removed: CancellationToken,
    tally: Arc<Tally>,
}

/// Counts of one rule. Requests hold it, too: they act later than they are chosen, if at all.
#[derive(Debug, Default)]
struct Tally {
    matched: AtomicU64,
    /// Matches it was to act on.
    chosen: AtomicU64,
    acted: AtomicU64,
}

impl Tally {
    fn count(&self) -> RuleCount {
        RuleCount { matched: self.matched.load(Ordering::Relaxed), acted: self.acted.load(Ordering::Relaxed) }
    }
}

/// What a rule has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RuleCount {
    /// Requests it was for.
    pub matched: u64,
    /// Requests on which it had its effect, counted when that began. A body that ends before it is cut or stalled, a
    /// listing that is the same as some changes ago, a request that fails by itself before its success could be denied:
    /// none of them counts.
    pub acted: u64,
}

/// The fault a request is to have.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    pub(crate) rule: String,
    pub(crate) effect: Effect,
    /// Cancelled when the rule is removed.
    pub(crate) removed: CancellationToken,
    tally: Arc<Tally>,
    acted: bool,
}

impl Decision {
    /// The effect begins: it is counted, and the ledger names the rule. False if the rule is gone: then nothing begins.
    pub(crate) fn acts(&mut self, ticket: &mut Ticket) -> bool {
        if self.removed.is_cancelled() {
            return false;
        }
        if !std::mem::replace(&mut self.acted, true) {
            self.tally.acted.fetch_add(1, Ordering::Relaxed);
            ticket.set_rule(&self.rule);
        }
        true
    }
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
        let rules: Vec<ArmedRule> = set.rules.into_iter().map(ArmedRule::new).collect();
        let tallies = rules.iter().map(ArmedRule::tally).collect();
        let old = std::mem::replace(&mut *self.armed(), Armed { seed: set.seed, rules, tallies });
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
        let rule = ArmedRule::new(rule);
        armed.tallies.extend([rule.tally()]);
        armed.rules.push(rule);
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
        self.armed().tallies.iter().map(|(name, tally)| (name.clone(), tally.count())).collect()
    }

    /// Counts the request as a match of every rule it fits, and gives the first that wants to act on it.
    pub(crate) fn decide(&self, entry: &Entry) -> Option<Decision> {
        let armed = self.armed();
        let bucket = entry.bucket.as_deref().unwrap_or_default();
        let key = entry.key.as_deref().unwrap_or_default();
        let mut decision = None;
        for ArmedRule { rule, removed, tally } in &armed.rules {
            if !rule.matches(entry.operation, bucket, key) {
                continue;
            }
            // Changed under the lock only, so each match has a number of its own.
            let number = tally.matched.fetch_add(1, Ordering::Relaxed) + 1;
            let chosen_before = tally.chosen.load(Ordering::Relaxed);
            if decision.is_none() && rule.nth.chooses(armed.seed, &rule.name, number, chosen_before) {
                tally.chosen.fetch_add(1, Ordering::Relaxed);
                let (rule, effect) = (rule.name.clone(), rule.effect.clone());
                decision =
                    Some(Decision { rule, effect, removed: removed.clone(), tally: Arc::clone(tally), acted: false });
            }
        }
        decision
    }
}

impl ArmedRule {
    fn new(rule: Rule) -> Self {
        Self { rule, removed: CancellationToken::new(), tally: Arc::default() }
    }

    fn tally(&self) -> (String, Arc<Tally>) {
        (self.rule.name.clone(), Arc::clone(&self.tally))
    }
}
