//! One executor's connection: handshake, then one reader and one writer task.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::manager::{ResourceManager, Route};
use crate::core::event::JobEvent;
use crate::graph::{AttemptId, ExecutorId, JobId};
use crate::runtime::clock::now_ms;
use crate::runtime::error::chain;
use crate::runtime::frames::{FrameError, FrameReader, FrameWriter, read_hello};
use crate::runtime::protocol::{TaskMetrics, ToCoordinator, ToExecutor, Welcome};

/// Messages waiting to be written to one executor. An executor that lets them pile up hangs, and is dropped.
pub(crate) const EXECUTOR_QUEUE_MESSAGES: usize = 65_536;

/// Messages buffered between two flushes.
const WRITE_BATCH_MESSAGES: usize = 256;

/// How long a new connection may take to say hello, and to take the answer.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);

/// The coordinator's end of a connection, as the registry keeps it.
#[derive(Clone)]
pub(crate) struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    queue: mpsc::Sender<ToExecutor>,
    close: CancellationToken,
    reason: OnceLock<String>,
    last_heard_ms: AtomicU64,
}

impl Connection {
    /// A connection and the queue its writer takes from.
    pub(crate) fn new(close: CancellationToken) -> (Self, mpsc::Receiver<ToExecutor>) {
        let (queue, messages) = mpsc::channel(EXECUTOR_QUEUE_MESSAGES);
        let last_heard_ms = AtomicU64::new(now_ms());
        (Self { inner: Arc::new(Inner { queue, close, reason: OnceLock::new(), last_heard_ms }) }, messages)
    }

    /// Queues `message`. Never waits: a full queue belongs to a hung executor, whose connection is closed.
    pub(crate) fn send(&self, message: ToExecutor) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.inner.queue.try_send(message) {
            self.close(format!("it does not read: {EXECUTOR_QUEUE_MESSAGES} messages wait for it"));
        }
    }

    /// Ends the connection; the first reason counts.
    pub(crate) fn close(&self, reason: impl Into<String>) {
        self.inner.reason.get_or_init(|| reason.into());
        self.inner.close.cancel();
    }

    /// True once it is being ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.close.is_cancelled()
    }

    /// When a message last came, milliseconds since the epoch.
    pub(crate) fn last_heard_ms(&self) -> u64 {
        self.inner.last_heard_ms.load(Ordering::Relaxed)
    }

    /// True if both are the same connection.
    pub(crate) fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    fn heard(&self) {
        self.inner.last_heard_ms.store(now_ms(), Ordering::Relaxed);
    }

    fn why(&self) -> String {
        self.inner.reason.get().cloned().unwrap_or_else(|| "the coordinator stops".to_owned())
    }
}

/// Serves one connection to its end. If it registered an executor, that executor is then lost.
pub(crate) async fn serve(stream: TcpStream, peer: SocketAddr, manager: Arc<ResourceManager>, stop: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "cannot switch off Nagle's algorithm");
    }
    let (read, write) = stream.into_split();
    let (mut reader, mut writer) = (FrameReader::new(read), FrameWriter::new(write));
    let hello = tokio::select! {
        () = stop.cancelled() => return,
        hello = read_hello(&mut reader, HANDSHAKE_DEADLINE) => hello,
    };
    let hello = match hello {
        Ok(hello) => hello,
        Err(error) => {
            tracing::warn!(%peer, error = %chain(&error), "an executor's handshake failed");
            return refuse(&mut writer, chain(&error)).await;
        }
    };
    let executor = hello.executor.clone();
    let (connection, messages) = Connection::new(stop);
    let session = match manager.register(&hello, peer.to_string(), connection.clone()) {
        Ok(session) => session,
        Err(reason) => {
            tracing::warn!(%executor, %peer, reason, "an executor was refused");
            return refuse(&mut writer, reason).await;
        }
    };
    tracing::info!(%executor, %peer, slots = hello.slots, "an executor registered");
    let (interval, timeout) = manager.heartbeat();
    let welcome =
        Welcome::Accepted { session, heartbeat_interval_ms: millis(interval), heartbeat_timeout_ms: millis(timeout) };
    let write = write_all(writer, welcome, messages, connection.clone(), interval, timeout);
    let writing = tokio::spawn(write);
    let reason = read_all(&mut reader, &executor, &connection, &manager, timeout).await;
    connection.close(reason);
    let reason = connection.why();
    tracing::info!(%executor, reason, "an executor is lost");
    manager.lost(&executor, &connection, &reason);
    writing.abort();
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

async fn refuse<W: AsyncWrite + Unpin>(writer: &mut FrameWriter<W>, reason: String) {
    let refusal = Welcome::Refused { reason };
    // The peer may be gone; there is nobody else to tell.
    let _ = tokio::time::timeout(HANDSHAKE_DEADLINE, writer.send(&refusal)).await;
}

/// Writes the welcome, then queued messages and heartbeats, until the connection ends.
async fn write_all<W: AsyncWrite + Unpin>(
    mut writer: FrameWriter<W>,
    welcome: Welcome,
    mut messages: mpsc::Receiver<ToExecutor>,
    connection: Connection,
    interval: Duration,
    deadline: Duration,
) {
    let result = async {
        within(deadline, writer.send(&welcome)).await?;
        let mut beat = tokio::time::interval(interval);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut batch = Vec::with_capacity(WRITE_BATCH_MESSAGES);
        loop {
            tokio::select! {
                _ = beat.tick() => batch.push(ToExecutor::Heartbeat),
                count = messages.recv_many(&mut batch, WRITE_BATCH_MESSAGES) => if count == 0 { return Ok::<(), String>(()) },
            }
            for message in batch.drain(..) {
                within(deadline, writer.feed(&message)).await?;
            }
            within(deadline, writer.flush()).await?;
        }
    };
    if let Err(reason) = result.await {
        connection.close(reason);
    }
}

async fn within(deadline: Duration, write: impl Future<Output = Result<(), FrameError>>) -> Result<(), String> {
    match tokio::time::timeout(deadline, write).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("writing to it failed: {}", chain(&error))),
        Err(_) => Err(format!("it did not read for {} ms", deadline.as_millis())),
    }
}

/// Reads messages and passes them on, until the connection ends; says why it did.
async fn read_all<R: AsyncRead + Unpin>(
    reader: &mut FrameReader<R>,
    executor: &ExecutorId,
    connection: &Connection,
    manager: &ResourceManager,
    timeout: Duration,
) -> String {
    loop {
        let message = tokio::select! {
            () = connection.inner.close.cancelled() => return connection.why(),
            message = tokio::time::timeout(timeout, reader.next::<ToCoordinator>()) => message,
        };
        match message {
            Err(_) => return format!("no heartbeat for {} ms", timeout.as_millis()),
            Ok(Err(error)) => return format!("the connection broke: {}", chain(&error)),
            Ok(Ok(None)) => return "it closed the connection".to_owned(),
            Ok(Ok(Some(message))) => {
                connection.heard();
                // A full mailbox holds this connection's messages back; the close signal still gets through.
                tokio::select! {
                    () = connection.inner.close.cancelled() => return connection.why(),
                    () = pass_on(message, executor, connection, manager) => {}
                }
            }
        }
    }
}

async fn pass_on(message: ToCoordinator, executor: &ExecutorId, connection: &Connection, manager: &ResourceManager) {
    match message {
        ToCoordinator::Heartbeat { metrics, partitions, cluster_partitions } => {
            manager.heard(executor, connection, partitions, &cluster_partitions);
            for (job, metrics) in by_job(metrics) {
                deliver(job, JobEvent::Metrics(metrics), connection, manager).await;
            }
        }
        ToCoordinator::ClusterPartitions { promoted, partitions } => {
            manager.has_cluster_partitions(executor, connection, promoted, &partitions);
        }
        ToCoordinator::TaskUpdate { attempt, update, metrics } => {
            deliver(attempt.job, JobEvent::TaskUpdate { attempt, update, metrics }, connection, manager).await;
        }
        ToCoordinator::EndOfData { attempt } => {
            deliver(attempt.job, JobEvent::EndOfData { attempt }, connection, manager).await;
        }
        ToCoordinator::CheckpointAck { attempt, checkpoint, state } => {
            deliver(attempt.job, JobEvent::CheckpointAck { attempt, checkpoint, state }, connection, manager).await;
        }
        ToCoordinator::CheckpointDecline { attempt, checkpoint, reason } => {
            let event = JobEvent::CheckpointDecline { attempt, checkpoint, reason };
            deliver(attempt.job, event, connection, manager).await;
        }
        ToCoordinator::RequestSplit { attempt, request } => {
            deliver(attempt.job, JobEvent::SplitRequested { attempt, request }, connection, manager).await;
        }
    }
}

fn by_job(metrics: Vec<(AttemptId, TaskMetrics)>) -> std::collections::BTreeMap<JobId, Vec<(AttemptId, TaskMetrics)>> {
    let mut jobs = std::collections::BTreeMap::<_, Vec<_>>::new();
    for (attempt, counters) in metrics {
        jobs.entry(attempt.job).or_default().push((attempt, counters));
    }
    jobs
}

async fn deliver(job: JobId, event: JobEvent, connection: &Connection, manager: &ResourceManager) {
    match manager.route(job) {
        Route::To(mailbox) => mailbox.task(event).await,
        // Recovered, not scheduled: whatever this is, it is of an attempt of an earlier session.
        Route::NotStarted => {}
        Route::Unknown => connection.send(ToExecutor::ReleaseJob(job)),
    }
}
