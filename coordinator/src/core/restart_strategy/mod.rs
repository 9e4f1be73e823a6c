//! Whether a failure is followed by a restart, and after how long (reference 3.2).
//!
//! Order of calls, as in Flink's failure handler: [`RestartStrategy::notify_failure`], then
//! [`RestartStrategy::can_restart`], then [`RestartStrategy::backoff_ms`]. A non-recoverable cause asks nothing here.

mod exponential;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::event::Millis;
use exponential::Exponential;

/// A restart strategy and its parameters (`restart-strategy.*`).
#[derive(Debug, Clone, PartialEq)]
pub enum RestartStrategyConfig {
    /// The first failure is final.
    None,
    /// A number of restarts, evenly spaced.
    FixedDelay {
        /// Restarts; the next failure fails the job.
        attempts: u32,
        /// Pause before each.
        delay_ms: u64,
    },
    /// As long as failures are rare enough.
    FailureRate {
        /// Failures tolerated within the interval.
        max_failures: u32,
        /// Length of the interval.
        interval_ms: u64,
        /// Pause before each restart.
        delay_ms: u64,
    },
    /// Ever longer pauses (FLIP-364).
    ExponentialDelay {
        /// The first pause, and the shortest.
        initial_ms: u64,
        /// The longest pause.
        max_ms: u64,
        /// Factor from one pause to the next, above 1.
        multiplier: f64,
        /// Quiet time after a planned restart that takes the pause back to `initial_ms`.
        reset_threshold_ms: u64,
        /// Largest deviation from the pause, as a share of it, 0 to 1.
        jitter: f64,
        /// Restarts without such a quiet time; none: no limit.
        attempts: Option<u32>,
    },
}

impl RestartStrategyConfig {
    /// What Flink uses when nothing is configured: exponential delay with its defaults if the job takes checkpoints
    /// (1.19 and later), no restart if it does not.
    #[must_use]
    pub fn unconfigured(takes_checkpoints: bool) -> Self {
        if takes_checkpoints { Self::exponential_default() } else { Self::None }
    }

    /// Exponential delay with Flink's defaults.
    #[must_use]
    pub fn exponential_default() -> Self {
        Self::ExponentialDelay {
            initial_ms: 1_000,
            max_ms: 60_000,
            multiplier: 1.5,
            reset_threshold_ms: 3_600_000,
            jitter: 0.1,
            attempts: None,
        }
    }
}

/// A restart strategy at work in one job.
#[derive(Debug, Clone)]
pub struct RestartStrategy(Kind);

#[derive(Debug, Clone)]
enum Kind {
    None,
    FixedDelay {
        attempts: u32,
        delay_ms: u64,
        failures: u64,
    },
    /// The newest failures, oldest first, at most one more than are tolerated.
    FailureRate {
        max_failures: u32,
        interval_ms: u64,
        delay_ms: u64,
        failures: VecDeque<Millis>,
    },
    ExponentialDelay(Exponential),
}

impl RestartStrategy {
    /// A strategy that has seen no failure.
    #[must_use]
    pub fn new(config: RestartStrategyConfig) -> Self {
        Self(match config {
            RestartStrategyConfig::None => Kind::None,
            RestartStrategyConfig::FixedDelay { attempts, delay_ms } => {
                Kind::FixedDelay { attempts, delay_ms, failures: 0 }
            }
            RestartStrategyConfig::FailureRate { max_failures, interval_ms, delay_ms } => {
                Kind::FailureRate { max_failures, interval_ms, delay_ms, failures: VecDeque::new() }
            }
            RestartStrategyConfig::ExponentialDelay {
                initial_ms,
                max_ms,
                multiplier,
                reset_threshold_ms,
                jitter,
                attempts,
            } => Kind::ExponentialDelay(Exponential {
                initial_ms,
                max_ms,
                multiplier,
                reset_threshold_ms,
                jitter,
                attempts,
                failures: 0,
                next_restart: None,
            }),
        })
    }

    /// A failure at `now`. False if it merges into a restart that is already planned (exponential delay only).
    /// `random`: a fresh, uniformly drawn number; decides the jitter.
    pub fn notify_failure(&mut self, now: Millis, random: u64) -> bool {
        match &mut self.0 {
            Kind::None => true,
            Kind::FixedDelay { failures, .. } => {
                *failures += 1;
                true
            }
            Kind::FailureRate { max_failures, failures, .. } => {
                failures.push_back(now);
                while failures.len() > *max_failures as usize + 1 {
                    failures.pop_front();
                }
                true
            }
            Kind::ExponentialDelay(strategy) => strategy.notify_failure(now, random),
        }
    }

    /// Whether the failures so far allow a restart at `now`. Changes nothing.
    #[must_use]
    pub fn can_restart(&self, now: Millis) -> bool {
        match &self.0 {
            Kind::None => false,
            Kind::FixedDelay { attempts, failures, .. } => *failures <= u64::from(*attempts),
            Kind::FailureRate { max_failures, interval_ms, failures, .. } => {
                let is_full = failures.len() > *max_failures as usize;
                !is_full || failures.front().is_none_or(|oldest| now.saturating_sub(*oldest) > *interval_ms)
            }
            Kind::ExponentialDelay(strategy) => strategy.can_restart(),
        }
    }

    /// How long to wait from `now` until the restart. `None` if exponential delay is asked before any failure:
    /// nothing is planned then.
    #[must_use]
    pub fn backoff_ms(&self, now: Millis) -> Option<u64> {
        match &self.0 {
            Kind::None => Some(0),
            Kind::FixedDelay { delay_ms, .. } | Kind::FailureRate { delay_ms, .. } => Some(*delay_ms),
            Kind::ExponentialDelay(strategy) => strategy.next_restart.map(|at| at.saturating_sub(now)),
        }
    }

    /// The strategy as Flink prints it in `Recovery is suppressed by …`.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.0 {
            Kind::None => "NoRestartBackoffTimeStrategy".to_owned(),
            Kind::FixedDelay { attempts, delay_ms, .. } => format!(
                "FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts={attempts}, backoffTimeMS={delay_ms})"
            ),
            // Flink prints the name twice and closes one bracket.
            Kind::FailureRate { max_failures, interval_ms, delay_ms, .. } => format!(
                "FailureRateRestartBackoffTimeStrategy(FailureRateRestartBackoffTimeStrategy(\
                 failuresIntervalMS={interval_ms},backoffTimeMS={delay_ms},maxFailuresPerInterval={max_failures})"
            ),
            Kind::ExponentialDelay(strategy) => strategy.describe(),
        }
    }
}
