//! The answer: what restarts at once, what will later, and what may.

use std::collections::{BTreeMap, BTreeSet};

use stormproof_coordinator::core::failover::{StalePolicy, restart_set_of_all};
use stormproof_coordinator::core::topology::TaskIndex;

use super::error::ExplainError;
use super::picture::Picture;
use super::question::{Impact, Question};
use super::search::Search;
use crate::oracle::model::{Reason, Task};

/// When tasks restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaveKind {
    /// In the failover of the failure itself.
    Now,
    /// Once tasks that have not begun find an input gone. Flink, which fails the tasks of a lost executor before it
    /// forgets their partitions, may also need a second failover for what is due `Now` (reference 2.4).
    Later,
    /// If tasks that are reading a lost partition had not read all of it.
    Perhaps,
}

/// Tasks that are drawn in together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wave {
    /// When.
    pub kind: WaveKind,
    /// The tasks whose failure starts it. They may have been reached by an earlier wave.
    pub failing: BTreeSet<Task>,
    /// Tasks that no earlier wave reached, with the reason.
    pub reached: BTreeMap<Task, Reason>,
    /// Those of them that restart, by the coordinator's rule. The others are CREATED: there is nothing to restart,
    /// unless they begin until then.
    pub restart: BTreeSet<Task>,
}

impl Wave {
    /// Reached, but CREATED at present.
    pub fn spared(&self) -> impl Iterator<Item = Task> {
        self.reached.keys().filter(|task| !self.restart.contains(task)).copied()
    }
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What happens, in words, e.g. `count[1] fails`.
    pub incident: String,
    /// In order of time; empty ones are left out, except the first.
    pub waves: Vec<Wave>,
    /// What was assumed.
    pub notes: Vec<String>,
    /// What is wrong with the job itself.
    pub warnings: Vec<String>,
}

impl Explanation {
    /// The tasks of one wave that restart.
    pub fn restart(&self, kind: WaveKind) -> impl Iterator<Item = Task> {
        self.waves.iter().filter(move |wave| wave.kind == kind).flat_map(|wave| wave.restart.iter().copied())
    }

    /// The tasks that certainly restart, now or later.
    #[must_use]
    pub fn certain(&self) -> BTreeSet<Task> {
        self.restart(WaveKind::Now).chain(self.restart(WaveKind::Later)).collect()
    }

    /// Every task that is reached at all: also those that restart only perhaps, and those that are CREATED at present.
    #[must_use]
    pub fn possible(&self) -> BTreeSet<Task> {
        self.waves.iter().flat_map(|wave| wave.reached.keys().copied()).collect()
    }
}

impl Picture {
    /// What restarts.
    ///
    /// # Errors
    /// If the question names something that the job does not have.
    pub fn explain(&self, question: &Question) -> Result<Explanation, ExplainError> {
        let mut impact = Impact::of(self, question)?;
        let mut notes = self.notes.clone();
        notes.append(&mut impact.notes);
        let policy = if question.stale_honoured { StalePolicy::Honour } else { StalePolicy::Ignore };
        let named = impact.named.filter(|named| named.is_current_attempt || question.stale_honoured);
        let lost_or_named: BTreeSet<_> =
            impact.lost.iter().copied().chain(named.map(|named| named.partition)).collect();
        let mut search = Search::new(self, &lost_or_named);
        let mut earlier = BTreeSet::new();
        let mut waves = vec![];
        let kinds = [WaveKind::Now, WaveKind::Later, WaveKind::Perhaps];
        for (kind, failing) in kinds.into_iter().zip([&impact.failed, &impact.will_miss_input, &impact.may_miss_input])
        {
            let reached = search.spread(failing.iter().copied());
            let decided = self.decided(failing, &impact, policy);
            let restart: BTreeSet<Task> = decided.difference(&earlier).copied().collect();
            earlier.extend(&restart);
            if kind == WaveKind::Now || !reached.is_empty() || !restart.is_empty() {
                let failing = failing.iter().map(|task| self.task(*task)).collect();
                waves.push(Wave { kind, failing, reached, restart });
            }
        }
        let warnings = self.deadlock().into_iter().collect();
        Ok(Explanation { incident: self.incident(question, &impact), waves, notes, warnings })
    }

    /// The coordinator's answer for all these failures together.
    fn decided(&self, failing: &BTreeSet<TaskIndex>, impact: &Impact, policy: StalePolicy) -> BTreeSet<Task> {
        let is_tracked = |partition| !impact.lost.contains(&partition);
        let (failed, named) = (failing.iter().copied(), impact.named);
        let state = |task| self.state(task);
        let set = restart_set_of_all(&self.topology, &self.regions, failed, named, policy, state, is_tracked);
        set.into_iter().map(|task| self.task(task)).collect()
    }

    fn incident(&self, question: &Question, impact: &Impact) -> String {
        let mut parts: Vec<String> = vec![];
        let verb = |count, one: &'static str, many: &'static str| if count == 1 { one } else { many };
        if !question.executors.is_empty() {
            let names = question.executors.join(", ");
            parts.push(format!("{names} {} lost", verb(question.executors.len(), "is", "are")));
        }
        if !impact.asked.is_empty() {
            let names = self.folded(&impact.asked.iter().map(|task| self.task(*task)).collect::<Vec<_>>());
            parts.push(format!("{names} {}", verb(impact.asked.len(), "fails", "fail")));
        }
        if !question.lost.is_empty() {
            let found = question.lost.iter().filter_map(|text| self.find_partitions(text).ok()).flatten();
            let names: Vec<_> = found.map(|partition| self.partition_text(self.partition(partition))).collect();
            parts.push(format!("{} {} lost", names.join(", "), verb(names.len(), "is", "are")));
        }
        if let Some(named) = &impact.named {
            parts.push(format!("the failure names {}", self.partition_text(self.partition(named.partition))));
        }
        parts.join(", ")
    }
}
