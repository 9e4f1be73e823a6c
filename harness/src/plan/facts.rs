//! What is known of a run so far, and since when.

use std::collections::{BTreeMap, BTreeSet};

use stormproof_store::glob_matches;

use super::trigger::Trigger;
use crate::timeline::{CheckpointEvent, FaultEvent, ProbeAnswer, Record, RecordKind, TaskFact, TaskName};

/// A trigger that somebody waits for.
#[derive(Debug, Clone, PartialEq)]
struct Watched {
    trigger: Trigger,
    /// When it first held, milliseconds since the run started.
    since_ms: Option<u64>,
    /// The last look at which it held.
    last: Option<u64>,
}

/// What is known of a run so far, kept up record by record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Triggers that somebody waits for.
    watched: Vec<Watched>,
    /// Looks taken so far: one at each record, one whenever time moves on.
    looks: u64,
    now_ms: u64,
    submitted_ms: Option<u64>,
    status: Option<String>,
    parallelism: BTreeMap<String, u32>,
    tasks: BTreeMap<TaskName, TaskFact>,
    restarts: u64,
    checkpoints: u64,
    checkpoints_triggered: u64,
    checkpoints_in_progress: BTreeSet<u64>,
    probes: u64,
    last_answer: Option<String>,
    /// Requests that fit a watched operation and pattern of keys, by these.
    store_requests: BTreeMap<(String, String), u64>,
    link_bytes: u64,
    injected: BTreeSet<String>,
    effective: BTreeSet<String>,
    checkpoints_when_healed: BTreeMap<String, u64>,
    probes_when_effective: BTreeMap<String, u64>,
}

impl Facts {
    /// Nothing is known yet. When each of `triggers` first holds will be.
    pub fn watching<'a>(triggers: impl IntoIterator<Item = &'a Trigger>) -> Self {
        let (mut watched, mut store_requests) = (Vec::new(), BTreeMap::new());
        for trigger in triggers.into_iter().flat_map(Trigger::with_parts) {
            if let Trigger::StoreRequests { operation, key, .. } = trigger {
                store_requests.insert((operation.clone(), key.clone()), 0);
            }
            if !watched.iter().any(|known: &Watched| known.trigger == *trigger) {
                watched.push(Watched { trigger: trigger.clone(), since_ms: None, last: None });
            }
        }
        Self { watched, store_requests, ..Self::default() }
    }

    /// Takes a new record in.
    pub fn take(&mut self, record: &Record) {
        self.now_ms = self.now_ms.max(record.at_ms);
        self.learn(record);
        self.note_moments();
    }

    fn learn(&mut self, record: &Record) {
        match &record.kind {
            RecordKind::JobSubmitted { .. } => self.submitted_ms = Some(record.at_ms),
            RecordKind::JobStatus { status, .. } => self.status = Some(status.clone()),
            RecordKind::Plan { plan, .. } => {
                self.parallelism.extend(plan.vertices.iter().map(|vertex| (vertex.name.clone(), vertex.parallelism)));
            }
            RecordKind::TaskState { task, attempt, state, executor, .. } => {
                let fact = TaskFact { attempt: *attempt, state: state.clone(), executor: executor.clone() };
                let before = self.tasks.insert(task.clone(), fact);
                self.restarts += u64::from(before.is_some_and(|before| before.attempt != *attempt));
            }
            RecordKind::Checkpoint { id, event, .. } => self.checkpoint(*id, event),
            RecordKind::Probe { answer, .. } => {
                self.last_answer = None;
                if let ProbeAnswer::Answered { saw } = answer {
                    self.probes += 1;
                    self.last_answer = Some(saw.clone());
                }
            }
            RecordKind::StoreRequest { op, key, .. } => {
                let counts = self.store_requests.iter_mut();
                counts
                    .filter(|((operation, pattern), _)| operation == op && glob_matches(pattern, key))
                    .for_each(|(_, count)| *count += 1);
            }
            RecordKind::LinkTraffic { bytes } => self.link_bytes = *bytes,
            RecordKind::Fault { fault, event: FaultEvent::Injected } => {
                self.injected.insert(fault.clone());
            }
            RecordKind::Fault { fault, event: FaultEvent::Effective { .. } } => {
                self.effective.insert(fault.clone());
                self.probes_when_effective.insert(fault.clone(), self.probes);
            }
            RecordKind::Fault { fault, event: FaultEvent::HealVerified } => {
                self.checkpoints_when_healed.insert(fault.clone(), self.checkpoints);
            }
            _ => {}
        }
    }

    fn checkpoint(&mut self, id: u64, event: &CheckpointEvent) {
        match event {
            CheckpointEvent::Triggered => {
                self.checkpoints_triggered += 1;
                self.checkpoints_in_progress.insert(id);
            }
            CheckpointEvent::Completed { .. } => {
                self.checkpoints += 1;
                self.checkpoints_in_progress.remove(&id);
            }
            CheckpointEvent::Failed { .. } => drop(self.checkpoints_in_progress.remove(&id)),
            CheckpointEvent::Restored => {}
        }
    }

    /// Moves time on without a record.
    pub fn at(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        self.note_moments();
    }

    /// A trigger that waits for another is looked at after it: parts stand before the whole.
    fn note_moments(&mut self) {
        self.looks += 1;
        for position in 0..self.watched.len() {
            if self.watched[position].trigger.holds(self) {
                let watched = &mut self.watched[position];
                watched.since_ms.get_or_insert(self.now_ms);
                watched.last = Some(self.looks);
            }
        }
    }

    /// When a watched trigger first held, milliseconds since the run started: at the record that made it true.
    #[must_use]
    pub fn held_since(&self, trigger: &Trigger) -> Option<u64> {
        self.watched(trigger)?.since_ms
    }

    /// Looks taken so far, to be remembered for [`held_after`](Self::held_after).
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// True if a watched trigger has held at any record after that look, be it for a moment only.
    #[must_use]
    pub fn held_after(&self, trigger: &Trigger, look: u64) -> bool {
        self.watched(trigger).is_some_and(|watched| watched.last > Some(look))
    }

    fn watched(&self, trigger: &Trigger) -> Option<&Watched> {
        self.watched.iter().find(|watched| watched.trigger == *trigger)
    }

    /// Bytes that have passed the link to the store, as last seen.
    #[must_use]
    pub fn link_bytes(&self) -> u64 {
        self.link_bytes
    }

    /// The job's state as last seen.
    #[must_use]
    pub fn status(&self) -> Option<&str> {
        self.status.as_deref()
    }

    fn vertex_is(&self, vertex: &str, subtasks: &[u32], state: &str) -> bool {
        let is = |subtask: u32| self.tasks.get(&TaskName::new(vertex, subtask)).is_some_and(|task| task.state == state);
        match self.parallelism.get(vertex) {
            None => false,
            Some(parallelism) if subtasks.is_empty() => (0..*parallelism).all(is),
            Some(_) => subtasks.iter().copied().all(is),
        }
    }

    fn all_tasks_run(&self) -> bool {
        let known: u32 = self.parallelism.values().sum();
        self.status.as_deref() == Some("RUNNING")
            && known > 0
            && self.tasks.len() == known as usize
            && self.tasks.values().all(|task| matches!(task.state.as_str(), "RUNNING" | "FINISHED"))
    }
}

impl Trigger {
    /// True if the moment has come. Of requests to the store only what `facts` are [watching](Facts::watching) for is
    /// known, since there may be very many.
    #[must_use]
    pub fn holds(&self, facts: &Facts) -> bool {
        match self {
            Self::BeforeSubmission => true,
            Self::AfterMs(delay) => facts.submitted_ms.is_some_and(|at| facts.now_ms >= at + delay),
            Self::JobStatus(status) => facts.status.as_ref() == Some(status),
            Self::Vertex { vertex, subtasks, state } => facts.vertex_is(vertex, subtasks, state),
            Self::AllTasksRunning => facts.all_tasks_run(),
            Self::Recovered => facts.restarts > 0 && facts.all_tasks_run(),
            Self::CheckpointsTriggered(count) => facts.checkpoints_triggered >= *count,
            Self::CheckpointInProgress => !facts.checkpoints_in_progress.is_empty(),
            Self::CheckpointsCompleted(count) => facts.checkpoints >= *count,
            Self::CheckpointsSinceHealed { fault, count } => {
                facts.checkpoints_when_healed.get(fault).is_some_and(|then| facts.checkpoints >= then + count)
            }
            Self::FaultInjected(fault) => facts.injected.contains(fault),
            Self::FaultEffective(fault) => facts.effective.contains(fault),
            Self::FaultHealed(fault) => facts.checkpoints_when_healed.contains_key(fault),
            Self::ProbesSince { fault, count } => {
                facts.probes_when_effective.get(fault).is_some_and(|then| facts.probes >= then + count)
            }
            Self::ProbeAnswer(answer) => facts.last_answer.as_ref() == Some(answer),
            Self::StoreRequests { operation, key, count } => {
                facts.store_requests.get(&(operation.clone(), key.clone())).is_some_and(|found| found >= count)
            }
            Self::LinkBytes(bytes) => facts.link_bytes >= *bytes,
            Self::After { trigger, ms } => facts.held_since(trigger).is_some_and(|since| facts.now_ms >= since + ms),
            Self::Not(trigger) => !trigger.holds(facts),
            Self::All(all) => all.iter().all(|trigger| trigger.holds(facts)),
            Self::Any(any) => any.iter().any(|trigger| trigger.holds(facts)),
            Self::Never => false,
        }
    }
}

#[cfg(test)]
mod tests;
