//! Result partition types and how edges connect subtasks.

use serde::{Deserialize, Serialize};

/// How an intermediate result is kept and consumed (Flink's `ResultPartitionType`, reference 1.1).
///
/// The predicates are separate on purpose: Flink once had a single "is pipelined" flag that meant three things
/// (FLINK-27902).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ResultPartitionType {
    /// Streamed while it is produced, unbounded buffers.
    Pipelined,
    /// Streamed while it is produced, bounded buffers: the default of streaming jobs.
    PipelinedBounded,
    /// Streamed, with approximate local recovery: the consumer may be restarted alone.
    PipelinedApproximate,
    /// Kept until the scheduler releases it, consumed after it is complete: the default of batch jobs.
    Blocking,
    /// Like `Blocking`, and never released on its own (a cached result).
    BlockingPersistent,
    /// May be consumed while it is produced, and again later.
    HybridFull,
    /// May be consumed while it is produced, once.
    HybridSelective,
}

impl ResultPartitionType {
    /// All seven, in the order of the reference.
    pub const ALL: [Self; 7] = [
        Self::Pipelined,
        Self::PipelinedBounded,
        Self::PipelinedApproximate,
        Self::Blocking,
        Self::BlockingPersistent,
        Self::HybridFull,
        Self::HybridSelective,
    ];

    /// Producer and consumer must run together: this, and only this, ties regions.
    #[must_use]
    pub fn must_be_pipelined_consumed(self) -> bool {
        matches!(self, Self::Pipelined | Self::PipelinedBounded)
    }

    /// A consumer may be scheduled while the producer still runs.
    #[must_use]
    pub fn can_be_pipelined_consumed(self) -> bool {
        !self.is_blocking_or_blocking_persistent()
    }

    /// The scheduler (and not the upstream task) decides when it is released; such partitions are tracked.
    #[must_use]
    pub fn is_release_by_scheduler(self) -> bool {
        matches!(self, Self::Blocking | Self::BlockingPersistent | Self::HybridFull | Self::HybridSelective)
    }

    /// It can be read more than once, so a restarted consumer finds its input again.
    #[must_use]
    pub fn is_reconsumable(self) -> bool {
        matches!(self, Self::Blocking | Self::BlockingPersistent | Self::HybridFull)
    }

    /// Never released on its own, promoted when the job succeeds.
    #[must_use]
    pub fn is_persistent(self) -> bool {
        self == Self::BlockingPersistent
    }

    /// Becomes consumable when the producer finishes.
    #[must_use]
    pub fn is_blocking_or_blocking_persistent(self) -> bool {
        matches!(self, Self::Blocking | Self::BlockingPersistent)
    }

    /// The name in Flink's REST plan (`exchange`), e.g. `pipelined_bounded`.
    #[must_use]
    pub fn exchange_name(self) -> &'static str {
        match self {
            Self::Pipelined => "pipelined",
            Self::PipelinedBounded => "pipelined_bounded",
            Self::PipelinedApproximate => "pipelined_approximate",
            Self::Blocking => "blocking",
            Self::BlockingPersistent => "blocking_persistent",
            Self::HybridFull => "hybrid_full",
            Self::HybridSelective => "hybrid_selective",
        }
    }

    /// The type with this REST `exchange` name, any case.
    #[must_use]
    pub fn from_exchange_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.exchange_name().eq_ignore_ascii_case(name))
    }
}

/// Which consumers read which producers (Flink's `DistributionPattern`, reference 1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DistributionPattern {
    /// Each consumer reads a contiguous range of producers, or the other way round.
    Pointwise,
    /// Every consumer reads every producer.
    AllToAll,
}

/// How records are spread over consumers, by Flink's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ShipStrategy {
    /// One to one; both sides have the same parallelism.
    Forward,
    /// Round robin within the pointwise range.
    Rescale,
    /// By the hash of the record's key, over all consumers.
    Hash,
    /// Round robin over all consumers.
    Rebalance,
    /// Each record to all consumers.
    Broadcast,
    /// All records to consumer 0.
    Global,
}

impl ShipStrategy {
    /// The distribution pattern that this strategy needs.
    #[must_use]
    pub fn pattern(self) -> DistributionPattern {
        match self {
            Self::Forward | Self::Rescale => DistributionPattern::Pointwise,
            Self::Hash | Self::Rebalance | Self::Broadcast | Self::Global => DistributionPattern::AllToAll,
        }
    }

    /// The name in Flink's REST plan (`ship_strategy`), e.g. `FORWARD`.
    #[must_use]
    pub fn rest_name(self) -> &'static str {
        match self {
            Self::Forward => "FORWARD",
            Self::Rescale => "RESCALE",
            Self::Hash => "HASH",
            Self::Rebalance => "REBALANCE",
            Self::Broadcast => "BROADCAST",
            Self::Global => "GLOBAL",
        }
    }
}
