//! Faults of user code on demand: files in the chaos folder.
//!
//! `fail-<vertex>-<subtask>` makes the task fail. An empty one does so once, now, and is removed by the task that fails;
//! any other holds a [`FaultRule`]. How often a rule has made the task fail is the length of `thrown-<vertex>-<subtask>`.
//! `failalways-<vertex>-<subtask>` makes every attempt fail while it is there.

use std::fs::OpenOptions;
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tracing::warn;

use super::Counters;
use super::fault_rule::{FaultKind, FaultRule};
use crate::graph::{TaskError, TaskInfo};
use crate::runtime::clock::now_ms;

/// The folder is looked at no more often than this.
const INTERVAL: Duration = Duration::from_millis(1);

/// Looks for the trigger files of one task.
pub(super) struct Faults {
    files: Option<Files>,
}

struct Files {
    fail: PathBuf,
    thrown: PathBuf,
    always: PathBuf,
    name: String,
    attempt: u32,
    subtask: u32,
    is_source: bool,
    counters: Arc<Counters>,
    last: Option<Instant>,
    /// What the file said when it was looked at last, and what that means.
    content: Vec<u8>,
    rule: Option<FaultRule>,
    /// It has done all that it says, or has ended.
    is_spent: bool,
    /// The rule has been asked about the records before this one.
    judged: u64,
}

impl Faults {
    /// `is_source`: its records are those that it writes.
    pub(super) fn new(folder: Option<&Path>, info: &TaskInfo, is_source: bool, counters: Arc<Counters>) -> Self {
        let vertex: String = info.vertex.chars().map(|c| if c.is_whitespace() || c == '/' { '_' } else { c }).collect();
        let name = format!("{vertex}-{}", info.subtask);
        let files = folder.map(|folder| Files {
            fail: folder.join(format!("fail-{name}")),
            thrown: folder.join(format!("thrown-{name}")),
            always: folder.join(format!("failalways-{name}")),
            name,
            attempt: info.attempt.attempt,
            subtask: info.subtask,
            is_source,
            counters,
            last: None,
            content: vec![],
            rule: None,
            is_spent: false,
            judged: 0,
        });
        Self { files }
    }

    /// To be called before each call of user code.
    ///
    /// # Errors
    /// When this task was told to fail, or a file tells it something that it cannot understand. Of several that share
    /// an empty `fail-` file, the one that removes it fails.
    ///
    /// # Panics
    /// When it was told to.
    pub(super) fn check(&mut self) -> Result<(), TaskError> {
        self.files.as_mut().map_or(Ok(()), Files::check)
    }
}

impl Files {
    fn check(&mut self) -> Result<(), TaskError> {
        let now = Instant::now();
        if self.last.is_none_or(|last| now.duration_since(last) >= INTERVAL) {
            self.last = Some(now);
            self.look()?;
        }
        let counter = if self.is_source { &self.counters.write_records } else { &self.counters.read_records };
        // The next record is the one with this number.
        let next = counter.load(Ordering::Relaxed);
        let records = self.judged..next + 1;
        self.judged = next + 1;
        let is_due = |rule: &FaultRule| rule.chooses(self.attempt, self.subtask, records);
        if self.is_spent || !self.rule.as_ref().is_some_and(is_due) {
            return Ok(());
        }
        // Once more: it may have been healed meanwhile.
        self.look()?;
        match self.rule.clone() {
            Some(rule) if !rule.has_ended(now_ms()) => self.throw(&rule, next)?,
            _ => {}
        }
        self.is_spent = true;
        Ok(())
    }

    fn look(&mut self) -> Result<(), TaskError> {
        match std::fs::read(&self.fail) {
            Ok(content) if content.trim_ascii().is_empty() => {
                self.rule = None;
                if std::fs::remove_file(&self.fail).is_ok() {
                    return Err(TaskError::new(format!("chaos trigger {}", self.name)));
                }
            }
            Ok(content) if content == self.content && self.rule.is_some() => {}
            Ok(content) => {
                self.rule = Some(FaultRule::parse(&content).map_err(|error| self.not_understood(&error))?);
                self.content = content;
                self.is_spent = false;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.rule = None,
            Err(error) => return Err(self.not_understood(&error)),
        }
        if self.always.exists() {
            return Err(TaskError::new(format!("chaos trigger always {}", self.name)));
        }
        Ok(())
    }

    /// Somebody believes that a fault is in place: silence would make that a green run.
    fn not_understood(&self, error: &dyn std::error::Error) -> TaskError {
        let doing = format!("cannot obey the fault file {}", self.fail.display());
        let error = TaskError::from_error(error).context(doing);
        warn!(%error, "a fault is not done as it is asked for");
        error
    }

    fn throw(&mut self, rule: &FaultRule, record: u64) -> Result<(), TaskError> {
        let noted = self.note(rule.times).map_err(|error| {
            TaskError::from_error(&error).context(format!("cannot note a failure in {}", self.thrown.display()))
        })?;
        let Some(number) = noted else { return Ok(()) };
        let told = format!("chaos trigger {}: failure {number} of {}, after {record} records", self.name, rule.times);
        warn!("{told}");
        match rule.kind {
            FaultKind::Recoverable => Err(TaskError::new(told)),
            FaultKind::NonRecoverable => Err(TaskError::new(told).non_recoverable()),
            FaultKind::Panic => panic!("{told}"),
        }
    }

    /// Adds one to the failures so far; its number, unless there have been enough. Whoever appends knows its place, so
    /// no two tasks take the same number.
    fn note(&self, times: u64) -> io::Result<Option<u64>> {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.thrown)?;
        if file.metadata()?.len() >= times {
            return Ok(None);
        }
        file.write_all(b".")?;
        let number = file.stream_position()?;
        Ok((number <= times).then_some(number))
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::graph::{AttemptId, JobId, Params, TaskId, VertexId};

    fn info(attempt: u32) -> TaskInfo {
        let task = TaskId { vertex: VertexId::of_name("a b/c"), subtask: 1 };
        let attempt = AttemptId { job: JobId([0; 16]), task, attempt };
        TaskInfo { attempt, vertex: "a b/c".into(), subtask: 1, parallelism: 2, params: Params::default() }
    }

    /// The record before which an attempt fails, of the first thousand, and what it says.
    fn failure_of(folder: &TempDir, attempt: u32) -> Option<(u64, TaskError)> {
        let counters = Arc::<Counters>::default();
        let mut faults = Faults::new(Some(folder.path()), &info(attempt), false, counters.clone());
        (0..1000).find_map(|record| {
            counters.read_records.store(record, Ordering::Relaxed);
            faults.check().err().map(|error| (record, error))
        })
    }

    fn told(folder: &TempDir, content: &str) {
        std::fs::write(folder.path().join("fail-a_b_c-1"), content).unwrap();
    }

    #[test]
    fn files_make_the_named_task_fail() {
        let folder = tempfile::tempdir().unwrap();
        // Fresh each time: the second look within a millisecond sees nothing, on purpose.
        let check = || Faults::new(Some(folder.path()), &info(0), false, Arc::default()).check();
        assert_eq!(check(), Ok(()));
        std::fs::write(folder.path().join("fail-a_b_c-0"), "").unwrap();
        assert_eq!(check(), Ok(()), "another subtask");
        told(&folder, "\n");
        assert_eq!(check().unwrap_err().to_string(), "chaos trigger a_b_c-1");
        assert_eq!(check(), Ok(()), "once");
        std::fs::write(folder.path().join("failalways-a_b_c-1"), "").unwrap();
        for _ in 0..2 {
            assert_eq!(check().unwrap_err().to_string(), "chaos trigger always a_b_c-1");
        }
        assert_eq!(Faults::new(None, &info(0), false, Arc::default()).check(), Ok(()));
    }

    #[test]
    fn a_rule_fails_each_attempt_after_its_record_as_often_as_it_says() {
        let folder = tempfile::tempdir().unwrap();
        told(&folder, r#"{"after_records": 5, "times": 2}"#);
        for (attempt, number) in [(0, 1), (1, 2)] {
            let (record, error) = failure_of(&folder, attempt).unwrap();
            assert_eq!(record, 5);
            assert!(!error.is_non_recoverable);
            let expected = format!("chaos trigger a_b_c-1: failure {number} of 2, after 5 records");
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(failure_of(&folder, 2), None, "enough");
        assert_eq!(std::fs::read(folder.path().join("thrown-a_b_c-1")).unwrap(), b"..");
        // A source is asked before it writes any number of records.
        told(&folder, r#"{"after_records": 5, "times": 3}"#);
        let counters = Arc::<Counters>::default();
        let mut source = Faults::new(Some(folder.path()), &info(3), true, counters.clone());
        source.check().unwrap();
        counters.write_records.store(100, Ordering::Relaxed);
        assert!(source.check().unwrap_err().to_string().contains("failure 3 of 3, after 100 records"));
    }

    #[test]
    fn a_share_meets_the_same_records_in_the_same_attempt() {
        let failures = || {
            let folder = tempfile::tempdir().unwrap();
            told(&folder, r#"{"per_million": 20000, "seed": 11, "times": 5}"#);
            (0..5).map(|attempt| failure_of(&folder, attempt).map(|(record, _)| record)).collect::<Vec<_>>()
        };
        let first = failures();
        assert!(first.iter().all(Option::is_some) && first[0] != first[1], "{first:?}");
        assert_eq!(first, failures());
    }

    #[test]
    fn kinds_differ_and_a_rule_that_has_ended_does_nothing() {
        let folder = tempfile::tempdir().unwrap();
        told(&folder, r#"{"kind": "non-recoverable"}"#);
        assert!(failure_of(&folder, 0).unwrap().1.is_non_recoverable);
        told(&folder, r#"{"kind": "panic", "times": 2}"#);
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| failure_of(&folder, 1))).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("failure 2 of 2"));
        told(&folder, r#"{"times": 9, "until_unix_ms": 1}"#);
        assert_eq!(failure_of(&folder, 2), None);
        let rule = format!(r#"{{"times": 9, "until_unix_ms": {}}}"#, now_ms() + 3_600_000);
        told(&folder, &rule);
        assert!(failure_of(&folder, 3).is_some());
    }

    #[test]
    fn what_cannot_be_understood_fails_the_task_and_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        told(&folder, r#"{"afterrecords": 5}"#);
        let (record, error) = failure_of(&folder, 0).unwrap();
        let text = error.to_string();
        assert!(record == 0 && text.contains("fail-a_b_c-1") && text.contains("`afterrecords`"), "{text}");
    }
}
