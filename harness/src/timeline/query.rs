//! What oracles ask of a timeline.

use std::collections::{BTreeMap, BTreeSet};

use super::Timeline;
use super::record::{ObservedPlan, Record, RecordKind, RunStart, TaskName};

/// A task as last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFact {
    /// Attempt number.
    pub attempt: u32,
    /// State.
    pub state: String,
    /// Executor.
    pub executor: Option<String>,
}

impl Timeline {
    /// What was run.
    #[must_use]
    pub fn run(&self) -> Option<&RunStart> {
        self.records().iter().find_map(|record| match &record.kind {
            RecordKind::RunStarted(run) => Some(run),
            _ => None,
        })
    }

    /// The run was carried through to its end.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.records().iter().any(|record| record.kind == RecordKind::RunEnded)
    }

    /// Identifier of the job that is called so or has this identifier; the first submitted one if `wanted` is absent.
    #[must_use]
    pub fn job(&self, wanted: Option<&str>) -> Option<&str> {
        self.records().iter().find_map(|record| match &record.kind {
            RecordKind::JobSubmitted { job, name } => {
                wanted.is_none_or(|wanted| wanted == job || wanted == name).then_some(job.as_str())
            }
            _ => None,
        })
    }

    /// The job's plan as last seen.
    #[must_use]
    pub fn plan(&self, job: &str) -> Option<&ObservedPlan> {
        self.records().iter().rev().find_map(|record| match &record.kind {
            RecordKind::Plan { job: of, plan } if of == job => Some(plan),
            _ => None,
        })
    }

    /// The job's state as last seen at position `until` (exclusive).
    #[must_use]
    pub fn job_status(&self, job: &str, until: usize) -> Option<&str> {
        self.records()[..until.min(self.records().len())].iter().rev().find_map(|record| match &record.kind {
            RecordKind::JobStatus { job: of, status } if of == job => Some(status.as_str()),
            _ => None,
        })
    }

    /// Position of the first record from `from` on that says the job is in one of these states.
    #[must_use]
    pub fn first_status(&self, job: &str, from: usize, wanted: &[&str]) -> Option<usize> {
        let is_it = |record: &Record| matches!(&record.kind, RecordKind::JobStatus { job: of, status } if of == job && wanted.contains(&status.as_str()));
        self.records().iter().skip(from).position(is_it).map(|found| from + found)
    }

    /// Every task of the job as last seen at position `until` (exclusive).
    #[must_use]
    pub fn tasks(&self, job: &str, until: usize) -> BTreeMap<TaskName, TaskFact> {
        let mut tasks: BTreeMap<TaskName, TaskFact> = BTreeMap::new();
        for record in &self.records()[..until.min(self.records().len())] {
            if let Some((task, fact)) = task_fact(record, job) {
                let known = tasks.get(task);
                // Late news of an old attempt, e.g. from the attempt history, is not the task's present.
                if known.is_none_or(|known| known.attempt <= fact.attempt) {
                    let executor = fact.executor.or_else(|| {
                        known.filter(|known| known.attempt == fact.attempt).and_then(|known| known.executor.clone())
                    });
                    tasks.insert(task.clone(), TaskFact { executor, ..fact });
                }
            }
        }
        tasks
    }

    /// Attempts of the job's tasks that are recorded, anywhere in the timeline, in this state.
    #[must_use]
    pub fn attempts_in_state(&self, job: &str, state: &str) -> BTreeSet<(TaskName, u32)> {
        let facts = self.records().iter().filter_map(|record| task_fact(record, job));
        facts.filter(|(_, fact)| fact.state == state).map(|(task, fact)| (task.clone(), fact.attempt)).collect()
    }
}

/// The task fact of a record, if it is one of this job.
#[must_use]
pub fn task_fact<'a>(record: &'a Record, wanted: &str) -> Option<(&'a TaskName, TaskFact)> {
    match &record.kind {
        RecordKind::TaskState { job, task, attempt, state, executor } if job == wanted => {
            Some((task, TaskFact { attempt: *attempt, state: state.clone(), executor: executor.clone() }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(subtask: u32, attempt: u32, state: &str, executor: Option<&str>) -> RecordKind {
        RecordKind::TaskState {
            job: "j".into(),
            task: TaskName::new("map", subtask),
            attempt,
            state: state.into(),
            executor: executor.map(Into::into),
        }
    }

    fn timeline(kinds: impl IntoIterator<Item = RecordKind>) -> Timeline {
        let stamp = |(seq, kind): (usize, RecordKind)| Record { seq: seq as u64, at_ms: 0, wall_ms: 0, kind };
        Timeline::new(kinds.into_iter().enumerate().map(stamp).collect())
    }

    #[test]
    fn late_news_of_an_old_attempt_is_not_the_present() {
        let timeline = timeline([
            state(0, 0, "RUNNING", Some("executor-1")),
            state(0, 1, "CREATED", None),
            state(0, 1, "RUNNING", Some("executor-2")),
            state(0, 0, "FAILED", Some("executor-1")),
            state(0, 1, "FINISHED", None),
        ]);
        let fact = |until| timeline.tasks("j", until).remove(&TaskName::new("map", 0)).unwrap();
        assert_eq!((fact(2).attempt, fact(2).executor), (1, None), "a new attempt has no executor yet");
        assert_eq!((fact(4).attempt, fact(4).state.as_str()), (1, "RUNNING"));
        assert_eq!(fact(5).executor.as_deref(), Some("executor-2"), "kept within an attempt");
        assert!(timeline.attempts_in_state("j", "FAILED").contains(&(TaskName::new("map", 0), 0)));
        assert!(timeline.tasks("other", 5).is_empty());
    }

    #[test]
    fn jobs_are_found_by_name_and_by_identifier() {
        let submitted = |job: &str, name: &str| RecordKind::JobSubmitted { job: job.into(), name: name.into() };
        let timeline = timeline([submitted("01", "first"), submitted("02", "second")]);
        assert_eq!(timeline.job(None), Some("01"));
        assert_eq!(timeline.job(Some("second")), Some("02"));
        assert_eq!(timeline.job(Some("02")), Some("02"));
        assert_eq!(timeline.job(Some("third")), None);
    }
}
