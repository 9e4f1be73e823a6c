//! Vertices: their subtasks, times and executors.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::attempts::{self, Span, TIMED_STATES};
use super::stats;
use super::status::{aggregate_status, count, counts_json, current};
use crate::core::event::Millis;
use crate::core::snapshot::{AttemptSnapshot, VertexSnapshot};
use crate::core::status::ExecutionState;
use crate::graph::VertexId;
use crate::graph::job::MAX_PARALLELISM;

/// The vertex's part of `/jobs/:id` (`JobVertexDetailsInfo`).
pub(in crate::rest) fn in_job(vertex: &VertexSnapshot, now: Millis) -> Value {
    let counts = count(current(vertex));
    let mut object = Map::new();
    object.insert("id".into(), json!(vertex.id));
    // All vertices share slots, as Flink's do unless told otherwise.
    object.insert("slotSharingGroupId".into(), json!(VertexId::of_name("default")));
    object.insert("name".into(), json!(vertex.name));
    object.insert("maxParallelism".into(), json!(MAX_PARALLELISM));
    object.insert("parallelism".into(), json!(vertex.subtasks.len()));
    object.insert("status".into(), json!(aggregate_status(&counts).name()));
    Span::over(current(vertex)).put(&mut object, now);
    object.insert("tasks".into(), counts_json(&counts));
    let complete = current(vertex).all(|attempt| attempt.executor.is_some());
    object.insert("metrics".into(), attempts::metrics(attempts::sum(current(vertex)), complete));
    Value::Object(object)
}

/// `/jobs/:id/vertices/:vid`.
pub(in crate::rest) fn details(vertex: &VertexSnapshot, now: Millis) -> Value {
    let subtask = |(index, attempt)| attempts::details(index, attempt, now);
    json!({
        "id": vertex.id,
        "name": vertex.name,
        "parallelism": vertex.subtasks.len(),
        "maxParallelism": MAX_PARALLELISM,
        "now": now,
        "subtasks": current(vertex).enumerate().map(subtask).collect::<Vec<_>>(),
        "aggregated": aggregated(&current(vertex).collect::<Vec<_>>(), now),
    })
}

/// `/jobs/:id/vertices/:vid/subtasktimes`.
pub(in crate::rest) fn subtask_times(vertex: &VertexSnapshot, now: Millis) -> Value {
    let times = |(index, attempt): (usize, &AttemptSnapshot)| {
        let at = |state| attempt.timestamps.get(&state).copied().unwrap_or(0);
        let timestamps = ExecutionState::ALL.into_iter().map(|state| (state.name().to_owned(), json!(at(state))));
        // Flink counts from SCHEDULED here, elsewhere from DEPLOYING.
        let start = attempt.timestamps.get(&ExecutionState::Scheduled).copied();
        let span = Span { start, ..Span::of(attempt) };
        json!({
            "subtask": index,
            "endpoint": attempts::endpoint(attempt),
            "duration": attempts::or_minus_one(span.duration(now)),
            "timestamps": Value::Object(timestamps.collect()),
        })
    };
    json!({
        "id": vertex.id,
        "name": vertex.name,
        "now": now,
        "subtasks": current(vertex).enumerate().map(times).collect::<Vec<_>>(),
    })
}

/// `/jobs/:id/vertices/:vid/taskmanagers`: subtasks by the executor they run on.
pub(in crate::rest) fn taskmanagers(vertex: &VertexSnapshot, now: Millis) -> Value {
    let mut by_executor: BTreeMap<&str, Vec<&AttemptSnapshot>> = BTreeMap::new();
    for attempt in current(vertex) {
        by_executor.entry(attempts::taskmanager(attempt)).or_default().push(attempt);
    }
    let one = |(executor, on_it): (&str, Vec<&AttemptSnapshot>)| {
        let counts = count(on_it.iter().copied());
        let complete = on_it.iter().all(|attempt| attempt.executor.is_some());
        let mut object = Map::new();
        object.insert("endpoint".into(), json!(attempts::endpoint(on_it[0])));
        object.insert("status".into(), json!(aggregate_status(&counts).name()));
        Span::over(on_it.iter().copied()).put(&mut object, now);
        object.insert("metrics".into(), attempts::metrics(attempts::sum(on_it.iter().copied()), complete));
        object.insert("status-counts".into(), counts_json(&counts));
        object.insert("taskmanager-id".into(), json!(executor));
        object.insert("aggregated".into(), aggregated(&on_it, now));
        Value::Object(object)
    };
    json!({
        "id": vertex.id,
        "name": vertex.name,
        "now": now,
        "taskmanagers": by_executor.into_iter().map(one).collect::<Vec<_>>(),
    })
}

/// Statistics over subtasks (`AggregatedTaskDetailsInfo`).
fn aggregated(all: &[&AttemptSnapshot], now: Millis) -> Value {
    let of = |metric: fn(&AttemptSnapshot) -> u64| stats::metric(all.iter().map(|attempt| metric(attempt)).collect());
    let durations = TIMED_STATES.into_iter().map(|state| {
        let known = all.iter().filter_map(|attempt| attempts::state_duration(attempt, state, now));
        (state.name().to_owned(), stats::metric(known.collect()))
    });
    json!({
        "metrics": {
            "read-bytes": of(|attempt| attempt.metrics.read_bytes),
            "write-bytes": of(|attempt| attempt.metrics.write_bytes),
            "read-records": of(|attempt| attempt.metrics.read_records),
            "write-records": of(|attempt| attempt.metrics.write_records),
            "accumulated-backpressured-time": of(|_| 0),
            "accumulated-idle-time": of(|_| 0),
            "accumulated-busy-time": of(|_| 0),
        },
        "status-duration": Value::Object(durations.collect()),
    })
}
