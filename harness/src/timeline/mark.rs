//! Naming a moment of a run, so that an expectation can speak of "between the restart and the end".

use serde::{Deserialize, Serialize};

use super::Timeline;
use super::record::{CheckpointEvent, FaultEvent, Record, RecordKind};

/// A moment. In TOML: `"start"`, `{ job-status = "RESTARTING" }`, `{ fault-effective = "kill" }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// The first record.
    Start,
    /// The last record.
    End,
    /// This record number.
    Seq(u64),
    /// A job entered this state.
    JobStatus(String),
    /// This checkpoint completed.
    CheckpointCompleted(u64),
    /// The fault of this name was put in place.
    FaultInjected(String),
    /// The fault of this name was seen to act.
    FaultEffective(String),
    /// The fault of this name was taken away.
    FaultHealed(String),
    /// A note of exactly this text.
    Note(String),
}

/// From one moment to another, both included. The second is looked for after the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Begin.
    #[serde(default = "start")]
    pub from: Mark,
    /// End.
    #[serde(default = "end")]
    pub to: Mark,
}

fn start() -> Mark {
    Mark::Start
}

fn end() -> Mark {
    Mark::End
}

impl Default for Window {
    fn default() -> Self {
        Self { from: Mark::Start, to: Mark::End }
    }
}

impl Mark {
    /// True if this record is the moment. [`Mark::Start`] and [`Mark::End`] match by position instead.
    #[must_use]
    pub fn matches(&self, record: &Record) -> bool {
        match (self, &record.kind) {
            (Self::Seq(seq), _) => record.seq == *seq,
            (Self::JobStatus(wanted), RecordKind::JobStatus { status, .. }) => status == wanted,
            (Self::CheckpointCompleted(wanted), RecordKind::Checkpoint { id, event, .. }) => {
                id == wanted && matches!(event, CheckpointEvent::Completed { .. })
            }
            (Self::FaultInjected(wanted), RecordKind::Fault { fault, event: FaultEvent::Injected })
            | (Self::FaultEffective(wanted), RecordKind::Fault { fault, event: FaultEvent::Effective { .. } })
            | (Self::FaultHealed(wanted), RecordKind::Fault { fault, event: FaultEvent::Healed }) => fault == wanted,
            (Self::Note(wanted), RecordKind::Note { text }) => text == wanted,
            _ => false,
        }
    }
}

impl Timeline {
    /// Position of the first record from position `from` on that is this moment.
    #[must_use]
    pub fn position(&self, mark: &Mark, from: usize) -> Option<usize> {
        let count = self.records().len();
        match mark {
            Mark::Start => (count > 0).then_some(0),
            Mark::End => count.checked_sub(1),
            _ => self.records().iter().skip(from).position(|record| mark.matches(record)).map(|found| from + found),
        }
    }

    /// The records of a window.
    ///
    /// # Errors
    /// The moment that never came.
    pub fn window<'a, 'w>(&'a self, window: &'w Window) -> Result<&'a [Record], &'w Mark> {
        let from = self.position(&window.from, 0).ok_or(&window.from)?;
        let to = self.position(&window.to, from).ok_or(&window.to)?;
        Ok(&self.records()[from..=to.max(from)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline() -> Timeline {
        let status = |status: &str| RecordKind::JobStatus { job: "j".into(), status: status.into() };
        let kinds = [
            status("RUNNING"),
            RecordKind::Fault { fault: "kill".into(), event: FaultEvent::Injected },
            status("RESTARTING"),
            status("RUNNING"),
            RecordKind::Note { text: "done".into() },
        ];
        let stamp = |(seq, kind): (usize, RecordKind)| Record { seq: seq as u64, at_ms: 0, wall_ms: 0, kind };
        Timeline::new(kinds.into_iter().enumerate().map(stamp).collect())
    }

    fn bounds(from: Mark, to: Mark) -> Option<(u64, u64)> {
        let timeline = timeline();
        let window = Window { from, to };
        let records = timeline.window(&window).ok()?;
        Some((records.first()?.seq, records.last()?.seq))
    }

    #[test]
    fn the_end_is_looked_for_after_the_begin() {
        let running = || Mark::JobStatus("RUNNING".into());
        assert_eq!(bounds(Mark::FaultInjected("kill".into()), running()), Some((1, 3)));
        assert_eq!(bounds(running(), Mark::End), Some((0, 4)));
        assert_eq!(bounds(Mark::Start, Mark::Note("done".into())), Some((0, 4)));
        assert_eq!(bounds(Mark::Start, Mark::FaultEffective("kill".into())), None);
    }

    #[test]
    fn marks_are_written_plainly_in_toml() {
        let window: Window = toml::from_str("from = { job-status = \"RESTARTING\" }\nto = \"end\"").unwrap();
        assert_eq!(window, Window { from: Mark::JobStatus("RESTARTING".into()), to: Mark::End });
        assert_eq!(toml::from_str::<Window>("").unwrap(), Window::default());
        assert!(toml::from_str::<Window>("form = \"start\"").is_err());
    }
}
