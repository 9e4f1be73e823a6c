//! The handle that stamps and keeps records while a run goes on.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::time::Instant;

use super::Timeline;
use super::file::{self, TimelineError};
use super::record::{Record, RecordKind};

/// Most records of a run. Later ones are counted, not kept, and the run is judged invalid.
pub const MAX_RECORDS: usize = 400_000;

/// Tells (milliseconds since the run started, milliseconds since the epoch).
pub type Clock = Box<dyn Fn() -> (u64, u64) + Send + Sync>;

/// Records facts. A clone writes to the same timeline.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    capacity: usize,
    kept: Mutex<Kept>,
    count: watch::Sender<u64>,
}

struct Kept {
    records: Vec<Record>,
    dropped: u64,
    file: Option<(PathBuf, File)>,
    failure: Option<TimelineError>,
}

impl Recorder {
    /// Keeps records in memory; the clock starts now.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::build(wall_clock(), MAX_RECORDS, None)
    }

    /// Keeps records in memory by a clock of one's own (the simulator's), at most `capacity` of them.
    #[must_use]
    pub fn with_clock(clock: Clock, capacity: usize) -> Self {
        Self::build(clock, capacity, None)
    }

    /// Also appends each record to a new file at `path`, so that a killed runner leaves everything up to its end.
    ///
    /// # Errors
    /// If the file exists or cannot be created.
    pub fn to_file(path: &Path) -> Result<Self, TimelineError> {
        let opened = OpenOptions::new().write(true).create_new(true).open(path);
        let mut file = opened.map_err(|error| TimelineError::io("create", path, error))?;
        file.write_all(file::header().as_bytes()).map_err(|error| TimelineError::io("write", path, error))?;
        Ok(Self::build(wall_clock(), MAX_RECORDS, Some((path.to_owned(), file))))
    }

    fn build(clock: Clock, capacity: usize, file: Option<(PathBuf, File)>) -> Self {
        let kept = Mutex::new(Kept { records: vec![], dropped: 0, file, failure: None });
        Self { shared: Arc::new(Shared { clock, capacity, kept, count: watch::Sender::new(0) }) }
    }

    /// Records a fact and gives its number; `None` if it did not fit.
    pub fn record(&self, kind: RecordKind) -> Option<u64> {
        let seq = {
            let mut kept = self.kept();
            // Under the lock, so that the order of numbers is the order of times.
            let (at_ms, wall_ms) = (self.shared.clock)();
            if kept.records.len() >= self.shared.capacity {
                kept.dropped += 1;
                return None;
            }
            let seq = kept.records.len() as u64;
            kept.push(Record { seq, at_ms, wall_ms, kind });
            seq
        };
        self.shared.count.send_replace(seq + 1);
        Some(seq)
    }

    /// Milliseconds since the run started.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        (self.shared.clock)().0
    }

    /// Number the next record will have.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.kept().records.len() as u64
    }

    /// Records that did not fit so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.kept().dropped
    }

    /// Looks at the records from number `from` on. Recording waits meanwhile, so `look` must be quick.
    pub fn look<T>(&self, from: u64, look: impl FnOnce(&[Record]) -> T) -> T {
        let kept = self.kept();
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(kept.records.len());
        look(&kept.records[from..])
    }

    /// A copy of everything recorded so far.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        Timeline::new(self.kept().records.clone())
    }

    /// Waits for the first record from number `from` on that `is_it` accepts; `None` after `limit`.
    pub async fn wait_for(&self, from: u64, limit: Duration, is_it: impl Fn(&Record) -> bool) -> Option<Record> {
        let mut count = self.shared.count.subscribe();
        let search = async {
            let mut next = from;
            loop {
                let seen = *count.borrow_and_update();
                if let Some(found) = self.look(next, |records| records.iter().find(|record| is_it(record)).cloned()) {
                    return Some(found);
                }
                next = next.max(seen);
                // Fails only if the sender is gone, and `self` holds it.
                count.changed().await.ok()?;
            }
        };
        tokio::time::timeout(limit, search).await.ok().flatten()
    }

    /// Ends the record: notes dropped records and [`RecordKind::RunEnded`], and syncs the file.
    ///
    /// # Errors
    /// If any record could not be written to the file.
    pub fn finish(&self) -> Result<(), TimelineError> {
        let count = {
            let mut kept = self.kept();
            let (at_ms, wall_ms) = (self.shared.clock)();
            let dropped = kept.dropped;
            let ending = (dropped > 0).then_some(RecordKind::Dropped { count: dropped });
            for kind in ending.into_iter().chain([RecordKind::RunEnded]) {
                let seq = kept.records.len() as u64;
                kept.push(Record { seq, at_ms, wall_ms, kind });
            }
            if let Some((path, file)) = &kept.file
                && let Err(error) = file.sync_all()
            {
                let failure = TimelineError::io("sync", path, error);
                kept.failure.get_or_insert(failure);
            }
            if let Some(failure) = kept.failure.take() {
                return Err(failure);
            }
            kept.records.len() as u64
        };
        self.shared.count.send_replace(count);
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // No code runs under the lock that leaves records half-written.
        self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Writing under the lock is deliberate: a line into the page cache takes microseconds, and no queue can lose it.
    fn push(&mut self, record: Record) {
        if let Some((path, file)) = &mut self.file
            && let Err(error) = file.write_all(file::line(&record).as_bytes())
        {
            let failure = TimelineError::io("append to", path, error);
            self.failure.get_or_insert(failure);
        }
        self.records.push(record);
    }
}

/// The clock of real runs. Tokio's instant, so that a test can pause it.
fn wall_clock() -> Clock {
    let start = Instant::now();
    Box::new(move || {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (whole_ms(start.elapsed()), whole_ms(wall))
    })
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn note(text: &str) -> RecordKind {
        RecordKind::Note { text: text.to_owned() }
    }

    fn stepping() -> Clock {
        let ticks = AtomicU64::new(0);
        Box::new(move || {
            let tick = ticks.fetch_add(10, Ordering::Relaxed);
            (tick, 1_000_000 + tick)
        })
    }

    #[test]
    fn clones_write_one_timeline_in_order() {
        let recorder = Recorder::with_clock(stepping(), 10);
        let other = recorder.clone();
        assert_eq!(recorder.record(note("a")), Some(0));
        assert_eq!(other.record(note("b")), Some(1));
        let timeline = recorder.timeline();
        let stamps: Vec<_> =
            timeline.records().iter().map(|record| (record.seq, record.at_ms, record.wall_ms)).collect();
        assert_eq!(stamps, [(0, 0, 1_000_000), (1, 10, 1_000_010)]);
    }

    #[test]
    fn a_full_recorder_counts_what_it_drops_and_says_so_at_the_end() {
        let recorder = Recorder::with_clock(stepping(), 2);
        for text in ["a", "b", "c", "d", "e"] {
            recorder.record(note(text));
        }
        assert_eq!(recorder.dropped(), 3);
        recorder.finish().unwrap();
        let kinds: Vec<_> = recorder.timeline().records().iter().skip(2).map(|record| record.kind.clone()).collect();
        assert_eq!(kinds, [RecordKind::Dropped { count: 3 }, RecordKind::RunEnded]);
    }

    #[tokio::test]
    async fn waiting_sees_records_of_the_past_and_of_the_future() {
        let recorder = Recorder::in_memory();
        recorder.record(note("past"));
        let is = |text: &'static str| move |record: &Record| record.kind == note(text);
        let limit = Duration::from_secs(20);
        assert_eq!(recorder.wait_for(0, limit, is("past")).await.map(|record| record.seq), Some(0));
        let writer = recorder.clone();
        let (found, ()) = tokio::join!(recorder.wait_for(1, limit, is("future")), async move {
            writer.record(note("other"));
            tokio::task::yield_now().await;
            writer.record(note("future"));
        });
        assert_eq!(found.map(|record| record.seq), Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_at_its_limit() {
        let recorder = Recorder::in_memory();
        let began = Instant::now();
        assert_eq!(recorder.wait_for(0, Duration::from_secs(3), |_| true).await, None);
        assert_eq!(began.elapsed(), Duration::from_secs(3));
        assert_eq!(recorder.now_ms(), 3000);
    }

    #[test]
    fn every_record_is_in_the_file_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("timeline.jsonl");
        let recorder = Recorder::to_file(&path).unwrap();
        recorder.record(note("a"));
        assert_eq!(Timeline::read(&path).unwrap().records(), recorder.timeline().records());
        recorder.finish().unwrap();
        assert_eq!(Timeline::read(&path).unwrap(), recorder.timeline());
        assert!(Recorder::to_file(&path).is_err(), "a timeline is never overwritten");
    }
}
