//! A coordinator that says what the test tells it to, and executors that run in this process.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stormproof_coordinator::config::{ExecutorConfig, Ready, StoreConfig};
use stormproof_coordinator::executor::{self, ExecutorError};
use stormproof_coordinator::graph::{
    AttemptId, DistributionPattern, ExecutorId, JobGraph, JobId, JobRegistry, Params, PartitionId, ResultPartitionId,
    Split, TaskId,
};
use stormproof_coordinator::leadership::LeaderInfo;
use stormproof_coordinator::runtime::frames::{FrameReader, FrameWriter, read_hello};
use stormproof_coordinator::runtime::protocol::{
    Hello, InputChannel, InputGate, OutputDescriptor, TaskDeployment, TaskMetrics, TaskUpdate, ToCoordinator,
    ToExecutor, Welcome,
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// Far beyond what any of this takes on a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) const JOB: JobId = JobId([0xab; 16]);

/// Everything executors said but heartbeats, in order of arrival.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) messages: Vec<ToCoordinator>,
    pub(crate) hellos: Vec<Hello>,
    /// From the newest heartbeat of each executor.
    pub(crate) partitions: BTreeMap<String, u32>,
    pub(crate) metrics: BTreeMap<AttemptId, TaskMetrics>,
    heartbeats: BTreeMap<String, u64>,
}

impl Log {
    pub(crate) fn update(&self, attempt: AttemptId, wanted: impl Fn(&TaskUpdate) -> bool) -> Option<TaskUpdate> {
        self.messages.iter().find_map(|message| match message {
            ToCoordinator::TaskUpdate { attempt: of, update, .. } if *of == attempt && wanted(update) => {
                Some(update.clone())
            }
            _ => None,
        })
    }
}

struct Shared {
    log: watch::Sender<Log>,
    connections: Mutex<BTreeMap<String, mpsc::UnboundedSender<ToExecutor>>>,
    splits: Mutex<VecDeque<Split>>,
}

/// The scripted coordinator.
pub(crate) struct Coordinator {
    shared: Arc<Shared>,
    pub(crate) ha: TempDir,
    acceptor: JoinHandle<()>,
}

impl Coordinator {
    pub(crate) async fn start() -> Self {
        let ha = tempfile::tempdir().unwrap();
        let shared = Arc::new(Shared {
            log: watch::Sender::new(Log::default()),
            connections: Mutex::default(),
            splits: Mutex::default(),
        });
        let acceptor = lead(ha.path(), 1, shared.clone()).await;
        Self { shared, ha, acceptor }
    }

    /// Another coordinator takes over; the old one just falls silent, as a partitioned leader would.
    pub(crate) async fn change_leader(&mut self, session: u64) {
        self.acceptor = lead(self.ha.path(), session, self.shared.clone()).await;
    }

    pub(crate) fn send(&self, executor: &str, message: ToExecutor) {
        self.shared.connections.lock().unwrap()[executor].send(message).unwrap();
    }

    /// Closes the connection of an executor.
    pub(crate) fn drop_connection(&self, executor: &str) {
        self.shared.connections.lock().unwrap().remove(executor).unwrap();
    }

    pub(crate) fn offer_splits(&self, payloads: &[&str]) {
        let splits = payloads.iter().enumerate().map(|(index, text)| Split {
            index: index as u32,
            label: format!("split {index}"),
            payload: text.as_bytes().to_vec(),
        });
        self.shared.splits.lock().unwrap().extend(splits);
    }

    /// Waits until `fact` gives something about what was said so far.
    pub(crate) async fn wait<T>(&self, what: &str, mut fact: impl FnMut(&Log) -> Option<T>) -> T {
        let mut log = self.shared.log.subscribe();
        let wait = async {
            loop {
                let found = fact(&log.borrow_and_update());
                if let Some(found) = found {
                    return found;
                }
                log.changed().await.unwrap();
            }
        };
        tokio::time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| {
            panic!("waited in vain for {what}; said so far: {:#?}", self.shared.log.borrow().messages)
        })
    }

    pub(crate) async fn wait_update(&self, attempt: AttemptId, wanted: impl Fn(&TaskUpdate) -> bool) -> TaskUpdate {
        self.wait(&format!("an update of {attempt:?}"), |log| log.update(attempt, &wanted)).await
    }

    pub(crate) async fn wait_end(&self, attempt: AttemptId) -> TaskUpdate {
        self.wait_update(attempt, |update| !matches!(update, TaskUpdate::Initializing | TaskUpdate::Running)).await
    }

    pub(crate) async fn wait_running(&self, attempts: &[AttemptId]) {
        for attempt in attempts {
            self.wait_update(*attempt, |update| *update == TaskUpdate::Running).await;
        }
    }

    pub(crate) async fn wait_finished(&self, attempts: &[AttemptId]) {
        for attempt in attempts {
            assert_eq!(self.wait_end(*attempt).await, TaskUpdate::Finished, "{attempt:?}");
        }
    }

    /// Two more heartbeats of `executor` have come: what it did before, they tell.
    pub(crate) async fn wait_partitions(&self, executor: &str, count: u32) {
        let what = format!("{count} partitions on {executor}");
        self.wait(&what, |log| (log.partitions.get(executor) == Some(&count)).then_some(())).await;
    }

    pub(crate) fn log<T>(&self, read: impl FnOnce(&Log) -> T) -> T {
        read(&self.shared.log.borrow())
    }
}

async fn lead(ha: &Path, session: u64, shared: Arc<Shared>) -> JoinHandle<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rpc = listener.local_addr().unwrap().to_string();
    let leader = LeaderInfo { session, name: format!("coordinator-{session}"), pid: 1, rest: String::new(), rpc };
    let temporary = ha.join("leader.tmp");
    std::fs::write(&temporary, serde_json::to_vec(&leader).unwrap()).unwrap();
    std::fs::rename(temporary, ha.join("leader.json")).unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(connection(stream, session, shared.clone()));
        }
    })
}

async fn connection(stream: tokio::net::TcpStream, session: u64, shared: Arc<Shared>) {
    stream.set_nodelay(true).unwrap();
    let (read, write) = stream.into_split();
    let (mut reader, mut writer) = (FrameReader::new(read), FrameWriter::new(write));
    let hello = read_hello(&mut reader, DEADLINE).await.unwrap();
    let name = hello.executor.0.clone();
    let welcome = Welcome::Accepted { session, heartbeat_interval_ms: 20, heartbeat_timeout_ms: 60_000 };
    writer.send(&welcome).await.unwrap();
    let (sender, mut outgoing) = mpsc::unbounded_channel();
    let answers = sender.downgrade();
    shared.connections.lock().unwrap().insert(name.clone(), sender);
    shared.log.send_modify(|log| log.hellos.push(hello));
    loop {
        tokio::select! {
            // Ends when the test drops the sender.
            message = outgoing.recv() => match message {
                Some(message) => writer.send(&message).await.unwrap(),
                None => return,
            },
            message = reader.next::<ToCoordinator>() => match message {
                Ok(Some(message)) => note(message, &name, &shared, &answers),
                Ok(None) | Err(_) => return,
            },
        }
    }
}

fn note(message: ToCoordinator, name: &str, shared: &Shared, answers: &mpsc::WeakUnboundedSender<ToExecutor>) {
    if let ToCoordinator::RequestSplit { attempt, request } = message {
        let split = shared.splits.lock().unwrap().pop_front();
        if let Some(answers) = answers.upgrade() {
            let _ = answers.send(ToExecutor::Split { attempt, request, split });
        }
    }
    shared.log.send_modify(|log| match message {
        ToCoordinator::Heartbeat { metrics, partitions } => {
            log.metrics.extend(metrics);
            log.partitions.insert(name.to_owned(), partitions);
            *log.heartbeats.entry(name.to_owned()).or_default() += 1;
        }
        other => log.messages.push(other),
    });
}

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

/// Waits for something that no message tells.
pub(crate) async fn until(what: &str, mut fact: impl FnMut() -> bool) {
    let wait = async {
        while !fact() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("waited in vain for {what}"));
}
