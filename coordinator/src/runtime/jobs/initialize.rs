//! INITIALIZING: a job's retained checkpoints are read before its JobMaster comes to be (FLINK-22483).
//!
//! This happens once per leader session, on the job's own task: a store that hangs keeps this job INITIALIZING and
//! nothing else. A store that cannot be reached is asked again for as long as it takes; a damaged or missing
//! checkpoint fails the job, as going on with less could break exactly-once (FLINK-22502).

use std::time::Instant;

use super::define::{Definition, define};
use super::entry::{JobEntry, Stop};
use super::sparse;
use crate::core::job::{CachedDataSets, JobCore, JobSpec, RestoredCheckpoint};
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
        let definition = match definition {
            Some(definition) => definition,
            None => build_again(entry, services, record).await,
        };
        let restored = recover(services, record, &definition).await?;
        let data_sets = services.manager.cached(definition.graph.vertices.iter().flat_map(|vertex| &vertex.data_sets));
        let core = JobCore::new(spec(record, &definition, restored, data_sets), now_ms());
        let core = core.map_err(|error| vec![error.to_string()])?;
        Ok((core, definition))
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

/// Builds a recorded job again. What stands in the way is this process (another binary, no store, an input that is
/// not mounted) and not the job: it is kept and tried again, visibly, until it works or somebody cancels it. Flink
/// ends the process here, and with it every other job (P255).
async fn build_again(entry: &JobEntry, services: &Services, record: &JobRecord) -> Definition {
    let JobRecord { job, params, config, .. } = record;
    let has_store = services.storage.is_some();
    let mut backoff = Backoff::new();
    loop {
        match define(&services.registry, &services.settings, has_store, job, params, config).await {
            Ok(definition) => {
                entry.publish(sparse::initializing(record, Some(&definition)));
                return definition;
            }
            Err(error) => {
                let causes = [format!("the recorded job `{job}` cannot be built again"), chain(&error)];
                tracing::warn!(job = %record.id, causes = causes.join(": "), "a job cannot be taken up now");
                entry.publish(sparse::troubled(&sparse::initializing(record, None), &causes, now_ms()));
            }
        }
        backoff.pause().await;
    }
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
