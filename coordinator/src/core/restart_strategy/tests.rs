//! Flink's tests of the restart strategies (reference 8.2) and the worked numbers of 3.2.

use std::collections::BTreeSet;

use super::{RestartStrategy, RestartStrategyConfig};

/// Leaves the pause as it is when there is no jitter.
const ANY: u64 = 0x9e37_79b9_7f4a_7c15;

fn fixed(attempts: u32, delay_ms: u64) -> RestartStrategy {
    RestartStrategy::new(RestartStrategyConfig::FixedDelay { attempts, delay_ms })
}

fn rate(max_failures: u32, interval_ms: u64, delay_ms: u64) -> RestartStrategy {
    RestartStrategy::new(RestartStrategyConfig::FailureRate { max_failures, interval_ms, delay_ms })
}

/// Initial pause, longest pause, factor, quiet time, jitter; no limit of attempts.
fn exponential(
    initial_ms: u64,
    max_ms: u64,
    multiplier: f64,
    reset_threshold_ms: u64,
    jitter: f64,
) -> RestartStrategyConfig {
    RestartStrategyConfig::ExponentialDelay {
        initial_ms,
        max_ms,
        multiplier,
        reset_threshold_ms,
        jitter,
        attempts: None,
    }
}

/// Fails `count` times, each time at the moment of a planned restart plus one; answers the pauses.
fn pauses(config: RestartStrategyConfig, count: usize, random: impl Fn(usize) -> u64) -> Vec<u64> {
    let mut strategy = RestartStrategy::new(config);
    let mut now = 1_000_000;
    let mut pauses = Vec::new();
    for failure in 0..count {
        assert!(strategy.notify_failure(now, random(failure)));
        let pause = strategy.backoff_ms(now).unwrap();
        pauses.push(pause);
        now += pause + 1;
    }
    pauses
}

#[test]
fn without_a_strategy_the_first_failure_is_final() {
    let mut none = RestartStrategy::new(RestartStrategyConfig::None);
    assert!(none.notify_failure(0, ANY));
    assert!(!none.can_restart(0));
    assert_eq!(none.describe(), "NoRestartBackoffTimeStrategy");
}

// P040 P041
#[test]
fn fixed_delay_counts_attempts() {
    let mut strategy = fixed(3, 42);
    for failure in 0..3 {
        strategy.notify_failure(failure, ANY);
        assert!(strategy.can_restart(failure) && strategy.can_restart(failure));
        assert_eq!(strategy.backoff_ms(failure), Some(42));
    }
    strategy.notify_failure(3, ANY);
    assert!(!strategy.can_restart(3));
    assert_eq!(
        strategy.describe(),
        "FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts=3, backoffTimeMS=42)"
    );
}

// P042
#[test]
fn failures_within_the_rate_are_never_refused() {
    let mut strategy = rate(1, 1, 0);
    for now in (0..40).step_by(2) {
        strategy.notify_failure(now, ANY);
        assert!(strategy.can_restart(now), "at {now}");
    }
}

// P043 P044
#[test]
fn failures_beyond_the_rate_are_refused() {
    let mut strategy = rate(3, 10_000, 7);
    for _ in 0..3 {
        strategy.notify_failure(50, ANY);
        assert!(strategy.can_restart(50));
    }
    strategy.notify_failure(50, ANY);
    assert!(!strategy.can_restart(50));
    // The interval is over only strictly after its end.
    assert!(!strategy.can_restart(10_050));
    assert!(strategy.can_restart(10_051));
    assert_eq!(strategy.backoff_ms(50), Some(7));
    assert_eq!(
        strategy.describe(),
        "FailureRateRestartBackoffTimeStrategy(FailureRateRestartBackoffTimeStrategy(failuresIntervalMS=10000,\
         backoffTimeMS=7,maxFailuresPerInterval=3)"
    );
}

// P045
#[test]
fn exponential_delay_refuses_after_its_attempts() {
    let config = RestartStrategyConfig::ExponentialDelay {
        initial_ms: 1,
        max_ms: 3,
        multiplier: 1.2,
        reset_threshold_ms: 8,
        jitter: 0.25,
        attempts: Some(13),
    };
    let mut strategy = RestartStrategy::new(config);
    let mut now = 100;
    for failure in 0..13 {
        assert!(strategy.notify_failure(now, ANY.wrapping_mul(failure)));
        assert!(strategy.can_restart(now), "failure {failure}");
        now += strategy.backoff_ms(now).unwrap() + 1;
    }
    assert!(strategy.notify_failure(now, ANY));
    assert!(!strategy.can_restart(now));
}

// P046
#[test]
fn exponential_delay_has_no_pause_before_a_failure() {
    assert_eq!(RestartStrategy::new(exponential(1, 9, 2.0, 80, 0.25)).backoff_ms(0), None);
}

// P047
#[test]
fn exponential_delay_starts_at_the_initial_pause_and_ends_at_the_longest() {
    assert_eq!(pauses(exponential(42, 999, 2.0, 9_999, 0.0), 1, |_| ANY), [42]);
    assert_eq!(pauses(exponential(2, 6, 2.0, 9_999, 0.0), 4, |_| ANY), [2, 4, 6, 6]);
    // With Flink's defaults the pause ends at a minute and stays there, however many failures there were.
    let random = |failure: usize| ANY.wrapping_mul(failure as u64);
    let many = pauses(RestartStrategyConfig::exponential_default(), 5_000, random);
    assert!(many[20..].iter().all(|&pause| pause == 60_000), "{:?}", many.iter().skip(20).find(|&&p| p != 60_000));
}

// P048
#[test]
fn exponential_delay_resets_after_a_quiet_time() {
    let mut strategy = RestartStrategy::new(exponential(1, 5, 2.0, 8, 0.0));
    let mut now = 0;
    strategy.notify_failure(now, ANY);
    assert_eq!(strategy.backoff_ms(now), Some(1));
    now += 8 + 1 - 1;
    strategy.notify_failure(now, ANY);
    assert_eq!(strategy.backoff_ms(now), Some(2), "one short of the threshold");
    now += 8 + 2;
    strategy.notify_failure(now, ANY);
    assert_eq!(strategy.backoff_ms(now), Some(1), "exactly at the threshold");
}

// P049
#[test]
fn exponential_delay_multiplies_and_rounds_down() {
    assert_eq!(pauses(exponential(4, 300, 2.3, 999, 0.0), 3, |_| ANY), [4, 9, 21]);
}

// P050
#[test]
fn jitter_stays_within_its_share_and_within_the_bounds() {
    let mut seen = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    for random in 0..200 {
        let pauses = pauses(exponential(2, 7, 2.0, 999, 0.25), 4, |_| random);
        assert_eq!(pauses[0], 2);
        seen.iter_mut().zip(&pauses[1..]).for_each(|(seen, &pause)| seen.extend([pause]));
    }
    assert_eq!(seen, [BTreeSet::from([3, 4, 5]), BTreeSet::from([6, 7]), BTreeSet::from([7])]);
}

// P051
#[test]
fn exponential_delay_through_two_quiet_times() {
    let mut strategy = RestartStrategy::new(exponential(1, 9, 2.0, 80, 0.25));
    let mut now = 0;
    let mut fail_after = |after: u64| {
        now += after;
        assert!(strategy.notify_failure(now, ANY));
        assert!(strategy.can_restart(now));
        strategy.backoff_ms(now).unwrap()
    };
    assert_eq!([0, 80 + 1, 10, 80 + 2, 80 - 1].map(&mut fail_after), [1, 1, 2, 1, 2]);
}

// P052
#[test]
fn failures_until_the_planned_restart_are_one_attempt() {
    let mut strategy = RestartStrategy::new(exponential(100, 5_000, 2.0, 10_000, 0.0));
    assert!(strategy.notify_failure(1_000, ANY));
    for now in [1_000, 1_001, 1_050, 1_100] {
        assert!(!strategy.notify_failure(now, ANY), "at {now}");
        assert_eq!(strategy.backoff_ms(now), Some(1_100 - now));
    }
    assert!(strategy.notify_failure(1_101, ANY));
    assert_eq!(strategy.backoff_ms(1_101), Some(200));
}

// P053
#[test]
fn merging_works_after_each_reset() {
    let mut strategy = RestartStrategy::new(exponential(100, 5_000, 2.0, 10_000, 0.0));
    let mut now = 0;
    for _ in 0..10 {
        assert!(strategy.notify_failure(now, ANY));
        assert!(!strategy.notify_failure(now + 100, ANY));
        assert_eq!(strategy.backoff_ms(now), Some(100));
        now += 100 + 10_000;
    }
}

// P056
#[test]
fn what_applies_when_nothing_is_configured() {
    assert_eq!(RestartStrategyConfig::unconfigured(false), RestartStrategyConfig::None);
    let mut strategy = RestartStrategy::new(RestartStrategyConfig::unconfigured(true));
    assert!(strategy.notify_failure(1, 0));
    assert_eq!(
        strategy.describe(),
        "ExponentialDelayRestartBackoffTimeStrategy(initialBackoffMS=1000, maxBackoffMS=60000, backoffMultiplier=1.5, \
         resetBackoffThresholdMS=3600000, jitterFactor=0.1, attemptsBeforeResetBackoff=2147483647, \
         currentRestartAttempt=1, nextRestartTimestamp=1001)"
    );
}

/// Flink's sum overflows here and the pause falls back to the initial one.
#[test]
fn extreme_values_saturate_at_the_longest_pause() {
    let config = exponential(1, u64::MAX / 4, f64::MAX, u64::MAX, 1.0);
    let mut strategy = RestartStrategy::new(config);
    assert!(strategy.notify_failure(0, u64::MAX));
    assert!(strategy.notify_failure(10, 3));
    let pause = strategy.backoff_ms(10).unwrap();
    assert!((1..=u64::MAX / 4).contains(&pause), "{pause}");
    // Any number but a few near 0 of 2^64.
    let random = |failure: usize| (failure as u64 | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for jitter in [0.0, 0.5, 1.0] {
        let late = pauses(exponential(1_000, 60_000, 1.5, u64::MAX, jitter), 300, random).split_off(120);
        assert!(late.iter().all(|&pause| pause == 60_000), "jitter {jitter}: {late:?}");
    }
    let mut at_end = RestartStrategy::new(exponential(5, 5, 2.0, 1, 0.0));
    assert!(at_end.notify_failure(u64::MAX, 0));
    assert_eq!(at_end.backoff_ms(u64::MAX), Some(0));
}
