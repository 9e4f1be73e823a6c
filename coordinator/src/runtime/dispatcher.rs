//! The Dispatcher: takes jobs, keeps them, answers for them. It never waits for a job's serial thread or for a store
//! to answer a question.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::task::TaskTracker;

use super::clock::now_ms;
use super::error::{CoordinatorError, chain};
use super::executors::ResourceManager;
use super::jobs::define::{DefineError, Definition, define};
use super::jobs::ending::{self, Files};
use super::jobs::entry::{JobEntry, Stop};
use super::jobs::{run, sparse};
use super::random;
use super::services::{Backoff, HaFailure, Services, ha_call};
use crate::config::Settings;
use crate::core::data_sets::ReleaseState;
use crate::core::snapshot::JobSnapshot;
use crate::core::status::JobStatus;
use crate::graph::{DataSetId, JobId, JobRegistry};
use crate::leadership::{HaError, JobRecord, JobResult};
use crate::rest::cluster::{CancelError, Cluster, ExecutorView, Submission, SubmitError};

/// How long a stopping coordinator waits for its jobs to be suspended.
const SUSPEND_DEADLINE: Duration = Duration::from_secs(5);

/// The jobs of one coordinator.
pub(crate) struct Dispatcher {
    registry: JobRegistry,
    settings: Settings,
    manager: Arc<ResourceManager>,
    /// Set once this coordinator leads and knows the recorded jobs.
    services: OnceLock<Arc<Services>>,
    jobs: RwLock<BTreeMap<JobId, Arc<JobEntry>>>,
    /// Ended jobs, oldest first.
    ended: Mutex<VecDeque<JobId>>,
    max_ended: usize,
    tasks: TaskTracker,
    stopping: std::sync::atomic::AtomicBool,
}

impl Dispatcher {
    pub(crate) fn new(
        registry: JobRegistry,
        settings: Settings,
        manager: Arc<ResourceManager>,
        max_ended: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            registry,
            settings,
            manager,
            services: OnceLock::new(),
            jobs: RwLock::default(),
            ended: Mutex::default(),
            max_ended,
            tasks: TaskTracker::new(),
            stopping: std::sync::atomic::AtomicBool::new(false),
        })
    }

    /// Begins to lead: takes up every recorded job (each is INITIALIZING at once), cleans up after ended ones.
    ///
    /// # Errors
    /// The records cannot be read: damaged, or not ours any more.
    pub(crate) async fn lead(self: &Arc<Self>, services: Arc<Services>) -> Result<(), CoordinatorError> {
        let (records, results) = read_jobs(&services).await?;
        let mut open: BTreeMap<JobId, JobRecord> = records.into_iter().map(|record| (record.id, record)).collect();
        for result in results {
            // P244, P256, P274: a job with a result is never run again.
            let record = open.remove(&result.id);
            self.take_up_ended(&services, result, record);
        }
        for record in open.into_values() {
            tracing::info!(job = %record.id, name = record.job, "a recorded job is taken up");
            let entry = JobEntry::new(sparse::initializing(&record, None));
            self.insert(Arc::clone(&entry));
            self.spawn(entry, &services, record, None);
        }
        let _ = self.services.set(services);
        Ok(())
    }

    fn take_up_ended(self: &Arc<Self>, services: &Arc<Services>, result: JobResult, record: Option<JobRecord>) {
        let id = result.id;
        self.insert(JobEntry::ended(sparse::of_result(&result)));
        let (this, services) = (Arc::clone(self), Arc::clone(services));
        self.tasks.spawn(async move {
            if result.dirty {
                let files = match &record {
                    Some(record) => Files::of_record(&services, record, result.status).await,
                    None => Files::None,
                };
                ending::clean_up(&services, id, files).await;
            }
            this.retire(&services, id).await;
        });
    }

    fn spawn(
        self: &Arc<Self>,
        entry: Arc<JobEntry>,
        services: &Arc<Services>,
        record: JobRecord,
        definition: Option<Definition>,
    ) {
        let (this, services) = (Arc::clone(self), Arc::clone(services));
        self.tasks.spawn(async move {
            let id = entry.id;
            let life = tokio::spawn(run::run(Arc::clone(&entry), Arc::clone(&services), record, definition));
            if let Err(error) = life.await {
                // P255: its state is lost with it. Another leader has the record and the checkpoints.
                services.fatal.raise(CoordinatorError::Fatal(format!("the thread of job {id} ended: {error}")));
            } else if entry.end().is_some() {
                this.retire(&services, id).await;
            }
        });
    }

    /// Keeps an ended and cleaned-up job for a while: the oldest makes room.
    async fn retire(&self, services: &Services, id: JobId) {
        let forgotten: Vec<JobId> = {
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.push_back(id);
            let surplus = ended.len().saturating_sub(self.max_ended);
            ended.drain(..surplus).collect()
        };
        for id in forgotten {
            self.remove(id);
            if let Err(error) = ha_call(services.ha.remove_result(id)).await {
                tracing::warn!(job = %id, error = %chain(&error), "the result of an old job was not removed");
            }
        }
    }

    fn entry(&self, id: JobId) -> Option<Arc<JobEntry>> {
        self.jobs.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn entries(&self) -> Vec<Arc<JobEntry>> {
        self.jobs.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// False if there is a job of this identifier already.
    fn insert(&self, entry: Arc<JobEntry>) -> bool {
        let mut jobs = self.jobs.write().unwrap_or_else(PoisonError::into_inner);
        let vacant = !jobs.contains_key(&entry.id);
        if vacant {
            jobs.insert(entry.id, entry);
        }
        vacant
    }

    fn remove(&self, id: JobId) {
        self.jobs.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Suspends all jobs; what is recorded of them stays (P257, P263).
    pub(crate) async fn suspend(&self) {
        self.stopping.store(true, std::sync::atomic::Ordering::SeqCst);
        let entries = self.entries();
        for entry in &entries {
            entry.stop(Stop::Suspend);
        }
        let all_gone = async {
            for entry in &entries {
                entry.gone().await;
            }
        };
        if tokio::time::timeout(SUSPEND_DEADLINE, all_gone).await.is_err() {
            tracing::warn!("some jobs were still ending when the coordinator stopped; the next leader ends them");
        }
    }

    async fn accept(self: Arc<Self>, submission: Submission) -> Result<JobId, SubmitError> {
        let services = self.services.get().cloned().ok_or(SubmitError::NotLeader)?;
        if self.stopping.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(SubmitError::NotLeader);
        }
        let Submission { job, params, config, id } = submission;
        let has_store = services.storage.is_some();
        let definition = define(&self.registry, &self.settings, has_store, &job, &params, &config).await?;
        let id = id.unwrap_or_else(random::job_id);
        let record = JobRecord { id, job, params, config, submitted_ms: now_ms(), cancel_requested: false };
        let entry = JobEntry::new(sparse::initializing(&record, Some(&definition)));
        if !self.insert(Arc::clone(&entry)) {
            return Err(SubmitError::Duplicate(id));
        }
        if let Err(error) = ha_call(services.ha.add_job(&record)).await {
            self.remove(id);
            return Err(refused(&services, id, error).await);
        }
        self.spawn(entry, &services, record, Some(definition));
        Ok(id)
    }

    async fn cancel_job(self: Arc<Self>, id: JobId) -> Result<(), CancelError> {
        let entry = self.entry(id).ok_or(CancelError::NotFound(id))?;
        if let Some(status) = entry.end() {
            return already(id, status);
        }
        let Some(services) = self.services.get() else { return Err(CancelError::NotFound(id)) };
        match ha_call(services.ha.request_cancel(id)).await {
            Ok(()) => {}
            // It ended, and its record went with it, a moment ago.
            Err(HaFailure::Ha(HaError::NotFound { .. })) if entry.end().is_some() => {}
            Err(error) => {
                if let HaFailure::Ha(error) = &error {
                    services.fatal.raise_if_fenced(error);
                }
                return Err(CancelError::Store(id, chain(&error)));
            }
        }
        match entry.end() {
            Some(status) => already(id, status),
            None => {
                entry.stop(Stop::Cancel);
                Ok(())
            }
        }
    }
}

/// P252: cancelling a CANCELED job succeeds, any other end is a conflict.
fn already(id: JobId, status: JobStatus) -> Result<(), CancelError> {
    if status == JobStatus::Canceled { Ok(()) } else { Err(CancelError::AlreadyTerminal(id, status.name())) }
}

async fn refused(services: &Services, id: JobId, error: HaFailure) -> SubmitError {
    match &error {
        HaFailure::Ha(HaError::Exists { .. }) => return SubmitError::Duplicate(id),
        HaFailure::Ha(fenced) if services.fatal.raise_if_fenced(fenced) => return SubmitError::NotLeader,
        HaFailure::Ha(write) if !write.maybe_written() => {}
        // The record may be there all the same: the client hears no, so the job must not come to life later.
        _ => {
            if let Err(error) = ha_call(services.ha.remove_job(id)).await {
                tracing::warn!(job = %id, error = %chain(&error), "a refused job may be recorded all the same");
            }
        }
    }
    SubmitError::Store(chain(&error))
}

/// Reads what earlier leaders left; tries again for as long as that may help.
async fn read_jobs(services: &Services) -> Result<(Vec<JobRecord>, Vec<JobResult>), CoordinatorError> {
    let mut backoff = Backoff::new();
    loop {
        // Records first: a job that ends in between then has both, and counts as ended.
        let both = async { Ok((services.ha.jobs().await?, services.ha.results().await?)) };
        match ha_call(both).await {
            Ok(both) => return Ok(both),
            Err(HaFailure::Ha(error)) if !error.is_transient() => return Err(CoordinatorError::Jobs(error)),
            Err(error) => tracing::warn!(error = %chain(&error), "the recorded jobs cannot be read now"),
        }
        backoff.pause().await;
    }
}

impl From<DefineError> for SubmitError {
    fn from(error: DefineError) -> Self {
        match error {
            DefineError::Graph(error) => Self::Graph(error),
            other => Self::Config(chain(&other)),
        }
    }
}

/// The Dispatcher as REST sees it. What changes something runs on a task of its own: a client that hangs up leaves
/// nothing half done.
#[async_trait]
impl Cluster for Arc<Dispatcher> {
    fn is_leader(&self) -> bool {
        self.services.get().is_some()
    }

    fn jobs(&self) -> Vec<Arc<JobSnapshot>> {
        self.entries().iter().map(|entry| entry.snapshot()).collect()
    }

    fn job(&self, id: JobId) -> Option<Arc<JobSnapshot>> {
        self.entry(id).map(|entry| entry.snapshot())
    }

    fn executors(&self) -> Vec<ExecutorView> {
        self.manager.executors()
    }

    fn data_sets(&self) -> BTreeMap<DataSetId, bool> {
        self.manager.data_sets()
    }

    fn release_data_set(&self, id: DataSetId) {
        self.manager.release_data_set(id);
    }

    fn data_set_release(&self, id: DataSetId) -> Option<ReleaseState> {
        self.manager.release_state(id)
    }

    fn job_names(&self) -> Vec<String> {
        self.registry.names().map(str::to_owned).collect()
    }

    fn config(&self) -> BTreeMap<String, String> {
        self.settings.effective()
    }

    async fn submit(&self, submission: Submission) -> Result<JobId, SubmitError> {
        let accepted = self.tasks.spawn(Arc::clone(self).accept(submission)).await;
        accepted.unwrap_or_else(|panic| Err(SubmitError::Store(format!("the submission ended early: {panic}"))))
    }

    async fn cancel(&self, id: JobId) -> Result<(), CancelError> {
        let cancelled = self.tasks.spawn(Arc::clone(self).cancel_job(id)).await;
        cancelled.unwrap_or_else(|panic| Err(CancelError::Store(id, format!("the call ended early: {panic}"))))
    }
}
