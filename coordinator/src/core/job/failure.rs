//! Failures as the job sees them.

use crate::core::event::Millis;
use crate::graph::{ExecutorId, ResultPartitionId, TaskError};
use crate::runtime::protocol::{FailureKind, TaskFailure};

/// Why a task or the job failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// Name of the kind, as the exception history shows it.
    pub(super) name: &'static str,
    /// Messages, outermost first.
    pub(super) chain: Vec<String>,
    /// The partition that could not be read (the only thing in a failure that names another task).
    pub(super) partition: Option<ResultPartitionId>,
    /// Stops the job at once (reference 3.3).
    pub(super) non_recoverable: bool,
    /// When it was noticed.
    pub(super) at: Millis,
}

impl Failure {
    fn new(name: &'static str, chain: Vec<String>, at: Millis) -> Self {
        Self { name, chain, partition: None, non_recoverable: false, at }
    }

    /// What an executor reported.
    pub(super) fn reported(failure: TaskFailure, at: Millis) -> Self {
        let TaskFailure { error: TaskError { chain, .. }, kind } = failure;
        let (name, partition) = match kind {
            FailureKind::Task => ("TaskException", None),
            FailureKind::PartitionNotFound(partition) => ("PartitionNotFoundException", Some(partition)),
            FailureKind::PartitionConnection(partition) => ("PartitionConnectionException", Some(partition)),
            FailureKind::RemoteTransport => ("RemoteTransportException", None),
            FailureKind::ExecutorLost => ("ExecutorLostException", None),
            FailureKind::NonRecoverable => ("NonRecoverableException", None),
            // P195: whoever submitted the job can run the one that makes it again; a restart of this one cannot.
            FailureKind::DataSetLost(_) => ("ClusterDatasetCorruptedException", None),
        };
        let non_recoverable = matches!(kind, FailureKind::NonRecoverable | FailureKind::DataSetLost(_));
        Self { partition, non_recoverable, ..Self::new(name, chain, at) }
    }

    /// The executor of a task is gone.
    pub(super) fn executor_lost(executor: &ExecutorId, reason: &str, at: Millis) -> Self {
        let chain = vec![format!("executor `{executor}` was lost"), reason.to_owned()];
        Self::new("ExecutorLostException", chain, at)
    }

    /// Slots could not be had in time.
    pub(super) fn no_resources(reason: &str, at: Millis) -> Self {
        let chain = vec!["could not acquire the slots that the region needs".to_owned(), reason.to_owned()];
        Self::new("NoResourceAvailableException", chain, at)
    }

    /// An input is known to be lost before its consumer is deployed.
    pub(super) fn input_lost(partition: ResultPartitionId, producer: &str, at: Millis) -> Self {
        let chain = vec![format!(
            "partition {} of `{producer}` ({}) attempt {} is gone: it must be produced again",
            partition.partition.data_set, partition.partition.producer.subtask, partition.attempt
        )];
        Self { partition: Some(partition), ..Self::new("PartitionNotFoundException", chain, at) }
    }

    /// The input of a source could not be listed.
    pub(super) fn enumeration(vertex: &str, error: TaskError, at: Millis) -> Self {
        let TaskError { chain, is_non_recoverable } =
            error.context(format!("could not list the splits of source `{vertex}`"));
        Self { non_recoverable: is_non_recoverable, ..Self::new("SplitEnumerationException", chain, at) }
    }

    /// Too many checkpoints failed in a row.
    pub(super) fn checkpoints(reason: String, at: Millis) -> Self {
        let chain = vec!["Exceeded checkpoint tolerable failure threshold.".to_owned(), reason];
        Self::new("CheckpointException", chain, at)
    }

    /// The end of the job, caused by this failure.
    pub(super) fn fatal(&self, message: String, at: Millis) -> Self {
        let mut chain = vec![message];
        chain.extend(self.chain.iter().cloned());
        Self { non_recoverable: self.non_recoverable, ..Self::new("JobException", chain, at) }
    }

    /// The chain on one line.
    pub(super) fn message(&self) -> String {
        format!("{}: {}", self.name, self.chain.join(": "))
    }

    /// The chain as Flink prints one, a cause a line.
    pub(super) fn stacktrace(&self) -> String {
        format!("{}: {}", self.name, self.chain.join("\nCaused by: "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fatal_failure_keeps_its_causes() {
        let cause = Failure::reported(
            TaskFailure { error: TaskError::new("disk full").context("could not write"), kind: FailureKind::Task },
            7,
        );
        let fatal = cause.fatal("Recovery is suppressed by NoRestart".to_owned(), 9);
        assert_eq!(
            fatal.stacktrace(),
            "JobException: Recovery is suppressed by NoRestart\nCaused by: could not write\nCaused by: disk full"
        );
        assert_eq!((cause.at, fatal.at), (7, 9));
        assert_eq!(cause.message(), "TaskException: could not write: disk full");
    }
}
