//! Errors as the API answers them.

use axum::http::StatusCode;

use super::go_json::BadJson;

/// A status and a message; the message is Toxiproxy's where it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

/// Why there is no `packet_loss`, which newer versions of Toxiproxy have.
const NO_PACKETS: &str = " packet_loss: a TCP proxy has no packets to lose, and a stream without some of its bytes would be \
    corrupt. What TCP makes of lost packets is delay: use latency with jitter, with a toxicity below 1 for some connections \
    only; use bandwidth with rate 0 for a stall, and timeout or reset_peer for a connection that breaks";

impl ApiError {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn bad_body(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("bad request body: {detail}"))
    }

    pub(crate) fn missing_field(field: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("missing required field: {field}"))
    }

    pub(crate) fn invalid_stream() -> Self {
        Self::new(StatusCode::BAD_REQUEST, super::stream::UnknownStream.to_string())
    }

    pub(crate) fn invalid_type(kind: &str) -> Self {
        let advice = if kind == "packet_loss" { NO_PACKETS } else { "" };
        Self::new(StatusCode::BAD_REQUEST, format!("invalid toxic type{advice}"))
    }

    pub(crate) fn proxy_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "proxy not found")
    }

    pub(crate) fn proxy_exists() -> Self {
        Self::new(StatusCode::CONFLICT, "proxy already exists")
    }

    pub(crate) fn toxic_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "toxic not found")
    }

    pub(crate) fn toxic_exists() -> Self {
        Self::new(StatusCode::CONFLICT, "toxic already exists")
    }

    pub(crate) fn lease_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, super::leases::LEASE_NOT_FOUND)
    }

    pub(crate) fn lease_exists() -> Self {
        Self::new(StatusCode::CONFLICT, "lease already exists")
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    pub(crate) fn too_slow(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }
}

impl From<BadJson> for ApiError {
    fn from(detail: BadJson) -> Self {
        Self::bad_body(detail)
    }
}
