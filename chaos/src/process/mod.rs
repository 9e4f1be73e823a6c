//! Processes we may hurt: found by pid *and* start time, so that a reused pid is never hit.

mod file_limit;
mod identity;
mod listen;
mod open_files;
mod tagged;
mod victim;

pub use identity::{ProcessError, ProcessId};
pub use open_files::raise_open_files_limit;
pub(crate) use open_files::{open_files, open_files_limit};
pub use tagged::{RUN_TAG_VARIABLE, tagged_processes};
pub use victim::{OffLimits, victim};

/// What was to be taken back of a process: one that is gone needs nothing.
pub(crate) fn gone_is_done(done: Result<(), ProcessError>) -> Result<(), ProcessError> {
    match done {
        Err(ProcessError::Gone(_)) => Ok(()),
        other => other,
    }
}
