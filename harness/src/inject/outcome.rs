//! What became of a fault that was held by itself.

use std::path::PathBuf;
use std::time::Duration;

use stormproof_chaos::fault::{Description, Effect, FaultError};
use stormproof_chaos::lease::LeaseError;
use stormproof_chaos::toxiproxy::ClientError;

use crate::verdict::Verdict;

/// A fault that was held, or was to be.
#[derive(Debug)]
pub struct Held {
    /// What it was.
    pub what: Description,
    /// It was in place for a while.
    pub injected: bool,
    /// For how long, until its heal began; none for what cannot be held.
    pub held_for: Option<Duration>,
    /// What it did.
    pub effect: Effect,
    /// What went wrong first.
    pub broke: Option<LeaseError>,
    /// A probe has seen that nothing of it is left; none if there was nothing to heal: it was not injected, or cannot be
    /// taken back.
    pub healed: Option<bool>,
    /// What may still be there, although the guardian tried to undo it as well.
    pub left: Option<String>,
    /// It was healed before its time because it was told to stop.
    pub interrupted: bool,
    /// Its journal.
    pub journal: PathBuf,
}

impl Held {
    pub(super) fn nothing_done(what: Description, journal: PathBuf) -> Self {
        Self {
            what,
            injected: false,
            held_for: None,
            effect: Effect::default(),
            broke: None,
            healed: None,
            left: None,
            interrupted: false,
            journal,
        }
    }

    /// Whether the server that the fault was in was gone when it was asked: then nobody has seen what is left there.
    #[must_use]
    pub fn is_out_of_reach(&self) -> bool {
        let is_unanswered = matches!(
            &self.broke,
            Some(LeaseError::Fault { source: FaultError::Proxy(ClientError::Transport { .. }), .. })
        );
        is_unanswered && self.healed != Some(true)
    }

    /// *Invalid* if the injector broke or something may be left, *vacuous* if nobody felt the fault, *inconclusive* if
    /// nobody can know.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.broke.is_some() || self.left.is_some() {
            Verdict::Invalid
        } else if self.effect.bites {
            Verdict::Pass
        } else if self.injected && self.effect.is_unknown() {
            Verdict::Inconclusive
        } else {
            Verdict::Vacuous
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn held(effect: Effect) -> Held {
        let what = Description::new("toxic", "proxy db".to_owned());
        Held { injected: true, effect, ..Held::nothing_done(what, "journal".into()) }
    }

    fn effect(bites: bool, count: u64) -> Effect {
        Effect { bites, counts: BTreeMap::from([("connections_hit".to_owned(), count)]) }
    }

    #[test]
    fn only_what_was_felt_and_is_gone_is_a_pass() {
        assert_eq!(held(effect(true, 1)).verdict(), Verdict::Pass);
        assert_eq!(held(effect(false, 0)).verdict(), Verdict::Vacuous);
        assert_eq!(held(Effect::default()).verdict(), Verdict::Inconclusive, "nobody counts");
        let never = Held { injected: false, ..held(Effect::default()) };
        assert_eq!(never.verdict(), Verdict::Vacuous, "it is known that nothing was done");
        let lost = LeaseError::Lost { fault: never.what.clone() };
        assert_eq!(Held { broke: Some(lost), ..held(effect(true, 1)) }.verdict(), Verdict::Invalid);
        let left = Some("a toxic".to_owned());
        assert_eq!(Held { left, ..held(effect(true, 1)) }.verdict(), Verdict::Invalid);
    }
}
