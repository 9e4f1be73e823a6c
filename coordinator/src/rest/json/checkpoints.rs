//! Checkpoint counters, history and configuration; metrics of the job.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::stats;
use crate::config::{Settings, options};
use crate::core::event::Millis;
use crate::core::snapshot::{CheckpointEntry, CheckpointEntryStatus, CheckpointStats, JobSnapshot};
use crate::core::status::JobStatus;

/// `/jobs/:id/checkpoints`. With the default statistics this is what a job shows while INITIALIZING.
pub(in crate::rest) fn checkpoints(checkpoints: &CheckpointStats) -> Value {
    let history = &checkpoints.history;
    let newest = |wanted: fn(&CheckpointEntryStatus) -> bool| {
        history.iter().find(|checkpoint| wanted(&checkpoint.status)).map(entry)
    };
    let over = |of: fn(&CheckpointEntry) -> u64| {
        let completed = history.iter().filter(|checkpoint| checkpoint.status == CheckpointEntryStatus::Completed);
        stats::summary(completed.map(of).collect())
    };
    json!({
        "counts": {
            "restored": checkpoints.restored,
            "total": checkpoints.total,
            "in_progress": checkpoints.in_progress,
            "completed": checkpoints.completed,
            "failed": checkpoints.failed,
        },
        "summary": {
            "checkpointed_size": over(|checkpoint| checkpoint.state_size),
            "state_size": over(|checkpoint| checkpoint.state_size),
            "end_to_end_duration": over(duration),
            "alignment_buffered": over(|_| 0),
            "processed_data": over(|_| 0),
            "persisted_data": over(|_| 0),
        },
        "latest": {
            "completed": newest(|status| *status == CheckpointEntryStatus::Completed),
            "savepoint": null,
            "failed": newest(|status| matches!(status, CheckpointEntryStatus::Failed { .. })),
            "restored": checkpoints.latest_restored.as_ref().map(|restored| json!({
                "id": restored.id,
                "restore_timestamp": restored.restore_ms,
                "is_savepoint": false,
                "external_path": restored.external_path,
            })),
        },
        "history": history.iter().map(entry).collect::<Vec<_>>(),
    })
}

/// From trigger to the last acknowledgement, or to the failure.
fn duration(checkpoint: &CheckpointEntry) -> u64 {
    let end = match checkpoint.status {
        CheckpointEntryStatus::Failed { at_ms, .. } => Some(at_ms),
        CheckpointEntryStatus::Completed | CheckpointEntryStatus::InProgress => checkpoint.latest_ack_ms,
    };
    end.map_or(0, |end| end.saturating_sub(checkpoint.trigger_ms))
}

/// An entry of the history, and `/jobs/:id/checkpoints/details/:cid`.
pub(in crate::rest) fn entry(checkpoint: &CheckpointEntry) -> Value {
    let (class, status) = match checkpoint.status {
        CheckpointEntryStatus::InProgress => ("in_progress", "IN_PROGRESS"),
        CheckpointEntryStatus::Completed => ("completed", "COMPLETED"),
        CheckpointEntryStatus::Failed { .. } => ("failed", "FAILED"),
    };
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("className", json!(class));
    put("id", json!(checkpoint.id));
    put("status", json!(status));
    put("is_savepoint", json!(false));
    put("savepointFormat", Value::Null);
    put("trigger_timestamp", json!(checkpoint.trigger_ms));
    put("latest_ack_timestamp", checkpoint.latest_ack_ms.map_or_else(|| json!(-1), |at| json!(at)));
    put("checkpointed_size", json!(checkpoint.state_size));
    put("state_size", json!(checkpoint.state_size));
    put("end_to_end_duration", json!(duration(checkpoint)));
    put("alignment_buffered", json!(0));
    put("processed_data", json!(0));
    put("persisted_data", json!(0));
    put("num_subtasks", json!(checkpoint.num_subtasks));
    put("num_acknowledged_subtasks", json!(checkpoint.num_acknowledged));
    put("checkpoint_type", json!("CHECKPOINT"));
    put("tasks", json!({}));
    match &checkpoint.status {
        CheckpointEntryStatus::InProgress => {}
        CheckpointEntryStatus::Completed => {
            put("external_path", json!(checkpoint.external_path));
            put("discarded", json!(checkpoint.discarded));
        }
        CheckpointEntryStatus::Failed { at_ms, message } => {
            put("failure_timestamp", json!(at_ms));
            put("failure_message", json!(message));
        }
    }
    Value::Object(object)
}

/// `/jobs/:id/checkpoints/config`.
pub(in crate::rest) fn config(job: &JobSnapshot) -> Value {
    let settings = Settings::from_map(&job.config).unwrap_or_else(|_| {
        Settings::from_map(&BTreeMap::new()).expect("an empty configuration has nothing to refuse")
    });
    let millis = |option| settings.millis(option).unwrap_or(0);
    let retention = settings.word(&options::CHECKPOINT_RETENTION).unwrap_or("NO_EXTERNALIZED_CHECKPOINTS");
    let known = |name| if job.status == JobStatus::Initializing { "Unknown" } else { name };
    let interval = job.checkpoints.as_ref().map_or_else(|| millis(&options::CHECKPOINT_INTERVAL), |c| c.interval_ms);
    json!({
        "mode": "exactly_once",
        "interval": interval,
        "timeout": millis(&options::CHECKPOINT_TIMEOUT),
        "min_pause": millis(&options::CHECKPOINT_MIN_PAUSE),
        "max_concurrent": 1,
        "externalization": {
            "enabled": retention != "NO_EXTERNALIZED_CHECKPOINTS",
            "delete_on_cancellation": retention != "RETAIN_ON_CANCELLATION",
        },
        "state_backend": known("HashMapStateBackend"),
        "checkpoint_storage": known("ObjectStoreCheckpointStorage"),
        "unaligned_checkpoints": false,
        "tolerable_failed_checkpoints": settings.count(&options::CHECKPOINT_TOLERABLE).unwrap_or(0),
        "aligned_checkpoint_timeout": 0,
        "checkpoints_after_tasks_finish": true,
        "state_changelog_enabled": false,
        "changelog_periodic_materialization_interval": 0,
        "changelog_storage": "memory",
    })
}

/// The metrics of a job by Flink's names; none before its JobMaster exists.
pub(in crate::rest) fn job_metrics(job: &JobSnapshot, now: Millis) -> BTreeMap<&'static str, String> {
    let mut metrics = BTreeMap::new();
    if job.status == JobStatus::Initializing {
        return metrics;
    }
    let since = |status| {
        let entered = job.timestamps.get(&status).filter(|_| job.status == status);
        entered.map_or(0, |entered| now.saturating_sub(*entered)).to_string()
    };
    metrics.insert("numRestarts", job.restarts.to_string());
    metrics.insert("uptime", since(JobStatus::Running));
    metrics.insert("downtime", since(JobStatus::Restarting));
    if let Some(checkpoints) = &job.checkpoints {
        metrics.insert("totalNumberOfCheckpoints", checkpoints.total.to_string());
        metrics.insert("numberOfInProgressCheckpoints", checkpoints.in_progress.to_string());
        metrics.insert("numberOfCompletedCheckpoints", checkpoints.completed.to_string());
        metrics.insert("numberOfFailedCheckpoints", checkpoints.failed.to_string());
        let restored = checkpoints.latest_restored.as_ref();
        let restore = restored.map_or_else(|| "-1".to_owned(), |restored| restored.restore_ms.to_string());
        metrics.insert("lastCheckpointRestoreTimestamp", restore);
        if let Some(last) = checkpoints.history.iter().find(|last| last.status == CheckpointEntryStatus::Completed) {
            metrics.insert("lastCheckpointSize", last.state_size.to_string());
            metrics.insert("lastCheckpointDuration", duration(last).to_string());
            metrics.insert("lastCheckpointExternalPath", last.external_path.clone().unwrap_or_default());
        }
    }
    metrics
}

/// `/jobs/:id/metrics`: names only, or the values of the `wanted` ones that exist.
pub(in crate::rest) fn metrics(known: &BTreeMap<&'static str, String>, wanted: Option<&str>) -> Value {
    let Some(wanted) = wanted else {
        return known.keys().map(|name| json!({ "id": name })).collect();
    };
    let value = |name: &str| known.get(name).map(|value| json!({ "id": name, "value": value }));
    wanted.split(',').filter_map(value).collect()
}
