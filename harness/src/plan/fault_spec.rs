//! Faults as a plan names them: by what they mean to the job, not by process or path.

use std::fmt;

use stormproof_chaos::fault::UserCodeRule;
use stormproof_store::{Rule, RuleSet};

use super::Party;
use crate::target::Capability;

/// A fault, before its victim is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultSpec {
    /// SIGKILL the executor that runs this task when the fault begins.
    KillExecutorOf {
        /// The vertex.
        vertex: String,
        /// The subtask.
        subtask: u32,
    },
    /// SIGSTOP the executor that runs this task when the fault begins; healing continues it.
    HangExecutorOf {
        /// The vertex.
        vertex: String,
        /// The subtask.
        subtask: u32,
    },
    /// Let the executor that runs this task when the fault begins have only this share of its time; healing gives it
    /// back.
    SlowExecutorOf {
        /// The vertex.
        vertex: String,
        /// The subtask.
        subtask: u32,
        /// The share that is left, in percent: from 1 to 99.
        percent: u8,
    },
    /// Make the executor that runs this task when the fault begins exit by itself and at once, as one that has run out
    /// of memory.
    ExitExecutorOf {
        /// The vertex.
        vertex: String,
        /// The subtask.
        subtask: u32,
        /// Its exit code, e.g. 137.
        code: u8,
    },
    /// No file of the executor that runs this task when the fault begins grows beyond a size: its writes fail, as on a
    /// disk that is full. It acts when a write meets the limit. Healing gives the old one back. (Its log is one of the
    /// files.)
    LimitFilesOf {
        /// The vertex.
        vertex: String,
        /// The subtask.
        subtask: u32,
        /// The size.
        bytes: u64,
    },
    /// SIGKILL the leading coordinator.
    KillCoordinator,
    /// SIGSTOP the leading coordinator; healing continues it. (A bundled coordinator keeps its leadership meanwhile:
    /// the lock that stands for it is the kernel's.)
    HangCoordinator,
    /// Nothing passes from one party of the cluster to another, with `both_ways` nor back: connections stay open and
    /// silent. What is held back arrives when it is healed. (The acknowledgements of TCP itself are not held.)
    PartitionNetwork {
        /// Whose bytes vanish.
        from: Party,
        /// On their way to whom.
        to: Party,
        /// The other direction is silent, too.
        both_ways: bool,
    },
    /// Nothing passes between the leading coordinator and any executor; its REST API and its way to the store are
    /// whole.
    IsolateCoordinator,
    /// Delete what this (finished) task produced, where it lies.
    DropPartitionOf {
        /// The producing vertex.
        vertex: String,
        /// The producing subtask.
        subtask: u32,
    },
    /// Move the files of what this (finished) task produced out of reach; healing puts them back.
    HidePartitionOf {
        /// The producing vertex.
        vertex: String,
        /// The producing subtask.
        subtask: u32,
    },
    /// Change some bytes of what this (finished) task produced; healing changes them back.
    CorruptPartitionOf {
        /// The producing vertex.
        vertex: String,
        /// The producing subtask.
        subtask: u32,
    },
    /// The next call of this task's user code fails, once.
    FailUserCode {
        /// The vertex.
        vertex: String,
        /// The subtask.
        subtask: u32,
    },
    /// User code of this task fails by a rule.
    FailUserCodeByRule {
        /// The vertex.
        vertex: String,
        /// The subtask.
        subtask: u32,
        /// By which.
        rule: UserCodeRule,
    },
    /// User code of these tasks waits while the fault lasts: holds the job in a known state.
    HoldUserCode {
        /// The vertex.
        vertex: String,
        /// The subtasks.
        subtasks: Vec<u32>,
    },
    /// Nothing passes to or from the checkpoint store; connections stay open and silent.
    BlackholeStore,
    /// Connections to the checkpoint store are refused.
    RefuseStore,
    /// Requests that a rule chooses are hurt in the checkpoint store itself.
    HurtStoreRequests {
        /// Which requests, which of them in turn, and what happens to them.
        rule: Rule,
    },
}

impl FaultSpec {
    /// What the target must be able to do.
    #[must_use]
    pub fn needs(&self) -> Capability {
        match self {
            Self::KillExecutorOf { .. }
            | Self::HangExecutorOf { .. }
            | Self::SlowExecutorOf { .. }
            | Self::LimitFilesOf { .. } => Capability::ExecutorProcesses,
            Self::ExitExecutorOf { .. } => Capability::ExecutorExit,
            Self::KillCoordinator => Capability::CoordinatorProcesses,
            Self::HangCoordinator => Capability::CoordinatorStop,
            Self::DropPartitionOf { .. } | Self::HidePartitionOf { .. } | Self::CorruptPartitionOf { .. } => {
                Capability::Partitions
            }
            Self::FailUserCode { .. } | Self::HoldUserCode { .. } => Capability::UserCode,
            Self::FailUserCodeByRule { .. } => Capability::UserCodeRules,
            Self::HurtStoreRequests { .. } => Capability::StoreRules,
            Self::BlackholeStore | Self::RefuseStore => Capability::StoreLink,
            Self::PartitionNetwork { .. } | Self::IsolateCoordinator => Capability::NetworkLinks,
        }
    }

    /// True if an executor's process is what it is done to, or its network.
    #[must_use]
    pub fn hurts_executor(&self) -> bool {
        match self {
            Self::PartitionNetwork { from, to, .. } => {
                [from, to].iter().any(|party| matches!(party, Party::ExecutorOf { .. }))
            }
            _ => matches!(self.needs(), Capability::ExecutorProcesses | Capability::ExecutorExit),
        }
    }

    /// Finds what makes no sense.
    ///
    /// # Errors
    /// Which, and what it must be.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::FailUserCodeByRule { rule: UserCodeRule { per_million, times, .. }, .. } => {
                if !(1..=1_000_000).contains(per_million) {
                    Err("`per_million` must be from 1 to 1000000".to_owned())
                } else if *times == 0 {
                    Err("`times` must be at least 1".to_owned())
                } else {
                    Ok(())
                }
            }
            Self::HurtStoreRequests { rule } => RuleSet::of([rule.clone()]).check().map_err(|error| error.to_string()),
            Self::SlowExecutorOf { percent, .. } if !(1..=99).contains(percent) => {
                Err("`percent` must be from 1 to 99; to stop it altogether, hang it".to_owned())
            }
            Self::PartitionNetwork { from, to, .. } if from == to && *from != Party::AllExecutors => {
                Err("a network is between two different ones".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// True if it breaks nothing by itself and only holds the job still for another fault.
    #[must_use]
    pub fn is_stage_direction(&self) -> bool {
        matches!(self, Self::HoldUserCode { .. })
    }
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KillExecutorOf { vertex, subtask } => write!(f, "kill the executor of {vertex}[{subtask}]"),
            Self::HangExecutorOf { vertex, subtask } => write!(f, "hang the executor of {vertex}[{subtask}]"),
            Self::SlowExecutorOf { vertex, subtask, percent } => {
                write!(f, "slow the executor of {vertex}[{subtask}] down to {percent} %")
            }
            Self::ExitExecutorOf { vertex, subtask, code } => {
                write!(f, "make the executor of {vertex}[{subtask}] exit with code {code}")
            }
            Self::LimitFilesOf { vertex, subtask, bytes } => {
                write!(f, "limit the files of the executor of {vertex}[{subtask}] to {bytes} bytes")
            }
            Self::HangCoordinator => f.write_str("hang the leading coordinator"),
            Self::PartitionNetwork { from, to, both_ways: true } => {
                write!(f, "cut the network between {from} and {to}")
            }
            Self::PartitionNetwork { from, to, both_ways: false } => write!(f, "cut the network from {from} to {to}"),
            Self::IsolateCoordinator => f.write_str("isolate the leading coordinator"),
            Self::KillCoordinator => f.write_str("kill the leading coordinator"),
            Self::DropPartitionOf { vertex, subtask } => write!(f, "drop the partitions of {vertex}[{subtask}]"),
            Self::HidePartitionOf { vertex, subtask } => write!(f, "hide the partitions of {vertex}[{subtask}]"),
            Self::CorruptPartitionOf { vertex, subtask } => write!(f, "corrupt the partitions of {vertex}[{subtask}]"),
            Self::FailUserCode { vertex, subtask } => write!(f, "fail user code of {vertex}[{subtask}] once"),
            Self::FailUserCodeByRule { vertex, subtask, rule } => {
                write!(f, "fail user code of {vertex}[{subtask}] {rule}")
            }
            Self::HoldUserCode { vertex, subtasks } => write!(f, "hold {} subtasks of {vertex}", subtasks.len()),
            Self::BlackholeStore => f.write_str("blackhole the checkpoint store"),
            Self::HurtStoreRequests { rule } => write!(f, "hurt requests to the checkpoint store by rule {rule}"),
            Self::RefuseStore => f.write_str("refuse connections to the checkpoint store"),
        }
    }
}
