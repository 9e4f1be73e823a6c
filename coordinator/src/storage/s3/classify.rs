//! What to make of an error of the `minio` SDK. It loses the HTTP status of errors that have an XML body and gives
//! codes it does not know as lower-case text.

use std::error::Error as StdError;
use std::sync::Arc;

use minio::s3::error::{Error, NetworkError, S3ServerError, ValidationErr};
use minio::s3::minio_error_response::{MinioErrorCode, MinioErrorResponse};

use crate::storage::blob::{BlobErrorKind, BlobOp};

/// One attempt failed.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) kind: BlobErrorKind,
    pub(super) detail: String,
    pub(super) source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Failure {
    pub(super) fn new(kind: BlobErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), source: None }
    }

    /// A deadline passed: whatever the request does, it may still do.
    pub(super) fn timeout(op: BlobOp, detail: &str) -> Self {
        Self::new(unanswered(op, BlobErrorKind::Timeout), detail)
    }

    pub(super) fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }
}

/// A request that was sent and not answered is ambiguous if it changes something.
fn unanswered(op: BlobOp, otherwise: BlobErrorKind) -> BlobErrorKind {
    match op {
        BlobOp::Put | BlobOp::Delete => BlobErrorKind::Ambiguous,
        BlobOp::Get | BlobOp::List => otherwise,
    }
}

pub(super) fn failure(op: BlobOp, error: Error) -> Failure {
    let (kind, detail) = match &error {
        Error::S3Server(S3ServerError::S3Error(response)) => (of_code(op, response), answer(response)),
        Error::S3Server(
            S3ServerError::InvalidServerResponse { http_status_code: status, .. } | S3ServerError::HttpError(status, _),
        )
        | Error::Network(NetworkError::ServerError(status)) => {
            (of_status(op, *status), format!("it answered with status {status}"))
        }
        Error::Network(NetworkError::ReqwestError(http)) | Error::Validation(ValidationErr::HttpError(http)) => {
            of_http(op, http)
        }
        // The answer was no XML, or broke off.
        Error::Validation(ValidationErr::XmlParseError(_)) => {
            (unanswered(op, BlobErrorKind::Unreachable), "its answer cannot be read".to_owned())
        }
        other => (BlobErrorKind::Fatal, other.to_string()),
    };
    Failure::new(kind, detail).because(error)
}

fn answer(response: &MinioErrorResponse) -> String {
    let code = response.code();
    match response.message() {
        Some(message) => format!("it answered {code}: {message}"),
        None => format!("it answered {code}"),
    }
}

fn of_code(op: BlobOp, response: &MinioErrorResponse) -> BlobErrorKind {
    match response.code() {
        MinioErrorCode::NoSuchKey => BlobErrorKind::NotFound,
        // The SDK's own text, for any 409 without a body: on a put, somebody else writes the key at this moment.
        MinioErrorCode::NoSuchBucket
            if op == BlobOp::Put && response.message().as_deref() == Some("Bucket does not exist") =>
        {
            BlobErrorKind::Throttled
        }
        MinioErrorCode::OtherError(code) => match code.to_lowercase().as_str() {
            "preconditionfailed" => BlobErrorKind::PreconditionFailed,
            // A 409: another conditional put of the key is under way, and one of the two will win.
            "conditionalrequestconflict" | "operationaborted" => BlobErrorKind::Throttled,
            "slowdown"
            | "slowdownread"
            | "slowdownwrite"
            | "serviceunavailable"
            | "toomanyrequests"
            | "requestlimitexceeded"
            | "throttling"
            | "xminioservernotinitialized" => BlobErrorKind::Throttled,
            // The server did not get the whole request: nothing was written.
            "requesttimeout" | "incompletebody" => BlobErrorKind::Unreachable,
            "internalerror" => unanswered(op, BlobErrorKind::Unreachable),
            _ => BlobErrorKind::Fatal,
        },
        _ => BlobErrorKind::Fatal,
    }
}

fn of_status(op: BlobOp, status: u16) -> BlobErrorKind {
    match status {
        404 => BlobErrorKind::NotFound,
        412 => BlobErrorKind::PreconditionFailed,
        409 | 429 | 503 => BlobErrorKind::Throttled,
        408 => BlobErrorKind::Unreachable,
        500.. => unanswered(op, BlobErrorKind::Unreachable),
        _ => BlobErrorKind::Fatal,
    }
}

fn of_http(op: BlobOp, error: &reqwest::Error) -> (BlobErrorKind, String) {
    if error.is_connect() {
        return (BlobErrorKind::Unreachable, "no connection was made".to_owned());
    }
    if error.is_builder() {
        return (BlobErrorKind::Fatal, "the request cannot be built".to_owned());
    }
    (unanswered(op, BlobErrorKind::Unreachable), "the connection broke before the answer was complete".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(op: BlobOp, code: &str) -> BlobErrorKind {
        let xml = format!("<Error><Code>{code}</Code><Message>m</Message><RequestId>1</RequestId></Error>");
        let response = MinioErrorResponse::new_from_body(xml.into(), Default::default()).unwrap();
        failure(op, S3ServerError::S3Error(Box::new(response)).into()).kind
    }

    #[test]
    fn codes_are_told_apart() {
        for (code, kind) in [
            ("NoSuchKey", BlobErrorKind::NotFound),
            ("PreconditionFailed", BlobErrorKind::PreconditionFailed),
            ("SlowDown", BlobErrorKind::Throttled),
            ("ConditionalRequestConflict", BlobErrorKind::Throttled),
            ("InternalError", BlobErrorKind::Ambiguous),
            ("AccessDenied", BlobErrorKind::Fatal),
            ("NoSuchBucket", BlobErrorKind::Fatal),
            ("SignatureDoesNotMatch", BlobErrorKind::Fatal),
        ] {
            assert_eq!(coded(BlobOp::Put, code), kind, "{code}");
        }
        assert_eq!(coded(BlobOp::Get, "InternalError"), BlobErrorKind::Unreachable);
    }

    #[test]
    fn a_bare_status_is_enough() {
        let bare = |op, status| failure(op, NetworkError::ServerError(status).into());
        assert_eq!(bare(BlobOp::Put, 412).kind, BlobErrorKind::PreconditionFailed);
        assert_eq!(bare(BlobOp::Get, 503).kind, BlobErrorKind::Throttled);
        assert_eq!(bare(BlobOp::Put, 500).kind, BlobErrorKind::Ambiguous);
        assert_eq!(bare(BlobOp::Get, 502).kind, BlobErrorKind::Unreachable);
        assert_eq!(bare(BlobOp::Get, 418).kind, BlobErrorKind::Fatal);
        assert_eq!(bare(BlobOp::Get, 503).detail, "it answered with status 503");
    }
}
