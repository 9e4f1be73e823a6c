//! A scripted executor: speaks the protocol, runs nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stormproof_coordinator::core::checkpoint::TaskSnapshotHandle;
use stormproof_coordinator::graph::{AttemptId, ExecutorId, TaskError};
use stormproof_coordinator::runtime::frames::{FrameReader, FrameWriter, MAGIC, say_hello};
use stormproof_coordinator::runtime::protocol::{
    FailureKind, Hello, PROTOCOL_VERSION, TaskDeployment, TaskFailure, TaskMetrics, TaskUpdate, ToCoordinator,
    ToExecutor,
};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What a deployed task does.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// It runs, then finishes at once.
    Finish,
    /// It runs until it is cancelled; acknowledges checkpoints.
    Run,
    /// It runs, then fails.
    Fail,
}

/// Decides per attempt: vertex, subtask, attempt number.
pub(crate) type Script = Arc<dyn Fn(&str, u32, u32) -> Step + Send + Sync>;

pub(crate) fn script(decide: impl Fn(&str, u32, u32) -> Step + Send + Sync + 'static) -> Script {
    Arc::new(decide)
}

pub(crate) struct FakeExecutor {
    received: Arc<Mutex<Vec<ToExecutor>>>,
    hang: CancellationToken,
    task: JoinHandle<()>,
}

impl FakeExecutor {
    /// Registers at `rpc` and follows `script`.
    pub(crate) async fn start(rpc: &str, name: &str, slots: u32, script: Script) -> Self {
        Self::try_start(rpc, name, slots, script).await.unwrap()
    }

    pub(crate) async fn try_start(rpc: &str, name: &str, slots: u32, script: Script) -> Result<Self, String> {
        let stream = TcpStream::connect(rpc).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (read, write) = stream.into_split();
        let (mut reader, mut writer) = (FrameReader::new(read), FrameWriter::new(write));
        let hello = Hello {
            magic: MAGIC,
            version: PROTOCOL_VERSION,
            executor: ExecutorId(name.to_owned()),
            slots,
            data_address: format!("{name}:1"),
            pid: 1,
        };
        let deadline = Duration::from_secs(20);
        let accepted =
            say_hello(&mut reader, &mut writer, &hello, deadline).await.map_err(|error| error.to_string())?;
        let received = Arc::new(Mutex::new(Vec::new()));
        let hang = CancellationToken::new();
        let hung = hang.clone();
        let mut serving = Serving { writer, script, received: Arc::clone(&received), running: BTreeMap::new() };
        let task = tokio::spawn(async move { serving.serve(reader, accepted.heartbeat_interval, hung).await });
        Ok(Self { received, hang, task })
    }

    /// Cuts the connection, as a killed process does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Stops reading and writing, as a process stopped by SIGSTOP; the connection stays open.
    pub(crate) fn hang(&self) {
        self.hang.cancel();
    }

    /// Messages so far that `pick` takes.
    pub(crate) fn received<T>(&self, pick: impl Fn(&ToExecutor) -> Option<T>) -> Vec<T> {
        self.received.lock().unwrap().iter().filter_map(pick).collect()
    }

    /// Attempts deployed here: vertex, subtask, attempt number.
    pub(crate) fn deployed(&self) -> Vec<(String, u32, u32)> {
        self.received(|message| match message {
            ToExecutor::Deploy(task) => Some((task.vertex.clone(), task.attempt.task.subtask, task.attempt.attempt)),
            _ => None,
        })
    }
}

struct Serving<W> {
    writer: FrameWriter<W>,
    script: Script,
    received: Arc<Mutex<Vec<ToExecutor>>>,
    /// Attempts that run, with the newest checkpoint each has acknowledged.
    running: BTreeMap<AttemptId, u64>,
}

impl<W: tokio::io::AsyncWrite + Unpin> Serving<W> {
    async fn serve<R: tokio::io::AsyncRead + Unpin>(
        &mut self,
        mut reader: FrameReader<R>,
        heartbeat: Duration,
        hung: CancellationToken,
    ) {
        let mut beat = tokio::time::interval(heartbeat);
        loop {
            tokio::select! {
                () = hung.cancelled() => std::future::pending().await,
                _ = beat.tick() => {
                    let cluster_partitions = vec![];
                    self.send(ToCoordinator::Heartbeat { metrics: vec![], partitions: 3, cluster_partitions }).await;
                }
                message = reader.next::<ToExecutor>() => {
                    let Ok(Some(message)) = message else { return };
                    if message != ToExecutor::Heartbeat {
                        self.received.lock().unwrap().push(message.clone());
                    }
                    self.handle(message).await;
                }
            }
        }
    }

    async fn handle(&mut self, message: ToExecutor) {
        match message {
            ToExecutor::Deploy(task) => self.deploy(&task).await,
            ToExecutor::Cancel(attempt) if self.running.remove(&attempt).is_some() => {
                self.update(attempt, TaskUpdate::Canceled).await;
            }
            ToExecutor::ReleaseJob(job) => self.running.retain(|attempt, _| attempt.job != job),
            ToExecutor::TriggerCheckpoint { checkpoint, attempt } => {
                // The barrier reaches every task of the job at once.
                let job = attempt.job;
                let behind: Vec<AttemptId> = self
                    .running
                    .iter()
                    .filter(|(attempt, newest)| attempt.job == job && **newest < checkpoint)
                    .map(|(attempt, _)| *attempt)
                    .collect();
                for attempt in behind {
                    self.running.insert(attempt, checkpoint);
                    let state = TaskSnapshotHandle::Inline(vec![1, 2, 3]);
                    self.send(ToCoordinator::CheckpointAck { attempt, checkpoint, state }).await;
                }
            }
            _ => {}
        }
    }

    async fn deploy(&mut self, task: &TaskDeployment) {
        let attempt = task.attempt;
        self.update(attempt, TaskUpdate::Running).await;
        match (self.script)(&task.vertex, attempt.task.subtask, attempt.attempt) {
            Step::Finish => self.update(attempt, TaskUpdate::Finished).await,
            Step::Run => drop(self.running.insert(attempt, 0)),
            Step::Fail => {
                let failure = TaskFailure { error: TaskError::new("scripted failure"), kind: FailureKind::Task };
                self.update(attempt, TaskUpdate::Failed(failure)).await;
            }
        }
    }

    async fn update(&mut self, attempt: AttemptId, update: TaskUpdate) {
        self.send(ToCoordinator::TaskUpdate { attempt, update, metrics: TaskMetrics::default() }).await;
    }

    async fn send(&mut self, message: ToCoordinator) {
        // A closed connection shows when reading.
        let _ = self.writer.send(&message).await;
    }
}
