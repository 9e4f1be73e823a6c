//! Why a coordinator process ends early.

use crate::config::ConfigError;
use crate::leadership::HaError;
use crate::rest::RestError;

/// A coordinator cannot start, or cannot go on. Its jobs are kept in the HA store: another coordinator takes them over.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// Its configuration is wrong.
    #[error("the configuration is wrong")]
    Config(#[from] ConfigError),
    /// The checkpoint store's client cannot be made (a malformed endpoint, say).
    #[error("the checkpoint store is not usable: {0}")]
    Store(String),
    /// Executors cannot be served on this address.
    #[error("cannot listen on {address} for executors; choose another address, or port 0")]
    Bind {
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Who leads cannot be watched.
    #[error("cannot start the thread that watches who leads")]
    Watch(#[source] std::io::Error),
    /// REST cannot be served.
    #[error(transparent)]
    Rest(#[from] RestError),
    /// The election or the HA store failed before this coordinator led.
    #[error("cannot become leader")]
    Election(#[source] HaError),
    /// A write to the HA store was refused: another coordinator leads. All jobs here are suspended.
    #[error("leadership was lost: {0}")]
    Fenced(String),
    /// The jobs cannot be read.
    #[error("cannot read the recorded jobs")]
    Jobs(#[source] HaError),
    /// Something that must not happen; going on would risk wrong results.
    #[error("{0}")]
    Fatal(String),
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
