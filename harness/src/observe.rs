//! Watches a job through REST and writes down what changes.
//!
//! Only Flink's REST API is used, so the same facts come from any cluster. What happened between two looks is filled
//! in from the engine's own history of attempts.

use std::collections::{BTreeMap, BTreeSet};

use crate::flink::job::{Attempt, JobDetail};
use crate::flink::{RestClient, RestError};
use crate::timeline::{CheckpointEvent, ObservedPlan, RecordKind, Recorder, TaskFact, TaskName};

/// Watches one job.
pub struct Observer {
    rest: RestClient,
    recorder: Recorder,
    job: String,
    status: Option<String>,
    plan: ObservedPlan,
    tasks: BTreeMap<TaskName, TaskFact>,
    checkpoints: BTreeMap<u64, String>,
    restored: Option<(u64, i64)>,
    executors: BTreeSet<String>,
    exceptions: BTreeSet<(i64, String)>,
}

impl Observer {
    /// Watches `job` and records what changes.
    #[must_use]
    pub fn new(rest: RestClient, recorder: Recorder, job: impl Into<String>) -> Self {
        Self {
            rest,
            recorder,
            job: job.into(),
            status: None,
            plan: ObservedPlan::default(),
            tasks: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            restored: None,
            executors: BTreeSet::new(),
            exceptions: BTreeSet::new(),
        }
    }

    /// True once the job has ended for good.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.status.as_deref(), Some("FINISHED" | "FAILED" | "CANCELED"))
    }

    /// Looks once at everything.
    ///
    /// # Errors
    /// When the cluster did not answer; what was seen before that is recorded. Transient errors are normal while a
    /// coordinator is being replaced.
    pub async fn look(&mut self) -> Result<(), RestError> {
        let executors = self.rest.taskmanagers().await?;
        self.note_executors(
            executors
                .taskmanagers
                .iter()
                .map(|executor| (executor.id.clone(), executor.stormproof.as_ref().and_then(|ours| ours.pid))),
        );
        let job = self.rest.job(&self.job).await?;
        self.note_plan(&job);
        // Tasks before the status: a job is RESTARTING because of what its tasks already show.
        for vertex in &job.vertices {
            let detail = self.rest.vertex(&self.job, &vertex.id).await?;
            for attempt in &detail.subtasks {
                self.note_attempt(&vertex.id, &job.label(&vertex.id), attempt).await?;
            }
        }
        self.note_status(&job.state);
        self.note_checkpoints().await?;
        Ok(())
    }

    /// Takes in what only matters at the end: failures and counters.
    ///
    /// # Errors
    /// When the cluster did not answer.
    pub async fn look_back(&mut self) -> Result<(), RestError> {
        self.look().await?;
        let exceptions = self.rest.exceptions(&self.job).await?;
        for entry in exceptions.history.entries.iter().rev() {
            for one in std::iter::once(entry).chain(&entry.concurrent_exceptions) {
                let key = (one.timestamp, format!("{}{:?}", one.exception_name, one.task_name));
                if self.exceptions.insert(key) {
                    self.recorder.record(RecordKind::Exception {
                        job: self.job.clone(),
                        name: one.exception_name.clone(),
                        task: one.task_name.clone(),
                        message: one.causes(),
                    });
                }
            }
        }
        let metrics = self.rest.job_metrics(&self.job, &["numRestarts"]).await?;
        for (name, value) in metrics {
            self.recorder.record(RecordKind::Metric { job: self.job.clone(), name, value });
        }
        Ok(())
    }

    fn note_executors(&mut self, now: impl Iterator<Item = (String, Option<u32>)>) {
        let now: BTreeMap<String, Option<u32>> = now.collect();
        for (executor, pid) in &now {
            if self.executors.insert(executor.clone()) {
                self.recorder.record(RecordKind::ExecutorRegistered { executor: executor.clone(), pid: *pid });
            }
        }
        let lost: Vec<String> = self.executors.iter().filter(|known| !now.contains_key(*known)).cloned().collect();
        for executor in lost {
            self.executors.remove(&executor);
            self.recorder.record(RecordKind::ExecutorLost { executor });
        }
    }

    fn note_plan(&mut self, job: &JobDetail) {
        let plan = job.observed_plan();
        // Nothing is known of a job that is INITIALIZING: that takes nothing back.
        if !plan.vertices.is_empty() && plan != self.plan {
            self.plan = plan.clone();
            self.recorder.record(RecordKind::Plan { job: self.job.clone(), plan });
        }
    }

    fn note_status(&mut self, status: &str) {
        if self.status.as_deref() != Some(status) {
            self.status = Some(status.to_owned());
            self.recorder.record(RecordKind::JobStatus { job: self.job.clone(), status: status.to_owned() });
        }
    }

    async fn note_attempt(&mut self, vertex_id: &str, vertex: &str, now: &Attempt) -> Result<(), RestError> {
        let task = TaskName::new(vertex, now.subtask);
        let fact = fact(now);
        let before = self.tasks.get(&task);
        if before == Some(&fact) {
            return Ok(());
        }
        // How attempts ended that were replaced since the last look.
        let first_unseen = before.map_or(fact.attempt, |before| before.attempt);
        for attempt in first_unseen..fact.attempt {
            // None: evicted from the history, nothing is known of it.
            if let Some(ended) = self.rest.attempt(&self.job, vertex_id, now.subtask, attempt).await? {
                self.note_task(&task, self::fact(&ended));
            }
        }
        self.note_task(&task, fact);
        Ok(())
    }

    fn note_task(&mut self, task: &TaskName, fact: TaskFact) {
        if self.tasks.get(task) == Some(&fact) {
            return;
        }
        self.recorder.record(RecordKind::TaskState {
            job: self.job.clone(),
            task: task.clone(),
            attempt: fact.attempt,
            state: fact.state.clone(),
            executor: fact.executor.clone(),
        });
        self.tasks.insert(task.clone(), fact);
    }

    async fn note_checkpoints(&mut self) -> Result<(), RestError> {
        let checkpoints = match self.rest.checkpoints(&self.job).await {
            Ok(checkpoints) => checkpoints,
            // A job without checkpoints, or (Flink from 1.18) one that is INITIALIZING. The job itself was found.
            Err(RestError::NotFound { .. } | RestError::Initializing { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        for checkpoint in checkpoints.history.iter().rev() {
            let before = self.checkpoints.insert(checkpoint.id, checkpoint.status.clone());
            if before.as_ref() == Some(&checkpoint.status) {
                continue;
            }
            if before.is_none() {
                self.note_checkpoint(checkpoint.id, CheckpointEvent::Triggered);
            }
            match checkpoint.status.as_str() {
                "COMPLETED" => {
                    self.note_checkpoint(checkpoint.id, CheckpointEvent::Completed { bytes: checkpoint.state_size });
                }
                "FAILED" => {
                    let message = checkpoint.failure_message.clone().unwrap_or_default();
                    self.note_checkpoint(checkpoint.id, CheckpointEvent::Failed { message });
                }
                _ => {}
            }
        }
        if let Some(restored) = &checkpoints.latest.restored {
            let now = (restored.id, restored.restore_timestamp);
            if self.restored != Some(now) {
                self.restored = Some(now);
                self.note_checkpoint(restored.id, CheckpointEvent::Restored);
            }
        }
        Ok(())
    }

    fn note_checkpoint(&self, id: u64, event: CheckpointEvent) {
        self.recorder.record(RecordKind::Checkpoint { job: self.job.clone(), id, event });
    }
}

fn fact(attempt: &Attempt) -> TaskFact {
    TaskFact {
        attempt: attempt.attempt,
        state: attempt.status.clone(),
        executor: attempt.executor().map(str::to_owned),
    }
}
