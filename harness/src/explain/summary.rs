//! How far a failure of any one task would reach, vertex by vertex.

use std::collections::BTreeMap;

use stormproof_coordinator::core::failover::{Failure, StalePolicy, restart_set};
use stormproof_coordinator::core::topology::TaskIndex;

use super::error::ExplainError;
use super::picture::Picture;
use super::question::{Impact, Question};

/// Most work for one summary, in tasks looked at. Beyond it, not every subtask is asked about.
const BUDGET: usize = 50_000_000;

/// A job at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Number of tasks.
    pub tasks: usize,
    /// Number of pipelined regions.
    pub regions: usize,
    /// In the order of the plan.
    pub vertices: Vec<VertexSummary>,
    /// What was assumed.
    pub notes: Vec<String>,
    /// What is wrong with the job itself.
    pub warnings: Vec<String>,
}

/// A vertex of a [`Summary`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VertexSummary {
    /// Its name.
    pub name: String,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Number of subtasks by state.
    pub states: BTreeMap<&'static str, usize>,
    /// Tasks that restart if one of its tasks fails: fewest and most.
    pub restarts: (usize, usize),
}

impl Picture {
    /// A summary. Nothing is lost but what the plan and the states say anyway: released partitions, if
    /// `partitions_are_kept` does not hold, and untracked ones.
    ///
    /// # Errors
    /// None at present: nothing is named that could be unknown.
    pub fn summary(&self, partitions_are_kept: bool) -> Result<Summary, ExplainError> {
        let mut impact = Impact::of(self, &Question { partitions_are_kept, ..Question::default() })?;
        let mut notes = self.notes.clone();
        notes.append(&mut impact.notes);
        let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
        let mut size = |task: TaskIndex| {
            *sizes.entry(self.regions.region_of(task).0).or_insert_with(|| {
                let failure = Failure { task, named: None };
                let is_tracked = |partition| !impact.lost.contains(&partition);
                let state = |task| self.state(task);
                restart_set(&self.topology, &self.regions, &failure, StalePolicy::Ignore, state, is_tracked).len()
            })
        };
        let is_exact = self.regions.count().saturating_mul(self.topology.task_count()) <= BUDGET;
        if !is_exact {
            notes.push("the job is large: only the first and the last subtask of each vertex were asked about".into());
        }
        let vertices = self.observed.graph.vertices.iter().enumerate().map(|(position, (name, parallelism))| {
            let tasks: Vec<TaskIndex> = self.topology.tasks_of(position).collect();
            let asked = tasks.iter().enumerate().filter(|(at, _)| is_exact || *at == 0 || *at + 1 == tasks.len());
            let (fewest, most) = asked
                .map(|(_, task)| size(*task))
                .fold((usize::MAX, 0), |(fewest, most), size| (fewest.min(size), most.max(size)));
            let mut states = BTreeMap::new();
            tasks.iter().for_each(|task| *states.entry(self.state(*task).name()).or_default() += 1);
            VertexSummary { name: name.clone(), parallelism: *parallelism, states, restarts: (fewest, most) }
        });
        let vertices = vertices.collect();
        let (tasks, regions) = (self.topology.task_count(), self.regions.count());
        Ok(Summary { tasks, regions, vertices, notes, warnings: self.deadlock().into_iter().collect() })
    }
}
