//! `timeline.jsonl`: a header line, then one record a line.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Timeline;
use super::record::Record;

/// Version of the file form. Raised with every change that an older reader would misread.
pub const VERSION: u32 = 1;

const FORMAT: &str = "stormproof-timeline";

/// A timeline could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    /// The file system said no.
    #[error("could not {action} the timeline {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is not a timeline: its first line is not a `{FORMAT}` header", path.display())]
    NotATimeline {
        /// The file.
        path: PathBuf,
    },
    /// Written by another version of this crate.
    #[error("the timeline {} has version {found}; this build reads version {VERSION}: use the build that wrote it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A line in the middle is damaged.
    #[error("line {line} of the timeline {} cannot be read", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
}

impl TimelineError {
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
}

pub(super) fn header() -> String {
    format!("{{\"format\":\"{FORMAT}\",\"version\":{VERSION}}}\n")
}

pub(super) fn line(record: &Record) -> String {
    let mut line = serde_json::to_string(record).expect("records have string keys only, so they always serialise");
    line.push('\n');
    line
}

impl Timeline {
    /// Reads a timeline. A last line without its end is left out and remembered
    /// ([`Timeline::is_truncated`]): the runner was killed while it wrote.
    ///
    /// # Errors
    /// If the file cannot be read, is no timeline, has another version, or is damaged before its last line.
    pub fn read(path: &Path) -> Result<Self, TimelineError> {
        let text = std::fs::read(path).map_err(|error| TimelineError::io("read", path, error))?;
        Self::parse(&text, path)
    }

    /// Writes the timeline to a new file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), TimelineError> {
        let mut text = header();
        text.extend(self.records().iter().map(line));
        std::fs::write(path, text).map_err(|error| TimelineError::io("write", path, error))
    }

    fn parse(text: &[u8], path: &Path) -> Result<Self, TimelineError> {
        let mut lines = text.split_inclusive(|byte| *byte == b'\n').enumerate();
        let header: Option<Header> = lines.next().and_then(|(_, line)| serde_json::from_slice(line).ok());
        match header {
            Some(header) if header.format != FORMAT => {
                return Err(TimelineError::NotATimeline { path: path.to_owned() });
            }
            Some(header) if header.version != VERSION => {
                return Err(TimelineError::Version { path: path.to_owned(), found: header.version });
            }
            Some(_) => {}
            None => return Err(TimelineError::NotATimeline { path: path.to_owned() }),
        }
        let mut records = vec![];
        for (number, line) in lines {
            if !line.ends_with(b"\n") {
                return Ok(Self::truncated(records));
            }
            let record = serde_json::from_slice(line).map_err(|source| TimelineError::Line {
                path: path.to_owned(),
                line: number + 1,
                source,
            })?;
            records.push(record);
        }
        Ok(Self::new(records))
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{
        CheckpointEvent, FaultEvent, Losses, PartitionName, ProbeAnswer, RecordKind, RunStart, TaskName,
    };
    use super::*;
    use crate::verdict::Verdict;

    fn some_of_everything() -> Timeline {
        let task = TaskName::new("count", 1);
        let job = "00000000000000000000000000c0ffee".to_owned();
        let losses = Losses {
            executors: vec!["executor-2".into()],
            partitions: vec![PartitionName { producer: task.clone(), data_set: Some(0) }],
            tasks: vec![],
            impaired: vec!["executor-3".into()],
        };
        let kinds = [
            RecordKind::RunStarted(RunStart { suite: "word-count".into(), seed: u64::MAX, ..RunStart::default() }),
            RecordKind::JobSubmitted { job: job.clone(), name: "word-count".into() },
            RecordKind::TaskState {
                job: job.clone(),
                task,
                attempt: 1,
                state: "RUNNING".into(),
                executor: Some("executor-1".into()),
            },
            RecordKind::Checkpoint { job, id: 3, event: CheckpointEvent::Completed { bytes: 2150 } },
            RecordKind::Fault { fault: "kill".into(), event: FaultEvent::Effective { losses } },
            RecordKind::Probe {
                probe: "job".into(),
                due_ms: 20,
                latency_us: 900,
                answer: ProbeAnswer::Answered { saw: "INITIALIZING".into() },
            },
            RecordKind::Outcome { verdict: Verdict::Precondition, reason: "no \"executor\"\nregistered".into() },
            RecordKind::RunEnded,
        ];
        let stamp = |(seq, kind): (usize, RecordKind)| Record { seq: seq as u64, at_ms: 7, wall_ms: 1, kind };
        Timeline::new(kinds.into_iter().enumerate().map(stamp).collect())
    }

    fn written() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("timeline.jsonl");
        some_of_everything().write(&path).unwrap();
        std::fs::read(&path).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let text = written();
        assert_eq!(Timeline::parse(&text, Path::new("t")).unwrap(), some_of_everything());
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 9, "one record a line");
    }

    #[test]
    fn every_cut_gives_a_prefix() {
        let (text, whole) = (written(), some_of_everything());
        let header = header().len();
        for cut in header..text.len() {
            let timeline = Timeline::parse(&text[..cut], Path::new("t")).unwrap();
            assert_eq!(timeline.is_truncated(), text[cut - 1] != b'\n');
            assert_eq!(timeline.records(), &whole.records()[..timeline.records().len()]);
        }
    }

    #[test]
    fn another_version_is_refused_with_a_way_out() {
        let text = String::from_utf8(written()).unwrap().replace("\"version\":1", "\"version\":9");
        let error = Timeline::parse(text.as_bytes(), Path::new("t")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the timeline t has version 9; this build reads version 1: use the build that wrote it"
        );
    }

    #[test]
    fn other_files_and_damaged_lines_are_refused() {
        let error = Timeline::parse(b"hello\n", Path::new("t")).unwrap_err();
        assert!(matches!(error, TimelineError::NotATimeline { .. }));
        let error = Timeline::parse(b"{\"format\":\"x\",\"version\":1}\n", Path::new("t")).unwrap_err();
        assert!(matches!(error, TimelineError::NotATimeline { .. }));
        let damaged = String::from_utf8(written()).unwrap().replacen("\"seq\":2", "\"seq\":two", 1);
        let error = Timeline::parse(damaged.as_bytes(), Path::new("t")).unwrap_err();
        assert!(matches!(error, TimelineError::Line { line: 4, .. }), "{error}");
    }
}
