//! One attempt of a subtask, and the parts it shares with vertices.

use serde_json::{Map, Value, json};

use crate::core::event::Millis;
use crate::core::snapshot::AttemptSnapshot;
use crate::core::status::ExecutionState;
use crate::runtime::protocol::TaskMetrics;

/// Flink's text for what has no place yet.
const UNASSIGNED: &str = "(unassigned)";

/// States whose duration Flink tells, in the order they are passed.
pub(in crate::rest) const TIMED_STATES: [ExecutionState; 5] = [
    ExecutionState::Created,
    ExecutionState::Scheduled,
    ExecutionState::Deploying,
    ExecutionState::Initializing,
    ExecutionState::Running,
];

/// When something ran: from its deployment to its end, or until now. -1 for what is not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rest) struct Span {
    pub(in crate::rest) start: Option<Millis>,
    pub(in crate::rest) end: Option<Millis>,
}

impl Span {
    pub(in crate::rest) fn of(attempt: &AttemptSnapshot) -> Self {
        let at = |state| attempt.timestamps.get(&state).copied();
        let end = attempt.state.is_terminal().then(|| at(attempt.state)).flatten();
        Self { start: at(ExecutionState::Deploying), end }
    }

    /// The span of several: from the first start to the last end, which there is only if all have ended.
    pub(in crate::rest) fn over<'a>(attempts: impl Iterator<Item = &'a AttemptSnapshot>) -> Self {
        let spans: Vec<Self> = attempts.map(Self::of).collect();
        let start = spans.iter().filter_map(|span| span.start).min();
        let end = spans.iter().map(|span| span.end).collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max());
        Self { start, end }
    }

    pub(in crate::rest) fn duration(self, now: Millis) -> Option<Millis> {
        self.start.map(|start| self.end.unwrap_or(now).saturating_sub(start))
    }

    /// `start-time`, `end-time` and `duration`.
    pub(in crate::rest) fn put(self, object: &mut Map<String, Value>, now: Millis) {
        object.insert("start-time".into(), or_minus_one(self.start));
        object.insert("end-time".into(), or_minus_one(self.end));
        object.insert("duration".into(), or_minus_one(self.duration(now)));
    }
}

/// Flink's way to say "none" of a time or a duration.
pub(in crate::rest) fn or_minus_one(millis: Option<Millis>) -> Value {
    millis.map_or_else(|| json!(-1), |millis| json!(millis))
}

/// Flink's `IOMetricsInfo`. Back-pressure and idleness are not measured here.
pub(in crate::rest) fn metrics(metrics: TaskMetrics, complete: bool) -> Value {
    json!({
        "read-bytes": metrics.read_bytes,
        "read-bytes-complete": complete,
        "write-bytes": metrics.write_bytes,
        "write-bytes-complete": complete,
        "read-records": metrics.read_records,
        "read-records-complete": complete,
        "write-records": metrics.write_records,
        "write-records-complete": complete,
        "accumulated-backpressured-time": 0,
        "accumulated-idle-time": 0,
        "accumulated-busy-time": 0.0,
    })
}

/// Adds counters up.
pub(in crate::rest) fn sum<'a>(attempts: impl Iterator<Item = &'a AttemptSnapshot>) -> TaskMetrics {
    attempts.fold(TaskMetrics::default(), |sum, attempt| TaskMetrics {
        read_records: sum.read_records + attempt.metrics.read_records,
        write_records: sum.write_records + attempt.metrics.write_records,
        read_bytes: sum.read_bytes + attempt.metrics.read_bytes,
        write_bytes: sum.write_bytes + attempt.metrics.write_bytes,
    })
}

/// How long an attempt was in a state: until the next state it entered, or until now. `None` if it never was.
pub(in crate::rest) fn state_duration(attempt: &AttemptSnapshot, state: ExecutionState, now: Millis) -> Option<Millis> {
    let entered = *attempt.timestamps.get(&state)?;
    // States are passed in the order of the enum; RECONCILING is never entered.
    let left = attempt.timestamps.range(state..).nth(1).map_or(now, |(_, left)| *left);
    Some(left.saturating_sub(entered))
}

/// Where an attempt runs, in Flink's words.
pub(in crate::rest) fn endpoint(attempt: &AttemptSnapshot) -> &str {
    attempt.endpoint.as_deref().unwrap_or(UNASSIGNED)
}

/// The executor it runs on, in Flink's words.
pub(in crate::rest) fn taskmanager(attempt: &AttemptSnapshot) -> &str {
    attempt.executor.as_ref().map_or(UNASSIGNED, |executor| &executor.0)
}

/// Flink's `SubtaskExecutionAttemptDetailsInfo`. Under `stormproof`: why the attempt failed.
pub(in crate::rest) fn details(subtask: usize, attempt: &AttemptSnapshot, now: Millis) -> Value {
    let span = Span::of(attempt);
    let duration = |state: ExecutionState| (state.name().to_owned(), or_minus_one(state_duration(attempt, state, now)));
    let mut object = Map::new();
    object.insert("subtask".into(), json!(subtask));
    object.insert("status".into(), json!(attempt.state.name()));
    object.insert("attempt".into(), json!(attempt.attempt));
    object.insert("endpoint".into(), json!(endpoint(attempt)));
    span.put(&mut object, now);
    object.insert("metrics".into(), metrics(attempt.metrics, attempt.executor.is_some()));
    object.insert("taskmanager-id".into(), json!(taskmanager(attempt)));
    object.insert("status-duration".into(), Value::Object(TIMED_STATES.into_iter().map(duration).collect()));
    object.insert("start_time".into(), or_minus_one(span.start));
    if let Some(failure) = &attempt.failure {
        object.insert("stormproof".into(), json!({ "failure": failure }));
    }
    Value::Object(object)
}
