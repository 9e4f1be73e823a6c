//! What was lost when, and what that means for a job's tasks and partitions.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Exchange, ModelError, Partition, Situation, Task};
use super::observed::ObservedGraph;
use crate::timeline::query::task_fact;
use crate::timeline::{FaultEvent, Losses, RecordKind, TaskFact, TaskName, Timeline};

/// Something was lost at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    /// In words.
    pub what: String,
    /// Position in the timeline just before it.
    pub position: usize,
    /// What was lost.
    pub losses: Losses,
    /// A fault says so; else only the engine does.
    pub by_fault: bool,
    /// It is known only after the end of the time that is looked at. A task that failed did so before, but anything
    /// else may have been lost too late to matter.
    pub is_late: bool,
}

/// Everything lost between two positions, in order: by faults, and executors that the engine declared lost though no
/// fault says so (a blackholed one, say).
///
/// The position of a fault is that of its injection: when its effect is confirmed, the engine may long be at work, or
/// the job even be over.
#[must_use]
pub fn incidents(timeline: &Timeline, from: usize, to: usize) -> Vec<Incident> {
    let mut incidents = vec![];
    let mut injected: BTreeMap<&str, usize> = BTreeMap::new();
    let mut gone: BTreeSet<&str> = BTreeSet::new();
    for (position, record) in timeline.records().iter().enumerate().skip(from) {
        let is_late = position > to;
        match &record.kind {
            RecordKind::Fault { fault, event: FaultEvent::Injected } => {
                injected.insert(fault, position);
            }
            RecordKind::Fault { fault, event: FaultEvent::Effective { losses } } if *losses != Losses::default() => {
                let position = injected.get(fault.as_str()).copied().unwrap_or(position);
                gone.extend(losses.executors.iter().map(String::as_str));
                let what = fault.clone();
                incidents.push(Incident { what, position, losses: losses.clone(), by_fault: true, is_late });
            }
            RecordKind::ExecutorRegistered { executor, .. } => {
                gone.remove(executor.as_str());
            }
            RecordKind::ExecutorLost { executor } if gone.insert(executor) => {
                let losses = Losses { executors: vec![executor.clone()], ..Losses::default() };
                let what = format!("{executor} lost");
                incidents.push(Incident { what, position, losses, by_fault: false, is_late });
            }
            _ => {}
        }
    }
    merge_early_losses(&mut incidents);
    incidents.retain(|incident| incident.position <= to);
    incidents.sort_by_key(|incident| incident.position);
    incidents
}

/// The engine may declare an executor lost before the fault that killed it is confirmed: one incident, not two.
fn merge_early_losses(incidents: &mut Vec<Incident>) {
    let by_fault: Vec<Incident> = incidents.iter().filter(|incident| incident.by_fault).cloned().collect();
    incidents.retain(|incident| {
        let explains = |fault: &Incident| {
            fault.position <= incident.position
                && incident.losses.executors.iter().all(|executor| fault.losses.executors.contains(executor))
        };
        incident.by_fault || !by_fault.iter().any(explains)
    });
}

/// One incident in the model's terms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impact {
    /// Tasks that certainly failed.
    pub failed: BTreeSet<Task>,
    /// Tasks that had not begun and will find an input gone.
    pub will_miss_input: BTreeSet<Task>,
    /// Tasks that may have failed: seen on a lost executor only later, on an impaired one at any time, or reading a
    /// lost partition at the time.
    pub maybe_failed: BTreeSet<Task>,
    /// What certainly was so.
    pub certain: Situation,
    /// The same with every partition that may have been gone.
    pub possible: Situation,
}

/// A job as it stood at an incident.
pub struct Scene<'a> {
    timeline: &'a Timeline,
    job: &'a str,
    observed: &'a ObservedGraph,
    incident: &'a Incident,
    facts: BTreeMap<TaskName, TaskFact>,
    ever_finished: BTreeSet<(TaskName, u32)>,
}

impl<'a> Scene<'a> {
    /// The job as last seen before the incident.
    #[must_use]
    pub fn new(timeline: &'a Timeline, job: &'a str, observed: &'a ObservedGraph, incident: &'a Incident) -> Self {
        let facts = timeline.tasks(job, incident.position);
        let ever_finished = timeline.attempts_in_state(job, "FINISHED");
        Self { timeline, job, observed, incident, facts, ever_finished }
    }

    /// What the incident did. `lost` are partitions lost earlier, with the attempt that had made them; it is brought
    /// up to date. With `released`, a partition is deleted once all regions that read it have finished.
    ///
    /// # Errors
    /// If the graph makes no sense.
    pub fn impact(&self, lost: &mut BTreeMap<Partition, u32>, released: bool) -> Result<Impact, ModelError> {
        let tasks: Vec<Task> = self.observed.graph.tasks().collect();
        let on_lost: Vec<Task> =
            tasks.iter().copied().filter(|task| self.fact(*task).is_some_and(|f| self.is_gone(f))).collect();
        let is_live = |task: &Task| !matches!(self.state(*task), "CREATED" | "FINISHED" | "CANCELED" | "FAILED");
        let hit: BTreeSet<Task> = on_lost.iter().copied().filter(is_live).collect();
        let thrown = self.incident.losses.tasks.iter().filter_map(|name| self.observed.task(name)).collect();

        lost.retain(|partition, made_by| self.attempt(partition.producer) == *made_by);
        let by_executor = on_lost.iter().flat_map(|task| self.observed.partitions_of(*task));
        let by_name = self.incident.losses.partitions.iter().flat_map(|name| self.observed.partitions(name));
        lost.extend(by_executor.chain(by_name).map(|partition| (partition, self.attempt(partition.producer))));

        let created: BTreeSet<Task> = tasks.into_iter().filter(|task| self.state(*task) == "CREATED").collect();
        let mut certain: BTreeSet<Partition> = lost.keys().copied().chain(self.untracked()).collect();
        let mut possible = certain.clone();
        if released {
            certain.extend(self.released(|task| self.state(task) == "FINISHED")?);
            possible.extend(self.released(|task| self.finishes(task))?);
        }
        // A partition is tracked from its producer's deployment on.
        possible.extend(created.iter().flat_map(|task| self.observed.partitions_of(*task)));
        let (misses, mut maybe_failed) = self.readers_of(lost);
        maybe_failed.extend(self.seen_there_later());
        maybe_failed.extend(self.on_impaired_executors());
        let (mut failed, mut will_miss_input): (BTreeSet<Task>, BTreeSet<Task>) = (thrown, BTreeSet::new());
        if self.incident.is_late {
            maybe_failed.extend(hit.into_iter().chain(misses));
        } else {
            failed.extend(hit);
            will_miss_input = misses;
        }
        Ok(Impact {
            failed,
            will_miss_input,
            maybe_failed,
            certain: Situation { created: created.clone(), lost: certain },
            possible: Situation { created, lost: possible },
        })
    }

    fn fact(&self, task: Task) -> Option<&TaskFact> {
        self.facts.get(&self.observed.name(task))
    }

    fn attempt(&self, task: Task) -> u32 {
        self.fact(task).map_or(0, |fact| fact.attempt)
    }

    fn is_gone(&self, fact: &TaskFact) -> bool {
        fact.executor.as_ref().is_some_and(|executor| self.incident.losses.executors.contains(executor))
    }

    /// The attempt current at the incident finished, before or after it.
    fn finishes(&self, task: Task) -> bool {
        self.ever_finished.contains(&(self.observed.name(task), self.attempt(task)))
    }

    /// The state at the incident. A task on a lost executor that is known to have finished did so before, though the
    /// last poll may not have seen it.
    fn state(&self, task: Task) -> &str {
        match self.fact(task) {
            None => "CREATED",
            Some(fact) if self.is_gone(fact) && self.finishes(task) => "FINISHED",
            Some(fact) => &fact.state,
        }
    }

    /// Tasks that had not begun but will read a lost partition, and tasks that may have been reading one.
    fn readers_of(&self, lost: &BTreeMap<Partition, u32>) -> (BTreeSet<Task>, BTreeSet<Task>) {
        let (mut later, mut now) = (BTreeSet::new(), BTreeSet::new());
        for (edge, producer, consumer) in self.observed.graph.pairs() {
            let partition = Partition { producer, data_set: edge.data_set };
            if !lost.contains_key(&partition) {
                continue;
            }
            match self.state(consumer) {
                "FINISHED" => {}
                // What an unfinished producer had written is not waited for: it failed and restarts by itself.
                "CREATED" if self.state(producer) == "FINISHED" => drop(later.insert(consumer)),
                _ => drop(now.insert(consumer)),
            }
        }
        (later, now)
    }

    /// Tasks of which later records say that their attempt of then was on a lost executor.
    fn seen_there_later(&self) -> impl Iterator<Item = Task> {
        let later = self.timeline.records()[self.incident.position..].iter();
        let facts = later.filter_map(|record| task_fact(record, self.job));
        let there = facts.filter(|(_, fact)| self.is_gone(fact) && fact.state != "FINISHED");
        there.filter_map(|(name, fact)| self.observed.task(name).filter(|task| self.attempt(*task) == fact.attempt))
    }

    /// Tasks that ran on an impaired executor when the incident began, or later, and did not finish there.
    fn on_impaired_executors(&self) -> impl Iterator<Item = Task> {
        let later = self.timeline.records()[self.incident.position..].iter();
        let facts = later.filter_map(|record| task_fact(record, self.job));
        let at_once = self.facts.iter().map(|(name, fact)| (name, fact.clone()));
        let is_there = |fact: &TaskFact| {
            fact.executor.as_ref().is_some_and(|executor| self.incident.losses.impaired.contains(executor))
        };
        facts
            .chain(at_once)
            .filter(move |(name, fact)| {
                is_there(fact) && !self.ever_finished.contains(&((*name).clone(), fact.attempt))
            })
            .filter_map(|(name, _)| self.observed.task(name))
    }

    /// Partitions that were deleted because every region that reads them has finished (reference 4.3).
    fn released(&self, is_finished: impl Fn(Task) -> bool) -> Result<BTreeSet<Partition>, ModelError> {
        let region_of = self.observed.graph.regions()?;
        let unfinished: BTreeSet<usize> =
            region_of.iter().filter(|(task, _)| !is_finished(**task)).map(|(_, region)| *region).collect();
        let (mut read, mut wanted) = (BTreeSet::new(), BTreeSet::new());
        for (edge, producer, consumer) in self.observed.graph.pairs() {
            if matches!(edge.exchange, Exchange::Blocking | Exchange::HybridFull | Exchange::HybridSelective) {
                let partition = Partition { producer, data_set: edge.data_set };
                read.insert(partition);
                if unfinished.contains(&region_of[&consumer]) {
                    wanted.insert(partition);
                }
            }
        }
        Ok(read.difference(&wanted).copied().collect())
    }

    /// Partitions that never count as available: the tracker does not take PIPELINED_APPROXIMATE (reference 2.3).
    fn untracked(&self) -> impl Iterator<Item = Partition> {
        let edges = self.observed.graph.edges.iter().filter(|edge| edge.exchange == Exchange::PipelinedApproximate);
        edges.flat_map(|edge| {
            let producers = self.observed.graph.tasks().filter(|task| task.vertex == edge.from);
            producers.map(|producer| Partition { producer, data_set: edge.data_set })
        })
    }
}
