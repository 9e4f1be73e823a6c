//! When a fault begins or is healed: at a fact of the run.

use std::fmt;

use crate::plural::counted;
use crate::target::Capability;

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
    /// At least this many checkpoints have been triggered.
    CheckpointsTriggered(u64),
    /// A checkpoint is being taken: triggered, neither completed nor failed.
    CheckpointInProgress,
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
    /// The newest probe of the control plane was answered with this, e.g. `INITIALIZING`.
    ProbeAnswer(String),
    /// The checkpoint store has ended at least this many requests of a kind.
    StoreRequests {
        /// S3's name of the operation, e.g. `PutObject`.
        operation: String,
        /// A pattern for the key: `*` is any text, `/` included; `?` one character.
        key: String,
        /// How many.
        count: u64,
    },
    /// At least this many bytes have passed the link to the checkpoint store, both ways together.
    LinkBytes(u64),
    /// So long after another trigger first held, whether or not it still does.
    After {
        /// The other.
        trigger: Box<Trigger>,
        /// Milliseconds.
        ms: u64,
    },
    /// This does not hold.
    Not(Box<Trigger>),
    /// All of these hold.
    All(Vec<Trigger>),
    /// At least one of these holds.
    Any(Vec<Trigger>),
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

    /// So many milliseconds after it first held.
    #[must_use]
    pub fn after_ms(self, ms: u64) -> Self {
        Self::After { trigger: Box::new(self), ms }
    }

    /// It does not hold.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "a trigger is no operand; `!trigger` would read worse")]
    pub fn not(self) -> Self {
        Self::Not(Box::new(self))
    }

    /// The store has ended `count` requests of this kind.
    pub fn store_requests(operation: impl Into<String>, key: impl Into<String>, count: u64) -> Self {
        Self::StoreRequests { operation: operation.into(), key: key.into(), count }
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
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::faults).collect(),
            Self::After { trigger, .. } | Self::Not(trigger) => trigger.faults(),
            _ => vec![],
        }
    }

    /// What a target must let us see for it.
    #[must_use]
    pub fn needs(&self) -> Vec<Capability> {
        let of = |trigger: &Self| match trigger {
            Self::StoreRequests { .. } => Some(Capability::StoreRequests),
            Self::LinkBytes(_) => Some(Capability::LinkTraffic),
            _ => None,
        };
        self.with_parts().into_iter().filter_map(of).collect()
    }

    /// The triggers that it is made of, then itself.
    pub(super) fn with_parts(&self) -> Vec<&Self> {
        let mut all = match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::with_parts).collect(),
            Self::After { trigger, .. } | Self::Not(trigger) => trigger.with_parts(),
            _ => vec![],
        };
        all.push(self);
        all
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
            Self::CheckpointsTriggered(1) => f.write_str("when 1 checkpoint has been triggered"),
            Self::CheckpointsTriggered(count) => write!(f, "when {count} checkpoints have been triggered"),
            Self::CheckpointInProgress => f.write_str("while a checkpoint is being taken"),
            Self::CheckpointsCompleted(1) => f.write_str("when 1 checkpoint has completed"),
            Self::CheckpointsCompleted(count) => write!(f, "when {count} checkpoints have completed"),
            Self::CheckpointsSinceHealed { fault, count } => {
                write!(f, "{} after `{fault}` was healed", counted(*count, "checkpoint"))
            }
            Self::FaultInjected(fault) => write!(f, "when `{fault}` is in place"),
            Self::FaultEffective(fault) => write!(f, "when `{fault}` acts"),
            Self::FaultHealed(fault) => write!(f, "when `{fault}` is healed"),
            Self::ProbesSince { fault, count } => {
                write!(f, "{} after `{fault}` acts", counted(*count, "answered probe"))
            }
            Self::ProbeAnswer(answer) => write!(f, "when a probe is answered with {answer}"),
            Self::StoreRequests { operation, key, count } => {
                write!(f, "when the store has had {count} {operation} of {key}")
            }
            Self::LinkBytes(bytes) => write!(f, "when {bytes} bytes have passed to and from the store"),
            Self::After { trigger, ms } => write!(f, "{ms} ms after the moment: {trigger}"),
            Self::Not(trigger) => write!(f, "as soon as it is not true any more: {trigger}"),
            Self::All(all) => joined(f, all, " and "),
            Self::Any(any) => joined(f, any, " or "),
            Self::Never => f.write_str("at the end of the run"),
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, parts: &[Trigger], word: &str) -> fmt::Result {
    for (position, trigger) in parts.iter().enumerate() {
        write!(f, "{}{trigger}", if position == 0 { "" } else { word })?;
    }
    Ok(())
}
