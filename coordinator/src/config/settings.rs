//! Values of known keys, checked when they are set.

use std::collections::BTreeMap;

use super::duration;
use super::options::{self, ConfigOption, Scope, ValueKind};
use super::suggest;

/// A configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No such key.
    #[error("unknown configuration key `{key}`{}", match nearest { Some(known) => format!("; did you mean `{known}`?"), None => String::new() })]
    UnknownKey {
        /// What was written.
        key: String,
        /// What may have been meant.
        nearest: Option<&'static str>,
    },
    /// A value that its key does not take.
    #[error("`{key}` is set to `{value}`, which is not {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// What was written.
        value: String,
        /// What is taken.
        expected: String,
    },
    /// One source sets a key twice, by its current and by an older name.
    #[error("`{key}` is set twice, once as `{old}`; keep one")]
    Twice {
        /// The current name.
        key: &'static str,
        /// The other one.
        old: String,
    },
    /// A job sets what belongs to the cluster.
    #[error("`{0}` belongs to the cluster, a job cannot set it; set it where the coordinator is started")]
    NotForJobs(&'static str),
    /// A `key=value` pair without `=`.
    #[error("`{0}` is not of the form key=value")]
    NotAPair(String),
    /// Values that contradict each other.
    #[error("{0}")]
    Conflict(String),
    /// A file could not be read.
    #[error("cannot read the configuration file {file}: {reason}")]
    File {
        /// Its path.
        file: String,
        /// Why.
        reason: String,
    },
    /// A file is not TOML or YAML as it is understood here, or one of its values is wrong.
    #[error("{file}{}: {reason}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Syntax {
        /// Its path.
        file: String,
        /// Where, from 1, if known.
        line: Option<usize>,
        /// What is wrong.
        reason: String,
    },
}

/// A checked value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    Millis(u64),
    Count(u32),
    Factor(f64),
    Flag(bool),
    Word(&'static str),
}

/// Values of known keys. What is not set reads as its default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    set: BTreeMap<&'static str, (String, Value)>,
}

impl Settings {
    /// Values from a map of keys, current or old.
    ///
    /// # Errors
    /// An unknown key or a wrong value.
    pub fn from_map(map: &BTreeMap<String, String>) -> Result<Self, ConfigError> {
        let mut settings = Self::default();
        for (key, value) in map {
            settings.set_new(key, value)?;
        }
        Ok(settings)
    }

    /// Values from `key=value` pairs (`-D`); a later pair overrides an earlier one.
    ///
    /// # Errors
    /// An unknown key, a wrong value, a pair without `=`.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = &'a str>) -> Result<Self, ConfigError> {
        let mut settings = Self::default();
        for pair in pairs {
            let (key, value) = pair.split_once('=').ok_or_else(|| ConfigError::NotAPair(pair.to_owned()))?;
            settings.set(key.trim(), value)?;
        }
        Ok(settings)
    }

    /// Sets `key`, by its current or an older name.
    ///
    /// # Errors
    /// An unknown key or a wrong value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let Some(option) = options::find(key) else {
            if options::is_ignored(key) {
                return Ok(());
            }
            let known = options::ALL.iter().map(|option| option.key);
            return Err(ConfigError::UnknownKey { key: key.to_owned(), nearest: suggest::nearest(key, known) });
        };
        let checked = check(option, value.trim())?;
        self.set.insert(option.key, (value.trim().to_owned(), checked));
        Ok(())
    }

    /// As [`set`](Self::set), and refuses a key that is set already: within one source that is a mistake.
    pub(super) fn set_new(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        if let Some(option) = options::find(key)
            && self.set.contains_key(option.key)
        {
            let old = if option.key == key { option.old.first().copied().unwrap_or(key) } else { key };
            return Err(ConfigError::Twice { key: option.key, old: old.to_owned() });
        }
        self.set(key, value)
    }

    /// These values, and over them `later`'s.
    #[must_use]
    pub fn overlay(mut self, later: &Self) -> Self {
        self.set.extend(later.set.iter().map(|(key, value)| (*key, value.clone())));
        self
    }

    /// Refuses values that only a cluster may set.
    ///
    /// # Errors
    /// Names the first such key.
    pub fn check_for_job(&self) -> Result<(), ConfigError> {
        let of_cluster =
            self.set.keys().find(|key| options::find(key).is_some_and(|option| option.scope == Scope::Cluster));
        of_cluster.map_or(Ok(()), |key| Err(ConfigError::NotForJobs(key)))
    }

    /// The values that were set, by current names, as they were written.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.set.iter().map(|(key, (text, _))| ((*key).to_owned(), text.clone())).collect()
    }

    /// All values: what was set, and the defaults of what was not.
    #[must_use]
    pub fn effective(&self) -> BTreeMap<String, String> {
        let mut map: BTreeMap<String, String> = options::ALL
            .iter()
            .filter(|option| !option.default.is_empty())
            .map(|option| (option.key.to_owned(), option.default.to_owned()))
            .collect();
        map.extend(self.to_map());
        map
    }

    /// The text of `option`, set or default; empty when it has neither.
    #[must_use]
    pub fn text(&self, option: &ConfigOption) -> &str {
        self.set.get(option.key).map_or(option.default, |(text, _)| text)
    }

    /// True if `option` was set.
    #[must_use]
    pub fn is_set(&self, option: &ConfigOption) -> bool {
        self.set.contains_key(option.key)
    }

    /// A duration in milliseconds; none when `option` has no value or is no duration.
    #[must_use]
    pub fn millis(&self, option: &ConfigOption) -> Option<u64> {
        match self.value(option)? {
            Value::Millis(ms) => Some(ms),
            _ => None,
        }
    }

    /// A whole number; none when `option` has no value or is no whole number.
    #[must_use]
    pub fn count(&self, option: &ConfigOption) -> Option<u32> {
        match self.value(option)? {
            Value::Count(count) => Some(count),
            _ => None,
        }
    }

    /// A decimal number; none when `option` has no value or is no decimal number.
    #[must_use]
    pub fn factor(&self, option: &ConfigOption) -> Option<f64> {
        match self.value(option)? {
            Value::Factor(factor) => Some(factor),
            _ => None,
        }
    }

    /// True if `option` is a flag that is on.
    #[must_use]
    pub fn flag(&self, option: &ConfigOption) -> bool {
        self.value(option) == Some(Value::Flag(true))
    }

    /// The canonical word of a choice; none when `option` has no value or is no choice.
    #[must_use]
    pub fn word(&self, option: &ConfigOption) -> Option<&'static str> {
        match self.value(option)? {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    fn value(&self, option: &ConfigOption) -> Option<Value> {
        match self.set.get(option.key) {
            Some((_, value)) => Some(*value),
            None if option.default.is_empty() => None,
            None => check(option, option.default).ok(),
        }
    }
}

fn check(option: &ConfigOption, text: &str) -> Result<Value, ConfigError> {
    let wrong = |expected: String| ConfigError::Value { key: option.key, value: text.to_owned(), expected };
    match option.kind {
        ValueKind::Duration => duration::parse_ms(text)
            .map(Value::Millis)
            .ok_or_else(|| wrong("a duration such as `10 s`, `500ms` or `1 min`".to_owned())),
        ValueKind::Count { min } => text
            .parse()
            .ok()
            .filter(|count| *count >= min)
            .map(Value::Count)
            .ok_or_else(|| wrong(format!("a whole number of at least {min}"))),
        ValueKind::Factor => text
            .parse()
            .ok()
            .filter(|factor: &f64| factor.is_finite() && *factor >= 0.0)
            .map(Value::Factor)
            .ok_or_else(|| wrong("a number of at least 0".to_owned())),
        ValueKind::Flag => match text.to_ascii_lowercase().as_str() {
            "true" => Ok(Value::Flag(true)),
            "false" => Ok(Value::Flag(false)),
            _ => Err(wrong("`true` or `false`".to_owned())),
        },
        ValueKind::Choice(rows) => rows
            .iter()
            .find(|row| row.iter().any(|word| word.eq_ignore_ascii_case(text)))
            .map(|row| Value::Word(row[0]))
            .ok_or_else(|| wrong(format!("one of {}", rows.iter().map(|row| row[0]).collect::<Vec<_>>().join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[&str]) -> Result<Settings, ConfigError> {
        Settings::from_pairs(pairs.iter().copied())
    }

    #[test]
    fn every_default_is_a_value_of_its_key() {
        for option in options::ALL.iter().filter(|option| !option.default.is_empty()) {
            assert!(check(option, option.default).is_ok(), "{}", option.key);
        }
    }

    #[test]
    fn defaults_are_flinks() {
        let settings = Settings::default();
        assert_eq!(settings.millis(&options::HEARTBEAT_INTERVAL), Some(10_000));
        assert_eq!(settings.millis(&options::HEARTBEAT_TIMEOUT), Some(50_000));
        assert_eq!(settings.word(&options::FAILOVER_STRATEGY), Some("region"));
        assert_eq!(settings.millis(&options::SLOT_REQUEST_TIMEOUT), Some(300_000));
        assert_eq!(settings.millis(&options::TASK_CANCELLATION_TIMEOUT), Some(180_000));
        assert_eq!(settings.count(&options::ATTEMPTS_HISTORY_SIZE), Some(16));
        assert_eq!(settings.millis(&options::CHECKPOINT_INTERVAL), None);
        assert_eq!(settings.word(&options::RESTART_STRATEGY), None);
        assert!(settings.flag(&options::PARTITION_RELEASE));
    }

    #[test]
    fn later_sources_override_earlier_ones() {
        let file = of(&["heartbeat.timeout=5 s", "restart-strategy=fixed-delay"]).unwrap();
        let command_line = of(&["heartbeat.timeout=2s", "heartbeat.timeout=1s"]).unwrap();
        let settings = file.overlay(&command_line);
        assert_eq!(settings.millis(&options::HEARTBEAT_TIMEOUT), Some(1_000));
        assert_eq!(settings.word(&options::RESTART_STRATEGY), Some("fixed-delay"));
        assert_eq!(settings.to_map()["restart-strategy.type"], "fixed-delay");
        assert_eq!(settings.effective()["heartbeat.interval"], "10 s");
    }

    #[test]
    fn an_unknown_key_is_an_error_that_suggests_the_nearest() {
        let error = of(&["heartbeat.timout=5 s"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown configuration key `heartbeat.timout`; did you mean `heartbeat.timeout`?"
        );
        let error = of(&["failover-strategy=full"]).unwrap_err();
        assert!(error.to_string().contains("`jobmanager.execution.failover-strategy`"), "{error}");
        let error = of(&["completely.else=1"]).unwrap_err();
        assert_eq!(error.to_string(), "unknown configuration key `completely.else`");
    }

    #[test]
    fn wrong_values_are_refused_with_what_is_taken() {
        for (pair, part) in [
            ("heartbeat.timeout=soon", "a duration"),
            ("restart-strategy.type=sometimes", "one of none, fixed-delay, failure-rate, exponential-delay"),
            ("execution.checkpointing.num-retained=0", "at least 1"),
            ("restart-strategy.fixed-delay.attempts=-1", "at least 0"),
            ("restart-strategy.exponential-delay.jitter-factor=NaN", "a number"),
            ("jobmanager.partition.release-during-job-execution=yes", "`true` or `false`"),
            ("heartbeat.timeout", "key=value"),
        ] {
            let error = of(&[pair]).unwrap_err().to_string();
            assert!(error.contains(part), "{pair}: {error}");
        }
    }

    #[test]
    fn one_source_must_not_set_a_key_by_two_names() {
        let map: BTreeMap<String, String> = [("restart-strategy", "none"), ("restart-strategy.type", "fixed-delay")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        assert!(matches!(Settings::from_map(&map), Err(ConfigError::Twice { .. })));
    }

    #[test]
    fn a_job_cannot_set_what_belongs_to_the_cluster() {
        assert!(of(&["restart-strategy.type=none"]).unwrap().check_for_job().is_ok());
        let error = of(&["heartbeat.timeout=1 s"]).unwrap().check_for_job().unwrap_err();
        assert_eq!(error, ConfigError::NotForJobs("heartbeat.timeout"));
    }

    #[test]
    fn keys_of_a_real_cluster_are_read_past() {
        let pairs = ["jobmanager.memory.process.size=1600m", "parallelism.default=1", "task.cancellation.interval=1 s"];
        let settings = of(&pairs).unwrap();
        assert!(settings.to_map().is_empty());
    }
}
