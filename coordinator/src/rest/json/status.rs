//! The status of a vertex, from those of its subtasks.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::core::snapshot::{AttemptSnapshot, VertexSnapshot};
use crate::core::status::ExecutionState;

/// How many subtasks are in each state; states without any are absent.
pub(in crate::rest) type StateCounts = BTreeMap<ExecutionState, u64>;

/// Counts states of current attempts.
pub(in crate::rest) fn count<'a>(attempts: impl Iterator<Item = &'a AttemptSnapshot>) -> StateCounts {
    attempts.fold(StateCounts::new(), |mut counts, attempt| {
        *counts.entry(attempt.state).or_default() += 1;
        counts
    })
}

/// Current attempts of a vertex, by subtask.
pub(in crate::rest) fn current(vertex: &VertexSnapshot) -> impl Iterator<Item = &AttemptSnapshot> {
    vertex.subtasks.iter().map(|subtask| &subtask.current)
}

/// Flink's aggregate (`ExecutionJobVertex.getAggregateJobVertexState`): FAILED if any subtask is; else CANCELING,
/// CANCELED, INITIALIZING or RUNNING if any is; FINISHED if all are, RUNNING if only some are; else CREATED, also
/// when subtasks are SCHEDULED or DEPLOYING.
#[must_use]
pub fn aggregate_status(counts: &BTreeMap<ExecutionState, u64>) -> ExecutionState {
    use ExecutionState::{Canceled, Canceling, Created, Failed, Finished, Initializing, Running};
    let of = |state| counts.get(&state).copied().unwrap_or(0);
    let first = [Failed, Canceling, Canceled, Initializing, Running].into_iter().find(|state| of(*state) > 0);
    match (first, of(Finished), counts.values().sum::<u64>()) {
        (Some(state), _, _) => state,
        (None, finished, total) if finished > 0 && finished == total => Finished,
        (None, finished, _) if finished > 0 => Running,
        _ => Created,
    }
}

/// All ten states with their counts, in upper case.
pub(in crate::rest) fn counts_json(counts: &StateCounts) -> Value {
    let entry = |state: ExecutionState| (state.name().to_owned(), counts.get(&state).copied().unwrap_or(0).into());
    Value::Object(ExecutionState::ALL.into_iter().map(entry).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ExecutionState::{Canceled, Canceling, Created, Deploying, Failed, Finished, Initializing, Running, Scheduled};

    #[test]
    fn the_aggregate_is_flinks() {
        for (states, expected) in [
            (&[][..], Created),
            (&[Created, Scheduled, Deploying], Created),
            (&[Failed, Running], Failed),
            (&[Failed, Canceling], Failed),
            (&[Canceling, Canceled, Running], Canceling),
            (&[Canceled, Finished], Canceled),
            (&[Initializing, Running], Initializing),
            (&[Running, Created], Running),
            (&[Finished, Finished], Finished),
            (&[Finished, Created], Running),
            (&[Finished, Deploying], Running),
        ] {
            let counts = states.iter().fold(StateCounts::new(), |mut counts, state| {
                *counts.entry(*state).or_default() += 1;
                counts
            });
            assert_eq!(aggregate_status(&counts), expected, "{states:?}");
        }
    }
}
