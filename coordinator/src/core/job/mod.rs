//! One job as a pure state machine: `(state, event, now) -> commands`. The decisions follow; the signatures stand.

mod settings;
mod spec;

pub use settings::JobSettings;
pub use spec::{JobInitError, JobSpec, RestoredCheckpoint};

use super::event::{JobCommand, JobEvent, Millis};
use super::snapshot::JobSnapshot;
use super::status::JobStatus;
use super::topology::{LogicalGraph, Topology};

/// The state machine of one job.
///
/// Feed it every event in order through [`JobCore::handle`] and execute the commands it returns, in order. Time may
/// not run backwards: an earlier `now` counts as the latest one seen.
#[derive(Debug)]
pub struct JobCore {
    snapshot: JobSnapshot,
}

impl JobCore {
    /// A job that waits for [`JobEvent::Start`], in status CREATED.
    ///
    /// # Errors
    /// When the graph cannot run, or when the newest restored checkpoint is not one of this graph.
    pub fn new(spec: JobSpec, now: Millis) -> Result<Self, JobInitError> {
        Topology::build(LogicalGraph::of_job(&spec.graph))?;
        let snapshot = JobSnapshot {
            id: spec.id,
            name: spec.graph.name.clone(),
            kind: spec.graph.kind,
            status: JobStatus::Created,
            start_ms: spec.submitted_ms,
            end_ms: None,
            timestamps: [(JobStatus::Created, now)].into(),
            vertices: Vec::new(),
            edges: Vec::new(),
            exceptions: Vec::new(),
            checkpoints: None,
            restarts: 0,
            config: spec.config,
        };
        Ok(Self { snapshot })
    }

    /// Takes in one event and says what is to be done. A job that is over or suspended ignores all events.
    pub fn handle(&mut self, _event: JobEvent, _now: Millis) -> Vec<JobCommand> {
        Vec::new()
    }

    /// The job as it stands.
    #[must_use]
    pub fn snapshot(&self, _now: Millis) -> JobSnapshot {
        self.snapshot.clone()
    }

    /// The job's status.
    #[must_use]
    pub fn status(&self) -> JobStatus {
        self.snapshot.status
    }
}
