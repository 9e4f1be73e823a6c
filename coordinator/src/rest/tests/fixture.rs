//! A cluster of fixed snapshots.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::core::data_sets::ReleaseState;
use crate::core::snapshot::{
    AttemptSnapshot, CheckpointEntry, CheckpointEntryStatus, CheckpointStats, EdgeSnapshot, ExceptionEntry,
    JobSnapshot, RestoredEntry, SubtaskSnapshot, VertexSnapshot,
};
use crate::core::status::{ExecutionState, JobStatus};
use crate::graph::{DataSetId, ExecutorId, JobGraphError, JobId, JobKind, ResultPartitionType, ShipStrategy, VertexId};
use crate::rest::cluster::{CancelError, Cluster, ExecutorView, Submission, SubmitError};
use crate::runtime::protocol::TaskMetrics;

/// A running job.
pub(super) const JOB: JobId = JobId([0xab; 16]);
/// A job whose JobMaster does not exist yet.
pub(super) const INIT: JobId = JobId([0xcd; 16]);
/// A finished job without checkpoints.
const DONE: JobId = JobId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);

/// A data set that is whole.
pub(super) const DATA_SET: DataSetId = DataSetId([0xda; 16]);
/// A data set that is being released.
pub(super) const RELEASING: DataSetId = DataSetId([0xdb; 16]);

#[derive(Debug, Default)]
struct Calls {
    not_leading: bool,
    submitted: Vec<Submission>,
    cancelled: Vec<JobId>,
    released: Vec<DataSetId>,
}

#[derive(Debug)]
pub(super) struct FakeCluster {
    jobs: BTreeMap<JobId, Arc<JobSnapshot>>,
    calls: Mutex<Calls>,
}

impl FakeCluster {
    pub(super) fn new() -> Self {
        let jobs = [job(), initializing(), done()].map(|job| (job.id, Arc::new(job)));
        Self { jobs: BTreeMap::from(jobs), calls: Mutex::default() }
    }

    pub(super) fn lead(&self, leads: bool) {
        self.calls.lock().unwrap().not_leading = !leads;
    }

    pub(super) fn submitted(&self) -> Vec<Submission> {
        self.calls.lock().unwrap().submitted.clone()
    }

    pub(super) fn cancelled(&self) -> Vec<JobId> {
        self.calls.lock().unwrap().cancelled.clone()
    }

    pub(super) fn released(&self) -> Vec<DataSetId> {
        self.calls.lock().unwrap().released.clone()
    }
}

#[async_trait]
impl Cluster for FakeCluster {
    fn is_leader(&self) -> bool {
        !self.calls.lock().unwrap().not_leading
    }

    fn jobs(&self) -> Vec<Arc<JobSnapshot>> {
        self.jobs.values().cloned().collect()
    }

    fn job(&self, id: JobId) -> Option<Arc<JobSnapshot>> {
        self.jobs.get(&id).cloned()
    }

    fn executors(&self) -> Vec<ExecutorView> {
        vec![ExecutorView {
            id: ExecutorId("executor-1".into()),
            pid: 4711,
            path: "127.0.0.1:5000".into(),
            data_address: "127.0.0.1:6000".into(),
            last_heartbeat_ms: 1234,
            slots: 2,
            free_slots: 1,
            partitions: 5,
        }]
    }

    fn data_sets(&self) -> BTreeMap<DataSetId, bool> {
        BTreeMap::from([(DATA_SET, true), (RELEASING, false)])
    }

    fn release_data_set(&self, id: DataSetId) {
        self.calls.lock().unwrap().released.push(id);
    }

    fn data_set_release(&self, id: DataSetId) -> Option<ReleaseState> {
        let state = if id == RELEASING { ReleaseState::InProgress } else { ReleaseState::Completed };
        (id != DATA_SET).then_some(state)
    }

    fn job_names(&self) -> Vec<String> {
        vec!["word count".into()]
    }

    fn config(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("web.refresh-interval".into(), "100 ms".into())])
    }

    async fn submit(&self, submission: Submission) -> Result<JobId, SubmitError> {
        if !self.job_names().contains(&submission.job) {
            return Err(JobGraphError::UnknownJob { name: submission.job, known: self.job_names() }.into());
        }
        let id = submission.id.unwrap_or(JobId([1; 16]));
        let mut calls = self.calls.lock().unwrap();
        if calls.submitted.iter().any(|earlier| earlier.id == Some(id)) {
            return Err(SubmitError::Duplicate(id));
        }
        calls.submitted.push(submission);
        Ok(id)
    }

    async fn cancel(&self, id: JobId) -> Result<(), CancelError> {
        let job = self.job(id).ok_or(CancelError::NotFound(id))?;
        if job.status == JobStatus::Finished {
            return Err(CancelError::AlreadyTerminal(id, job.status.name()));
        }
        self.calls.lock().unwrap().cancelled.push(id);
        Ok(())
    }
}

fn attempt(number: u32, state: ExecutionState, placed: bool, times: &[(ExecutionState, u64)]) -> AttemptSnapshot {
    AttemptSnapshot {
        attempt: number,
        state,
        executor: placed.then(|| ExecutorId("executor-1".into())),
        endpoint: placed.then(|| "127.0.0.1:6000".into()),
        timestamps: times.iter().copied().collect(),
        metrics: TaskMetrics { read_records: 10, write_records: 5, read_bytes: 100, write_bytes: 50 },
        failure: (state == ExecutionState::Failed).then(|| "boom".into()),
    }
}

fn vertices() -> Vec<VertexSnapshot> {
    use ExecutionState::{Created, Deploying, Failed, Initializing, Running, Scheduled};
    let running = |number, base: u64| {
        let times = [
            (Created, base),
            (Scheduled, base + 1),
            (Deploying, base + 2),
            (Initializing, base + 3),
            (Running, base + 4),
        ];
        attempt(number, Running, true, &times)
    };
    let failed =
        attempt(0, Failed, true, &[(Created, 100), (Scheduled, 110), (Deploying, 120), (Running, 130), (Failed, 150)]);
    let source = SubtaskSnapshot { current: running(0, 100), earlier: vec![] };
    let restarted = SubtaskSnapshot { current: running(1, 200), earlier: vec![failed] };
    let queued = SubtaskSnapshot { current: attempt(0, Created, false, &[(Created, 200)]), earlier: vec![] };
    vec![
        VertexSnapshot { id: VertexId::of_name("source"), name: "source".into(), subtasks: vec![source] },
        VertexSnapshot { id: VertexId::of_name("map"), name: "map".into(), subtasks: vec![restarted, queued] },
    ]
}

fn checkpoint(id: u64, status: CheckpointEntryStatus) -> CheckpointEntry {
    CheckpointEntry {
        id,
        status,
        trigger_ms: 500,
        latest_ack_ms: Some(520),
        state_size: 2150,
        num_subtasks: 3,
        num_acknowledged: 3,
        external_path: Some(format!("s3://checkpoints/x/chk-{id}")),
        discarded: false,
    }
}

fn exception(task: Option<&str>, labels: &[(&str, &str)]) -> ExceptionEntry {
    ExceptionEntry {
        name: "TaskError".into(),
        stacktrace: "boom\nbecause".into(),
        timestamp_ms: 150,
        task_name: task.map(ToOwned::to_owned),
        endpoint: task.map(|_| "127.0.0.1:6000".into()),
        executor: task.map(|_| ExecutorId("executor-1".into())),
        id: None,
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        concurrent: vec![],
    }
}

fn job() -> JobSnapshot {
    let failed = CheckpointEntryStatus::Failed { at_ms: 530, message: "Checkpoint expired before completing.".into() };
    let checkpoints = CheckpointStats {
        restored: 1,
        total: 44,
        in_progress: 0,
        completed: 40,
        failed: 4,
        history: vec![checkpoint(44, failed), checkpoint(43, CheckpointEntryStatus::Completed)],
        latest_restored: Some(RestoredEntry { id: 14, restore_ms: 160, external_path: "s3://x/chk-14".into() }),
        interval_ms: 500,
    };
    JobSnapshot {
        id: JOB,
        name: "word count".into(),
        kind: JobKind::Streaming,
        status: JobStatus::Running,
        start_ms: 90,
        end_ms: None,
        timestamps: BTreeMap::from([(JobStatus::Initializing, 90), (JobStatus::Created, 95), (JobStatus::Running, 96)]),
        vertices: vertices(),
        edges: vec![EdgeSnapshot {
            from: 0,
            to: 1,
            partition_type: ResultPartitionType::PipelinedBounded,
            ship: ShipStrategy::Hash,
        }],
        exceptions: vec![exception(Some("map (1/2) - execution #0"), &[]), exception(None, &[])],
        checkpoints: Some(checkpoints),
        restarts: 3,
        config: BTreeMap::from([("restart-strategy.type".into(), "fixed-delay".into())]),
    }
}

fn initializing() -> JobSnapshot {
    JobSnapshot {
        id: INIT,
        status: JobStatus::Initializing,
        timestamps: BTreeMap::from([(JobStatus::Initializing, 90)]),
        vertices: vec![],
        edges: vec![],
        exceptions: vec![],
        checkpoints: None,
        restarts: 0,
        ..job()
    }
}

fn done() -> JobSnapshot {
    JobSnapshot {
        id: DONE,
        status: JobStatus::Finished,
        end_ms: Some(400),
        vertices: vec![],
        exceptions: vec![exception(None, &[]), exception(None, &[("type", "system"), ("team", "maps")])],
        checkpoints: None,
        ..job()
    }
}
