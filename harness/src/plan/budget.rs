//! How much a plan may hurt: its blast radius.
//!
//! What a fault would touch is known once its victim is found. A fault that would go beyond the budget is not injected:
//! nothing of it was done, everything else is healed, and the run is *refused*.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// Limits of what a run may hurt. Stage directions do not count: they break nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Most different things (processes, partitions, tasks, links) that are hurt in one run.
    pub targets: u32,
    /// Most executors that are hurt at the same time, percent of those that are registered. One always is allowed.
    pub percent: u32,
    /// Most faults that last at the same time.
    pub concurrent: u32,
    /// Longest time that one fault lasts; then it is healed, whatever its plan waits for.
    pub duration: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self { targets: 5, percent: 50, concurrent: 3, duration: Duration::from_secs(600) }
    }
}

/// What one fault hurts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hurt {
    /// What it is done to, e.g. `executor-2 (pid 4711)`.
    pub target: String,
    /// That is an executor.
    pub is_executor: bool,
}

/// A fault would hurt more than its plan allows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{fault}` would hurt {target}: that makes {would_be}, and the plan's budget is {budget}")]
pub struct OverBudget {
    /// The fault.
    pub fault: String,
    /// What it would hurt.
    pub target: String,
    /// What it would come to, e.g. `4 faults at the same time`.
    pub would_be: String,
    /// The budget, in words.
    pub budget: Budget,
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { targets, percent, concurrent, duration } = self;
        write!(
            f,
            "{targets} targets, {concurrent} faults at the same time, {percent} % of the executors, {} s each",
            duration.as_secs()
        )
    }
}

impl Budget {
    /// Whether `fault` may hurt `asked` while `now` is hurt, `ever` was hurt earlier in the run, and `executors` are
    /// registered.
    ///
    /// # Errors
    /// The first limit that it would pass.
    pub fn admit(
        &self,
        fault: &str,
        asked: &Hurt,
        now: &[Hurt],
        ever: &BTreeSet<Hurt>,
        executors: usize,
    ) -> Result<(), OverBudget> {
        let over = |would_be: String| {
            Err(OverBudget { fault: fault.to_owned(), target: asked.target.clone(), would_be, budget: self.clone() })
        };
        let limit = |most: u32| usize::try_from(most).unwrap_or(usize::MAX);
        let faults = now.len() + 1;
        if faults > limit(self.concurrent) {
            return over(format!("{faults} faults at the same time"));
        }
        let targets = ever.len() + usize::from(!ever.contains(asked));
        if targets > limit(self.targets) {
            return over(format!("{targets} targets"));
        }
        let hurt: BTreeSet<&Hurt> = now.iter().chain([asked]).filter(|hurt| hurt.is_executor).collect();
        if asked.is_executor && hurt.len() > 1 && hurt.len() * 100 > executors * limit(self.percent) {
            return over(format!("{} of {executors} executors", hurt.len()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executor(number: u32) -> Hurt {
        Hurt { target: format!("executor-{number}"), is_executor: true }
    }

    fn link() -> Hurt {
        Hurt { target: "proxy store".to_owned(), is_executor: false }
    }

    fn told(budget: &Budget, asked: &Hurt, now: &[Hurt], ever: &[Hurt], executors: usize) -> Option<String> {
        let ever = ever.iter().chain(now).cloned().collect();
        budget.admit("it", asked, now, &ever, executors).err().map(|over| over.would_be)
    }

    #[test]
    fn no_more_faults_at_once_than_allowed() {
        let budget = Budget { concurrent: 1, ..Budget::default() };
        assert_eq!(told(&budget, &link(), &[], &[executor(1), executor(2)], 3), None, "those are over");
        let two = Some("2 faults at the same time".to_owned());
        assert_eq!(told(&budget, &link(), &[executor(1)], &[], 3), two);
    }

    #[test]
    fn no_more_targets_than_allowed_and_one_that_is_hurt_again_is_one() {
        let budget = Budget { targets: 2, ..Budget::default() };
        assert_eq!(told(&budget, &executor(1), &[], &[executor(1), link()], 9), None);
        assert_eq!(told(&budget, &executor(2), &[], &[executor(1), link()], 9), Some("3 targets".to_owned()));
    }

    #[test]
    fn no_more_executors_at_once_than_their_share_but_one_always() {
        let budget = Budget { percent: 40, ..Budget::default() };
        assert_eq!(told(&budget, &executor(1), &[], &[], 1), None);
        assert_eq!(told(&budget, &executor(2), &[executor(1)], &[], 5), None);
        let over = Some("2 of 4 executors".to_owned());
        assert_eq!(told(&budget, &executor(2), &[executor(1)], &[], 4), over);
        assert_eq!(told(&budget, &executor(1), &[executor(1)], &[], 4), None, "one twice is one");
        assert_eq!(told(&budget, &link(), &[executor(1), executor(2)], &[], 4), None, "it hurts none more");
    }
}
