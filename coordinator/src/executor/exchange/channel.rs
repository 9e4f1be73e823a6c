//! The consuming end of a data connection.

use std::io;
use std::sync::Arc;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::inbox::Inbox;
use super::wire::{Frame, MAGIC, PartitionRequest, StreamError};
use super::{CONNECT_TIMEOUT, OPEN_FILE_CHANNELS, SILENCE_TIMEOUT, SOCKET_BYTES};
use crate::executor::task::Environment;
use crate::graph::{DataSetId, JobId, ResultPartitionId, TaskError};
use crate::runtime::frames::{FrameError, FrameReader, FrameWriter};
use crate::runtime::protocol::{FailureKind, InputChannel, InputGate, TaskFailure};

/// Why an input channel ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChannelFailure {
    /// The producer failed or was cancelled: the consumer ends cancelled, not failed.
    ProducerFailed,
    /// The consumer fails.
    Task(TaskFailure),
}

/// Starts to read all channels of a task; dropping what is returned closes them. Channels are numbered through all
/// gates, in order.
pub(crate) fn open_channels(
    job: JobId,
    gates: &[InputGate],
    inbox: &Arc<Inbox>,
    environment: &Environment,
) -> JoinSet<()> {
    let mut readers = JoinSet::new();
    let turns = Arc::new(Semaphore::new(OPEN_FILE_CHANNELS));
    let channels = gates.iter().flat_map(|gate| gate.channels.iter().map(move |channel| (gate, channel)));
    for (index, (gate, channel)) in channels.enumerate() {
        let blocking = gate.partition_type.is_blocking_or_blocking_persistent();
        let (inbox, mut channel, turns) = (inbox.clone(), channel.clone(), turns.clone());
        channel.address = environment.routes.to(&channel.executor.0, &channel.address);
        let reader = async move {
            // Complete results can wait; streams cannot. Closing the semaphore is nobody's business.
            let _turn = if blocking { turns.acquire_owned().await.ok() } else { None };
            if let Err(failure) = read_channel(&channel, blocking, index, &inbox).await {
                inbox.fail(if channel.job == job { failure } else { of_data_set(&channel, failure) });
            }
        };
        readers.spawn_on(reader, &environment.runtime);
    }
    readers
}

async fn read_channel(
    channel: &InputChannel,
    blocking: bool,
    index: usize,
    inbox: &Inbox,
) -> Result<(), ChannelFailure> {
    let stream = connect(channel).await?;
    let broken = |error: &dyn std::error::Error| transport(channel, &TaskError::from_error(error));
    let (read, write) = stream.into_split();
    let request = PartitionRequest {
        magic: MAGIC,
        job: channel.job,
        partition: channel.partition,
        subpartition: channel.subpartition,
        blocking,
    };
    // Held until the end: closing it tells the producer that we are gone.
    let mut writer = FrameWriter::new(write);
    writer.send(&request).await.map_err(|error| broken(&error))?;
    let mut frames = FrameReader::new(read);
    loop {
        let body = match tokio::time::timeout(SILENCE_TIMEOUT, frames.next_body()).await {
            Ok(Ok(Some(body))) => body,
            Ok(Ok(None)) => {
                let error = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Err(broken(&FrameError::Io(error)));
            }
            Ok(Err(error)) => return Err(broken(&error)),
            Err(_) => return Err(broken(&io::Error::from(io::ErrorKind::TimedOut))),
        };
        let bytes = body.len();
        match Frame::decode(body).map_err(|error| broken(&error))? {
            Frame::Alive => {}
            Frame::Error(StreamError::ProducerFailed) => return Err(ChannelFailure::ProducerFailed),
            Frame::Error(StreamError::NotFound) => return Err(not_found(channel, "not found on")),
            Frame::Error(StreamError::Damaged) => return Err(not_found(channel, "damaged on the disk of")),
            Frame::EndOfPartition => {
                inbox.push(index, Frame::EndOfPartition, bytes).await;
                return Ok(());
            }
            frame => inbox.push(index, frame, bytes).await,
        }
    }
}

async fn connect(channel: &InputChannel) -> Result<TcpStream, ChannelFailure> {
    let connect = async {
        let stream = TcpStream::connect(&channel.address).await?;
        stream.set_nodelay(true)?;
        SockRef::from(&stream).set_recv_buffer_size(SOCKET_BYTES)?;
        Ok::<_, io::Error>(stream)
    };
    let result = tokio::time::timeout(CONNECT_TIMEOUT, connect).await;
    result.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(|error| {
        let doing = format!(
            "PartitionConnectionException: cannot connect to {} at {} for partition {}",
            channel.executor,
            channel.address,
            display(channel.partition)
        );
        failure(FailureKind::PartitionConnection(channel.partition), TaskError::from_error(&error).context(doing))
    })
}

fn transport(channel: &InputChannel, cause: &TaskError) -> ChannelFailure {
    let doing = format!(
        "RemoteTransportException: connection unexpectedly closed by {} at {}",
        channel.executor, channel.address
    );
    failure(FailureKind::RemoteTransport, cause.clone().context(doing))
}

/// The same failure of a channel to what another job has left: this job cannot make it again.
fn of_data_set(channel: &InputChannel, failure: ChannelFailure) -> ChannelFailure {
    let is_lost = matches!(
        &failure,
        ChannelFailure::Task(TaskFailure {
            kind: FailureKind::PartitionNotFound(_) | FailureKind::PartitionConnection(_),
            ..
        })
    );
    match failure {
        ChannelFailure::Task(failure) if is_lost => {
            let data_set = DataSetId::of(channel.job, channel.partition.partition);
            let doing = format!("ClusterDatasetCorruptedException: a part of data set {data_set} is lost");
            let error = failure.error.context(doing);
            ChannelFailure::Task(TaskFailure { error, kind: FailureKind::DataSetLost(data_set) })
        }
        // A producer that had failed has no data set.
        failure => failure,
    }
}

/// A damaged partition is as good as none: Flink's failure for it names the producer, too, so that it runs again.
fn not_found(channel: &InputChannel, how: &str) -> ChannelFailure {
    let partition = channel.partition;
    let message = format!("PartitionNotFoundException: partition {} {how} {}", display(partition), channel.executor);
    failure(FailureKind::PartitionNotFound(partition), TaskError::new(message))
}

fn failure(kind: FailureKind, error: TaskError) -> ChannelFailure {
    ChannelFailure::Task(TaskFailure { error, kind })
}

fn display(id: ResultPartitionId) -> String {
    let (producer, data_set) = (id.partition.producer, id.partition.data_set);
    format!("{}#{data_set} of subtask {} (attempt {})", producer.vertex, producer.subtask, id.attempt)
}
