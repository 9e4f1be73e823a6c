//! The tasks that run on this executor.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{error, info, warn};

use super::signal::lock;
use super::task::{self, Environment, TaskHandle};
use crate::graph::{AttemptId, JobId, TaskError};
use crate::runtime::protocol::{FailureKind, TaskDeployment, TaskFailure, TaskMetrics, TaskUpdate, ToCoordinator};

/// All tasks, and the watchdog of their cancellation.
pub(crate) struct TaskTable {
    environment: Arc<Environment>,
    running: Mutex<BTreeMap<AttemptId, Running>>,
    /// `task.cancellation.timeout`; none: no watchdog.
    cancellation_timeout: Option<Duration>,
    /// Told of a task that does not stop.
    stuck: mpsc::Sender<AttemptId>,
}

struct Running {
    task: Arc<TaskHandle>,
    reported: TaskMetrics,
}

impl TaskTable {
    pub(crate) fn new(
        environment: Arc<Environment>,
        cancellation_timeout: Option<Duration>,
        stuck: mpsc::Sender<AttemptId>,
    ) -> Self {
        Self { environment, running: Mutex::default(), cancellation_timeout, stuck }
    }

    /// Starts a task. Gives the report to send if that is not possible.
    pub(crate) fn deploy(
        self: &Arc<Self>,
        deployment: TaskDeployment,
        reports: &mpsc::Sender<ToCoordinator>,
    ) -> Option<ToCoordinator> {
        let attempt = deployment.attempt;
        let task = Arc::new(TaskHandle::new(attempt));
        {
            let mut running = lock(&self.running);
            if running.contains_key(&attempt) {
                warn!(?attempt, "a task was deployed twice; the second deployment is ignored");
                return None;
            }
            running.insert(attempt, Running { task: task.clone(), reported: TaskMetrics::default() });
        }
        info!(vertex = deployment.vertex, subtask = attempt.task.subtask, attempt = attempt.attempt, "starting a task");
        let table = self.clone();
        let on_end = move |task: &TaskHandle| drop(lock(&table.running).remove(&task.attempt));
        let started = task::start(self.environment.clone(), task.clone(), deployment, reports.clone(), on_end);
        let error = started.err()?;
        lock(&self.running).remove(&attempt);
        task.ended.cancel();
        let error = TaskError::from_error(&error).context("cannot start a thread for the task");
        let update = TaskUpdate::Failed(TaskFailure { error, kind: FailureKind::Task });
        Some(ToCoordinator::TaskUpdate { attempt, update, metrics: TaskMetrics::default() })
    }

    /// The task of an attempt, if it runs.
    pub(crate) fn get(&self, attempt: AttemptId) -> Option<Arc<TaskHandle>> {
        lock(&self.running).get(&attempt).map(|running| running.task.clone())
    }

    /// Asks a task to stop; `false` if it does not run.
    pub(crate) fn cancel(&self, attempt: AttemptId) -> bool {
        let task = self.get(attempt);
        task.inspect(|task| self.stop(task.clone())).is_some()
    }

    /// Asks all tasks of a job to stop; what they made is of no use to anyone.
    pub(crate) fn discard_job(&self, job: JobId) {
        self.discard_where(|attempt| attempt.job == job);
    }

    /// Asks all tasks to stop; what they made is of no use to anyone.
    pub(crate) fn discard_all(&self) {
        self.discard_where(|_| true);
    }

    fn discard_where(&self, wanted: impl Fn(AttemptId) -> bool) {
        let tasks: Vec<_> = lock(&self.running).values().map(|running| running.task.clone()).collect();
        for task in tasks.into_iter().filter(|task| wanted(task.attempt)) {
            task.discard.store(true, Ordering::Release);
            self.stop(task);
        }
    }

    /// Resolves once no task runs. The watchdog bounds it.
    pub(crate) async fn all_ended(&self) {
        loop {
            let next = lock(&self.running).values().next().map(|running| running.task.clone());
            match next {
                None => return,
                Some(task) => task.ended.cancelled().await,
            }
        }
    }

    /// Counters that changed since they were asked for last.
    pub(crate) fn changed_metrics(&self) -> Vec<(AttemptId, TaskMetrics)> {
        let mut changed = vec![];
        for (attempt, running) in lock(&self.running).iter_mut() {
            let metrics = running.task.counters.metrics();
            if metrics != running.reported {
                running.reported = metrics;
                changed.push((*attempt, metrics));
            }
        }
        changed
    }

    fn stop(&self, task: Arc<TaskHandle>) {
        if task.signal.is_cancelled() {
            return;
        }
        task.signal.cancel();
        let Some(timeout) = self.cancellation_timeout else { return };
        let stuck = self.stuck.clone();
        self.environment.runtime.spawn(async move {
            if tokio::time::timeout(timeout, task.ended.cancelled()).await.is_err() {
                error!(attempt = ?task.attempt, ?timeout, "a cancelled task does not stop");
                // The first one is enough.
                let _ = stuck.try_send(task.attempt);
            }
        });
    }
}
