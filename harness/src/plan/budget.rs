//! How much a plan may hurt: its blast radius.
//!
//! What a fault would touch is known once its victim is found. A fault that would go beyond the budget is not injected:
//! nothing of it was done, everything else is healed, and the run is *refused*.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::plural::counted;

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
    /// Hosts other than this machine that may be hurt, if the environment allows it as well (see
    /// [`ALLOW_REMOTE`](super::ALLOW_REMOTE)).
    pub hosts: BTreeSet<String>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { targets: 5, percent: 50, concurrent: 3, duration: Duration::from_secs(600), hosts: BTreeSet::new() }
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
#[error("`{fault}` would hurt {target}: that makes {would_be}{}, and the plan's budget is {budget}", already(.used_up))]
pub struct OverBudget {
    /// The fault.
    pub fault: String,
    /// What it would hurt.
    pub target: String,
    /// What it would come to, e.g. `4 faults at the same time`.
    pub would_be: String,
    /// What has used it up: targets that are or were hurt, and by which faults.
    pub used_up: Box<[(Hurt, String)]>,
    /// The budget, in words.
    pub budget: Box<Budget>,
}

fn already(used_up: &[(Hurt, String)]) -> String {
    let list = used_up.iter().map(|(hurt, fault)| format!("{} by `{fault}`", hurt.target)).collect::<Vec<_>>();
    if list.is_empty() { String::new() } else { format!(" (already hurt: {})", list.join(", ")) }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { targets, percent, concurrent, duration, hosts } = self;
        let (targets, concurrent) = (counted(*targets, "target"), counted(*concurrent, "fault"));
        let seconds = duration.as_secs();
        let hosts: String = hosts.iter().map(|host| format!(" and {host}")).collect();
        write!(
            f,
            "{targets}, {concurrent} at the same time, {percent} % of the executors, {seconds} s for each fault, on this machine{hosts}"
        )
    }
}

impl Budget {
    /// Whether `fault` may hurt `asked` while `now` is hurt, `ever` was hurt earlier in the run (each by a fault), and
    /// `executors` are registered.
    ///
    /// # Errors
    /// The first limit that it would pass.
    pub fn admit(
        &self,
        fault: &str,
        asked: &Hurt,
        now: &[(Hurt, String)],
        ever: &BTreeMap<Hurt, String>,
        executors: usize,
    ) -> Result<(), OverBudget> {
        let over = |would_be: String, used_up: Vec<(Hurt, String)>| {
            let (fault, target) = (fault.to_owned(), asked.target.clone());
            Err(OverBudget { fault, target, would_be, used_up: used_up.into(), budget: Box::new(self.clone()) })
        };
        let limit = |most: u32| usize::try_from(most).unwrap_or(usize::MAX);
        let faults = now.len() + 1;
        if faults > limit(self.concurrent) {
            return over(counted(faults, "fault") + " at the same time", now.to_vec());
        }
        let targets = ever.len() + usize::from(!ever.contains_key(asked));
        if targets > limit(self.targets) {
            return over(counted(targets, "target"), ever.clone().into_iter().collect());
        }
        let others: BTreeMap<&Hurt, &String> =
            now.iter().filter(|(hurt, _)| hurt.is_executor && hurt != asked).map(|(hurt, by)| (hurt, by)).collect();
        let hurt = others.len() + 1;
        if asked.is_executor && hurt > 1 && hurt * 100 > executors * limit(self.percent) {
            let used_up = others.into_iter().map(|(hurt, by)| (hurt.clone(), by.clone()));
            return over(format!("{hurt} of {executors} executors"), used_up.collect());
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

    fn over(budget: &Budget, asked: &Hurt, now: &[Hurt], ever: &[Hurt], executors: usize) -> Result<(), OverBudget> {
        let by = |hurt: &Hurt| (hurt.clone(), format!("hurts {}", hurt.target));
        let now: Vec<(Hurt, String)> = now.iter().map(by).collect();
        let ever = ever.iter().map(by).chain(now.clone()).collect();
        budget.admit("it", asked, &now, &ever, executors)
    }

    fn told(budget: &Budget, asked: &Hurt, now: &[Hurt], ever: &[Hurt], executors: usize) -> Option<String> {
        over(budget, asked, now, ever, executors).err().map(|over| over.would_be)
    }

    #[test]
    fn what_has_used_it_up_is_named() {
        let budget = Budget { targets: 2, concurrent: 1, ..Budget::default() };
        let error = over(&budget, &executor(3), &[], &[executor(1), link()], 9).expect_err("too many").to_string();
        let expected = "`it` would hurt executor-3: that makes 3 targets (already hurt: executor-1 by `hurts executor-1`, \
                        proxy store by `hurts proxy store`), and the plan's budget is 2 targets, 1 fault at the same time, \
                        50 % of the executors, 600 s for each fault, on this machine";
        assert_eq!(error, expected);
        let error = over(&budget, &link(), &[executor(1)], &[executor(2)], 9).expect_err("two at once").to_string();
        assert!(error.contains("(already hurt: executor-1 by `hurts executor-1`)"), "those that are over: {error}");
        let error = over(&Budget { percent: 10, ..Budget::default() }, &executor(2), &[link(), executor(1)], &[], 9);
        assert!(error.expect_err("2 of 9").to_string().contains("(already hurt: executor-1 by"), "no executor");
        let none = Budget { targets: 0, ..Budget::default() };
        assert!(!over(&none, &link(), &[], &[], 9).expect_err("none").to_string().contains("already"));
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
