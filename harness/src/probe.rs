//! The open-loop prober: probes are due at a fixed rate whatever became of the ones before, so a stall shows in every
//! probe that was due in it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::flink::{RestClient, RestError};
use crate::timeline::{ProbeAnswer, RecordKind, Recorder};

/// How to probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeConfig {
    /// Name in the timeline.
    pub name: String,
    /// Time from one due probe to the next.
    pub period: Duration,
    /// Longest time to wait for an answer.
    pub timeout: Duration,
    /// Most probes waiting for their answer at once. One that is due above it counts as unanswered.
    pub max_waiting: usize,
}

impl ProbeConfig {
    /// 50 probes a second, 5 s each, at most 300 waiting (250 if nothing at all is answered).
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), period: Duration::from_millis(20), timeout: Duration::from_secs(5), max_waiting: 300 }
    }
}

/// A running prober. Dropping it stops it without waiting for answers that are still due.
#[derive(Debug)]
pub struct Prober {
    stop: CancellationToken,
    task: JoinHandle<u64>,
}

impl Prober {
    /// Calls `ask` at a fixed rate, each call in a task of its own, and records every probe.
    pub fn start<F, Fut>(config: ProbeConfig, recorder: Recorder, ask: F) -> Self
    where
        F: Fn() -> Fut + Send + 'static,
        Fut: Future<Output = ProbeAnswer> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let task = tokio::spawn(probe(config, recorder, ask, stop.clone()));
        Self { stop, task }
    }

    /// Stops probing, waits for the answers of the probes that are out (each has its time-out) and tells how many
    /// probes were due.
    pub async fn stop(mut self) -> u64 {
        self.stop.cancel();
        // A panic of the prober's own task would be a bug; it has counted nothing then.
        (&mut self.task).await.unwrap_or(0)
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn probe<F, Fut>(config: ProbeConfig, recorder: Recorder, ask: F, stop: CancellationToken) -> u64
where
    F: Fn() -> Fut,
    Fut: Future<Output = ProbeAnswer> + Send + 'static,
{
    let waiting = Arc::new(Semaphore::new(config.max_waiting));
    let mut due_probes = tokio::time::interval(config.period);
    // A tick that comes late is followed by the missed ones at once, each with the time it was due.
    due_probes.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut out = JoinSet::new();
    let mut count = 0;
    loop {
        let due = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            due = due_probes.tick() => due,
        };
        count += 1;
        while out.try_join_next().is_some() {}
        let due_ms = recorder.now_ms().saturating_sub(whole(due.elapsed().as_millis()));
        let report = Report { recorder: recorder.clone(), probe: config.name.clone(), due, due_ms };
        let Ok(place) = Arc::clone(&waiting).try_acquire_owned() else {
            report.record(ProbeAnswer::NotSent);
            continue;
        };
        let (answer, timeout) = (ask(), config.timeout);
        out.spawn(async move {
            // From when it was due: a late start has less time left, as a user would have.
            let answer = tokio::time::timeout_at(due + timeout, answer).await;
            report.record(answer.unwrap_or(ProbeAnswer::TimedOut));
            drop(place);
        });
    }
    while out.join_next().await.is_some() {}
    count
}

struct Report {
    recorder: Recorder,
    probe: String,
    due: Instant,
    due_ms: u64,
}

impl Report {
    fn record(self, answer: ProbeAnswer) {
        let latency_us = whole(self.due.elapsed().as_micros());
        self.recorder.record(RecordKind::Probe { probe: self.probe, due_ms: self.due_ms, latency_us, answer });
    }
}

fn whole(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The answer to a probe of a job's state.
pub async fn ask_job(client: RestClient, job: String) -> ProbeAnswer {
    answer_of(client.job(&job).await.map(|detail| detail.state))
}

/// The answer to a probe of the cluster as a whole.
pub async fn ask_overview(client: RestClient) -> ProbeAnswer {
    answer_of(client.overview().await.map(|overview| format!("{} executors", overview.taskmanagers)))
}

/// What the result of a REST call is to a prober: answers that pass by themselves are *unavailable*, all else that is
/// no answer is an *error*.
#[must_use]
pub fn answer_of(result: Result<String, RestError>) -> ProbeAnswer {
    match result {
        Ok(saw) => ProbeAnswer::Answered { saw },
        Err(RestError::TimedOut { .. }) => ProbeAnswer::TimedOut,
        Err(error) if error.is_transient() => ProbeAnswer::Unavailable { error: error.to_string() },
        Err(error) => ProbeAnswer::Error { error: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn saw() -> ProbeAnswer {
        ProbeAnswer::Answered { saw: "RUNNING".into() }
    }

    /// (due ms, latency ms, answer) of every probe in order of due time.
    fn probes(recorder: &Recorder) -> Vec<(u64, u64, ProbeAnswer)> {
        let timeline = recorder.timeline();
        let mut probes: Vec<_> = timeline
            .records()
            .iter()
            .filter_map(|record| match &record.kind {
                RecordKind::Probe { due_ms, latency_us, answer, .. } => {
                    Some((*due_ms, *latency_us / 1000, answer.clone()))
                }
                _ => None,
            })
            .collect();
        probes.sort_by_key(|(due_ms, ..)| *due_ms);
        probes
    }

    #[tokio::test(start_paused = true)]
    async fn probes_are_due_at_a_fixed_rate_though_each_answer_is_slow() {
        let recorder = Recorder::in_memory();
        let slow = || async {
            tokio::time::sleep(Duration::from_millis(170)).await;
            saw()
        };
        let prober = Prober::start(ProbeConfig::new("job"), recorder.clone(), slow);
        tokio::time::sleep(Duration::from_millis(990)).await;
        assert_eq!(prober.stop().await, 50);
        let probes = probes(&recorder);
        let due: Vec<_> = probes.iter().map(|(due_ms, ..)| *due_ms).collect();
        assert_eq!(due, (0..50).map(|number| number * 20).collect::<Vec<_>>());
        assert!(probes.iter().all(|(_, latency_ms, answer)| (170..173).contains(latency_ms) && *answer == saw()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_of_the_prober_itself_is_in_the_latencies() {
        let recorder = Recorder::in_memory();
        let prober = Prober::start(ProbeConfig::new("job"), recorder.clone(), || async { saw() });
        tokio::time::sleep(Duration::from_millis(95)).await;
        // The clock leaps while nobody is polled, as on a machine that was suspended.
        tokio::time::advance(Duration::from_millis(400)).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        prober.stop().await;
        let latencies: Vec<_> = probes(&recorder).iter().map(|(_, latency_ms, _)| *latency_ms).collect();
        assert_eq!(latencies.len(), 25);
        assert!(latencies[5] >= 390, "the probe that was due at 100 ms: {latencies:?}");
        assert!(latencies[5..].windows(2).all(|pair| pair[0] >= pair[1]), "{latencies:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_bounded_in_time_and_in_number() {
        let recorder = Recorder::in_memory();
        let config = ProbeConfig { timeout: Duration::from_millis(500), max_waiting: 10, ..ProbeConfig::new("job") };
        let asked = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&asked);
        let ask = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            pending::<ProbeAnswer>()
        };
        let prober = Prober::start(config, recorder.clone(), ask);
        tokio::time::sleep(Duration::from_millis(395)).await;
        prober.stop().await;
        assert_eq!(asked.load(Ordering::Relaxed), 10);
        let probes = probes(&recorder);
        let of = |wanted: &ProbeAnswer| probes.iter().filter(|(_, _, answer)| answer == wanted).count();
        assert_eq!((of(&ProbeAnswer::TimedOut), of(&ProbeAnswer::NotSent)), (10, 10));
    }

    #[test]
    fn what_passes_by_itself_is_unavailable() {
        let no_leader = RestError::NoLeader { path: "/jobs/j".into(), message: "election".into() };
        assert!(matches!(answer_of(Err(no_leader)), ProbeAnswer::Unavailable { .. }));
        let gone = RestError::NotFound { path: "/jobs/j".into(), message: "x".into(), electing: false };
        assert!(matches!(answer_of(Err(gone)), ProbeAnswer::Error { .. }));
        let late = RestError::TimedOut { path: "/jobs/j".into(), limit: Duration::from_secs(1) };
        assert_eq!(answer_of(Err(late)), ProbeAnswer::TimedOut);
    }
}
