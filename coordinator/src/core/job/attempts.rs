//! Tasks and their attempts: the execution state machine (reference 3.7).

use std::collections::{BTreeMap, VecDeque};

use super::failure::Failure;
use crate::core::event::{Millis, SlotId};
use crate::core::status::ExecutionState::{self, *};
use crate::graph::{ExecutorId, Split, TaskId};
use crate::runtime::protocol::TaskMetrics;

/// One attempt of a task.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    /// From 0.
    pub(super) number: u32,
    state: ExecutionState,
    /// Where it runs or ran.
    pub(super) slot: Option<SlotId>,
    /// Data address of that executor.
    pub(super) endpoint: Option<String>,
    /// Time of the entry into each state.
    pub(super) timestamps: BTreeMap<ExecutionState, Millis>,
    pub(super) metrics: TaskMetrics,
    pub(super) failure: Option<Failure>,
    /// All its input is handled.
    pub(super) end_of_data: bool,
    /// It was told of a final checkpoint: it may finish and takes part in no further one.
    pub(super) may_finish: bool,
    /// The newest split request and its answer, so that a repeated request is not a second one.
    pub(super) last_split: Option<(u32, Option<Split>)>,
}

impl Attempt {
    pub(super) fn new(number: u32, now: Millis) -> Self {
        Self {
            number,
            state: Created,
            slot: None,
            endpoint: None,
            timestamps: BTreeMap::from([(Created, now)]),
            metrics: TaskMetrics::default(),
            failure: None,
            end_of_data: false,
            may_finish: false,
            last_split: None,
        }
    }

    pub(super) fn state(&self) -> ExecutionState {
        self.state
    }

    pub(super) fn executor(&self) -> Option<&ExecutorId> {
        self.slot.as_ref().map(|slot| &slot.executor)
    }

    /// Sent to an executor and not known to have ended.
    pub(super) fn is_deployed(&self) -> bool {
        matches!(self.state, Deploying | Initializing | Running | Canceling)
    }

    /// Its results are, or will be, where its slot is.
    pub(super) fn is_located(&self) -> bool {
        is_located(self.state)
    }

    /// Moves to `to`, unless the state machine forbids it: then nothing changes and the answer is false.
    pub(super) fn advance(&mut self, to: ExecutionState, now: Millis) -> bool {
        let legal = is_legal(self.state, to);
        if legal {
            self.state = to;
            self.timestamps.insert(to, now);
        }
        legal
    }
}

/// A consumer deployed now finds a producer in this state.
pub(super) fn is_located(state: ExecutionState) -> bool {
    matches!(state, Deploying | Initializing | Running | Finished)
}

/// Whether an attempt may go from one state to the other.
fn is_legal(from: ExecutionState, to: ExecutionState) -> bool {
    matches!(
        (from, to),
        (Created, Scheduled)
            | (Scheduled, Deploying)
            | (Deploying, Initializing)
            | (Deploying | Initializing, Running)
            | (Deploying | Initializing | Running, Finished | Canceled)
            | (Created | Scheduled | Deploying | Initializing | Running, Canceling | Failed)
            | (Canceling, Canceled)
    )
}

/// A task: its current attempt, the ones before, and the version that decides whether a delayed action still holds.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) id: TaskId,
    pub(super) current: Attempt,
    /// Oldest first.
    pub(super) earlier: VecDeque<Attempt>,
    /// Where it failed last, however long ago and whatever became of later attempts. It is placed elsewhere if it can.
    pub(super) failed_on: Option<ExecutorId>,
    /// Raised by every restart decision; a restart timer of an older version does nothing (reference 3.5).
    pub(super) version: u64,
}

impl Task {
    pub(super) fn new(id: TaskId, now: Millis) -> Self {
        Self { id, current: Attempt::new(0, now), earlier: VecDeque::new(), failed_on: None, version: 0 }
    }

    /// Puts the current attempt into the history, which keeps `keep`, and begins the next one.
    pub(super) fn begin_next_attempt(&mut self, keep: usize, now: Millis) {
        debug_assert!(self.current.state.is_terminal(), "attempts of a task never overlap");
        let next = Attempt::new(self.current.number + 1, now);
        self.earlier.push_back(std::mem::replace(&mut self.current, next));
        while self.earlier.len() > keep {
            self.earlier.pop_front();
        }
    }
}

/// How many current attempts are in each state, so that "are all finished" costs nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct StateCounts([usize; ExecutionState::ALL.len()]);

impl StateCounts {
    pub(super) fn new(created: usize) -> Self {
        let mut counts = Self::default();
        counts.0[Created as usize] = created;
        counts
    }

    pub(super) fn of(&self, state: ExecutionState) -> usize {
        self.0[state as usize]
    }

    pub(super) fn terminal(&self) -> usize {
        self.of(Finished) + self.of(Canceled) + self.of(Failed)
    }

    pub(super) fn moved(&mut self, from: ExecutionState, to: ExecutionState) {
        self.0[from as usize] -= 1;
        self.0[to as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::VertexId;

    /// Row by row as the reference has it.
    fn targets(from: ExecutionState) -> &'static [ExecutionState] {
        match from {
            Created => &[Scheduled, Canceling, Failed],
            Scheduled => &[Deploying, Canceling, Failed],
            Deploying => &[Initializing, Running, Finished, Canceling, Canceled, Failed],
            Initializing => &[Running, Finished, Canceling, Canceled, Failed],
            Running => &[Finished, Canceling, Canceled, Failed],
            Canceling => &[Canceled],
            Finished | Canceled | Failed | Reconciling => &[],
        }
    }

    // P080: among them, what is not CREATED is not scheduled.
    #[test]
    fn only_the_transitions_of_the_reference_are_made() {
        for from in ExecutionState::ALL {
            for to in ExecutionState::ALL {
                let mut attempt = Attempt::new(0, 1);
                attempt.state = from;
                let moved = attempt.advance(to, 2);
                assert_eq!(moved, targets(from).contains(&to), "{from:?} to {to:?}");
                assert_eq!(attempt.state, if moved { to } else { from });
                assert_eq!(attempt.timestamps.get(&to) == Some(&2), moved);
            }
        }
    }

    // P148
    #[test]
    fn the_history_of_attempts_is_bounded_and_drops_the_oldest() {
        let mut task = Task::new(TaskId { vertex: VertexId::of_name("a"), subtask: 0 }, 0);
        for round in 0..5 {
            assert!(task.current.advance(Failed, round));
            task.begin_next_attempt(3, round);
        }
        assert_eq!(task.earlier.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!((task.current.number, task.current.state()), (5, Created));
    }
}
