//! Jobs and settings for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::core::checkpoint::TaskSnapshotHandle;
use crate::core::job::{CachedDataSets, JobSettings, JobSpec};
use crate::core::restart_strategy::RestartStrategyConfig;
use crate::graph::{
    AttemptId, JobGraph, JobId, JobKind, Params, ResultPartitionType, ShipStrategy, TaskError, TaskId, VertexHandle,
    VertexId,
};

pub(super) const JOB: JobId = JobId([7; 16]);

pub(super) fn graph(
    kind: JobKind,
    vertices: &[(&str, u32)],
    edges: &[(&str, &str, ShipStrategy, ResultPartitionType)],
) -> JobGraph {
    try_graph(kind, vertices, edges).expect("test graphs are valid")
}

/// The same, or none if the builder refuses it.
pub(super) fn try_graph(
    kind: JobKind,
    vertices: &[(&str, u32)],
    edges: &[(&str, &str, ShipStrategy, ResultPartitionType)],
) -> Option<JobGraph> {
    let mut builder = JobGraph::builder("test", kind);
    let mut handles: BTreeMap<&str, VertexHandle> = BTreeMap::new();
    for &(name, parallelism) in vertices {
        let handle = if edges.iter().any(|edge| edge.1 == name) {
            builder.operator(name, parallelism, |_| Err(TaskError::new("not run")))
        } else if name.starts_with("split") {
            builder.split_source(name, parallelism, Arc::new(|| Ok(vec![])), |_| Err(TaskError::new("not run")))
        } else {
            builder.source(name, parallelism, |_| Err(TaskError::new("not run")))
        };
        handles.insert(name, handle);
    }
    for &(from, to, ship, kind) in edges {
        builder.connect(handles[from], handles[to], ship, kind);
    }
    builder.build().ok()
}

/// Settings with a restart strategy that never refuses and waits `delay_ms`.
pub(super) fn restarting(delay_ms: u64) -> JobSettings {
    JobSettings {
        restart: RestartStrategyConfig::FixedDelay { attempts: u32::MAX, delay_ms },
        ..JobSettings::default()
    }
}

pub(super) fn spec(graph: JobGraph, settings: JobSettings) -> JobSpec {
    JobSpec {
        id: JOB,
        job_name: "test".into(),
        params: Params::default(),
        graph,
        settings,
        config: BTreeMap::new(),
        submitted_ms: 900,
        restored: vec![],
        data_sets: CachedDataSets::new(),
        seed: 42,
    }
}

pub(super) fn task(vertex: &str, subtask: u32) -> TaskId {
    TaskId { vertex: VertexId::of_name(vertex), subtask }
}

/// What [`World::acknowledge_all`] acknowledges with.
pub(super) fn state_of(attempt: AttemptId, checkpoint: u64) -> TaskSnapshotHandle {
    let AttemptId { task, attempt, .. } = attempt;
    TaskSnapshotHandle::File { key: format!("chk-{checkpoint}/{}-{}-{attempt}", task.vertex, task.subtask), size: 10 }
}
