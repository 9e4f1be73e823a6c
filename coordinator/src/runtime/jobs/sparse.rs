//! Snapshots of jobs that have no JobMaster (Flink's sparse execution graph, reference 6.6).

use std::collections::BTreeMap;

use super::define::Definition;
use crate::core::event::Millis;
use crate::core::snapshot::{CheckpointStats, ExceptionEntry, JobSnapshot};
use crate::core::status::JobStatus;
use crate::graph::{FailureLabels, JobId, JobKind};
use crate::leadership::{JobRecord, JobResult};

fn empty(id: JobId, name: String, start_ms: Millis) -> JobSnapshot {
    JobSnapshot {
        id,
        name,
        kind: JobKind::Streaming,
        status: JobStatus::Initializing,
        start_ms,
        end_ms: None,
        timestamps: BTreeMap::from([(JobStatus::Initializing, start_ms)]),
        vertices: vec![],
        edges: vec![],
        exceptions: vec![],
        checkpoints: None,
        restarts: 0,
        config: BTreeMap::new(),
    }
}

/// A job that is INITIALIZING; its graph is known if `definition` is.
pub(crate) fn initializing(record: &JobRecord, definition: Option<&Definition>) -> JobSnapshot {
    let mut snapshot = empty(record.id, record.job.clone(), record.submitted_ms);
    match definition {
        None => snapshot.config = record.config.clone(),
        Some(Definition { graph, config, shown }) => {
            snapshot.name = graph.name.clone();
            snapshot.kind = graph.kind;
            snapshot.config = shown.clone();
            snapshot.checkpoints = config
                .core
                .checkpoint_interval_ms
                .map(|interval_ms| CheckpointStats { interval_ms, ..CheckpointStats::default() });
        }
    }
    snapshot
}

/// `before`, in another status since `now`.
pub(crate) fn in_status(before: &JobSnapshot, status: JobStatus, now: Millis) -> JobSnapshot {
    let mut snapshot = before.clone();
    snapshot.status = status;
    snapshot.timestamps.insert(status, now);
    if status.is_globally_terminal() {
        snapshot.end_ms = Some(now);
    }
    snapshot
}

/// `before`, FAILED before it had a JobMaster (P246).
pub(crate) fn failed(before: &JobSnapshot, causes: &[String], now: Millis) -> JobSnapshot {
    in_status(&troubled(before, causes, now), JobStatus::Failed, now)
}

/// `before`, with what keeps it from starting as the one, global entry of its exception history.
pub(crate) fn troubled(before: &JobSnapshot, causes: &[String], now: Millis) -> JobSnapshot {
    const NAME: &str = "JobInitializationException";
    // In the form of every other failure, so that clients find the causes.
    let causes = causes.iter().map(|cause| format!("\nCaused by: {cause}"));
    let stacktrace = format!("{NAME}: could not start the JobMaster{}", causes.collect::<String>());
    let mut snapshot = before.clone();
    snapshot.exceptions = vec![global_entry(NAME, stacktrace, now)];
    snapshot
}

fn global_entry(name: &str, stacktrace: String, timestamp_ms: Millis) -> ExceptionEntry {
    ExceptionEntry {
        name: name.to_owned(),
        stacktrace,
        timestamp_ms,
        task_name: None,
        endpoint: None,
        executor: None,
        id: None,
        labels: FailureLabels::new(),
        concurrent: vec![],
    }
}

/// A job that ended under an earlier leader: all that is left is its result.
pub(crate) fn of_result(result: &JobResult) -> JobSnapshot {
    let mut snapshot = empty(result.id, result.name.clone(), result.start_ms);
    snapshot = in_status(&snapshot, result.status, result.end_ms);
    if let Some(failure) = &result.failure {
        snapshot.exceptions = vec![global_entry("JobFailed", failure.clone(), result.end_ms)];
    }
    snapshot
}
