//! Who is on a cluster's network, by what they mean to the job.

use std::fmt;

/// One end of a network that is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Party {
    /// The executor that runs this task when the fault begins.
    ExecutorOf {
        /// The vertex.
        vertex: String,
        /// The subtask.
        subtask: u32,
    },
    /// Every executor that is there; opposite an executor, every other one.
    AllExecutors,
    /// The coordinator that leads when the fault begins.
    LeadingCoordinator,
}

impl Party {
    /// The executor that runs a task.
    pub fn executor_of(vertex: impl Into<String>, subtask: u32) -> Self {
        Self::ExecutorOf { vertex: vertex.into(), subtask }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExecutorOf { vertex, subtask } => write!(f, "the executor of {vertex}[{subtask}]"),
            Self::AllExecutors => f.write_str("all executors"),
            Self::LeadingCoordinator => f.write_str("the leading coordinator"),
        }
    }
}
