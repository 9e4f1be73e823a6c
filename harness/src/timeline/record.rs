//! What can be recorded. Names of the engine (states, vertices, executors) are strings as the engine spells them:
//! a timeline of a future Flink must stay readable.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::oracle::Expectation;
use crate::verdict::Verdict;

/// One recorded fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Number, from 0, without gaps unless records were dropped.
    pub seq: u64,
    /// Milliseconds since the run started, monotonic.
    pub at_ms: u64,
    /// Milliseconds since the epoch, for people.
    pub wall_ms: u64,
    /// The fact.
    pub kind: RecordKind,
}

/// Kinds of facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// First record of a run.
    RunStarted(RunStart),
    /// What the run is judged by; one record each.
    Expected(Expectation),
    /// What the plan expects but this target does not let us see: it is not judged, and the report says so.
    Waived {
        /// What would be judged.
        expectation: Expectation,
        /// Why it is not.
        reason: String,
    },
    /// A job was accepted.
    JobSubmitted {
        /// Identifier.
        job: String,
        /// For people.
        name: String,
    },
    /// The job's plan as the engine shows it; again whenever it grew.
    Plan {
        /// The job.
        job: String,
        /// Vertices and edges.
        plan: ObservedPlan,
    },
    /// The job changed state.
    JobStatus {
        /// The job.
        job: String,
        /// Flink's name, e.g. `RESTARTING`.
        status: String,
    },
    /// A task changed state, attempt or executor.
    TaskState {
        /// The job.
        job: String,
        /// The task.
        task: TaskName,
        /// Attempt number, from 0.
        attempt: u32,
        /// Flink's name, e.g. `RUNNING`.
        state: String,
        /// Where it runs or ran.
        executor: Option<String>,
    },
    /// Something happened to a checkpoint.
    Checkpoint {
        /// The job.
        job: String,
        /// The checkpoint.
        id: u64,
        /// What.
        event: CheckpointEvent,
    },
    /// A failure in the engine's exception history.
    Exception {
        /// The job.
        job: String,
        /// Its name, e.g. `PartitionNotFoundException`.
        name: String,
        /// The failed task as the engine words it.
        task: Option<String>,
        /// The failure and what caused it, in one line.
        message: String,
    },
    /// A counter of the engine, e.g. `numRestarts`.
    Metric {
        /// The job.
        job: String,
        /// Name.
        name: String,
        /// Value.
        value: f64,
    },
    /// An executor is there.
    ExecutorRegistered {
        /// Its name.
        executor: String,
        /// Its process, where known.
        pid: Option<u32>,
    },
    /// An executor is gone.
    ExecutorLost {
        /// Its name.
        executor: String,
    },
    /// Something happened to a fault.
    Fault {
        /// The fault's name within the plan.
        fault: String,
        /// What.
        event: FaultEvent,
    },
    /// A request that the object store answered (or refused).
    StoreRequest {
        /// S3's name, e.g. `GetObject`.
        op: String,
        /// Object key, or prefix for a listing.
        key: String,
        /// HTTP status; 0 if the connection was cut instead.
        status: u16,
        /// Bytes of the body.
        bytes: u64,
    },
    /// How much has passed the link to the object store. Only looked at if a trigger waits for it.
    LinkTraffic {
        /// Both ways together, since the run started.
        bytes: u64,
    },
    /// One probe of the control plane.
    Probe {
        /// What was asked, e.g. `job`.
        probe: String,
        /// When it was due, milliseconds since the run started.
        due_ms: u64,
        /// From when it was due to the answer, microseconds: a late start counts.
        latency_us: u64,
        /// The answer.
        answer: ProbeAnswer,
    },
    /// The job's output was compared with what it must be.
    Output {
        /// Records that must be there.
        expected: u64,
        /// Distinct expected records that are there.
        seen: u64,
        /// Expected records that are not.
        lost: u64,
        /// Surplus copies of expected records.
        doubled: u64,
        /// Records that should not exist at all.
        alien: u64,
        /// A few of the lost, doubled or alien ones.
        examples: Vec<String>,
    },
    /// What was looked for after the run, and found.
    Leftovers {
        /// E.g. `processes`, `partitions`, `checkpoints`, `toxics`.
        what: String,
        /// Number of things looked at.
        looked_at: u64,
        /// What should not be there.
        found: Vec<String>,
    },
    /// For people.
    Note {
        /// Text.
        text: String,
    },
    /// The runner's own word on the run: refused, precondition, skipped, invalid.
    Outcome {
        /// The verdict.
        verdict: Verdict,
        /// Why.
        reason: String,
    },
    /// So many records did not fit: see [`super::recorder::MAX_RECORDS`].
    Dropped {
        /// How many.
        count: u64,
    },
    /// Last record of a run that was carried through, healing included.
    RunEnded,
}

/// What is needed to say what was run and to run it again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStart {
    /// Name of the suite.
    pub suite: String,
    /// What it does, one sentence.
    #[serde(default)]
    pub about: String,
    /// Hash of the resolved plan, hexadecimal.
    pub plan_hash: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The target, e.g. `bundled`.
    pub target: String,
    /// Engine and version, e.g. `Flink 2.3.0`.
    #[serde(default)]
    pub engine: String,
    /// The command that repeats the run.
    pub repeat: String,
}

/// A task: one subtask of a vertex. Shown as `count[1]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskName {
    /// The vertex.
    pub vertex: String,
    /// Index of the subtask, from 0.
    pub subtask: u32,
}

impl TaskName {
    /// Subtask `subtask` of `vertex`.
    #[must_use]
    pub fn new(vertex: impl Into<String>, subtask: u32) -> Self {
        Self { vertex: vertex.into(), subtask }
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.vertex, self.subtask)
    }
}

/// A result partition. Shown as `read[0]`, or `read[0].1` where the data set is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionName {
    /// The producing task.
    pub producer: TaskName,
    /// Number of the data set among the producer's, from 0; all of them if absent.
    pub data_set: Option<u32>,
}

impl fmt::Display for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.producer)?;
        match self.data_set {
            Some(number) => write!(f, ".{number}"),
            None => Ok(()),
        }
    }
}

/// A job's plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedPlan {
    /// Vertices.
    pub vertices: Vec<ObservedVertex>,
    /// Edges; a vertex's inputs in order.
    pub edges: Vec<ObservedEdge>,
}

/// A vertex of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedVertex {
    /// Name, unique within the plan.
    pub name: String,
    /// Number of subtasks.
    pub parallelism: u32,
}

/// An edge of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedEdge {
    /// Producing vertex.
    pub from: String,
    /// Consuming vertex.
    pub to: String,
    /// Result partition type as REST spells it, e.g. `pipelined_bounded`.
    pub exchange: String,
    /// E.g. `FORWARD`.
    pub ship_strategy: String,
    /// Number of the data set among the producer's, where the engine tells. Else edges of one producer are numbered
    /// in the order of the plan.
    pub data_set: Option<u32>,
}

/// What happens to a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointEvent {
    /// It began.
    Triggered,
    /// It is durable.
    Completed {
        /// Bytes of state.
        bytes: u64,
    },
    /// It failed.
    Failed {
        /// Why.
        message: String,
    },
    /// Tasks were started from it.
    Restored,
}

/// What happens to a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultEvent {
    /// It is part of the plan.
    Described {
        /// In words, e.g. "kill executor-2 with SIGKILL when checkpoint 3 completed".
        what: String,
        /// It breaks nothing by itself and only holds the job still for another fault.
        #[serde(default)]
        is_stage_direction: bool,
    },
    /// It was put in place.
    Injected,
    /// The injection is done, as long after the fact that its trigger waited for.
    InPlace {
        /// Milliseconds; none if there was no such fact (it was to be there from the beginning).
        after_fact_ms: Option<u64>,
    },
    /// It is seen to act.
    Effective {
        /// What is gone because of it.
        losses: Losses,
    },
    /// The effect ledger: what it did so far, e.g. 12 "requests refused".
    Effects {
        /// How many.
        count: u64,
        /// Of what.
        what: String,
    },
    /// It was taken away.
    Healed,
    /// A probe confirmed that nothing of it is left.
    HealVerified,
    /// The injector broke: the run is invalid.
    Broke {
        /// What it tried, e.g. `inject`.
        step: String,
        /// Why it failed.
        error: String,
    },
}

/// What a fault took away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Executors, with every task and partition they held.
    #[serde(default)]
    pub executors: Vec<String>,
    /// Result partitions.
    #[serde(default)]
    pub partitions: Vec<PartitionName>,
    /// Tasks that were made to fail (user code).
    #[serde(default)]
    pub tasks: Vec<TaskName>,
    /// Executors that live on, but on which tasks may fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impaired: Vec<String>,
}

/// How a probe ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeAnswer {
    /// The control plane answered.
    Answered {
        /// What it said, e.g. the job's state.
        saw: String,
    },
    /// An answer that says "not now": 503, connection refused.
    Unavailable {
        /// In words.
        error: String,
    },
    /// An answer that should not be.
    Error {
        /// In words.
        error: String,
    },
    /// No answer within the probe's time.
    TimedOut,
    /// Too many probes were still waiting, so this one was not sent. It counts as unanswered.
    NotSent,
}
