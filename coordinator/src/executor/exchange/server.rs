//! The data server: serves subpartitions to consumers, one connection each.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use socket2::SockRef;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tracing::{debug, warn};

use super::files::{FilePartition, FileReader, FileState};
use super::pipelined::SubpartitionReader;
use super::wire::{Frame, MAGIC, PartitionRequest, StreamError};
use super::{ALIVE_INTERVAL, SOCKET_BYTES};
use crate::executor::partitions::{Lookup, Partition, PartitionTable};
use crate::runtime::frames::{FrameError, FrameReader, FrameWriter};

/// How long a new connection may take to say what it wants.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Most connections at the same time; more are closed at once, and their consumers fail.
const MAX_CONNECTIONS: usize = 8192;

/// Pause after a failed accept (no more file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts until it is dropped, which also ends all connections.
pub(crate) async fn serve(
    listener: TcpListener,
    table: Arc<PartitionTable>,
    registration_timeout: Duration,
) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "cannot accept a data connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if connections.len() >= MAX_CONNECTIONS {
            warn!("{MAX_CONNECTIONS} data connections are open: another one was closed");
            continue;
        }
        let table = table.clone();
        connections.spawn(async move {
            if let Err(error) = connection(stream, &table, registration_timeout).await {
                debug!(error = &error as &dyn std::error::Error, "a data connection ended early");
            }
        });
    }
}

/// One consumer.
struct Consumer {
    reader: OwnedReadHalf,
    writer: FrameWriter<OwnedWriteHalf>,
}

async fn connection(
    stream: TcpStream,
    table: &PartitionTable,
    registration_timeout: Duration,
) -> Result<(), FrameError> {
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_send_buffer_size(SOCKET_BYTES)?;
    let (reader, writer) = stream.into_split();
    let mut frames = FrameReader::new(reader);
    let request = tokio::time::timeout(REQUEST_TIMEOUT, frames.next::<PartitionRequest>()).await;
    let Some(request) = request.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? else { return Ok(()) };
    let mut consumer = Consumer { reader: frames.into_inner(), writer: FrameWriter::new(writer) };
    if request.magic != MAGIC {
        return consumer.fail(StreamError::NotFound).await;
    }
    let timeout = if request.blocking { Duration::ZERO } else { registration_timeout };
    let lookup = consumer.unless_closed(table.wait_for(request.job, request.partition, timeout)).await?;
    match lookup {
        Lookup::Missing => consumer.fail(StreamError::NotFound).await,
        Lookup::ProducerFailed => consumer.fail(StreamError::ProducerFailed).await,
        Lookup::Found(Partition::Memory(memory)) => {
            let Some(reader) = memory.attach(request.subpartition) else {
                return consumer.fail(StreamError::NotFound).await;
            };
            let result = consumer.stream(reader).await;
            if memory.is_consumed() {
                table.consumed(request.job, request.partition);
            }
            result
        }
        Lookup::Found(Partition::Files(files)) => consumer.files(&request, files).await,
    }
}

impl Consumer {
    async fn fail(&mut self, error: StreamError) -> Result<(), FrameError> {
        self.writer.feed_body(Frame::Error(error).encode()).await?;
        self.writer.flush().await
    }

    /// Waits for `work` as long as the consumer is there.
    async fn unless_closed<T>(&mut self, work: impl Future<Output = T>) -> Result<T, FrameError> {
        tokio::select! {
            result = work => Ok(result),
            error = closed(&mut self.reader) => Err(error.into()),
        }
    }

    /// As [`Self::unless_closed`], and tells the consumer now and then that we are alive.
    async fn keeping_alive<T>(&mut self, work: impl Future<Output = T>) -> Result<T, FrameError> {
        tokio::pin!(work);
        loop {
            match self.unless_closed(tokio::time::timeout(ALIVE_INTERVAL, work.as_mut())).await? {
                Ok(result) => return Ok(result),
                Err(_) => {
                    self.writer.feed_body(Frame::Alive.encode()).await?;
                    self.writer.flush().await?;
                }
            }
        }
    }

    /// Streams a subpartition out of memory.
    async fn stream(&mut self, mut subpartition: SubpartitionReader) -> Result<(), FrameError> {
        loop {
            let mut next = Some(self.keeping_alive(subpartition.next()).await?);
            // All that is there goes out with one flush.
            while let Some(frame) = next {
                let last = ends_stream(&frame);
                self.writer.feed_body(frame).await?;
                if last {
                    return self.writer.flush().await;
                }
                next = subpartition.try_next();
            }
            self.writer.flush().await?;
        }
    }

    /// Streams a subpartition from disk.
    async fn files(&mut self, request: &PartitionRequest, files: Arc<FilePartition>) -> Result<(), FrameError> {
        let state = if request.blocking { files.state() } else { self.keeping_alive(files.written()).await? };
        match state {
            FileState::Complete => {}
            FileState::Failed => return self.fail(StreamError::ProducerFailed).await,
            FileState::Writing | FileState::Released => return self.fail(StreamError::NotFound).await,
        }
        let mut reader = None;
        loop {
            // One short piece of blocking work after the other: a slow consumer must not hold a thread.
            let (files_now, subpartition) = (files.clone(), request.subpartition);
            let chunk = tokio::task::spawn_blocking(move || {
                let mut reader = match reader {
                    Some(reader) => reader,
                    None => FileReader::open(&files_now, subpartition)?,
                };
                reader.chunk().map(|frames| (reader, frames))
            });
            let (back, frames) = match chunk.await {
                Ok(Ok(read)) if files.state() == FileState::Complete => read,
                Ok(Err(error)) => {
                    warn!(error = &error as &dyn std::error::Error, folder = %files.folder().display(), subpartition,
                        "a result partition cannot be read");
                    let is_missing = error.is_missing();
                    return self.fail(if is_missing { StreamError::NotFound } else { StreamError::Damaged }).await;
                }
                // Released while it was read, or the runtime shuts down.
                Ok(Ok(_)) | Err(_) => return self.fail(StreamError::NotFound).await,
            };
            reader = Some(back);
            let last = frames.last().is_some_and(ends_stream);
            for frame in frames {
                self.writer.feed_body(frame).await?;
            }
            self.writer.flush().await?;
            if last {
                return Ok(());
            }
        }
    }
}

fn ends_stream(frame: &Bytes) -> bool {
    matches!(Frame::decode(frame.clone()), Ok(Frame::EndOfPartition | Frame::Error(_)) | Err(_))
}

/// Resolves when the consumer closes its side; it has nothing to say after its request.
async fn closed(reader: &mut OwnedReadHalf) -> io::Error {
    match reader.read_u8().await {
        Ok(_) => io::Error::new(io::ErrorKind::InvalidData, "the consumer sent more than its request"),
        Err(error) => error,
    }
}
