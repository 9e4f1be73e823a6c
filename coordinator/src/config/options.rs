//! Every key that is understood, by Flink's names and with Flink's defaults (reference section 12).

/// What a value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// A duration in Flink's syntax, kept in milliseconds.
    Duration,
    /// A whole number.
    Count {
        /// Smallest value.
        min: u32,
    },
    /// A decimal number.
    Factor,
    /// `true` or `false`.
    Flag,
    /// One of these words. Each row holds a canonical word, then its other spellings.
    Choice(&'static [&'static [&'static str]]),
}

/// Who reads a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The process. A job that sets it is refused.
    Cluster,
    /// A job; set for the cluster it is the default of all jobs.
    Job,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct ConfigOption {
    /// Its name.
    pub key: &'static str,
    /// Older names that are still read.
    pub old: &'static [&'static str],
    /// Its value when it is not set; empty: no value.
    pub default: &'static str,
    /// What it looks like.
    pub kind: ValueKind,
    /// Who reads it.
    pub scope: Scope,
}

impl ConfigOption {
    const fn of(key: &'static str, default: &'static str, kind: ValueKind, scope: Scope) -> Self {
        Self { key, old: &[], default, kind, scope }
    }

    const fn was(self, old: &'static [&'static str]) -> Self {
        Self { old, ..self }
    }
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident = $option:expr;)*) => {
        $($(#[$doc])* pub const $name: ConfigOption = $option;)*
        /// All of them.
        pub const ALL: &[ConfigOption] = &[$($name),*];
    };
}

use Scope::{Cluster, Job};
use ValueKind::{Choice, Count, Duration, Factor, Flag};

const ANY: ValueKind = Count { min: 0 };
const POSITIVE: ValueKind = Count { min: 1 };

options! {
    /// How often both sides of an executor's connection send a sign of life.
    HEARTBEAT_INTERVAL = ConfigOption::of("heartbeat.interval", "10 s", Duration, Cluster);
    /// Silence after which the other side counts as dead.
    HEARTBEAT_TIMEOUT = ConfigOption::of("heartbeat.timeout", "50 s", Duration, Cluster);
    /// Number of slots an executor offers.
    TASK_SLOTS = ConfigOption::of("taskmanager.numberOfTaskSlots", "1", POSITIVE, Cluster);
    /// How long a job's slot request waits before it fails.
    SLOT_REQUEST_TIMEOUT = ConfigOption::of("slot.request.timeout", "5 min", Duration, Job);
    /// How long an executor keeps trying to reach a leader.
    REGISTRATION_TIMEOUT = ConfigOption::of("taskmanager.registration.timeout", "5 min", Duration, Cluster);
    /// How long a task may take to stop; then its executor ends itself, so that attempts never overlap.
    TASK_CANCELLATION_TIMEOUT = ConfigOption::of("task.cancellation.timeout", "3 min", Duration, Cluster);
    /// How long a producer's executor holds a request for a partition that is not there yet.
    PARTITION_REQUEST_TIMEOUT =
        ConfigOption::of("taskmanager.network.partition-request-timeout", "10 s", Duration, Cluster);
    /// Which tasks restart after a failure.
    FAILOVER_STRATEGY = ConfigOption::of(
        "jobmanager.execution.failover-strategy", "region", Choice(&[&["region"], &["full"]]), Job);
    /// Attempts of a subtask that are kept for REST.
    ATTEMPTS_HISTORY_SIZE = ConfigOption::of("jobmanager.execution.attempts-history-size", "16", ANY, Job);
    /// Failures of a job that are kept for REST.
    EXCEPTION_HISTORY_SIZE = ConfigOption::of("web.exception-history-size", "16", ANY, Job);
    /// Checkpoints of a job that are kept for REST.
    CHECKPOINTS_HISTORY = ConfigOption::of("web.checkpoints.history", "10", ANY, Job);
    /// Whether a stage's output is deleted once its last consumer region has finished (reference 4.3).
    PARTITION_RELEASE = ConfigOption::of("jobmanager.partition.release-during-job-execution", "true", Flag, Job);
    /// Which failures are followed by a restart, and when (reference 3.2). Unset: exponential delay with
    /// checkpoints, none without.
    RESTART_STRATEGY = ConfigOption::of("restart-strategy.type", "", Choice(&[
        &["none", "off", "disable"],
        &["fixed-delay", "fixeddelay"],
        &["failure-rate", "failurerate"],
        &["exponential-delay", "exponentialdelay"],
    ]), Job).was(&["restart-strategy"]);
    /// Fixed delay: how many restarts.
    FIXED_DELAY_ATTEMPTS = ConfigOption::of("restart-strategy.fixed-delay.attempts", "1", ANY, Job);
    /// Fixed delay: pause before each.
    FIXED_DELAY_DELAY = ConfigOption::of("restart-strategy.fixed-delay.delay", "1 s", Duration, Job);
    /// Failure rate: failures tolerated per interval.
    FAILURE_RATE_MAX = ConfigOption::of("restart-strategy.failure-rate.max-failures-per-interval", "1", ANY, Job);
    /// Failure rate: the interval.
    FAILURE_RATE_INTERVAL =
        ConfigOption::of("restart-strategy.failure-rate.failure-rate-interval", "1 min", Duration, Job);
    /// Failure rate: pause before each restart.
    FAILURE_RATE_DELAY = ConfigOption::of("restart-strategy.failure-rate.delay", "1 s", Duration, Job);
    /// Exponential delay: first pause.
    EXPONENTIAL_INITIAL = ConfigOption::of("restart-strategy.exponential-delay.initial-backoff", "1 s", Duration, Job);
    /// Exponential delay: longest pause.
    EXPONENTIAL_MAX = ConfigOption::of("restart-strategy.exponential-delay.max-backoff", "1 min", Duration, Job);
    /// Exponential delay: growth of the pause.
    EXPONENTIAL_MULTIPLIER =
        ConfigOption::of("restart-strategy.exponential-delay.backoff-multiplier", "1.5", Factor, Job);
    /// Exponential delay: quiet time after which the pause is small again.
    EXPONENTIAL_RESET =
        ConfigOption::of("restart-strategy.exponential-delay.reset-backoff-threshold", "1 h", Duration, Job);
    /// Exponential delay: part of the pause that is random.
    EXPONENTIAL_JITTER = ConfigOption::of("restart-strategy.exponential-delay.jitter-factor", "0.1", Factor, Job);
    /// Exponential delay: restarts without a quiet time before the job fails; unset: no limit.
    EXPONENTIAL_ATTEMPTS =
        ConfigOption::of("restart-strategy.exponential-delay.attempts-before-reset-backoff", "", ANY, Job);
    /// How often a streaming job takes a checkpoint; unset: never.
    CHECKPOINT_INTERVAL = ConfigOption::of("execution.checkpointing.interval", "", Duration, Job);
    /// When a checkpoint that does not complete is given up.
    CHECKPOINT_TIMEOUT = ConfigOption::of("execution.checkpointing.timeout", "10 min", Duration, Job);
    /// Pause between the end of a checkpoint and the start of the next.
    CHECKPOINT_MIN_PAUSE = ConfigOption::of("execution.checkpointing.min-pause", "0 ms", Duration, Job);
    /// Failed checkpoints in a row that do not fail the job.
    CHECKPOINT_TOLERABLE =
        ConfigOption::of("execution.checkpointing.tolerable-failed-checkpoints", "0", ANY, Job);
    /// Completed checkpoints that are kept.
    CHECKPOINT_RETAINED = ConfigOption::of("execution.checkpointing.num-retained", "1", POSITIVE, Job)
        .was(&["state.checkpoints.num-retained"]);
    /// Whether checkpoints outlive a job that ended.
    CHECKPOINT_RETENTION = ConfigOption::of(
        "execution.checkpointing.externalized-checkpoint-retention",
        "NO_EXTERNALIZED_CHECKPOINTS",
        Choice(&[
            &["NO_EXTERNALIZED_CHECKPOINTS"],
            &["DELETE_ON_CANCELLATION"],
            &["RETAIN_ON_CANCELLATION"],
        ]),
        Job,
    ).was(&["execution.checkpointing.externalized-checkpoint-retention-mode"]);
    /// Ended jobs that are kept for REST.
    JOBSTORE_CAPACITY = ConfigOption::of("jobstore.max-capacity", "100", ANY, Cluster);
    /// How often the web UI asks (answered by `/config`; caching clients read it).
    REFRESH_INTERVAL = ConfigOption::of("web.refresh-interval", "3 s", Duration, Cluster);
    /// Longest wait of a REST call.
    WEB_TIMEOUT = ConfigOption::of("web.timeout", "10 min", Duration, Cluster);
    /// Ours: forget a lost executor's partitions before its tasks fail, so that one loss is one failover. Off: Flink's
    /// order, where the consumers' own failures follow (reference 2.4).
    UNTRACK_FIRST = ConfigOption::of("stormproof.failover.untrack-first", "true", Flag, Job);
    /// Ours: whether a PartitionException that names an *old* attempt of the producer condemns the new one.
    STALE_PARTITION = ConfigOption::of(
        "stormproof.failover.stale-partition-exception", "ignore", Choice(&[&["ignore"], &["honour", "honor"]]), Job);
    /// Ours: most time one attempt of a call to the checkpoint store may take, and most silence within it.
    STORE_ATTEMPT_TIMEOUT = ConfigOption::of("stormproof.store.attempt-timeout", "5 s", Duration, Cluster);
    /// Ours: most time a call to the checkpoint store may take, with its retries.
    STORE_TIMEOUT = ConfigOption::of("stormproof.store.timeout", "20 s", Duration, Cluster);
}

/// Keys of a Flink `config.yaml` that mean nothing here: they are read past, so that a file that configures a real
/// cluster can be used as it is. A trailing dot stands for all keys below.
pub const IGNORED: &[&str] = &[
    // A cancellation is a flag that stays: there is nothing to repeat.
    "task.cancellation.interval",
    // A request for a partition that is not there yet is held by its producer's executor, never sent again.
    "taskmanager.network.request-backoff.",
    "env.",
    "jobmanager.memory.",
    "taskmanager.memory.",
    "jobmanager.rpc.",
    "jobmanager.bind-host",
    "taskmanager.bind-host",
    "taskmanager.host",
    "parallelism.default",
    "rest.address",
    "rest.port",
    "rest.bind-address",
    "rest.bind-port",
    "high-availability.",
    "state.backend.",
    "io.tmp.dirs",
    "classloader.",
    "s3.",
];

/// The option called `key`, by its current or an older name.
#[must_use]
pub fn find(key: &str) -> Option<&'static ConfigOption> {
    ALL.iter().find(|option| option.key == key || option.old.contains(&key))
}

/// True for a key of [`IGNORED`].
#[must_use]
pub fn is_ignored(key: &str) -> bool {
    IGNORED.iter().any(|name| if name.ends_with('.') { key.starts_with(name) } else { key == *name })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_is_used_twice() {
        let mut names = BTreeSet::new();
        for option in ALL {
            for name in std::iter::once(&option.key).chain(option.old) {
                assert!(names.insert(*name), "{name} is used twice");
                assert!(!is_ignored(name), "{name} is ignored and understood");
            }
        }
    }

    #[test]
    fn old_names_lead_to_the_option() {
        assert_eq!(find("restart-strategy").map(|option| option.key), Some("restart-strategy.type"));
        assert_eq!(
            find("state.checkpoints.num-retained").map(|option| option.key),
            Some("execution.checkpointing.num-retained")
        );
        assert!(find("restart-strategy.kind").is_none());
    }
}
