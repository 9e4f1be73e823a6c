//! What a job is configured with.

use std::time::Duration;

use super::options::{self, ConfigOption};
use super::settings::{ConfigError, Settings};
use crate::core::failover::{FailoverStrategy, StalePolicy};
use crate::core::job::JobSettings;
use crate::core::restart_strategy::RestartStrategyConfig;
use crate::core::status::JobStatus;
use crate::graph::JobKind;

/// Whether checkpoints outlive a job that ended (`execution.checkpointing.externalized-checkpoint-retention`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// They are deleted.
    Never,
    /// They are kept when the job failed.
    IfFailed,
    /// They are kept when the job failed or was cancelled.
    IfFailedOrCanceled,
}

impl Retention {
    /// True if a job that ended like this keeps its checkpoints.
    #[must_use]
    pub fn keeps(self, status: JobStatus) -> bool {
        match status {
            JobStatus::Failed => self != Self::Never,
            JobStatus::Canceled => self == Self::IfFailedOrCanceled,
            _ => false,
        }
    }
}

/// Typed settings of one job: what its state machine is told, and what the parts around it need.
#[derive(Debug, Clone, PartialEq)]
pub struct JobConfig {
    /// For the state machine.
    pub core: JobSettings,
    /// How long a slot request waits before it fails.
    pub slot_request_timeout: Duration,
    /// What happens to the checkpoints of a job that ended.
    pub retention: Retention,
}

impl JobConfig {
    /// Reads them out of `settings`: the cluster's, the job's own and the submission's, in this order.
    ///
    /// # Errors
    /// Values that contradict each other, e.g. a maximum back-off below the initial one.
    pub fn new(settings: &Settings, kind: JobKind) -> Result<Self, ConfigError> {
        let interval = settings.millis(&options::CHECKPOINT_INTERVAL).filter(|ms| *ms > 0);
        let interval = interval.filter(|_| kind == JobKind::Streaming);
        let history = |option| settings.count(option).unwrap_or_default() as usize;
        let core = JobSettings {
            restart: restart_strategy(settings, interval.is_some())?,
            failover: match settings.word(&options::FAILOVER_STRATEGY) {
                Some("full") => FailoverStrategy::Full,
                _ => FailoverStrategy::Region,
            },
            checkpoint_interval_ms: interval,
            checkpoint_timeout_ms: millis(settings, &options::CHECKPOINT_TIMEOUT),
            min_pause_ms: millis(settings, &options::CHECKPOINT_MIN_PAUSE),
            tolerable_failed: settings.count(&options::CHECKPOINT_TOLERABLE).unwrap_or_default(),
            num_retained: settings.count(&options::CHECKPOINT_RETAINED).unwrap_or(1),
            attempts_history: history(&options::ATTEMPTS_HISTORY_SIZE),
            exception_history: history(&options::EXCEPTION_HISTORY_SIZE),
            checkpoints_history: history(&options::CHECKPOINTS_HISTORY),
            release_during_execution: settings.flag(&options::PARTITION_RELEASE),
            untrack_before_slots_fail: settings.flag(&options::UNTRACK_FIRST),
            stale: match settings.word(&options::STALE_PARTITION) {
                Some("honour") => StalePolicy::Honour,
                _ => StalePolicy::Ignore,
            },
        };
        Ok(Self {
            core,
            slot_request_timeout: Duration::from_millis(millis(settings, &options::SLOT_REQUEST_TIMEOUT)),
            retention: match settings.word(&options::CHECKPOINT_RETENTION) {
                Some("RETAIN_ON_CANCELLATION") => Retention::IfFailedOrCanceled,
                Some("DELETE_ON_CANCELLATION") => Retention::IfFailed,
                _ => Retention::Never,
            },
        })
    }
}

fn millis(settings: &Settings, option: &ConfigOption) -> u64 {
    settings.millis(option).unwrap_or_default()
}

/// The configured strategy, or Flink's default: exponential delay for jobs with checkpoints, else none.
fn restart_strategy(settings: &Settings, takes_checkpoints: bool) -> Result<RestartStrategyConfig, ConfigError> {
    Ok(match settings.word(&options::RESTART_STRATEGY) {
        None if !takes_checkpoints => RestartStrategyConfig::None,
        Some("none") => RestartStrategyConfig::None,
        Some("fixed-delay") => RestartStrategyConfig::FixedDelay {
            attempts: settings.count(&options::FIXED_DELAY_ATTEMPTS).unwrap_or_default(),
            delay_ms: millis(settings, &options::FIXED_DELAY_DELAY),
        },
        Some("failure-rate") => RestartStrategyConfig::FailureRate {
            max_failures: settings.count(&options::FAILURE_RATE_MAX).unwrap_or_default(),
            interval_ms: millis(settings, &options::FAILURE_RATE_INTERVAL),
            delay_ms: millis(settings, &options::FAILURE_RATE_DELAY),
        },
        _ => exponential_delay(settings)?,
    })
}

fn exponential_delay(settings: &Settings) -> Result<RestartStrategyConfig, ConfigError> {
    let (initial_ms, max_ms) =
        (millis(settings, &options::EXPONENTIAL_INITIAL), millis(settings, &options::EXPONENTIAL_MAX));
    let multiplier = settings.factor(&options::EXPONENTIAL_MULTIPLIER).unwrap_or(1.5);
    let jitter = settings.factor(&options::EXPONENTIAL_JITTER).unwrap_or_default();
    let conflict = |text: String| Err(ConfigError::Conflict(text));
    if initial_ms == 0 || max_ms < initial_ms {
        return conflict(format!(
            "`{}` must be above zero and not above `{}`",
            options::EXPONENTIAL_INITIAL.key,
            options::EXPONENTIAL_MAX.key
        ));
    }
    if multiplier <= 1.0 {
        return conflict(format!("`{}` is {multiplier}; it must be above 1", options::EXPONENTIAL_MULTIPLIER.key));
    }
    if jitter > 1.0 {
        return conflict(format!("`{}` is {jitter}; it must be from 0 to 1", options::EXPONENTIAL_JITTER.key));
    }
    Ok(RestartStrategyConfig::ExponentialDelay {
        initial_ms,
        max_ms,
        multiplier,
        reset_threshold_ms: millis(settings, &options::EXPONENTIAL_RESET),
        jitter,
        attempts: settings.count(&options::EXPONENTIAL_ATTEMPTS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(kind: JobKind, pairs: &[&str]) -> Result<JobConfig, ConfigError> {
        JobConfig::new(&Settings::from_pairs(pairs.iter().copied()).unwrap(), kind)
    }

    #[test]
    fn the_defaults_are_those_of_the_state_machine() {
        for (kind, pairs, interval) in [
            (JobKind::Batch, &[][..], None),
            (JobKind::Batch, &["execution.checkpointing.interval=1 s"], Some(1_000)),
            (JobKind::Streaming, &["execution.checkpointing.interval=1 s"], Some(1_000)),
            (JobKind::Streaming, &["execution.checkpointing.interval=0"], None),
        ] {
            assert_eq!(config(kind, pairs).unwrap().core, JobSettings::for_job(kind, interval), "{kind:?} {pairs:?}");
        }
    }

    #[test]
    fn a_configured_strategy_wins() {
        let core = |pairs: &[&str]| config(JobKind::Streaming, pairs).unwrap().core;
        let fixed = core(&[
            "execution.checkpointing.interval=1 s",
            "restart-strategy=fixed-delay",
            "restart-strategy.fixed-delay.attempts=7",
            "restart-strategy.fixed-delay.delay=20ms",
        ]);
        assert_eq!(fixed.restart, RestartStrategyConfig::FixedDelay { attempts: 7, delay_ms: 20 });
        let rate = core(&["restart-strategy.type=failurerate"]).restart;
        assert_eq!(rate, RestartStrategyConfig::FailureRate { max_failures: 1, interval_ms: 60_000, delay_ms: 1_000 });
        assert_eq!(core(&["restart-strategy.type=off"]).restart, RestartStrategyConfig::None);
        let full = core(&[
            "jobmanager.execution.failover-strategy=full",
            "stormproof.failover.untrack-first=false",
            "stormproof.failover.stale-partition-exception=honour",
        ]);
        assert_eq!(
            (full.failover, full.untrack_before_slots_fail, full.stale),
            (FailoverStrategy::Full, false, StalePolicy::Honour)
        );
    }

    // P054, P055
    #[test]
    fn the_jobs_own_strategy_wins_over_the_clusters() {
        type Config = RestartStrategyConfig;
        type Is = fn(&Config) -> bool;
        let strategies: [(&str, Is); 4] = [
            ("none", |it| *it == Config::None),
            ("fixed-delay", |it| matches!(it, Config::FixedDelay { .. })),
            ("failure-rate", |it| matches!(it, Config::FailureRate { .. })),
            ("exponential-delay", |it| matches!(it, Config::ExponentialDelay { .. })),
        ];
        let settings = |name| Settings::from_pairs([&*format!("restart-strategy.type={name}")]).unwrap();
        for (of_cluster, is_clusters) in strategies {
            let cluster = settings(of_cluster);
            assert!(is_clusters(&JobConfig::new(&cluster, JobKind::Batch).unwrap().core.restart), "{of_cluster}");
            for (of_job, is_jobs) in strategies {
                let both = cluster.clone().overlay(&settings(of_job));
                let restart = JobConfig::new(&both, JobKind::Batch).unwrap().core.restart;
                assert!(is_jobs(&restart), "{of_job} over {of_cluster}: {restart:?}");
            }
        }
        assert!(Settings::from_pairs(["restart-strategy.type=sometimes"]).is_err());
    }

    #[test]
    fn contradictions_are_refused() {
        for pair in [
            "restart-strategy.exponential-delay.initial-backoff=2 min",
            "restart-strategy.exponential-delay.backoff-multiplier=1",
            "restart-strategy.exponential-delay.jitter-factor=1.5",
        ] {
            let error = config(JobKind::Batch, &["restart-strategy.type=exponential-delay", pair]).unwrap_err();
            assert!(matches!(error, ConfigError::Conflict(_)), "{pair}: {error}");
        }
    }

    #[test]
    fn retention_depends_on_how_the_job_ended() {
        let kept = |word: &str| {
            let pair = format!("execution.checkpointing.externalized-checkpoint-retention={word}");
            let retention = config(JobKind::Streaming, &[&pair]).unwrap().retention;
            [JobStatus::Finished, JobStatus::Failed, JobStatus::Canceled].map(|status| retention.keeps(status))
        };
        assert_eq!(kept("NO_EXTERNALIZED_CHECKPOINTS"), [false, false, false]);
        assert_eq!(kept("DELETE_ON_CANCELLATION"), [false, true, false]);
        assert_eq!(kept("retain_on_cancellation"), [false, true, true]);
    }
}
