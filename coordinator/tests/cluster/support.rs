//! Starts coordinators, waits for facts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use stormproof_coordinator::config::{CoordinatorConfig, Ready, StoreConfig};
use stormproof_coordinator::core::snapshot::{JobSnapshot, SubtaskSnapshot};
use stormproof_coordinator::core::status::JobStatus;
use stormproof_coordinator::graph::{Collector, Operator, Record};
use stormproof_coordinator::graph::{
    JobGraph, JobId, JobKind, JobRegistry, Params, ResultPartitionType, ShipStrategy, Source, SourceStatus,
    TaskContext, TaskError,
};
use stormproof_coordinator::rest::cluster::{Cluster, Submission};
use stormproof_coordinator::runtime::{Coordinator, CoordinatorError};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long a fact may take to become true. Only ever waited for in full by a test that fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until `fact` gives something.
pub(crate) async fn eventually<T>(what: &str, mut fact: impl FnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(value) = fact() {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("still not true: {what}"))
}

/// What coordinators of one cluster share.
pub(crate) struct Setup {
    pub(crate) folder: TempDir,
    pub(crate) store: Option<StoreConfig>,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) registry: JobRegistry,
}

impl Setup {
    pub(crate) fn new(registry: JobRegistry, settings: &[(&str, &str)]) -> Self {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Self { folder: tempfile::tempdir().unwrap(), store: None, settings, registry }
    }

    pub(crate) fn ha_dir(&self) -> std::path::PathBuf {
        self.folder.path().join("ha")
    }

    pub(crate) fn config(&self, name: &str) -> CoordinatorConfig {
        CoordinatorConfig {
            name: name.to_owned(),
            ha_dir: self.ha_dir(),
            rest_address: "127.0.0.1:0".to_owned(),
            rpc_address: "127.0.0.1:0".to_owned(),
            store: self.store.clone(),
            settings: self.settings.clone(),
        }
    }

    /// A coordinator; it may be a standby.
    pub(crate) async fn start(&self, name: &str) -> Running {
        let coordinator = Coordinator::bind(self.config(name), self.registry.clone()).await.unwrap();
        let (ready, cluster) = (coordinator.ready(), coordinator.cluster());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(coordinator.run(async move {
            let _ = stopped.await;
        }));
        Running { ready, cluster, stop, task }
    }

    /// A coordinator that leads.
    pub(crate) async fn lead(&self) -> Running {
        let running = self.start("coordinator-1").await;
        running.leads().await;
        running
    }
}

/// A running coordinator.
pub(crate) struct Running {
    pub(crate) ready: Ready,
    pub(crate) cluster: Arc<dyn Cluster>,
    stop: oneshot::Sender<()>,
    pub(crate) task: JoinHandle<Result<(), CoordinatorError>>,
}

impl Running {
    pub(crate) async fn leads(&self) {
        eventually("it leads", || self.cluster.is_leader().then_some(())).await;
    }

    /// Ends it cleanly.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap().unwrap();
    }

    pub(crate) fn rpc(&self) -> &str {
        self.ready.rpc.as_deref().unwrap()
    }

    /// Submits a job with configuration.
    pub(crate) async fn submit(&self, job: &str, config: &[(&str, &str)]) -> JobId {
        self.cluster.submit(submission(job, config)).await.unwrap()
    }

    pub(crate) fn job(&self, id: JobId) -> Arc<JobSnapshot> {
        self.cluster.job(id).unwrap_or_else(|| panic!("no job {id}"))
    }

    /// Waits until the job has this status.
    pub(crate) async fn status(&self, id: JobId, status: JobStatus) -> Arc<JobSnapshot> {
        self.fact(id, status.name(), |job| {
            assert!(
                job.status == status || !job.status.is_globally_terminal(),
                "{} while waiting for {}: {:#?}",
                job.status.name(),
                status.name(),
                job.exceptions
            );
            job.status == status
        })
        .await
    }

    /// Waits until `fact` is true of the job.
    pub(crate) async fn fact(&self, id: JobId, what: &str, fact: impl Fn(&JobSnapshot) -> bool) -> Arc<JobSnapshot> {
        eventually(what, || self.cluster.job(id).filter(|job| fact(job))).await
    }

    /// GET, parsed.
    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let url = format!("http://{}{path}", self.ready.rest.as_deref().unwrap());
        let answer = reqwest::get(&url).await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }
}

pub(crate) fn submission(job: &str, config: &[(&str, &str)]) -> Submission {
    let config = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Submission { job: job.to_owned(), params: Params::default(), config, id: None }
}

/// Attempt numbers of all subtasks, by vertex.
pub(crate) fn attempts(job: &JobSnapshot) -> Vec<Vec<u32>> {
    let number = |subtask: &SubtaskSnapshot| subtask.current.attempt;
    job.vertices.iter().map(|vertex| vertex.subtasks.iter().map(number).collect()).collect()
}

/// User code that scripted executors never run.
pub(crate) struct Never;

impl Source for Never {
    fn poll(&mut self, _: &mut dyn TaskContext, _: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
        Ok(SourceStatus::Finished)
    }
}

impl Operator for Never {
    fn process(
        &mut self,
        _: usize,
        _: Record,
        _: &mut dyn TaskContext,
        _: &mut dyn Collector,
    ) -> Result<(), TaskError> {
        Ok(())
    }
}

/// `two-stage`: map ×2 → reduce ×2, blocking, so three kinds of regions: two maps, two reduces. `lonely`: one
/// source ×4, four regions. `stream`: source ×1 → sink ×1, pipelined; `hybrid`: the same, hybrid.
pub(crate) fn registry() -> JobRegistry {
    let mut registry = JobRegistry::default();
    registry.register("two-stage", |_: &Params| {
        let mut graph = JobGraph::builder("two stages", JobKind::Batch);
        let map = graph.source("map", 2, |_| Ok(Box::new(Never)));
        let reduce = graph.operator("reduce", 2, |_| Ok(Box::new(Never)));
        graph.connect(map, reduce, ShipStrategy::Hash, ResultPartitionType::Blocking);
        graph.build()
    });
    registry.register("panics", |_: &Params| panic!("a mistake in user code"));
    registry.register("lonely", |_: &Params| {
        let mut graph = JobGraph::builder("lonely", JobKind::Batch);
        graph.source("source", 4, |_| Ok(Box::new(Never)));
        graph.build()
    });
    registry.register("stream", |_: &Params| {
        let mut graph = JobGraph::builder("stream", JobKind::Streaming);
        let source = graph.source("source", 1, |_| Ok(Box::new(Never)));
        let sink = graph.operator("sink", 1, |_| Ok(Box::new(Never)));
        graph.connect(source, sink, ShipStrategy::Hash, ResultPartitionType::PipelinedBounded);
        graph.build()
    });
    registry.register("hybrid", |_: &Params| {
        let mut graph = JobGraph::builder("hybrid", JobKind::Streaming);
        let source = graph.source("source", 1, |_| Ok(Box::new(Never)));
        let sink = graph.operator("sink", 1, |_| Ok(Box::new(Never)));
        graph.connect(source, sink, ShipStrategy::Hash, ResultPartitionType::HybridFull);
        graph.build()
    });
    registry
}
