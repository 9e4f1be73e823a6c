//! Reading an uploaded body: bounded in size and in silence, checked before anything is stored.

use std::time::Duration;

use bytes::BytesMut;
use futures::StreamExt;
use hyper::StatusCode;
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3Result, s3_error};

use super::errors::custom;
use crate::backend::content::Content;
use crate::backend::error::BackendError;
use crate::config::Limits;

/// Largest buffer reserved because a client announced it; more is grown as bytes arrive.
const MAX_RESERVED_BYTES: u64 = 64 << 20;

/// Reads a body to its end. A client that pauses longer than the idle bound is answered with `RequestTimeout`.
pub(crate) async fn read_body(
    body: Option<StreamingBlob>,
    announced: Option<i64>,
    limits: &Limits,
) -> S3Result<Content> {
    let announced = announced.and_then(|bytes| u64::try_from(bytes).ok());
    let too_large = |size_bytes| BackendError::TooLarge { size_bytes, max_bytes: limits.max_object_bytes };
    if let Some(size_bytes) = announced.filter(|bytes| *bytes > limits.max_object_bytes) {
        return Err(too_large(size_bytes).into());
    }
    let mut collected = BytesMut::with_capacity(announced.unwrap_or(0).min(MAX_RESERVED_BYTES) as usize);
    if let Some(mut body) = body {
        while let Some(piece) = next_piece(&mut body, limits.body_idle).await? {
            let size_bytes = (collected.len() + piece.len()) as u64;
            if size_bytes > limits.max_object_bytes {
                return Err(too_large(size_bytes).into());
            }
            collected.extend_from_slice(&piece);
        }
    }
    if let Some(announced) = announced.filter(|bytes| *bytes != collected.len() as u64) {
        return Err(s3_error!(IncompleteBody, "the body has {} bytes, announced were {announced}", collected.len()));
    }
    Ok(Content::from(collected.freeze()))
}

async fn next_piece(body: &mut StreamingBlob, idle: Duration) -> S3Result<Option<bytes::Bytes>> {
    match tokio::time::timeout(idle, body.next()).await {
        Ok(Some(Ok(piece))) => Ok(Some(piece)),
        Ok(Some(Err(error))) => Err(body_error(error)),
        Ok(None) => Ok(None),
        Err(_) => Err(s3_error!(RequestTimeout, "no byte of the body arrived for {} ms", idle.as_millis())),
    }
}

/// The protocol crate checks payload hashes and chunk signatures while the body is read, with errors whose types it
/// keeps to itself; their names are all there is to tell them apart.
fn body_error(error: s3s::StdError) -> S3Error {
    let text = error.to_string();
    if text.contains("Sha256Mismatch") {
        custom("XAmzContentSHA256Mismatch", StatusCode::BAD_REQUEST, text)
    } else if text.contains("SignatureMismatch") {
        s3_error!(SignatureDoesNotMatch, "{text}")
    } else {
        s3_error!(IncompleteBody, "the body ended early: {text}")
    }
}
