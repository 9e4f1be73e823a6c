//! `slow-executor`: SIGSTOP and SIGCONT in turn, so that a process gets only a share of its time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::{Description, Effect, Fault, FaultError};
use crate::journal::Undo;
use crate::process::{ProcessId, gone_is_done};

/// One stop and one run take this long together: short against heartbeats, long against a scheduler's time slice.
const CYCLE: Duration = Duration::from_millis(100);

/// Lets a process run for a share of each tenth of a second; healing lets it run on.
///
/// A task of the holder does it. If that dies while the process is stopped, the guardian continues the process.
#[derive(Debug)]
pub struct SlowProcess {
    kind: &'static str,
    name: String,
    process: ProcessId,
    percent: u8,
    counters: Arc<Counters>,
    throttle: Option<AbortOnDropHandle<()>>,
}

#[derive(Debug, Default)]
struct Counters {
    /// Times that it was seen to be stopped.
    stops: AtomicU64,
    stopped_ms: AtomicU64,
}

impl SlowProcess {
    /// `kind` is what reports call it, `name` the process's name in the cluster, `percent` the share of its time that
    /// it keeps, from 1 to 99; what is beyond is taken for the nearest.
    #[must_use]
    pub fn new(kind: &'static str, name: impl Into<String>, process: ProcessId, percent: u8) -> Self {
        let percent = percent.clamp(1, 99);
        Self { kind, name: name.into(), process, percent, counters: Arc::default(), throttle: None }
    }
}

/// Stops and continues `process` until it is gone.
async fn throttle(process: ProcessId, percent: u8, counters: Arc<Counters>) {
    let run = CYCLE * u32::from(percent) / 100;
    while process.stop().is_ok() {
        let stopped = Instant::now();
        sleep(CYCLE.saturating_sub(run)).await;
        if process.is_stopped() {
            let ms = u64::try_from(stopped.elapsed().as_millis()).unwrap_or(u64::MAX);
            counters.stops.fetch_add(1, Ordering::Relaxed);
            counters.stopped_ms.fetch_add(ms, Ordering::Relaxed);
        }
        if process.resume().is_err() {
            return;
        }
        sleep(run).await;
    }
}

#[async_trait]
impl Fault for SlowProcess {
    fn describe(&self) -> Description {
        Description::new(self.kind, format!("{} ({})", self.name, self.process))
            .with_detail(format!(", {} %", self.percent))
    }

    fn undo(&self) -> Vec<Undo> {
        vec![Undo::Resume { process: self.process }]
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        // The task ends by itself if it cannot be signalled; this says why.
        self.process.resume()?;
        let throttle = tokio::spawn(throttle(self.process, self.percent, self.counters.clone()));
        self.throttle = Some(AbortOnDropHandle::new(throttle));
        Ok(())
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        let counts = self.counted().await;
        Ok(Effect { bites: counts["stops"] > 0, counts })
    }

    async fn counted(&mut self) -> BTreeMap<String, u64> {
        let Counters { stops, stopped_ms } = &*self.counters;
        let counts = [("stops", stops), ("stopped_ms", stopped_ms)];
        counts.map(|(name, count)| (name.to_owned(), count.load(Ordering::Relaxed))).into()
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        if let Some(throttle) = self.throttle.take() {
            throttle.abort();
            // It must not stop the process after we have continued it.
            let _ = throttle.await;
        }
        Ok(gone_is_done(self.process.resume())?)
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        Ok(!self.process.is_stopped())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;
    use crate::guardian::undone_by_the_guardian;
    use crate::process::ProcessError;

    const DEADLINE: Duration = Duration::from_secs(60);

    /// Takes all the time that it gets. Killed when it is dropped.
    struct Busy(Child);

    impl Busy {
        fn start() -> (Self, ProcessId) {
            let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh starts");
            let process = ProcessId::of(child.id()).expect("it runs");
            (Self(child), process)
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Processor time that it has used, in hundredths of a second (the kernel's unit).
    fn used(process: ProcessId) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).expect("it runs");
        let (_, fields) = stat.rsplit_once(')').expect("a command in parentheses");
        fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    }

    async fn until(what: &str, mut fact: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !fact().await {
            assert!(Instant::now() < deadline, "it never comes true that {what}");
            sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn a_slow_process_gets_a_share_of_its_time_until_it_is_healed() {
        let (_child, process) = Busy::start();
        let mut fault = SlowProcess::new("slow-executor", "executor-1", process, 20);
        assert_eq!(fault.undo(), [Undo::Resume { process }]);
        assert!(fault.describe().to_string().ends_with("20 %"));
        assert!(!fault.effect().await.expect("known").bites);
        let (began, used_before) = (Instant::now(), used(process));
        fault.inject().await.expect("throttled");
        until("it was stopped ten times", async || fault.counted().await["stops"] >= 10).await;
        let (hundredths, used_since) = (began.elapsed().as_millis() as u64 / 10, used(process) - used_before);
        let stopped = fault.counted().await["stopped_ms"] / 10;
        assert!(stopped >= 80 && stopped <= hundredths, "stopped for {stopped} of {hundredths}");
        assert!(used_since <= hundredths - stopped + 5, "used {used_since}, stopped for {stopped} of {hundredths}");
        fault.heal().await.expect("healed");
        assert!(fault.is_healed().await.expect("known"));
        let counted = fault.counted().await;
        let used_by_then = used(process);
        until("it runs on", async || used(process) > used_by_then + 20).await;
        assert_eq!(fault.counted().await, counted, "nobody stops it any more");
    }

    #[tokio::test]
    async fn a_process_that_is_stopped_when_its_holder_dies_is_continued_by_the_guardian() {
        let (child, process) = Busy::start();
        let mut fault = SlowProcess::new("slow-executor", "executor-1", process, 1);
        let undo = fault.undo();
        fault.inject().await.expect("throttled");
        until("it is stopped", async || process.is_stopped()).await;
        // Nothing runs between the last look and this.
        drop(fault);
        undone_by_the_guardian(undo).await;
        until("it runs", async || !process.is_stopped()).await;
        drop(child);
        let gone = SlowProcess::new("slow-executor", "executor-1", process, 1).inject().await;
        assert!(matches!(gone, Err(FaultError::Process(ProcessError::Gone(_)))));
    }
}
