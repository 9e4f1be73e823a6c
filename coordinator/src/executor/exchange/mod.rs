//! Records on their way from one task to another.
//!
//! One TCP connection carries one subpartition to one consumer: a [`wire::PartitionRequest`], then [`wire::Frame`]s
//! until `EndOfPartition` or an error. Every queue on the way is bounded, so a slow consumer stops its producer:
//! subpartition (producer's memory) → socket buffers → input channel (consumer's memory).

mod channel;
mod files;
mod inbox;
mod output;
mod pipelined;
mod server;
pub(crate) mod wire;

pub(crate) use channel::{ChannelFailure, open_channels};
pub(crate) use files::{FilePartition, FileState};
pub(crate) use inbox::{Arrival, Inbox};
pub(crate) use output::Outputs;
pub use output::subpartition_of_key;
pub(crate) use pipelined::PipelinedPartition;
pub(crate) use server::serve;

/// Records are collected until a batch has this size, bytes.
pub(crate) const BATCH_BYTES: usize = 32 * 1024;

/// A batch that has not reached its size is sent after this time all the same.
pub(crate) const BATCH_DELAY: std::time::Duration = std::time::Duration::from_millis(10);

/// A subpartition in memory takes no more records while it holds this much, bytes. Record batches are added whole, so
/// it may hold one batch more.
pub(crate) const SUBPARTITION_BYTES: usize = 128 * 1024;

/// Frames that wait for the task in one input channel.
pub(crate) const CHANNEL_FRAMES: usize = 4;

/// Buffer of a data socket in the kernel, bytes. The default grows to megabytes, which would hide back-pressure.
pub(crate) const SOCKET_BYTES: usize = 128 * 1024;

/// Kept partitions that one task reads at the same time; the others wait for their turn.
pub(crate) const OPEN_FILE_CHANNELS: usize = 16;

/// How long connecting to a producer's executor may take.
pub(crate) const CONNECT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// An idle producer says so this often.
pub(crate) const ALIVE_INTERVAL: std::time::Duration = std::time::Duration::from_secs(5);

/// A data connection that is silent this long counts as broken.
pub(crate) const SILENCE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);
