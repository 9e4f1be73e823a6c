//! Checkpoints in an object store: keys, metadata, snapshots, and the S3 client behind one trait.
//!
//! | type | for |
//! | --- | --- |
//! | [`BlobStore`] | an object store with deadlines; [`S3BlobStore`] and [`MemoryBlobStore`] |
//! | [`SnapshotStorage`] | state of single tasks: what an executor needs |
//! | [`CheckpointStorage`] | whole checkpoints, with their pointers in the HA store: what a coordinator needs |
//!
//! Nothing here retries for ever and nothing here waits without a deadline: a hung store costs one call its
//! [`Deadlines::total`], never a job's thread (FLINK-22483).

pub mod blob;
pub mod checkpoints;
pub mod deadlines;
pub mod layout;
pub mod memory;
pub mod metadata;
pub mod s3;
pub mod snapshots;

pub use blob::{BlobError, BlobErrorKind, BlobInfo, BlobOp, BlobStore, PutMode};
pub use checkpoints::{CheckpointStorage, DiscardError, RecoverError};
pub use deadlines::Deadlines;
pub use memory::{FaultOutcome, MemoryBlobStore};
pub use s3::S3BlobStore;
pub use snapshots::{INLINE_LIMIT_BYTES, SnapshotStorage};
