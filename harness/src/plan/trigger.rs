//! When a fault begins or is healed: at a fact of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::timeline::{CheckpointEvent, FaultEvent, Record, RecordKind, TaskFact, TaskName};

/// A moment that a fault waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// Before the job is submitted.
    BeforeSubmission,
    /// This many milliseconds after the job was submitted.
    AfterMs(u64),
    /// The job is in this state, e.g. `INITIALIZING`, having been submitted.
    JobStatus(String),
    /// The given subtasks of a vertex (all that are known, if none are given) are in this state.
    Vertex {
        /// The vertex.
        vertex: String,
        /// Which subtasks; empty: all.
        subtasks: Vec<u32>,
        /// E.g. `RUNNING`.
        state: String,
    },
    /// Every task of the job is RUNNING (or FINISHED).
    AllTasksRunning,
    /// Every task whose attempt ended badly runs again: what follows a failover.
    Recovered,
    /// At least this many checkpoints have completed.
    CheckpointsCompleted(u64),
    /// This many checkpoints have completed since the fault of this name was healed.
    CheckpointsSinceHealed {
        /// The fault.
        fault: String,
        /// How many.
        count: u64,
    },
    /// The fault of this name was put in place; it need not act yet.
    FaultInjected(String),
    /// The fault of this name is seen to act.
    FaultEffective(String),
    /// The fault of this name was healed, and a probe confirmed it.
    FaultHealed(String),
    /// So many probes were answered since the fault of this name took effect.
    ProbesSince {
        /// The fault.
        fault: String,
        /// How many.
        count: u64,
    },
    /// All of these hold.
    All(Vec<Trigger>),
    /// Only at the end of the run.
    Never,
}

impl Trigger {
    /// The given vertex, all of it, is in `state`.
    pub fn vertex(vertex: impl Into<String>, state: impl Into<String>) -> Self {
        Self::Vertex { vertex: vertex.into(), subtasks: vec![], state: state.into() }
    }

    /// One task is in `state`.
    pub fn task(vertex: impl Into<String>, subtask: u32, state: impl Into<String>) -> Self {
        Self::Vertex { vertex: vertex.into(), subtasks: vec![subtask], state: state.into() }
    }

    /// The fault of this name was put in place.
    pub fn fault_injected(fault: impl Into<String>) -> Self {
        Self::FaultInjected(fault.into())
    }

    /// The fault of this name is seen to act.
    pub fn fault_effective(fault: impl Into<String>) -> Self {
        Self::FaultEffective(fault.into())
    }

    /// The fault of this name was healed.
    pub fn fault_healed(fault: impl Into<String>) -> Self {
        Self::FaultHealed(fault.into())
    }

    /// Names of the faults it waits for.
    #[must_use]
    pub fn faults(&self) -> Vec<&str> {
        match self {
            Self::FaultInjected(fault)
            | Self::FaultEffective(fault)
            | Self::FaultHealed(fault)
            | Self::ProbesSince { fault, .. }
            | Self::CheckpointsSinceHealed { fault, .. } => vec![fault],
            Self::All(all) => all.iter().flat_map(Self::faults).collect(),
            _ => vec![],
        }
    }

    /// True if the moment has come.
    #[must_use]
    pub fn holds(&self, facts: &Facts) -> bool {
        match self {
            Self::BeforeSubmission => true,
            Self::AfterMs(delay) => facts.submitted_ms.is_some_and(|at| facts.now_ms >= at + delay),
            Self::JobStatus(status) => facts.status.as_ref() == Some(status),
            Self::Vertex { vertex, subtasks, state } => facts.vertex_is(vertex, subtasks, state),
            Self::AllTasksRunning => facts.all_tasks_run(),
            Self::Recovered => facts.restarts > 0 && facts.all_tasks_run(),
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
            Self::All(all) => all.iter().all(|trigger| trigger.holds(facts)),
            Self::Never => false,
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeforeSubmission => f.write_str("before the job is submitted"),
            Self::AfterMs(delay) => write!(f, "{delay} ms after the submission"),
            Self::JobStatus(status) => write!(f, "when the job is {status}"),
            Self::Vertex { vertex, subtasks, state } if subtasks.is_empty() => {
                write!(f, "when all of {vertex} is {state}")
            }
            Self::Vertex { vertex, subtasks, state } => write!(f, "when {vertex}{subtasks:?} is {state}"),
            Self::AllTasksRunning => f.write_str("when all tasks run"),
            Self::Recovered => f.write_str("when all tasks run again"),
            Self::CheckpointsCompleted(count) => write!(f, "when {count} checkpoints have completed"),
            Self::CheckpointsSinceHealed { fault, count } => {
                write!(f, "{count} checkpoints after `{fault}` was healed")
            }
            Self::FaultInjected(fault) => write!(f, "when `{fault}` is in place"),
            Self::FaultEffective(fault) => write!(f, "when `{fault}` acts"),
            Self::FaultHealed(fault) => write!(f, "when `{fault}` is healed"),
            Self::ProbesSince { fault, count } => write!(f, "{count} answered probes after `{fault}` acts"),
            Self::All(all) => {
                for (position, trigger) in all.iter().enumerate() {
                    write!(f, "{}{trigger}", if position == 0 { "" } else { " and " })?;
                }
                Ok(())
            }
            Self::Never => f.write_str("at the end of the run"),
        }
    }
}

/// What is known of a run so far, kept up record by record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    now_ms: u64,
    submitted_ms: Option<u64>,
    status: Option<String>,
    parallelism: BTreeMap<String, u32>,
    tasks: BTreeMap<TaskName, TaskFact>,
    restarts: u64,
    checkpoints: u64,
    probes: u64,
    injected: BTreeSet<String>,
    effective: BTreeSet<String>,
    checkpoints_when_healed: BTreeMap<String, u64>,
    probes_when_effective: BTreeMap<String, u64>,
}

impl Facts {
    /// Takes a new record in.
    pub fn take(&mut self, record: &Record) {
        self.now_ms = self.now_ms.max(record.at_ms);
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
            RecordKind::Checkpoint { event: CheckpointEvent::Completed { .. }, .. } => self.checkpoints += 1,
            RecordKind::Probe { answer: crate::timeline::ProbeAnswer::Answered { .. }, .. } => self.probes += 1,
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

    /// Moves time on without a record.
    pub fn at(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{Losses, ObservedPlan, ObservedVertex};

    fn facts(kinds: impl IntoIterator<Item = RecordKind>) -> Facts {
        let mut facts = Facts::default();
        for (seq, kind) in kinds.into_iter().enumerate() {
            facts.take(&Record { seq: seq as u64, at_ms: 10 * seq as u64, wall_ms: 0, kind });
        }
        facts
    }

    fn plan(parallelism: u32) -> RecordKind {
        let vertices = vec![ObservedVertex { name: "count".into(), parallelism }];
        RecordKind::Plan { job: "j".into(), plan: ObservedPlan { vertices, edges: vec![] } }
    }

    fn status(status: &str) -> RecordKind {
        RecordKind::JobStatus { job: "j".into(), status: status.into() }
    }

    fn task(subtask: u32, attempt: u32, state: &str) -> RecordKind {
        let task = TaskName::new("count", subtask);
        RecordKind::TaskState { job: "j".into(), task, attempt, state: state.into(), executor: None }
    }

    #[test]
    fn a_vertex_waits_for_all_its_subtasks() {
        let running = Trigger::vertex("count", "RUNNING");
        let one = [plan(2), task(0, 0, "RUNNING")];
        assert!(!running.holds(&facts(one.clone())), "only one of two");
        assert!(Trigger::task("count", 0, "RUNNING").holds(&facts(one.clone())));
        assert!(running.holds(&facts(one.into_iter().chain([task(1, 0, "RUNNING")]))));
        assert!(!running.holds(&facts([task(0, 0, "RUNNING")])), "the plan is not known");
    }

    #[test]
    fn recovered_needs_a_restart() {
        let before = [plan(1), status("RUNNING"), task(0, 0, "RUNNING")];
        assert!(Trigger::AllTasksRunning.holds(&facts(before.clone())));
        assert!(!Trigger::Recovered.holds(&facts(before.clone())));
        let failed = before.into_iter().chain([task(0, 0, "FAILED"), status("RESTARTING")]);
        assert!(!Trigger::Recovered.holds(&facts(failed.clone())));
        let again = failed.chain([status("RUNNING"), task(0, 1, "RUNNING")]);
        assert!(Trigger::Recovered.holds(&facts(again)));
    }

    #[test]
    fn checkpoints_are_counted_from_the_heal() {
        let completed =
            |id| RecordKind::Checkpoint { job: "j".into(), id, event: CheckpointEvent::Completed { bytes: 0 } };
        let healed = RecordKind::Fault { fault: "hole".into(), event: FaultEvent::HealVerified };
        let trigger = Trigger::CheckpointsSinceHealed { fault: "hole".into(), count: 1 };
        assert!(!trigger.holds(&facts([completed(1), healed.clone()])));
        assert!(trigger.holds(&facts([completed(1), healed, completed(2)])));
    }

    #[test]
    fn time_counts_from_the_submission() {
        let submitted = RecordKind::JobSubmitted { job: "j".into(), name: "n".into() };
        let mut facts = facts([status("RUNNING"), submitted]);
        assert!(!Trigger::AfterMs(5).holds(&facts));
        facts.at(15);
        assert!(Trigger::AfterMs(5).holds(&facts));
    }

    #[test]
    fn all_means_all() {
        let acts =
            RecordKind::Fault { fault: "kill".into(), event: FaultEvent::Effective { losses: Losses::default() } };
        let both = Trigger::All(vec![Trigger::fault_effective("kill"), Trigger::JobStatus("RESTARTING".into())]);
        assert!(!both.holds(&facts([acts.clone()])));
        assert!(both.holds(&facts([acts, status("RESTARTING")])));
        assert_eq!(both.to_string(), "when `kill` acts and when the job is RESTARTING");
    }
}
