//! What a job may be told about its own recovery. The runtime maps Flink's configuration keys onto it.

use crate::core::failover::{FailoverStrategy, StalePolicy};
use crate::core::restart_strategy::RestartStrategyConfig;
use crate::graph::JobKind;

/// Settings of one job. [`Default`] is Flink's default for a batch job; [`JobSettings::for_job`] picks by kind.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSettings {
    /// `restart-strategy.*`.
    pub restart: RestartStrategyConfig,
    /// `jobmanager.execution.failover-strategy`.
    pub failover: FailoverStrategy,
    /// `execution.checkpointing.interval`, milliseconds; none: no checkpoints. Batch jobs ignore it.
    pub checkpoint_interval_ms: Option<u64>,
    /// `execution.checkpointing.timeout`, milliseconds.
    pub checkpoint_timeout_ms: u64,
    /// `execution.checkpointing.min-pause`, milliseconds from one completion to the next trigger.
    pub min_pause_ms: u64,
    /// `execution.checkpointing.tolerable-failed-checkpoints`: consecutive failures that are tolerated.
    pub tolerable_failed: u32,
    /// `execution.checkpointing.num-retained`, at least 1.
    pub num_retained: u32,
    /// `jobmanager.execution.attempts-history-size`: earlier attempts kept per subtask.
    pub attempts_history: usize,
    /// `web.exception-history-size`: root entries.
    pub exception_history: usize,
    /// `web.checkpoints.history`: entries.
    pub checkpoints_history: usize,
    /// `jobmanager.partition.release-during-job-execution`.
    pub release_during_execution: bool,
    /// Forget a lost executor's partitions before its tasks fail: one failover instead of two, counted once.
    /// `false` is Flink's order (reference 2.4), where each task's failure is also counted by itself.
    pub untrack_before_slots_fail: bool,
    /// What a partition failure that names an old attempt does to the new one (reference 2.9).
    pub stale: StalePolicy,
}

impl Default for JobSettings {
    fn default() -> Self {
        Self {
            restart: RestartStrategyConfig::None,
            failover: FailoverStrategy::Region,
            checkpoint_interval_ms: None,
            checkpoint_timeout_ms: 600_000,
            min_pause_ms: 0,
            tolerable_failed: 0,
            num_retained: 1,
            attempts_history: 16,
            exception_history: 16,
            checkpoints_history: 10,
            release_during_execution: true,
            untrack_before_slots_fail: true,
            stale: StalePolicy::Ignore,
        }
    }
}

impl JobSettings {
    /// Flink's defaults for a job of this kind, checkpointed every `checkpoint_interval_ms` if that is given.
    #[must_use]
    pub fn for_job(kind: JobKind, checkpoint_interval_ms: Option<u64>) -> Self {
        let checkpoint_interval_ms = checkpoint_interval_ms.filter(|_| kind == JobKind::Streaming);
        Self {
            restart: Self::default_restart(checkpoint_interval_ms.is_some()),
            checkpoint_interval_ms,
            ..Self::default()
        }
    }

    /// The restart strategy of a job that configures none (reference 3.2): exponential delay when it takes
    /// checkpoints, else no restarts at all.
    #[must_use]
    pub fn default_restart(checkpointing: bool) -> RestartStrategyConfig {
        RestartStrategyConfig::unconfigured(checkpointing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // P056
    #[test]
    fn without_a_configured_strategy_only_checkpointed_jobs_restart() {
        assert_eq!(JobSettings::for_job(JobKind::Batch, Some(100)).restart, RestartStrategyConfig::None);
        assert_eq!(JobSettings::for_job(JobKind::Batch, Some(100)).checkpoint_interval_ms, None);
        assert_eq!(JobSettings::for_job(JobKind::Streaming, None).restart, RestartStrategyConfig::None);
        assert!(matches!(
            JobSettings::for_job(JobKind::Streaming, Some(100)).restart,
            RestartStrategyConfig::ExponentialDelay { initial_ms: 1_000, max_ms: 60_000, attempts: None, .. }
        ));
    }
}
