//! The cluster as a whole, and all jobs in one list.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::attempts::or_minus_one;
use super::job;
use super::status::{count, current};
use crate::config::{Settings, options};
use crate::core::event::Millis;
use crate::core::snapshot::{AttemptSnapshot, JobSnapshot};
use crate::core::status::{ExecutionState, JobStatus};
use crate::rest::cluster::ExecutorView;

/// The version of Flink whose REST API this is. Clients read it to know what they may ask.
const FLINK_VERSION: &str = "2.3.0";

fn engine() -> Value {
    json!({ "engine": "bundled", "version": env!("CARGO_PKG_VERSION") })
}

/// `/overview`.
pub(in crate::rest) fn overview(executors: &[ExecutorView], jobs: &[Arc<JobSnapshot>]) -> Value {
    let in_status = |status| jobs.iter().filter(|job| job.status == status).count();
    json!({
        "taskmanagers": executors.len(),
        "slots-total": executors.iter().map(|executor| executor.slots).sum::<u32>(),
        "slots-available": executors.iter().map(|executor| executor.free_slots).sum::<u32>(),
        "jobs-running": jobs.iter().filter(|job| !job.status.is_globally_terminal()).count(),
        "jobs-finished": in_status(JobStatus::Finished),
        "jobs-cancelled": in_status(JobStatus::Canceled),
        "jobs-failed": in_status(JobStatus::Failed),
        "flink-version": FLINK_VERSION,
        "flink-commit": "unknown",
        "stormproof": engine(),
    })
}

/// `/config`. Under `stormproof`: the cluster's configuration by Flink's keys, without secrets.
pub(in crate::rest) fn config(config: &BTreeMap<String, String>) -> Value {
    let refresh = Settings::from_map(config).ok().and_then(|settings| settings.millis(&options::REFRESH_INTERVAL));
    json!({
        "refresh-interval": refresh.unwrap_or(3000),
        "timezone-name": "Coordinated Universal Time",
        "timezone-offset": 0,
        "flink-version": FLINK_VERSION,
        "flink-revision": "unknown",
        "features": { "web-submit": true, "web-cancel": true, "web-rescale": false, "web-history": false },
        "stormproof": { "engine": "bundled", "version": env!("CARGO_PKG_VERSION"), "config": config },
    })
}

/// `/jobs`.
pub(in crate::rest) fn jobs(jobs: &[Arc<JobSnapshot>]) -> Value {
    let one = |job: &Arc<JobSnapshot>| json!({ "id": job.id, "status": job.status.name() });
    json!({ "jobs": jobs.iter().map(one).collect::<Vec<_>>() })
}

/// `/jobs/overview`.
pub(in crate::rest) fn jobs_overview(jobs: &[Arc<JobSnapshot>], now: Millis) -> Value {
    json!({ "jobs": jobs.iter().map(|job| job_overview(job, now)).collect::<Vec<_>>() })
}

fn job_overview(job: &JobSnapshot, now: Millis) -> Value {
    let attempts = || job.vertices.iter().flat_map(current);
    let entered = |attempt: &AttemptSnapshot| attempt.timestamps.get(&attempt.state).copied();
    let counts = count(attempts());
    let mut tasks: Map<String, Value> = ExecutionState::ALL
        .into_iter()
        .map(|state| (state.name().to_lowercase(), json!(counts.get(&state).copied().unwrap_or(0))))
        .collect();
    tasks.insert("total".into(), json!(counts.values().sum::<u64>()));
    json!({
        "jid": job.id,
        "name": job.name,
        "jobType": job::kind_name(job.kind),
        "schedulerType": job::scheduler_type(job),
        "start-time": job.start_ms,
        "end-time": or_minus_one(job.end_ms),
        "duration": job::duration(job, now),
        "state": job.status.name(),
        "last-modification": attempts().filter_map(entered).max().unwrap_or(0),
        "tasks": tasks,
        "pending-operators": 0,
    })
}

/// `/jars`: registered jobs take the place of uploaded jars, and a job's name the place of a jar's identifier.
pub(in crate::rest) fn jars(address: &str, names: &[String]) -> Value {
    let file = |name: &String| json!({ "id": name, "name": name, "uploaded": 0, "entry": [{ "name": name, "description": null }] });
    json!({ "address": address, "files": names.iter().map(file).collect::<Vec<_>>() })
}
