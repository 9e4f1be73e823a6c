//! Executors that run in this process, and a job that is deployed to them by hand.

use std::collections::BTreeMap;
use std::path::PathBuf;

use stormproof_coordinator::config::{ExecutorConfig, Ready, StoreConfig};
use stormproof_coordinator::executor::{self, ExecutorError};
use stormproof_coordinator::graph::{
    AttemptId, DistributionPattern, ExecutorId, JobGraph, JobRegistry, Params, PartitionId, ResultPartitionId, TaskId,
};
use stormproof_coordinator::runtime::protocol::{
    InputChannel, InputGate, OutputDescriptor, TaskDeployment, ToExecutor,
};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{Coordinator, DEADLINE, JOB, Log};

/// An executor on this runtime.
pub(crate) struct Executor {
    pub(crate) name: String,
    pub(crate) data: String,
    pub(crate) work_dir: PathBuf,
    shutdown: Option<oneshot::Sender<()>>,
    process: JoinHandle<Result<(), ExecutorError>>,
}

impl Executor {
    pub(crate) async fn start(coordinator: &Coordinator, config: ExecutorConfig, registry: &JobRegistry) -> Self {
        let (name, work_dir, registry) = (config.name.clone(), config.work_dir.clone(), registry.clone());
        let (ready_sender, ready) = oneshot::channel::<Ready>();
        let (shutdown, asked) = oneshot::channel();
        let process = tokio::spawn(async move {
            let on_ready = |ready| ready_sender.send(ready).unwrap();
            executor::run(config, registry, on_ready, async { drop(asked.await) }).await
        });
        let data = ready.await.unwrap().data.unwrap();
        let registered = |log: &Log| log.hellos.iter().any(|hello| hello.data_address == data).then_some(());
        coordinator.wait("registration", registered).await;
        Self { name, data, work_dir, shutdown: Some(shutdown), process }
    }

    /// Ends it as a kill would: all sockets close, nobody says good-bye.
    pub(crate) async fn kill(mut self) {
        self.process.abort();
        assert!((&mut self.process).await.unwrap_err().is_cancelled());
    }

    pub(crate) async fn shut_down(mut self) -> Result<(), ExecutorError> {
        self.shutdown.take().unwrap().send(()).unwrap();
        self.ended().await
    }

    pub(crate) async fn ended(mut self) -> Result<(), ExecutorError> {
        tokio::time::timeout(DEADLINE, &mut self.process).await.unwrap().unwrap()
    }
}

/// A coordinator, executors, and a job that is deployed by hand.
pub(crate) struct Cluster {
    pub(crate) coordinator: Coordinator,
    pub(crate) executors: Vec<Executor>,
    pub(crate) graph: JobGraph,
    pub(crate) checkpointing: bool,
    pub(crate) folder: TempDir,
    registry: JobRegistry,
}

impl Cluster {
    /// `executors` of them, and the job that `build` builds.
    pub(crate) async fn start(executors: usize, build: impl Fn() -> JobGraph + Send + Sync + 'static) -> Self {
        Self::with_settings(executors, &[], build).await
    }

    pub(crate) async fn with_settings(
        executors: usize,
        settings: &[(&str, &str)],
        build: impl Fn() -> JobGraph + Send + Sync + 'static,
    ) -> Self {
        Self::with_store(executors, settings, None, build).await
    }

    pub(crate) async fn with_store(
        executors: usize,
        settings: &[(&str, &str)],
        store: Option<StoreConfig>,
        build: impl Fn() -> JobGraph + Send + Sync + 'static,
    ) -> Self {
        let coordinator = Coordinator::start().await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("chaos")).unwrap();
        let graph = build();
        let mut registry = JobRegistry::default();
        registry.register("job", move |_| Ok(build()));
        let mut cluster = Self { coordinator, executors: vec![], graph, checkpointing: false, folder, registry };
        for number in 1..=executors {
            let mut config = cluster.config(&format!("executor-{number}"));
            config.store = store.clone();
            config.settings = settings.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            cluster.executors.push(Executor::start(&cluster.coordinator, config, &cluster.registry).await);
        }
        cluster
    }

    pub(crate) fn config(&self, name: &str) -> ExecutorConfig {
        ExecutorConfig {
            name: name.to_owned(),
            slots: 4,
            ha_dir: self.coordinator.ha.path().to_owned(),
            work_dir: self.folder.path().join(name),
            data_address: "127.0.0.1:0".into(),
            store: None,
            chaos_dir: Some(self.folder.path().join("chaos")),
            routes: None,
            settings: BTreeMap::new(),
        }
    }

    /// Attempt `attempt` of a task.
    pub(crate) fn attempt(&self, vertex: &str, subtask: u32, attempt: u32) -> AttemptId {
        let vertex = self.graph.vertices.iter().find(|candidate| candidate.name == vertex).unwrap();
        AttemptId { job: JOB, task: TaskId { vertex: vertex.id, subtask }, attempt }
    }

    /// Subtasks alternate between executors.
    pub(crate) fn place(&self, subtask: u32) -> &Executor {
        &self.executors[subtask as usize % self.executors.len()]
    }

    /// What a coordinator would send: attempt `attempt`, reading attempt `producers` of its producers.
    pub(crate) fn deployment(&self, vertex: &str, subtask: u32, attempt: u32, producers: u32) -> TaskDeployment {
        let position = self.graph.vertices.iter().position(|candidate| candidate.name == vertex).unwrap();
        let this = &self.graph.vertices[position];
        let result = |position: usize, data_set, subtask, attempt| ResultPartitionId {
            partition: PartitionId { producer: TaskId { vertex: self.graph.vertices[position].id, subtask }, data_set },
            attempt,
        };
        let inputs = self.graph.inputs(position).map(|edge| {
            let channel = |producer: u32, subpartition: u32| InputChannel {
                job: JOB,
                partition: result(edge.from, edge.data_set, producer, producers),
                subpartition,
                executor: ExecutorId(self.place(producer).name.clone()),
                address: self.place(producer).data.clone(),
            };
            let channels = match edge.ship.pattern() {
                DistributionPattern::Pointwise => vec![channel(subtask, 0)],
                DistributionPattern::AllToAll => {
                    (0..self.graph.vertices[edge.from].parallelism).map(|producer| channel(producer, subtask)).collect()
                }
            };
            InputGate { partition_type: edge.partition_type, channels }
        });
        let outputs = self.graph.outputs(position).map(|edge| OutputDescriptor {
            partition: result(position, edge.data_set, subtask, attempt),
            partition_type: edge.partition_type,
            ship: edge.ship,
            subpartitions: match edge.ship.pattern() {
                DistributionPattern::Pointwise => 1,
                DistributionPattern::AllToAll => self.graph.vertices[edge.to].parallelism,
            },
        });
        TaskDeployment {
            attempt: AttemptId { job: JOB, task: TaskId { vertex: this.id, subtask }, attempt },
            job_name: "job".into(),
            params: Params::default(),
            vertex: vertex.to_owned(),
            parallelism: this.parallelism,
            checkpointing: self.checkpointing,
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            restore: None,
        }
    }

    pub(crate) fn send_deployment(&self, deployment: TaskDeployment) -> AttemptId {
        let attempt = deployment.attempt;
        let executor = self.place(attempt.task.subtask).name.clone();
        self.coordinator.send(&executor, ToExecutor::Deploy(Box::new(deployment)));
        attempt
    }

    /// Deploys all subtasks of a vertex as attempt `attempt`, reading attempt `producers`.
    pub(crate) fn deploy(&self, vertex: &str, attempt: u32, producers: u32) -> Vec<AttemptId> {
        let this = self.graph.vertices.iter().find(|candidate| candidate.name == vertex).unwrap();
        (0..this.parallelism)
            .map(|subtask| self.send_deployment(self.deployment(vertex, subtask, attempt, producers)))
            .collect()
    }

    /// Deploys everything as attempt 0.
    pub(crate) fn deploy_all(&self) -> Vec<AttemptId> {
        let names: Vec<_> = self.graph.vertices.iter().map(|vertex| vertex.name.clone()).collect();
        names.iter().flat_map(|name| self.deploy(name, 0, 0)).collect()
    }

    /// Sends a message about an attempt to where it runs.
    pub(crate) fn tell(&self, attempt: AttemptId, message: ToExecutor) {
        self.coordinator.send(&self.place(attempt.task.subtask).name, message);
    }

    pub(crate) fn fault(&self, name: &str) {
        std::fs::write(self.folder.path().join("chaos").join(name), "").unwrap();
    }

    /// Ends all executors; their work folders must be gone.
    pub(crate) async fn shut_down(self) {
        for executor in self.executors {
            let work_dir = executor.work_dir.clone();
            executor.shut_down().await.unwrap();
            assert!(!work_dir.exists(), "{} was left behind", work_dir.display());
        }
    }
}
