//! What can go wrong with a REST call, and whether it will pass by itself.

use std::time::Duration;

/// A REST call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestError {
    /// The client was given no usable address.
    #[error("`{0}` is not the address of a coordinator: expected `http://host:port`")]
    Address(String),
    /// No coordinator could be reached.
    #[error("no coordinator answered {path}: {reason}")]
    Unreachable {
        /// The call.
        path: String,
        /// Per coordinator, what happened.
        reason: String,
    },
    /// A coordinator answered 503: it does not lead, or an election is going on.
    #[error("no coordinator leads (asked for {path}): {message}")]
    NoLeader {
        /// The call.
        path: String,
        /// What it said.
        message: String,
    },
    /// No answer in time. Whether the call took effect is unknown.
    #[error("no answer to {path} within {limit:?}")]
    TimedOut {
        /// The call.
        path: String,
        /// The limit.
        limit: Duration,
    },
    /// The connection broke after the call was sent. Whether it took effect is unknown.
    #[error("the connection broke during {path}: {reason}")]
    Broken {
        /// The call.
        path: String,
        /// How.
        reason: String,
    },
    /// 404. While leadership moves, a job reads as unknown until the new leader has recovered it.
    #[error("{path} was not found: {message}")]
    NotFound {
        /// The call.
        path: String,
        /// What the coordinator said.
        message: String,
        /// Leadership was disturbed a moment ago, so this may not be the last word.
        electing: bool,
    },
    /// 500 that says the job's JobMaster does not exist yet (`/checkpoints` since 1.18; the answer is cached for
    /// seconds).
    #[error("the job is initializing, so {path} has no answer yet")]
    Initializing {
        /// The call.
        path: String,
    },
    /// 409: the job is in another terminal state.
    #[error("{path} is not possible any more: {message}")]
    Conflict {
        /// The call.
        path: String,
        /// What the coordinator said.
        message: String,
    },
    /// Any other status.
    #[error("{path} was answered with status {status}: {message}")]
    Status {
        /// The call.
        path: String,
        /// HTTP status.
        status: u16,
        /// What the coordinator said.
        message: String,
    },
    /// The answer is not what Flink's API promises.
    #[error("the answer to {path} cannot be read: {reason}")]
    Malformed {
        /// The call.
        path: String,
        /// Why.
        reason: String,
    },
}

impl RestError {
    /// Trying again later may well succeed: nothing is wrong with the question.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::NoLeader { .. }
            | Self::TimedOut { .. }
            | Self::Broken { .. }
            | Self::Initializing { .. } => true,
            Self::NotFound { electing, .. } => *electing,
            Self::Address(_) | Self::Conflict { .. } | Self::Status { .. } | Self::Malformed { .. } => false,
        }
    }

    /// The call certainly did nothing, so even a submission may be sent again.
    #[must_use]
    pub fn is_certainly_undone(&self) -> bool {
        !matches!(self, Self::TimedOut { .. } | Self::Broken { .. } | Self::Malformed { .. })
    }

    /// What an answer with this status means.
    pub(super) fn of_status(path: &str, status: u16, body: &[u8], electing: bool) -> Self {
        let (path, message) = (path.to_owned(), first_words(body));
        match status {
            404 => Self::NotFound { path, message, electing },
            409 => Self::Conflict { path, message },
            503 => Self::NoLeader { path, message },
            500 if is_initializing(body) => Self::Initializing { path },
            _ => Self::Status { path, status, message },
        }
    }
}

fn is_initializing(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    text.contains("UnavailableDispatcherOperationException") || text.contains("initializing job")
}

/// Flink answers `{"errors":[…]}` with whole Java stack traces; the first line that says something is enough.
fn first_words(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Errors {
        errors: Vec<String>,
    }
    let text = match serde_json::from_slice::<Errors>(body) {
        Ok(answer) => answer.errors.join("\n"),
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    let telling =
        |line: &&str| !line.is_empty() && !line.starts_with("Internal server error") && !line.ends_with("side:");
    let line = text.lines().map(str::trim).find(telling).unwrap_or("no message");
    line.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_told_apart() {
        let of = |status, body: &str| RestError::of_status("/jobs/x", status, body.as_bytes(), false);
        let unavailable = r#"{"errors":["Internal server error.","<Exception on server side:\norg.apache.flink.runtime.dispatcher.UnavailableDispatcherOperationException: Unable to get JobMasterGateway for initializing job."]}"#;
        assert_eq!(of(500, unavailable), RestError::Initializing { path: "/jobs/x".into() });
        assert!(of(503, "").is_transient());
        assert!(!of(500, r#"{"errors":["Internal server error."]}"#).is_transient());
        assert!(!of(404, "").is_transient());
        assert!(RestError::of_status("/jobs/x", 404, b"", true).is_transient());
        assert!(matches!(of(409, ""), RestError::Conflict { .. }));
    }

    #[test]
    fn a_stack_trace_is_cut_to_its_first_telling_line() {
        let body = r#"{"errors":["Internal server error.","<Exception on server side:\njava.lang.Boom: because\n\tat a.b.C"]}"#;
        let error = RestError::of_status("/overview", 500, body.as_bytes(), false);
        assert_eq!(error.to_string(), "/overview was answered with status 500: java.lang.Boom: because");
    }

    #[test]
    fn a_call_that_was_cut_may_have_worked() {
        let timed_out = RestError::TimedOut { path: "/jars/x/run".into(), limit: Duration::from_secs(1) };
        assert!(!timed_out.is_certainly_undone());
        assert!(RestError::NoLeader { path: String::new(), message: String::new() }.is_certainly_undone());
    }
}
