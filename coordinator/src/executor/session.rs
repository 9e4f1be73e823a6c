//! One connection to one leader. It never outlives the leader's session; that is the fencing.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tracing::{debug, info};

use super::partitions::PartitionTable;
use super::tasks::TaskTable;
use crate::graph::AttemptId;
use crate::runtime::frames::{Accepted, FrameError, FrameReader, FrameWriter, HandshakeError, say_hello};
use crate::runtime::protocol::{Hello, TaskMetrics, TaskUpdate, ToCoordinator, ToExecutor};

/// Messages to the coordinator that wait for the socket; tasks that report more wait.
const MAX_OUTGOING: usize = 1024;

/// How long dialling the leader may take.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the leader may take to answer the handshake.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// A leader could not be joined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error("cannot reach the leader at {address}")]
    Dial { address: String, source: io::Error },
    #[error("cannot register with the leader at {address}")]
    Handshake { address: String, source: HandshakeError },
}

/// Why a connection was lost.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LostError {
    #[error("the coordinator closed the connection")]
    Closed,
    #[error("the connection to the coordinator broke")]
    Broken(#[from] FrameError),
    #[error("no sign of life from the coordinator for {0:?}")]
    Silent(Duration),
    #[error("the coordinator took no message for {0:?}")]
    Stalled(Duration),
}

/// A registered connection.
pub(crate) struct Session {
    reader: FrameReader<OwnedReadHalf>,
    writer: FrameWriter<OwnedWriteHalf>,
    granted: Accepted,
}

impl Session {
    /// Dials `address` and registers.
    pub(crate) async fn join(address: &str, hello: &Hello) -> Result<Self, JoinError> {
        let dial = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok::<_, io::Error>(stream)
        };
        let dialled = tokio::time::timeout(DIAL_TIMEOUT, dial).await;
        let stream = dialled
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|source| JoinError::Dial { address: address.to_owned(), source })?;
        let (read, write) = stream.into_split();
        let (mut reader, mut writer) = (FrameReader::new(read), FrameWriter::new(write));
        let granted = say_hello(&mut reader, &mut writer, hello, HELLO_TIMEOUT)
            .await
            .map_err(|source| JoinError::Handshake { address: address.to_owned(), source })?;
        info!(address, session = granted.session, "registered");
        Ok(Self { reader, writer, granted })
    }

    /// Serves the connection until it is lost. Tasks that were started on it have nobody to report to then.
    pub(crate) async fn serve(self, tasks: &Arc<TaskTable>, partitions: &PartitionTable) -> LostError {
        let (reports, outgoing) = mpsc::channel(MAX_OUTGOING);
        let Self { reader, writer, granted } = self;
        let result = tokio::select! {
            result = read(reader, granted, tasks, partitions, &reports) => result,
            result = write(writer, granted, tasks, partitions, outgoing) => result,
        };
        let Err(lost) = result;
        lost
    }
}

async fn read(
    mut reader: FrameReader<OwnedReadHalf>,
    granted: Accepted,
    tasks: &Arc<TaskTable>,
    partitions: &PartitionTable,
    reports: &mpsc::Sender<ToCoordinator>,
) -> Result<Infallible, LostError> {
    let timeout = granted.heartbeat_timeout;
    loop {
        let message = tokio::time::timeout(timeout, reader.next::<ToExecutor>()).await;
        let message = message.map_err(|_| LostError::Silent(timeout))??.ok_or(LostError::Closed)?;
        if let Some(answer) = handle(message, tasks, partitions, reports) {
            reports.send(answer).await.map_err(|_| LostError::Closed)?;
        }
    }
}

/// Nothing in here waits.
fn handle(
    message: ToExecutor,
    tasks: &Arc<TaskTable>,
    partitions: &PartitionTable,
    reports: &mpsc::Sender<ToCoordinator>,
) -> Option<ToCoordinator> {
    match message {
        ToExecutor::Heartbeat => None,
        ToExecutor::Deploy(deployment) => tasks.deploy(*deployment, reports),
        ToExecutor::Cancel(attempt) if tasks.cancel(attempt) => None,
        // It ended (and said so), or never came: either way it is not here.
        ToExecutor::Cancel(attempt) => {
            Some(ToCoordinator::TaskUpdate { attempt, update: TaskUpdate::Canceled, metrics: TaskMetrics::default() })
        }
        ToExecutor::ReleasePartitions { job, partitions: ids } => {
            partitions.release(job, &ids);
            None
        }
        ToExecutor::PromotePartitions { job, partitions: promoted } => {
            partitions.promote(job, promoted);
            Some(ToCoordinator::ClusterPartitions { promoted: Some(job), partitions: partitions.cluster_partitions() })
        }
        ToExecutor::ReleaseDataSets(data_sets) => {
            partitions.release_data_sets(&data_sets);
            Some(ToCoordinator::ClusterPartitions { promoted: None, partitions: partitions.cluster_partitions() })
        }
        ToExecutor::ReleaseJob(job) => {
            tasks.discard_job(job);
            partitions.release_job(job);
            None
        }
        ToExecutor::TriggerCheckpoint { attempt, checkpoint } => match tasks.get(attempt) {
            Some(task) if task.controls.trigger(checkpoint) => None,
            Some(_) => Some(decline(attempt, checkpoint, "too many checkpoints wait for the task")),
            None => Some(decline(attempt, checkpoint, "the task does not run here")),
        },
        ToExecutor::CheckpointCompleted { attempt, checkpoint, is_final } => {
            with_task(tasks, attempt, |task| task.controls.completed(checkpoint, is_final))
        }
        ToExecutor::CheckpointAborted { attempt, checkpoint } => {
            with_task(tasks, attempt, |task| task.controls.aborted(checkpoint))
        }
        ToExecutor::Split { attempt, request, split } => {
            with_task(tasks, attempt, |task| task.controls.split(request, split))
        }
    }
}

fn with_task(
    tasks: &TaskTable,
    attempt: AttemptId,
    tell: impl FnOnce(&super::task::TaskHandle),
) -> Option<ToCoordinator> {
    match tasks.get(attempt) {
        Some(task) => tell(&task),
        None => debug!(?attempt, "a message for a task that does not run here"),
    }
    None
}

fn decline(attempt: AttemptId, checkpoint: u64, reason: &str) -> ToCoordinator {
    ToCoordinator::CheckpointDecline { attempt, checkpoint, reason: reason.to_owned() }
}

async fn write(
    mut writer: FrameWriter<OwnedWriteHalf>,
    granted: Accepted,
    tasks: &TaskTable,
    partitions: &PartitionTable,
    mut outgoing: mpsc::Receiver<ToCoordinator>,
) -> Result<Infallible, LostError> {
    let timeout = granted.heartbeat_timeout;
    let mut heartbeat = tokio::time::interval(granted.heartbeat_interval.max(Duration::from_millis(1)));
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut next = tokio::select! {
            message = outgoing.recv() => Some(message.ok_or(LostError::Closed)?),
            _ = heartbeat.tick() => {
                Some(ToCoordinator::Heartbeat {
                    metrics: tasks.changed_metrics(),
                    partitions: partitions.on_disk(),
                    cluster_partitions: partitions.cluster_partitions(),
                })
            }
        };
        let send = async {
            // All that waits goes out with one flush.
            while let Some(message) = next {
                writer.feed(&message).await?;
                next = outgoing.try_recv().ok();
            }
            writer.flush().await
        };
        tokio::time::timeout(timeout, send).await.map_err(|_| LostError::Stalled(timeout))??;
    }
}
