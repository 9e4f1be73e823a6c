//! The end of a job: its result is recorded first, then everything else of it is deleted (reference 6.9).
//!
//! A coordinator that dies in between leaves a *dirty* result: the next leader cleans up and never runs the job
//! again.

use super::define::{Definition, define};
use super::entry::JobEntry;
use super::outside::Outside;
use crate::core::snapshot::JobSnapshot;
use crate::core::status::JobStatus;
use crate::graph::JobId;
use crate::leadership::{HaError, JobRecord, JobResult};
use crate::runtime::clock::now_ms;
use crate::runtime::error::chain;
use crate::runtime::services::{Backoff, HaFailure, Services, ha_call};

/// What to do with a job's checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Files {
    /// It has taken none.
    None,
    /// They are kept, and can be found by a person only.
    Keep,
    /// They are deleted.
    Delete,
}

impl Files {
    /// What becomes of the checkpoints of a job that ended with `status`.
    pub(crate) fn of(definition: &Definition, status: JobStatus) -> Self {
        match definition.config.core.checkpoint_interval_ms {
            None => Self::None,
            Some(_) if definition.config.retention.keeps(status) => Self::Keep,
            Some(_) => Self::Delete,
        }
    }

    /// The same for a job that is only known by its record. One that cannot be built any more keeps what it has:
    /// deleting could be a mistake, keeping cannot.
    pub(crate) async fn of_record(services: &Services, record: &JobRecord, status: JobStatus) -> Self {
        let JobRecord { job, params, config, .. } = record;
        let has_store = services.storage.is_some();
        match define(&services.registry, &services.settings, has_store, job, params, config).await {
            Ok(definition) => Self::of(&definition, status),
            Err(error) => {
                tracing::warn!(job = %record.id, error = %chain(&error), "what the job left in the store is kept");
                Self::Keep
            }
        }
    }
}

/// A job that is over.
pub(crate) struct Ending {
    /// Its last snapshot; published once the result is recorded, so that nobody sees an end that can be undone.
    pub(crate) snapshot: JobSnapshot,
    /// What to do with its checkpoints; none: the job ended before it was known.
    pub(crate) files: Option<Files>,
    /// Checkpoints that were being written when it ended.
    pub(crate) writes: Option<Outside>,
}

/// Records the result, publishes the end, cleans up.
pub(crate) async fn end(entry: &JobEntry, services: &Services, record: &JobRecord, ending: Ending) {
    let Ending { snapshot, files, mut writes } = ending;
    let status = snapshot.status;
    // First of all: slots are free again, executors delete what they have.
    services.manager.remove_job(entry.id);
    if let Some(writes) = &mut writes {
        writes.promoted().await;
    }
    let failed = status == JobStatus::Failed;
    let result = JobResult {
        id: entry.id,
        name: snapshot.name.clone(),
        status,
        start_ms: snapshot.start_ms,
        end_ms: snapshot.end_ms.unwrap_or_else(now_ms),
        failure: snapshot.exceptions.first().filter(|_| failed).map(|entry| entry.stacktrace.clone()),
        dirty: true,
    };
    let recorded = insist(services, entry.id, "recording the result", || services.ha.put_result(&result)).await;
    if recorded.is_err() {
        return;
    }
    tracing::info!(job = %entry.id, status = status.name(), "the job has ended");
    entry.publish(snapshot);
    entry.leave();
    if let Some(writes) = writes {
        // Else the clean-up could miss what they leave.
        writes.finish().await;
    }
    let files = match files {
        Some(files) => files,
        None => Files::of_record(services, record, status).await,
    };
    clean_up(services, entry.id, files).await;
}

/// Deletes everything of an ended job but its result, then marks that clean. Tries until it is done.
pub(crate) async fn clean_up(services: &Services, job: JobId, files: Files) {
    let mut backoff = Backoff::new();
    while let Err(error) = delete_checkpoints(services, job, files).await {
        tracing::warn!(%job, error, "the clean-up of an ended job goes on later");
        backoff.pause().await;
    }
    let removed = insist(services, job, "removing the job's record", || services.ha.remove_job(job)).await;
    if removed.is_ok() {
        // The last step: a failure leaves a dirty result, and the next leader comes here again.
        let _ = insist(services, job, "marking the result clean", || services.ha.mark_result_clean(job)).await;
    }
}

async fn delete_checkpoints(services: &Services, job: JobId, files: Files) -> Result<(), String> {
    match services.storage.as_ref().filter(|_| files == Files::Delete) {
        Some(storage) => storage.discard_job(job).await.map_err(|error| chain(&error)),
        None => ha_call(services.ha.remove_checkpoints(job)).await.map_err(|error| chain(&error)),
    }
}

/// Repeats a write until it succeeds. Fails only if another session leads, which ends the process.
async fn insist<F>(services: &Services, job: JobId, what: &str, mut write: impl FnMut() -> F) -> Result<(), ()>
where
    F: Future<Output = Result<(), HaError>>,
{
    let mut backoff = Backoff::new();
    loop {
        match ha_call(write()).await {
            Ok(()) => return Ok(()),
            Err(HaFailure::Ha(error)) if services.fatal.raise_if_fenced(&error) => return Err(()),
            Err(error) => tracing::warn!(%job, error = %chain(&error), "{what} failed; it is tried again"),
        }
        backoff.pause().await;
    }
}
