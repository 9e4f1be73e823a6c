//! INITIALIZING: a job's retained checkpoints are read before its JobMaster comes to be (FLINK-22483).
//!
//! This happens once per leader session, on the job's own task: a store that hangs keeps this job INITIALIZING and
//! nothing else. A store that cannot be reached is asked again for as long as it takes. A damaged or missing checkpoint
//! is never skipped, as going on with less could break exactly-once (FLINK-22502): a job that was just submitted fails,
//! one that was taken up waits until it is repaired.

use std::time::Instant;

use super::define::{Definition, define};
use super::entry::{JobEntry, Stop};
use super::sparse;
use crate::core::job::{CachedDataSets, JobCore, JobSpec, RestoredCheckpoint};
use crate::core::snapshot::JobSnapshot;
use crate::leadership::JobRecord;
use crate::runtime::clock::now_ms;
use crate::runtime::error::chain;
use crate::runtime::random;
use crate::runtime::services::{Backoff, Services};

/// What came of it.
pub(crate) enum Initialized {
    /// The job can start.
    Ready(Box<JobCore>, Box<Definition>),
    /// Somebody stopped it.
    Stopped(Stop),
    /// It can never start: the causes, outermost first.
    Failed(Vec<String>),
}

/// Brings a job from INITIALIZING to CREATED. `definition` is known when the job was submitted here.
pub(crate) async fn initialize(
    entry: &JobEntry,
    services: &Services,
    record: &JobRecord,
    definition: Option<Definition>,
) -> Initialized {
    let work = async {
        match definition {
            Some(definition) => create(services, record, &definition).await.map(|core| (core, definition)),
            None => Ok(take_up(entry, services, record).await),
        }
    };
    // Dropping `work` is the cancellation: nothing it waits for holds anybody up.
    let result = tokio::select! {
        biased;
        () = entry.stopped() => return Initialized::Stopped(entry.why_stopped().unwrap_or(Stop::Suspend)),
        result = work => result,
    };
    match result {
        Ok((core, definition)) => Initialized::Ready(Box::new(core), Box::new(definition)),
        Err(causes) => Initialized::Failed(causes),
    }
}

/// Takes a recorded job up. What stands in the way (another binary, no store, an input that is not mounted, a checkpoint
/// that is damaged or does not fit) can be mended, and is no reason to lose the job and all that is recorded of it: it is
/// tried again, visibly, until it works or somebody cancels the job. Flink keeps the job, too, but ends the process, and
/// with it every other job (reference 6.4, P255).
async fn take_up(entry: &JobEntry, services: &Services, record: &JobRecord) -> (JobCore, Definition) {
    let mut backoff = Backoff::new();
    let definition = loop {
        match build(services, record).await {
            Ok(definition) => break definition,
            Err(causes) => show_trouble(entry, &sparse::initializing(record, None), &causes),
        }
        backoff.pause().await;
    };
    let known = sparse::initializing(record, Some(&definition));
    entry.publish(known.clone());
    let mut backoff = Backoff::new();
    loop {
        match create(services, record, &definition).await {
            Ok(core) => return (core, definition),
            Err(causes) => show_trouble(entry, &known, &causes),
        }
        backoff.pause().await;
    }
}

fn show_trouble(entry: &JobEntry, snapshot: &JobSnapshot, causes: &[String]) {
    tracing::warn!(job = %entry.id, causes = causes.join(": "), "a job cannot be taken up now");
    entry.publish(sparse::troubled(snapshot, causes, now_ms()));
}

async fn build(services: &Services, record: &JobRecord) -> Result<Definition, Vec<String>> {
    let JobRecord { job, params, config, .. } = record;
    let has_store = services.storage.is_some();
    let defined = define(&services.registry, &services.settings, has_store, job, params, config).await;
    defined.map_err(|error| vec![format!("the recorded job `{job}` cannot be built again"), chain(&error)])
}

/// The job's scheduler, with the checkpoints that it starts from; or why there can be none, outermost cause first.
async fn create(services: &Services, record: &JobRecord, definition: &Definition) -> Result<JobCore, Vec<String>> {
    let restored = recover(services, record, definition).await?;
    let data_sets = services.manager.cached(definition.graph.vertices.iter().flat_map(|vertex| &vertex.data_sets));
    let core = JobCore::new(spec(record, definition, restored, data_sets), now_ms());
    core.map_err(|error| vec![error.to_string()])
}

async fn recover(
    services: &Services,
    record: &JobRecord,
    definition: &Definition,
) -> Result<Vec<RestoredCheckpoint>, Vec<String>> {
    let Some(storage) = services.storage.as_ref().filter(|_| definition.config.core.checkpoint_interval_ms.is_some())
    else {
        return Ok(vec![]);
    };
    let (began, mut backoff, mut tries) = (Instant::now(), Backoff::new(), 0_u32);
    loop {
        tries += 1;
        match storage.recover(record.id).await {
            Ok(checkpoints) => {
                let count = checkpoints.len();
                tracing::info!(job = %record.id, count, tries, ms = began.elapsed().as_millis(), "checkpoints recovered");
                let restored = checkpoints
                    .into_iter()
                    .map(|(checkpoint, stored)| RestoredCheckpoint { checkpoint, external_path: stored.external_path });
                return Ok(restored.collect());
            }
            Err(error) if error.is_transient() => {
                tracing::warn!(job = %record.id, tries, error = %chain(&error), "checkpoints cannot be read now");
                backoff.pause().await;
            }
            Err(error) => {
                let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
                let mut lines = vec!["the completed checkpoints cannot be recovered".to_owned()];
                lines.extend(causes.map(ToString::to_string));
                return Err(lines);
            }
        }
    }
}

fn spec(
    record: &JobRecord,
    definition: &Definition,
    restored: Vec<RestoredCheckpoint>,
    data_sets: CachedDataSets,
) -> JobSpec {
    JobSpec {
        id: record.id,
        job_name: record.job.clone(),
        params: record.params.clone(),
        graph: definition.graph.clone(),
        settings: definition.config.core.clone(),
        config: definition.shown.clone(),
        submitted_ms: record.submitted_ms,
        restored,
        data_sets,
        seed: random::number(),
    }
}
