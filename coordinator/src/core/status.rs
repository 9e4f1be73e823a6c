//! States of jobs and attempts, by Flink's names (reference 3.7, 3.9).

use serde::{Deserialize, Serialize};

/// State of one attempt (Flink's `ExecutionState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExecutionState {
    /// Known, waits for its inputs or for a slot request to be made.
    Created,
    /// Waits for a slot.
    Scheduled,
    /// Sent to its executor.
    Deploying,
    /// Its state is being restored.
    Initializing,
    /// User code runs.
    Running,
    /// Done.
    Finished,
    /// Was asked to stop.
    Canceling,
    /// Stopped.
    Canceled,
    /// Failed.
    Failed,
    /// Kept for Flink's sake; never entered here.
    Reconciling,
}

impl ExecutionState {
    /// All ten, in the order Flink's REST API uses.
    pub const ALL: [Self; 10] = [
        Self::Created,
        Self::Scheduled,
        Self::Deploying,
        Self::Initializing,
        Self::Running,
        Self::Finished,
        Self::Canceling,
        Self::Canceled,
        Self::Failed,
        Self::Reconciling,
    ];

    /// Nothing leaves FINISHED, CANCELED and FAILED.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Canceled | Self::Failed)
    }

    /// Flink's name, e.g. `RUNNING`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Scheduled => "SCHEDULED",
            Self::Deploying => "DEPLOYING",
            Self::Initializing => "INITIALIZING",
            Self::Running => "RUNNING",
            Self::Finished => "FINISHED",
            Self::Canceling => "CANCELING",
            Self::Canceled => "CANCELED",
            Self::Failed => "FAILED",
            Self::Reconciling => "RECONCILING",
        }
    }
}

/// State of a job (Flink's `JobStatus`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobStatus {
    /// Accepted; its JobMaster does not exist yet (the checkpoint store is being recovered, FLINK-22483).
    Initializing,
    /// The JobMaster exists, nothing is scheduled.
    Created,
    /// Scheduled. New attempts may still be CREATED.
    Running,
    /// A failover waits for its delay or for old attempts to end.
    Restarting,
    /// Will fail once everything is cancelled.
    Failing,
    /// Failed for good.
    Failed,
    /// Will be CANCELED once everything is cancelled.
    Cancelling,
    /// Cancelled by the user.
    Canceled,
    /// Done.
    Finished,
    /// This coordinator stopped or lost leadership; another may go on.
    Suspended,
    /// Kept for Flink's sake; never entered here.
    Reconciling,
}

impl JobStatus {
    /// All eleven.
    pub const ALL: [Self; 11] = [
        Self::Initializing,
        Self::Created,
        Self::Running,
        Self::Restarting,
        Self::Failing,
        Self::Failed,
        Self::Cancelling,
        Self::Canceled,
        Self::Finished,
        Self::Suspended,
        Self::Reconciling,
    ];

    /// FAILED, CANCELED or FINISHED: over for every coordinator.
    #[must_use]
    pub fn is_globally_terminal(self) -> bool {
        matches!(self, Self::Failed | Self::Canceled | Self::Finished)
    }

    /// Flink's name, e.g. `RESTARTING`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Initializing => "INITIALIZING",
            Self::Created => "CREATED",
            Self::Running => "RUNNING",
            Self::Restarting => "RESTARTING",
            Self::Failing => "FAILING",
            Self::Failed => "FAILED",
            Self::Cancelling => "CANCELLING",
            Self::Canceled => "CANCELED",
            Self::Finished => "FINISHED",
            Self::Suspended => "SUSPENDED",
            Self::Reconciling => "RECONCILING",
        }
    }
}
