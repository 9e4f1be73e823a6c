//! Errors as Flink gives them.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::cluster::{CancelError, SubmitError};

/// Flink's text while no leader is known; clients wait when they read it.
pub(super) const NO_LEADER: &str = "Service temporarily unavailable due to an ongoing leader election. Please refresh.";

/// An answer that is no success.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    status: StatusCode,
    errors: Vec<String>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, errors: vec![message.into()] }
    }

    /// Something that may exist, and does not.
    pub(super) fn not_found(what: impl std::fmt::Display) -> Self {
        let class = "org.apache.flink.runtime.rest.NotFoundException";
        Self::new(StatusCode::NOT_FOUND, format!("{class}: {what}"))
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A path or query parameter that cannot be read; `kind` is `path` or `query`.
    pub(super) fn parameter(kind: &str, name: &str, value: &str) -> Self {
        Self::bad_request(format!(
            "Bad request, could not parse parameters: Cannot resolve {kind} parameter ({name}) from value \"{value}\"."
        ))
    }

    pub(super) fn no_leader() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, NO_LEADER)
    }

    fn internal(message: String) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, errors: vec!["Internal server error.".into(), message] }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "errors": self.errors }))).into_response()
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::NotLeader => Self::no_leader(),
            SubmitError::Store(_) => Self::internal(error.to_string()),
            // Flink, too, gives a duplicate a 400.
            SubmitError::Graph(_) | SubmitError::Config(_) | SubmitError::Duplicate(_) => {
                Self::bad_request(error.to_string())
            }
        }
    }
}

impl From<CancelError> for ApiError {
    fn from(error: CancelError) -> Self {
        match error {
            CancelError::NotFound(job) => Self::not_found(format_args!("Job {job} not found")),
            CancelError::AlreadyTerminal(_, state) => Self::new(
                StatusCode::CONFLICT,
                format!(
                    "Job cancellation failed because the job has already reached another terminal state ({state})."
                ),
            ),
            CancelError::Store(..) => Self::internal(format!("Job cancellation failed: {error}.")),
        }
    }
}
