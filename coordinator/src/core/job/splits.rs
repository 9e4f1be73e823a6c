//! Input splits of batch sources: listed once, handed out on request, returned on reset (reference 4.6, FLINK-10205).

use std::collections::BTreeMap;

use super::JobCore;
use super::failure::Failure;
use crate::core::event::JobCommand;
use crate::core::input_splits::SplitAssigner;
use crate::core::topology::TaskIndex;
use crate::graph::{AttemptId, JobGraph, Split, TaskError, VertexId};

/// The splits of one source.
#[derive(Debug)]
pub(super) enum SourceSplits {
    /// Being listed, off the job's thread; requests wait.
    Listing(Vec<(AttemptId, u32)>),
    /// Handed out.
    Ready(SplitAssigner),
    /// Could not be listed; listed again by the restart that follows. Requests wait.
    Failed(Vec<(AttemptId, u32)>),
}

/// The sources of this graph that have splits, by position.
pub(super) fn of_graph(graph: &JobGraph) -> BTreeMap<usize, SourceSplits> {
    let with_splits = graph.vertices.iter().enumerate().filter(|(_, vertex)| vertex.splits.is_some());
    with_splits.map(|(position, _)| (position, SourceSplits::Listing(Vec::new()))).collect()
}

impl JobCore {
    pub(super) fn enumerate_splits(&mut self) {
        let Self { graph, splits, out, .. } = self;
        out.extend(splits.keys().map(|&position| JobCommand::EnumerateSplits(graph.vertices[position].id)));
    }

    /// Lists again what could not be listed.
    pub(super) fn enumerate_failed_splits(&mut self) {
        for (&position, splits) in &mut self.splits {
            if let SourceSplits::Failed(requests) = splits {
                *splits = SourceSplits::Listing(std::mem::take(requests));
                self.out.push(JobCommand::EnumerateSplits(self.graph.vertices[position].id));
            }
        }
    }

    pub(super) fn splits_enumerated(&mut self, vertex: VertexId, result: Result<Vec<Split>, TaskError>) {
        let Some(position) = self.graph.position(vertex) else { return };
        let Some(splits) = self.splits.get_mut(&position) else { return };
        let SourceSplits::Listing(requests) = splits else { return };
        let requests = std::mem::take(requests);
        match result {
            Ok(all) => {
                *splits = SourceSplits::Ready(SplitAssigner::new(all));
                for (attempt, request) in requests {
                    self.split_requested(attempt, request);
                }
            }
            Err(error) => {
                *splits = SourceSplits::Failed(requests);
                let failure = Failure::enumeration(&self.graph.vertices[position].name, error, self.now);
                self.handle_global_failure(&failure);
            }
        }
    }

    /// A request of an old attempt is ignored: its splits have gone back already.
    pub(super) fn split_requested(&mut self, attempt: AttemptId, request: u32) {
        let Some(task) = self.current(attempt) else { return };
        let (position, subtask) = self.topology.location(task);
        let Some(executor) = self.executor_that_works(task) else { return };
        let Some(splits) = self.splits.get_mut(&position) else { return };
        let assigner = match splits {
            SourceSplits::Ready(assigner) => assigner,
            SourceSplits::Listing(requests) | SourceSplits::Failed(requests) => {
                requests.push((attempt, request));
                return;
            }
        };
        let current = &mut self.tasks[task.0 as usize].current;
        let split = match &current.last_split {
            Some((answered, split)) if *answered == request => split.clone(),
            _ => assigner.next(subtask),
        };
        current.last_split = Some((request, split.clone()));
        self.out.push(JobCommand::AssignSplit { executor, attempt, request, split });
    }

    /// The executor of a task that was not asked to stop.
    fn executor_that_works(&self, task: TaskIndex) -> Option<crate::graph::ExecutorId> {
        let attempt = &self.task(task).current;
        let works = attempt.is_deployed() && attempt.state() != crate::core::status::ExecutionState::Canceling;
        attempt.executor().filter(|_| works).cloned()
    }

    /// P205: all splits that this subtask was given can be given out again.
    pub(super) fn return_splits(&mut self, vertex: usize, subtask: u32) {
        if let Some(SourceSplits::Ready(assigner)) = self.splits.get_mut(&vertex) {
            assigner.reset(subtask);
        }
    }
}
