//! The S3 code and HTTP status of each refusal.

use s3s::{S3Error, S3ErrorCode};

use crate::backend::error::BackendError;

impl From<BackendError> for S3Error {
    fn from(error: BackendError) -> Self {
        let code = match &error {
            BackendError::NoSuchBucket { .. } => S3ErrorCode::NoSuchBucket,
            BackendError::BucketExists { .. } => S3ErrorCode::BucketAlreadyOwnedByYou,
            BackendError::BucketNotEmpty { .. } => S3ErrorCode::BucketNotEmpty,
            BackendError::InvalidBucketName { .. } => S3ErrorCode::InvalidBucketName,
            BackendError::InvalidKey { length: 0 } => S3ErrorCode::InvalidArgument,
            BackendError::InvalidKey { .. } => S3ErrorCode::KeyTooLongError,
            BackendError::NoSuchKey { .. } => S3ErrorCode::NoSuchKey,
            BackendError::NoSuchUpload { .. } => S3ErrorCode::NoSuchUpload,
            BackendError::PreconditionFailed { .. } => S3ErrorCode::PreconditionFailed,
            BackendError::ConditionalConflict => S3ErrorCode::ConditionalRequestConflict,
            BackendError::InvalidPart { .. } => S3ErrorCode::InvalidPart,
            BackendError::ChecksumDiffers { .. } => S3ErrorCode::BadDigest,
            BackendError::SizeDiffers { .. } => S3ErrorCode::InvalidRequest,
            BackendError::InvalidPartOrder => S3ErrorCode::InvalidPartOrder,
            BackendError::NoParts => S3ErrorCode::MalformedXML,
            BackendError::PartTooSmall { .. } => S3ErrorCode::EntityTooSmall,
            BackendError::TooLarge { .. } => S3ErrorCode::EntityTooLarge,
            BackendError::NotKept { .. } => S3ErrorCode::InternalError,
            BackendError::Full { .. } => {
                return custom("InsufficientStorage", hyper::StatusCode::INSUFFICIENT_STORAGE, error.to_string());
            }
        };
        S3Error::with_message(code, error.to_string())
    }
}

/// An error whose code the protocol crate does not list.
pub(crate) fn custom(code: &'static str, status: hyper::StatusCode, message: String) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message);
    error.set_status_code(status);
    error
}
