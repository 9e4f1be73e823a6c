//! What can go wrong with a request.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::toxiproxy::leases::LEASE_NOT_FOUND;

/// Characters of a server's message that are shown, at most.
const MESSAGE_CAP_CHARS: usize = 1000;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No answer: not reached, broken off, or too slow.
    #[error("{request} got no answer from the Toxiproxy API at {server}; is it running there?")]
    Transport {
        /// Method and path.
        request: String,
        /// Base URL.
        server: String,
        /// What happened.
        #[source]
        source: reqwest::Error,
    },
    /// The server said no.
    #[error("{request} was answered {status}: {message}")]
    Refused {
        /// Method and path.
        request: String,
        /// HTTP status.
        status: u16,
        /// The server's message.
        message: String,
    },
    /// The answer is not what the API promises.
    #[error("{request} was answered with something that is not Toxiproxy's JSON")]
    Answer {
        /// Method and path.
        request: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The answer does not end.
    #[error("{request} was answered with more than {cap_bytes} bytes; is it a Toxiproxy?")]
    TooLong {
        /// Method and path.
        request: String,
        /// How many bytes were taken before giving up.
        cap_bytes: usize,
    },
}

impl ClientError {
    /// The status of a refusal.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            ClientError::Refused { status, .. } => Some(*status),
            ClientError::Transport { .. } | ClientError::Answer { .. } | ClientError::TooLong { .. } => None,
        }
    }

    /// Whether the proxy or toxic does not exist. For a heal that is as good as done.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Whether the lease that the change was to belong to has ended; nothing was changed then.
    #[must_use]
    pub fn is_lease_lost(&self) -> bool {
        self.is_not_found() && matches!(self, ClientError::Refused { message, .. } if message == LEASE_NOT_FOUND)
    }

    /// Whether the name is taken.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// The error for an answer with an unexpected status.
pub(super) fn refusal(request: String, status: StatusCode, body: &[u8]) -> ClientError {
    let message = serde_json::from_slice::<Refusal>(body)
        .map_or_else(|_| String::from_utf8_lossy(body).trim().to_owned(), |refusal| refusal.error);
    // A page of somebody else's server would bury the rest of the sentence.
    let message = message.chars().take(MESSAGE_CAP_CHARS).collect();
    ClientError::Refused { request, status: status.as_u16(), message }
}
