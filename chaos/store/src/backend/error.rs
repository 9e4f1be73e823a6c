//! Why the backend refused something.

/// A refusal of the backend. The S3 side gives each its S3 code and HTTP status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// 404 `NoSuchBucket`.
    #[error("bucket {bucket} does not exist")]
    NoSuchBucket {
        /// The bucket.
        bucket: String,
    },
    /// 409 `BucketAlreadyOwnedByYou`.
    #[error("bucket {bucket} exists already")]
    BucketExists {
        /// The bucket.
        bucket: String,
    },
    /// 409 `BucketNotEmpty`.
    #[error("bucket {bucket} still holds {objects} objects; delete them first")]
    BucketNotEmpty {
        /// The bucket.
        bucket: String,
        /// Objects in it.
        objects: usize,
    },
    /// 400 `InvalidBucketName`.
    #[error("{bucket:?} is not a bucket name (3 to 63 of a-z, 0-9, dot and hyphen)")]
    InvalidBucketName {
        /// What was given.
        bucket: String,
    },
    /// 400 `KeyTooLongError`, or `InvalidArgument` for an empty key.
    #[error("a key of {length} bytes is not possible (1 to 1024)")]
    InvalidKey {
        /// Length of the key in bytes.
        length: usize,
    },
    /// 404 `NoSuchKey`.
    #[error("object {bucket}/{key} does not exist")]
    NoSuchKey {
        /// The bucket.
        bucket: String,
        /// The key.
        key: String,
    },
    /// 404 `NoSuchUpload`.
    #[error("upload {upload} of {bucket}/{key} is not open: it was completed, aborted or never created")]
    NoSuchUpload {
        /// The bucket.
        bucket: String,
        /// The key.
        key: String,
        /// The upload id.
        upload: String,
    },
    /// 412 `PreconditionFailed`.
    #[error("the precondition {condition} did not hold")]
    PreconditionFailed {
        /// The header, such as `If-Match`.
        condition: &'static str,
    },
    /// 409 `ConditionalRequestConflict`.
    #[error("the object was deleted while this conditional write was under way; look again and retry")]
    ConditionalConflict,
    /// 400 `InvalidPart`.
    #[error("part {number} was not uploaded, or its ETag is another one")]
    InvalidPart {
        /// The part number.
        number: i32,
    },
    /// 400 `BadDigest`.
    #[error("the {algorithm} of the object is not the one that was given")]
    ChecksumDiffers {
        /// Such as `CRC32`.
        algorithm: &'static str,
    },
    /// 400 `InvalidRequest`.
    #[error("the object has {size_bytes} bytes and not {said_bytes}, as x-amz-mp-object-size says")]
    SizeDiffers {
        /// What was said, in bytes.
        said_bytes: u64,
        /// What it is, in bytes.
        size_bytes: u64,
    },
    /// 400 `InvalidPartOrder`.
    #[error("the list of parts is not in ascending order")]
    InvalidPartOrder,
    /// 400 `MalformedXML`.
    #[error("the list of parts is empty")]
    NoParts,
    /// 400 `EntityTooSmall`.
    #[error("part {number} has {size_bytes} bytes, all but the last need {min_bytes}")]
    PartTooSmall {
        /// The part number.
        number: i32,
        /// Its size in bytes.
        size_bytes: u64,
        /// The least size in bytes.
        min_bytes: u64,
    },
    /// 400 `EntityTooLarge`.
    #[error("{size_bytes} bytes exceed the limit of {max_bytes}")]
    TooLarge {
        /// The size in bytes.
        size_bytes: u64,
        /// The limit in bytes.
        max_bytes: u64,
    },
    /// 500 `InternalError`: the change may be there until the server ends, but not in the next one.
    #[error("nothing can be written any more: {reason}; make room or mend the folder, then start the server again")]
    NotKept {
        /// What could not be written, and why.
        reason: String,
    },
    /// 507 `InsufficientStorage`.
    #[error("the store is full: {total_bytes} of at most {max_bytes} bytes would be used")]
    Full {
        /// Bytes that would be stored.
        total_bytes: u64,
        /// The limit in bytes.
        max_bytes: u64,
    },
}
