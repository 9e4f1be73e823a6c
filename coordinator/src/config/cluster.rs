//! What a coordinator process is configured with.

use std::collections::BTreeMap;
use std::time::Duration;

use super::job::JobConfig;
use super::options;
use super::settings::{ConfigError, Settings};
use crate::graph::JobKind;
use crate::storage::Deadlines;

/// Typed settings of the process; jobs have their own ([`super::job`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// How often to send a sign of life.
    pub heartbeat_interval: Duration,
    /// Silence after which an executor counts as dead.
    pub heartbeat_timeout: Duration,
    /// Ended jobs that are kept for REST.
    pub max_ended_jobs: usize,
    /// Limits of calls to the checkpoint store.
    pub store_deadlines: Deadlines,
}

impl ClusterSettings {
    /// Reads a cluster's configuration as a coordinator does at its start, for whoever wants to know before it starts
    /// one: what jobs take from it must be usable as well.
    ///
    /// # Errors
    /// An unknown key, a wrong value, values that contradict each other.
    pub fn of_map(map: &BTreeMap<String, String>) -> Result<(Settings, Self), ConfigError> {
        let settings = Settings::from_map(map)?;
        let typed = Self::new(&settings)?;
        for kind in [JobKind::Batch, JobKind::Streaming] {
            JobConfig::new(&settings, kind)?;
        }
        Ok((settings, typed))
    }

    /// Reads them out of `settings`.
    ///
    /// # Errors
    /// A heartbeat time-out that is not longer than the interval.
    pub fn new(settings: &Settings) -> Result<Self, ConfigError> {
        let duration = |option| Duration::from_millis(settings.millis(option).unwrap_or_default());
        let heartbeat_interval = duration(&options::HEARTBEAT_INTERVAL);
        let heartbeat_timeout = duration(&options::HEARTBEAT_TIMEOUT);
        if heartbeat_interval.is_zero() || heartbeat_timeout <= heartbeat_interval {
            return Err(ConfigError::Conflict(format!(
                "`{}` ({}) must be above zero and below `{}` ({})",
                options::HEARTBEAT_INTERVAL.key,
                settings.text(&options::HEARTBEAT_INTERVAL),
                options::HEARTBEAT_TIMEOUT.key,
                settings.text(&options::HEARTBEAT_TIMEOUT),
            )));
        }
        Ok(Self {
            heartbeat_interval,
            heartbeat_timeout,
            max_ended_jobs: settings.count(&options::JOBSTORE_CAPACITY).unwrap_or_default() as usize,
            store_deadlines: Deadlines {
                attempt: duration(&options::STORE_ATTEMPT_TIMEOUT),
                body_idle: duration(&options::STORE_ATTEMPT_TIMEOUT),
                total: duration(&options::STORE_TIMEOUT),
                ..Deadlines::default()
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_defaults_and_values() {
        let settings = ClusterSettings::new(&Settings::default()).unwrap();
        assert_eq!(settings.heartbeat_timeout, Duration::from_secs(50));
        assert_eq!(settings.max_ended_jobs, 100);
        assert_eq!(settings.store_deadlines, Deadlines::default());
    }

    #[test]
    fn a_timeout_below_the_interval_is_refused() {
        let settings = Settings::from_pairs(["heartbeat.timeout=1 s"]).unwrap();
        let error = ClusterSettings::new(&settings).unwrap_err().to_string();
        assert!(error.contains("heartbeat.interval") && error.contains("heartbeat.timeout"), "{error}");
    }
}
