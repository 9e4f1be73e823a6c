//! What is asked, by the names that people type, and what that means for tasks and partitions.

use std::collections::BTreeSet;

use stormproof_coordinator::core::failover::NamedPartition;
use stormproof_coordinator::core::status::ExecutionState;
use stormproof_coordinator::core::topology::{PartitionIndex, TaskIndex};
use stormproof_coordinator::graph::ResultPartitionType;

use super::error::ExplainError;
use super::picture::Picture;

/// What fails and what is lost. See [`Picture::explain`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Failing tasks: `vertex/subtask` or `vertex[subtask]`.
    pub fail: Vec<String>,
    /// Lost executors: their running tasks fail, their partitions are gone.
    pub executors: Vec<String>,
    /// Lost partitions: `vertex.dataset/subtask` or `vertex[subtask].dataset`; without the data set, all of the task's.
    pub lost: Vec<String>,
    /// The partition that the failure names (Flink's `PartitionException`); `PARTITION@ATTEMPT` says of which attempt
    /// of its producer.
    pub named: Option<String>,
    /// Let a named partition of an old attempt count as lost, as Flink does (reference 2.9); else it is ignored.
    pub stale_honoured: bool,
    /// Partitions are kept once all regions that read them have finished
    /// (`jobmanager.partition.release-during-job-execution: false`).
    pub partitions_are_kept: bool,
}

impl Question {
    /// Nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fail.is_empty() && self.executors.is_empty() && self.lost.is_empty()
    }
}

/// A question in terms of its picture.
#[derive(Debug, Default)]
pub(super) struct Impact {
    /// Tasks whose failure was asked about.
    pub(super) asked: BTreeSet<TaskIndex>,
    /// Tasks that fail now: these, and what runs on lost executors.
    pub(super) failed: BTreeSet<TaskIndex>,
    /// Tasks that have not begun and will find an input gone.
    pub(super) will_miss_input: BTreeSet<TaskIndex>,
    /// Tasks that may be reading what is lost at this moment.
    pub(super) may_miss_input: BTreeSet<TaskIndex>,
    /// Partitions that are not available.
    pub(super) lost: BTreeSet<PartitionIndex>,
    pub(super) named: Option<NamedPartition>,
    pub(super) notes: Vec<String>,
}

impl Impact {
    pub(super) fn of(picture: &Picture, question: &Question) -> Result<Self, ExplainError> {
        let mut impact = Self::default();
        for text in &question.fail {
            let task = picture.find_task(text)?;
            if !is_live(picture, task) {
                let state = picture.state(task).name();
                impact.notes.push(format!("`{text}` is {state}: answered as if it could fail now"));
            }
            impact.asked.insert(task);
        }
        impact.failed.clone_from(&impact.asked);
        for name in &question.executors {
            for task in picture.on_executor(name)? {
                if is_live(picture, task) {
                    impact.failed.insert(task);
                }
                impact.lost.extend(picture.topology.produced(task));
            }
        }
        for text in &question.lost {
            impact.lost.extend(picture.find_partitions(text)?);
        }
        impact.find_readers(picture);
        impact.name(picture, question)?;
        impact.lose_untracked(picture);
        if !question.partitions_are_kept {
            impact.lose_released(picture);
        }
        Ok(impact)
    }

    /// Who reads what was lost just now. Whoever has begun may have read all of it, which nothing tells.
    fn find_readers(&mut self, picture: &Picture) {
        let topology = &picture.topology;
        // All partitions of a group have the same readers: looking at them once keeps an all-to-all edge linear.
        let mut seen = BTreeSet::new();
        for partition in &self.lost {
            let (producer, _) = topology.partition_location(*partition);
            // An unfinished producer fails by itself if its executor is gone; its readers are in its restart set.
            let is_finished = picture.state(producer) == ExecutionState::Finished;
            let groups = topology.consumer_groups(*partition).filter(|group| seen.insert((*group, is_finished)));
            for reader in groups.flat_map(|group| topology.group_consumers(group)) {
                if picture.state(reader) == ExecutionState::Created {
                    if is_finished {
                        self.will_miss_input.insert(reader);
                    }
                } else if is_live(picture, reader) {
                    self.may_miss_input.insert(reader);
                }
            }
        }
    }

    fn name(&mut self, picture: &Picture, question: &Question) -> Result<(), ExplainError> {
        let Some(text) = &question.named else { return Ok(()) };
        let split =
            text.rsplit_once('@').and_then(|(partition, attempt)| Some((partition, attempt.parse::<u32>().ok()?)));
        let (partition, attempt) =
            split.map_or((text.as_str(), None), |(partition, attempt)| (partition, Some(attempt)));
        let found = picture.find_partitions(partition)?;
        let [partition] = found[..] else { return Err(ExplainError::PartitionName(text.clone())) };
        let (producer, _) = picture.topology.partition_location(partition);
        let current = picture.attempts[producer.at()].number;
        let is_current_attempt = match (attempt, current) {
            (Some(named), Some(current)) => named == current,
            (Some(_), None) => {
                self.notes.push(format!("the attempts of {text} are not known: taken to be the current one"));
                true
            }
            (None, _) => true,
        };
        if !is_current_attempt {
            let outcome = if question.stale_honoured { "honoured, as Flink does" } else { "ignored" };
            let current = current.unwrap_or_default();
            self.notes.push(format!("{text} names an old attempt, the current one is {current}: {outcome}"));
        }
        self.named = Some(NamedPartition { partition, is_current_attempt });
        Ok(())
    }

    /// The tracker does not take PIPELINED_APPROXIMATE (reference 2.3).
    fn lose_untracked(&mut self, picture: &Picture) {
        let topology = &picture.topology;
        let mut any = false;
        for task in topology.tasks() {
            let produced = topology.produced(task);
            let untracked =
                produced.filter(|p| topology.partition_type(*p) == ResultPartitionType::PipelinedApproximate);
            for partition in untracked {
                any |= self.lost.insert(partition);
            }
        }
        if any {
            self.notes.push("pipelined_approximate partitions count as lost: Flink does not track them".to_owned());
        }
    }

    /// Partitions that are deleted since every region that reads them has finished (reference 4.3).
    fn lose_released(&mut self, picture: &Picture) {
        let (topology, regions) = (&picture.topology, &picture.regions);
        let is_finished = |task: TaskIndex| picture.state(task) == ExecutionState::Finished;
        let done: Vec<bool> =
            regions.all().map(|region| regions.tasks(region).iter().all(|task| is_finished(*task))).collect();
        let (mut read, mut wanted) = (BTreeSet::new(), BTreeSet::new());
        for (position, edge) in topology.graph().edges.iter().enumerate() {
            if !edge.partition_type.is_release_by_scheduler() || edge.partition_type.is_persistent() {
                continue;
            }
            for group in topology.edge_groups(position) {
                let is_wanted = topology.group_consumers(group).any(|reader| !done[regions.region_of(reader).at()]);
                let partitions = topology.group_partitions(group);
                if is_wanted { wanted.extend(partitions) } else { read.extend(partitions) }
            }
        }
        let before = self.lost.len();
        self.lost.extend(read.difference(&wanted));
        let released = self.lost.len() - before;
        if released > 0 {
            self.notes.push(format!("{released} partitions count as released, since all that reads them has finished"));
        }
    }
}

/// It has begun and has not ended.
fn is_live(picture: &Picture, task: TaskIndex) -> bool {
    let state = picture.state(task);
    !state.is_terminal() && state != ExecutionState::Created
}
