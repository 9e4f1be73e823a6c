//! Length-delimited postcard frames over any byte stream, and the handshake that opens a connection.
//!
//! A frame is a 4-byte big-endian length and that many bytes of postcard. Reading is cancel-safe: a
//! [`FrameReader::next`] that is dropped in a `select!` loses nothing. Writing is not: a [`FrameWriter::send`] that is
//! dropped midway leaves half a frame behind, so give the writer a task (or an uninterrupted turn) of its own.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

use super::protocol::{Hello, MAX_FRAME_BYTES, PROTOCOL_VERSION, Welcome};

/// First bytes of a [`Hello`].
pub const MAGIC: [u8; 4] = *b"SPRF";

/// Output buffered before a write is forced, bytes.
const WRITE_BUFFER_BYTES: usize = 32 * 1024;

/// A frame could not be read or written. The connection is of no use after it.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream broke, or a frame is larger than [`MAX_FRAME_BYTES`].
    #[error("cannot transfer a frame")]
    Io(#[from] io::Error),
    /// The bytes are not the message that was expected.
    #[error("cannot decode a frame of {size} bytes: the peer speaks another protocol")]
    Decode {
        /// Size of the frame, bytes.
        size: usize,
        /// What postcard says.
        source: postcard::Error,
    },
    /// A message that cannot be encoded.
    #[error("cannot encode a frame")]
    Encode(#[source] postcard::Error),
    /// A message larger than [`MAX_FRAME_BYTES`]; nothing was written.
    #[error("a message of {0} bytes exceeds the largest frame, {MAX_FRAME_BYTES} bytes")]
    TooLarge(usize),
}

/// The handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The stream broke.
    #[error("handshake failed")]
    Frame(#[from] FrameError),
    /// The peer closed the connection instead of answering.
    #[error("the peer closed the connection during the handshake")]
    Closed,
    /// No answer in time.
    #[error("no answer to the handshake within {0:?}")]
    Timeout(Duration),
    /// The peer is no executor or coordinator of ours.
    #[error("the peer does not speak this protocol: it began with {0:02x?}")]
    Magic([u8; 4]),
    /// The peer is another version.
    #[error(
        "the peer speaks protocol version {0}, this is version {PROTOCOL_VERSION}; use one binary for all processes"
    )]
    Version(u32),
    /// The coordinator refused.
    #[error("registration refused: {0}")]
    Refused(String),
}

/// What the coordinator granted ([`Welcome::Accepted`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The leader session of the connection.
    pub session: u64,
    /// How often to send a heartbeat.
    pub heartbeat_interval: Duration,
    /// Silence after which the other side counts as dead.
    pub heartbeat_timeout: Duration,
}

fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(MAX_FRAME_BYTES).new_codec()
}

/// Encodes `message` as the body of a frame.
///
/// # Errors
/// When it cannot be encoded or is larger than [`MAX_FRAME_BYTES`].
pub fn encode<T: Serialize>(message: &T) -> Result<Bytes, FrameError> {
    let body = postcard::to_stdvec(message).map_err(FrameError::Encode)?;
    if body.len() > MAX_FRAME_BYTES {
        return Err(FrameError::TooLarge(body.len()));
    }
    Ok(body.into())
}

/// Decodes the body of a frame.
///
/// # Errors
/// When it is not a `T`, or has bytes left over.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    let failed = |source| FrameError::Decode { size: body.len(), source };
    let (message, rest) = postcard::take_from_bytes(body).map_err(failed)?;
    if rest.is_empty() { Ok(message) } else { Err(failed(postcard::Error::DeserializeBadEncoding)) }
}

/// Reads frames.
pub struct FrameReader<R> {
    inner: FramedRead<R, LengthDelimitedCodec>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Frames out of `stream`.
    pub fn new(stream: R) -> Self {
        Self { inner: FramedRead::new(stream, codec()) }
    }

    /// The next message, or `None` when the peer closed the stream between two frames. Cancel-safe.
    ///
    /// # Errors
    /// A broken stream (also one that ends inside a frame), a frame too large, or one that is not a `T`.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        match self.next_body().await? {
            None => Ok(None),
            Some(body) => decode(&body).map(Some),
        }
    }

    /// The stream itself. What was read ahead of the next frame is lost.
    pub fn into_inner(self) -> R {
        self.inner.into_inner()
    }

    /// The next frame, not decoded. Cancel-safe.
    ///
    /// # Errors
    /// A broken stream or a frame too large.
    pub async fn next_body(&mut self) -> Result<Option<Bytes>, FrameError> {
        match self.inner.next().await {
            None => Ok(None),
            Some(Ok(body)) => Ok(Some(body.freeze())),
            Some(Err(error)) => Err(error.into()),
        }
    }
}

/// Writes frames.
pub struct FrameWriter<W> {
    inner: FramedWrite<W, LengthDelimitedCodec>,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    /// Frames into `stream`.
    pub fn new(stream: W) -> Self {
        let mut inner = FramedWrite::new(stream, codec());
        inner.set_backpressure_boundary(WRITE_BUFFER_BYTES);
        Self { inner }
    }

    /// Writes `message` and flushes it.
    ///
    /// # Errors
    /// A broken stream, or a message that does not fit a frame.
    pub async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), FrameError> {
        self.feed(message).await?;
        self.flush().await
    }

    /// Buffers `message`; the buffer is written once it is full or on [`FrameWriter::flush`].
    ///
    /// # Errors
    /// A broken stream, or a message that does not fit a frame.
    pub async fn feed<T: Serialize>(&mut self, message: &T) -> Result<(), FrameError> {
        self.feed_body(encode(message)?).await
    }

    /// Buffers a frame whose body is already encoded.
    ///
    /// # Errors
    /// A broken stream or a body that is too large.
    pub async fn feed_body(&mut self, body: Bytes) -> Result<(), FrameError> {
        Ok(self.inner.feed(body).await?)
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// A broken stream.
    pub async fn flush(&mut self) -> Result<(), FrameError> {
        Ok(SinkExt::<Bytes>::flush(&mut self.inner).await?)
    }
}

/// The executor's side: says `hello` and waits at most `deadline` for the answer.
///
/// # Errors
/// See [`HandshakeError`]; a refusal carries the coordinator's reason.
pub async fn say_hello<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    reader: &mut FrameReader<R>,
    writer: &mut FrameWriter<W>,
    hello: &Hello,
    deadline: Duration,
) -> Result<Accepted, HandshakeError> {
    let exchange = async {
        writer.send(hello).await?;
        match reader.next::<Welcome>().await? {
            None => Err(HandshakeError::Closed),
            Some(Welcome::Refused { reason }) => Err(HandshakeError::Refused(reason)),
            Some(Welcome::Accepted { session, heartbeat_interval_ms, heartbeat_timeout_ms }) => Ok(Accepted {
                session,
                heartbeat_interval: Duration::from_millis(heartbeat_interval_ms),
                heartbeat_timeout: Duration::from_millis(heartbeat_timeout_ms),
            }),
        }
    };
    tokio::time::timeout(deadline, exchange).await.unwrap_or(Err(HandshakeError::Timeout(deadline)))
}

/// The coordinator's side: waits at most `deadline` for a [`Hello`] of this protocol and version. The caller answers
/// with [`FrameWriter::send`] of a [`Welcome`], also after an error (as [`Welcome::Refused`]), so that the peer
/// learns why.
///
/// # Errors
/// See [`HandshakeError`].
pub async fn read_hello<R: AsyncRead + Unpin>(
    reader: &mut FrameReader<R>,
    deadline: Duration,
) -> Result<Hello, HandshakeError> {
    let read = async {
        let body = reader.next_body().await?.ok_or(HandshakeError::Closed)?;
        // Magic and version first: the rest of the message may have another layout.
        let ((magic, version), _) = postcard::take_from_bytes::<([u8; 4], u32)>(&body)
            .map_err(|source| FrameError::Decode { size: body.len(), source })?;
        if magic != MAGIC {
            return Err(HandshakeError::Magic(magic));
        }
        if version != PROTOCOL_VERSION {
            return Err(HandshakeError::Version(version));
        }
        Ok(decode::<Hello>(&body)?)
    };
    tokio::time::timeout(deadline, read).await.unwrap_or(Err(HandshakeError::Timeout(deadline)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::ExecutorId;
    use crate::runtime::protocol::{ToCoordinator, ToExecutor};

    const LONG: Duration = Duration::from_secs(20);

    fn hello() -> Hello {
        Hello {
            magic: MAGIC,
            version: PROTOCOL_VERSION,
            executor: ExecutorId("executor-1".into()),
            slots: 2,
            data_address: "127.0.0.1:1".into(),
            pid: 7,
        }
    }

    #[tokio::test]
    async fn handshake_and_messages_cross_a_stream() {
        let heartbeat = ToCoordinator::Heartbeat { metrics: vec![], partitions: 3, cluster_partitions: vec![] };
        let expected = heartbeat.clone();
        let (near, far) = tokio::io::duplex(16);
        let coordinator = async move {
            let (read, write) = tokio::io::split(far);
            let (mut reader, mut writer) = (FrameReader::new(read), FrameWriter::new(write));
            let got = read_hello(&mut reader, LONG).await.unwrap();
            let welcome = Welcome::Accepted { session: 9, heartbeat_interval_ms: 10, heartbeat_timeout_ms: 500 };
            writer.send(&welcome).await.unwrap();
            let heartbeat: Option<ToCoordinator> = reader.next().await.unwrap();
            (got, heartbeat, reader.next::<ToCoordinator>().await.unwrap())
        };
        let executor = async move {
            let (read, write) = tokio::io::split(near);
            let (mut reader, mut writer) = (FrameReader::new(read), FrameWriter::new(write));
            let accepted = say_hello(&mut reader, &mut writer, &hello(), LONG).await.unwrap();
            writer.send(&heartbeat).await.unwrap();
            accepted
        };
        let ((got, received, end), accepted) = tokio::join!(coordinator, executor);
        assert_eq!(got, hello());
        assert_eq!(received, Some(expected));
        assert_eq!(end, None);
        assert_eq!((accepted.session, accepted.heartbeat_timeout), (9, Duration::from_millis(500)));
    }

    #[tokio::test]
    async fn other_versions_and_strangers_are_refused_before_their_message_is_decoded() {
        for (magic, version) in [(*b"HTTP", PROTOCOL_VERSION), (MAGIC, PROTOCOL_VERSION + 1)] {
            let (near, far) = tokio::io::duplex(1024);
            let mut writer = FrameWriter::new(near);
            // Nothing after the version: a future layout may be anything.
            writer.send(&(magic, version)).await.unwrap();
            let error = read_hello(&mut FrameReader::new(far), LONG).await.unwrap_err();
            match error {
                HandshakeError::Magic(found) => assert_eq!(found, *b"HTTP"),
                HandshakeError::Version(found) => assert_eq!(found, PROTOCOL_VERSION + 1),
                other => panic!("{other}"),
            }
        }
    }

    #[tokio::test]
    async fn a_silent_peer_times_out_and_a_refusal_carries_its_reason() {
        let (near, _far) = tokio::io::duplex(1024);
        let error = read_hello(&mut FrameReader::new(near), Duration::from_millis(5)).await.unwrap_err();
        assert!(matches!(error, HandshakeError::Timeout(_)), "{error}");

        let (near, far) = tokio::io::duplex(1024);
        let (read, write) = tokio::io::split(near);
        let mut refuser = FrameWriter::new(far);
        refuser.send(&Welcome::Refused { reason: "not the leader".into() }).await.unwrap();
        let error =
            say_hello(&mut FrameReader::new(read), &mut FrameWriter::new(write), &hello(), LONG).await.unwrap_err();
        assert_eq!(error.to_string(), "registration refused: not the leader");
    }

    #[tokio::test]
    async fn broken_frames_are_errors() {
        use tokio::io::AsyncWriteExt;
        // The stream ends inside a frame.
        let (mut near, far) = tokio::io::duplex(1024);
        near.write_all(&[0, 0, 0, 9, 1]).await.unwrap();
        drop(near);
        assert!(matches!(FrameReader::new(far).next::<ToExecutor>().await, Err(FrameError::Io(_))));
        // A length beyond the bound is refused before anything is allocated for it.
        let (mut near, far) = tokio::io::duplex(1024);
        near.write_all(&u32::MAX.to_be_bytes()).await.unwrap();
        assert!(matches!(FrameReader::new(far).next::<ToExecutor>().await, Err(FrameError::Io(_))));
        // Bytes left over.
        assert!(matches!(decode::<ToExecutor>(&[0, 0]), Err(FrameError::Decode { size: 2, .. })));
        assert!(matches!(encode(&vec![0_u8; MAX_FRAME_BYTES + 1]), Err(FrameError::TooLarge(_))));
    }
}
