//! Keys, as Flink lays them out: `<job>/chk-<n>/_metadata`, and state files beside it.

use crate::graph::{AttemptId, JobId};

/// Everything of a job lies under this, with the slash.
#[must_use]
pub fn job_prefix(job: JobId) -> String {
    format!("{job}/")
}

/// Folder of one checkpoint, without a slash at the end.
#[must_use]
pub fn checkpoint_folder(job: JobId, checkpoint: u64) -> String {
    format!("{job}/chk-{checkpoint}")
}

/// The checkpoint's metadata.
#[must_use]
pub fn metadata_key(job: JobId, checkpoint: u64) -> String {
    format!("{job}/chk-{checkpoint}/_metadata")
}

/// State of one attempt. Checkpoint numbers are never used twice, so no two writers ever share a key.
#[must_use]
pub fn snapshot_key(attempt: AttemptId, checkpoint: u64) -> String {
    let AttemptId { job, task, attempt } = attempt;
    format!("{job}/chk-{checkpoint}/{}-{}-{attempt}", task.vertex, task.subtask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{TaskId, VertexId};

    #[test]
    fn keys_are_flinks() {
        let job = JobId([0xab; 16]);
        let hex = "ab".repeat(16);
        assert_eq!(metadata_key(job, 7), format!("{hex}/chk-7/_metadata"));
        assert!(metadata_key(job, 7).starts_with(&job_prefix(job)));
        let task = TaskId { vertex: VertexId([1; 16]), subtask: 3 };
        let key = snapshot_key(AttemptId { job, task, attempt: 2 }, 7);
        assert_eq!(key, format!("{}/{}-3-2", checkpoint_folder(job, 7), "01".repeat(16)));
    }
}
