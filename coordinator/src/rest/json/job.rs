//! One job.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::attempts::or_minus_one;
use super::status::{StateCounts, aggregate_status, count, counts_json, current};
use super::vertex;
use crate::config::duration::format_ms;
use crate::config::{Settings, options};
use crate::core::event::Millis;
use crate::core::snapshot::{ExceptionEntry, JobSnapshot};
use crate::core::status::JobStatus;
use crate::graph::{FailureLabels, JobKind};

/// Flink's name of a kind of job.
pub(in crate::rest) fn kind_name(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Batch => "BATCH",
        JobKind::Streaming => "STREAMING",
    }
}

/// Which scheduler runs the job: none before its JobMaster exists.
pub(in crate::rest) fn scheduler_type(job: &JobSnapshot) -> Option<&'static str> {
    (job.status != JobStatus::Initializing).then_some("Default")
}

/// How long the job has run, or ran.
pub(in crate::rest) fn duration(job: &JobSnapshot, now: Millis) -> Millis {
    job.end_ms.unwrap_or(now).saturating_sub(job.start_ms)
}

/// `/jobs/:id`.
pub(in crate::rest) fn details(job: &JobSnapshot, now: Millis) -> Value {
    let statuses = job.vertices.iter().map(|vertex| aggregate_status(&count(current(vertex))));
    let counts = statuses.fold(StateCounts::new(), |mut counts, status| {
        *counts.entry(status).or_default() += 1;
        counts
    });
    let entered =
        |status: JobStatus| (status.name().to_owned(), json!(job.timestamps.get(&status).copied().unwrap_or(0)));
    json!({
        "jid": job.id,
        "application-id": scheduler_type(job).map(|_| job.id),
        "name": job.name,
        "isStoppable": false,
        "state": job.status.name(),
        "job-type": kind_name(job.kind),
        "schedulerType": scheduler_type(job),
        "start-time": job.start_ms,
        "end-time": or_minus_one(job.end_ms),
        "duration": duration(job, now),
        "maxParallelism": -1,
        "now": now,
        "timestamps": Value::Object(JobStatus::ALL.into_iter().map(entered).collect()),
        "vertices": job.vertices.iter().map(|vertex| vertex::in_job(vertex, now)).collect::<Vec<_>>(),
        "status-counts": counts_json(&counts),
        "plan": plan_body(job),
        "pending-operators": 0,
    })
}

/// `/jobs/:id/plan`. Under `stormproof` of an input: which of the producer's data sets it reads.
pub(in crate::rest) fn plan(job: &JobSnapshot) -> Value {
    json!({ "plan": plan_body(job) })
}

fn plan_body(job: &JobSnapshot) -> Value {
    if job.vertices.is_empty() {
        // As Flink before the JobMaster exists.
        return json!({ "jid": "", "name": "", "type": "", "nodes": [] });
    }
    let node = |position: usize| {
        let vertex = &job.vertices[position];
        let mut node = Map::new();
        node.insert("id".into(), json!(vertex.id));
        node.insert("operator".into(), json!(""));
        node.insert("parallelism".into(), json!(vertex.subtasks.len()));
        node.insert("operator_strategy".into(), json!(""));
        node.insert("description".into(), json!(format!("{}<br/>", vertex.name)));
        node.insert("optimizer_properties".into(), json!({}));
        let into = job.edges.iter().enumerate().filter(|(_, edge)| edge.to == position).enumerate();
        let inputs = into.map(|(number, (at, edge))| {
            // Each edge has a data set of its own, numbered in the order the producer's edges were connected.
            let data_set = job.edges[..at].iter().filter(|earlier| earlier.from == edge.from).count();
            json!({
                "id": job.vertices[edge.from].id,
                "num": number,
                "exchange": edge.partition_type.exchange_name(),
                "ship_strategy": edge.ship.rest_name(),
                "stormproof": { "data-set": data_set },
            })
        });
        let inputs: Vec<Value> = inputs.collect();
        if !inputs.is_empty() {
            node.insert("inputs".into(), json!(inputs));
        }
        Value::Object(node)
    };
    json!({
        "jid": job.id,
        "name": job.name,
        "type": kind_name(job.kind),
        "nodes": (0..job.vertices.len()).map(node).collect::<Vec<_>>(),
    })
}

/// `/jobs/:id/config`. Under `stormproof`: the effective configuration by Flink's keys.
pub(in crate::rest) fn config(job: &JobSnapshot) -> Value {
    json!({
        "jid": job.id,
        "name": job.name,
        "execution-config": {
            "restart-strategy": restart_strategy(&job.config),
            "job-parallelism": job.vertices.iter().map(|vertex| vertex.subtasks.len()).max().unwrap_or(1),
            "object-reuse-mode": false,
            "user-config": {},
        },
        "stormproof": { "config": job.config },
    })
}

/// Flink's text for people.
fn restart_strategy(config: &BTreeMap<String, String>) -> String {
    let Ok(settings) = Settings::from_map(config) else { return "Unknown".to_owned() };
    let delay = |option| settings.millis(option).map_or_else(String::new, format_ms);
    let number = |option| settings.count(option).unwrap_or(0);
    match settings.word(&options::RESTART_STRATEGY) {
        Some("none") => "Restart deactivated.".to_owned(),
        Some("fixed-delay") => format!(
            "Restart with fixed delay ({}). #{} restart attempts.",
            delay(&options::FIXED_DELAY_DELAY),
            number(&options::FIXED_DELAY_ATTEMPTS)
        ),
        Some("failure-rate") => format!(
            "Failure rate restart with maximum of {} failures within interval {} and fixed delay {}.",
            number(&options::FAILURE_RATE_MAX),
            delay(&options::FAILURE_RATE_INTERVAL),
            delay(&options::FAILURE_RATE_DELAY)
        ),
        Some("exponential-delay") => format!(
            "Restart with exponential delay: starting at {}, up to {}.",
            delay(&options::EXPONENTIAL_INITIAL),
            delay(&options::EXPONENTIAL_MAX)
        ),
        _ => "Cluster level default restart strategy".to_owned(),
    }
}

/// `/jobs/:id/exceptions`: those that carry all of `labels`, newest first, at most `max` of them.
pub(in crate::rest) fn exceptions(job: &JobSnapshot, max: usize, labels: &FailureLabels) -> Value {
    let is_wanted = |entry: &&ExceptionEntry| labels.iter().all(|(key, value)| entry.labels.get(key) == Some(value));
    let wanted: Vec<_> = job.exceptions.iter().filter(is_wanted).collect();
    json!({
        "exceptionHistory": {
            "entries": wanted.iter().take(max).map(|entry| exception(entry)).collect::<Vec<_>>(),
            "truncated": wanted.len() > max,
        }
    })
}

fn exception(entry: &ExceptionEntry) -> Value {
    let mut object = concurrent_exception(entry);
    object.insert("concurrentExceptions".into(), entry.concurrent.iter().map(concurrent_exception).collect());
    Value::Object(object)
}

/// A failure of a task names it; a global failure does not.
fn concurrent_exception(entry: &ExceptionEntry) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("exceptionName".into(), json!(entry.name));
    object.insert("stacktrace".into(), json!(entry.stacktrace));
    object.insert("timestamp".into(), json!(entry.timestamp_ms));
    object.insert("failureLabels".into(), json!(entry.labels));
    let of_task = [
        ("taskName", entry.task_name.as_deref()),
        ("endpoint", entry.endpoint.as_deref()),
        ("taskManagerId", entry.executor.as_ref().map(|executor| executor.0.as_str())),
    ];
    object.extend(of_task.into_iter().filter_map(|(key, value)| Some((key.to_owned(), json!(value?)))));
    object
}

/// `/jobs/:id/execution-result`.
pub(in crate::rest) fn execution_result(job: &JobSnapshot, now: Millis) -> Value {
    if !job.status.is_globally_terminal() {
        return json!({ "status": { "id": "IN_PROGRESS" } });
    }
    let application_status = match job.status {
        JobStatus::Finished => "SUCCEEDED",
        JobStatus::Canceled => "CANCELED",
        _ => "FAILED",
    };
    let mut result = Map::new();
    result.insert("id".into(), json!(job.id));
    result.insert("application-status".into(), json!(application_status));
    result.insert("accumulator-results".into(), json!({}));
    result.insert("net-runtime".into(), json!(duration(job, now)));
    if job.status == JobStatus::Failed {
        let cause = job.exceptions.first();
        let cause = json!({
            "class": cause.map_or("Failure", |entry| &entry.name),
            "stack-trace": cause.map_or("no cause was recorded", |entry| &entry.stacktrace),
            "serialized-throwable": "",
        });
        result.insert("failure-cause".into(), cause);
    }
    json!({ "status": { "id": "COMPLETED" }, "job-execution-result": result })
}
