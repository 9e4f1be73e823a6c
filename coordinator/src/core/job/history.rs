//! The exception history (reference 3.6, as since Flink 1.19).

use std::collections::{BTreeSet, VecDeque};

use super::JobCore;
use super::failure::Failure;
use crate::core::event::{FailureId, JobCommand};
use crate::core::snapshot::ExceptionEntry;
use crate::core::topology::TaskIndex;
use crate::graph::{FailureLabels, FailureReport, FailureScope};

/// Root entries, newest first, bounded.
#[derive(Debug, Clone)]
pub(super) struct ExceptionHistory {
    entries: VecDeque<ExceptionEntry>,
    bound: usize,
    failures: u64,
}

impl ExceptionHistory {
    pub(super) fn new(bound: usize) -> Self {
        Self { entries: VecDeque::new(), bound, failures: 0 }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &ExceptionEntry> {
        self.entries.iter()
    }

    fn push_root(&mut self, entry: ExceptionEntry) {
        self.entries.push_front(entry);
        self.entries.truncate(self.bound);
    }

    /// Adds failures that the restart strategy merged into the newest root. Without a root (the bound may be 0)
    /// there is nothing to add them to.
    fn push_concurrent(&mut self, entries: Vec<ExceptionEntry>) {
        let Some(root) = self.entries.front_mut() else { return };
        for entry in entries {
            let known = root.task_name == entry.task_name || root.concurrent.iter().any(|known| known.is_same(&entry));
            if !known {
                root.concurrent.push(entry);
            }
        }
    }
}

impl JobCore {
    /// Begins to handle a failure: it gets a number, and enrichers are asked about it, whatever becomes of it.
    pub(super) fn label_failure(&mut self, failure: &Failure, scope: FailureScope) -> FailureId {
        let id = FailureId(self.history.failures);
        self.history.failures += 1;
        let report = FailureReport {
            job: self.id,
            job_name: self.job_name.clone(),
            scope,
            name: failure.name.to_owned(),
            causes: failure.chain.clone(),
            at_ms: failure.at,
        };
        self.out.push(JobCommand::LabelFailure(id, Box::new(report)));
        id
    }

    /// Records the handled failure `id` of `failed` (the first is the root), whose restart set is `set`.
    pub(super) fn archive_task_failure(
        &mut self,
        id: FailureId,
        failed: &[TaskIndex],
        set: &[TaskIndex],
        is_new: bool,
    ) {
        let (Some(&root), rest) = (failed.first(), failed.get(1..).unwrap_or_default()) else { return };
        let Some(entry) = self.task_entry(root) else { return };
        let entry = ExceptionEntry { id: Some(id), ..entry };
        let known: BTreeSet<TaskIndex> = failed.iter().copied().collect();
        let others = rest.iter().chain(set.iter().filter(|task| !known.contains(task)));
        let mut concurrent: Vec<_> = others.filter_map(|&task| self.task_entry(task)).collect();
        if is_new {
            self.history.push_root(ExceptionEntry { concurrent, ..entry });
        } else {
            concurrent.insert(0, entry);
            self.history.push_concurrent(concurrent);
        }
    }

    /// Records failure `id` as one of the job itself, with every attempt that has failed so far.
    pub(super) fn archive_global_failure(&mut self, id: FailureId, failure: &Failure) {
        let concurrent = (self.topology.tasks()).filter_map(|task| self.task_entry(task)).collect();
        self.history.push_root(ExceptionEntry { id: Some(id), concurrent, ..entry_of(failure) });
    }

    /// The failure of a task's current attempt, if it has one.
    fn task_entry(&self, task: TaskIndex) -> Option<ExceptionEntry> {
        let attempt = &self.task(task).current;
        let failure = attempt.failure.as_ref()?;
        let (vertex, subtask) = self.topology.location(task);
        let vertex = &self.graph.vertices[vertex];
        Some(ExceptionEntry {
            task_name: Some(format!(
                "{} ({}/{}) - execution #{}",
                vertex.name,
                subtask + 1,
                vertex.parallelism,
                attempt.number
            )),
            endpoint: attempt.endpoint.clone(),
            executor: attempt.executor().cloned(),
            ..entry_of(failure)
        })
    }
}

fn entry_of(failure: &Failure) -> ExceptionEntry {
    ExceptionEntry {
        name: failure.name.to_owned(),
        stacktrace: failure.stacktrace(),
        timestamp_ms: failure.at,
        task_name: None,
        endpoint: None,
        executor: None,
        id: None,
        labels: FailureLabels::new(),
        concurrent: Vec::new(),
    }
}
