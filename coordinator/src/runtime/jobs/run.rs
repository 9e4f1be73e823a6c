//! A job's life, on one task: initialize, serve, end.

use std::sync::Arc;

use super::define::Definition;
use super::ending::{self, Ending, Files};
use super::entry::{JobEntry, Stop};
use super::initialize::{Initialized, initialize};
use super::mailbox::mailbox;
use super::master::{self, Outcome};
use super::sparse;
use crate::core::status::JobStatus;
use crate::leadership::JobRecord;
use crate::runtime::clock::now_ms;
use crate::runtime::services::Services;

/// Runs a job until it has ended and is cleaned up, or until it is suspended.
pub(crate) async fn run(
    entry: Arc<JobEntry>,
    services: Arc<Services>,
    record: JobRecord,
    definition: Option<Definition>,
) {
    services.manager.add_job(entry.id);
    if let Some(ending) = live(&entry, &services, &record, definition).await {
        entry.over(ending.snapshot.status);
        ending::end(&entry, &services, &record, ending).await;
    }
    entry.leave();
}

/// Until the job ends; nothing if it is suspended.
async fn live(
    entry: &Arc<JobEntry>,
    services: &Arc<Services>,
    record: &JobRecord,
    definition: Option<Definition>,
) -> Option<Ending> {
    if record.cancel_requested {
        // P269: recorded by an earlier leader; the store need not be read to honour it.
        entry.stop(Stop::Cancel);
    }
    let (core, definition) = match initialize(entry, services, record, definition).await {
        Initialized::Ready(core, definition) => (core, definition),
        Initialized::Stopped(stop) => return stopped(entry, stop),
        Initialized::Failed(causes) => {
            tracing::error!(job = %entry.id, causes = causes.join(": "), "the job cannot start");
            let snapshot = sparse::failed(&entry.snapshot(), &causes, now_ms());
            // What could not be read may be repaired by hand: nothing of it is deleted.
            return Some(Ending { snapshot, files: Some(Files::Keep), writes: None });
        }
    };
    let (sender, inbox) = mailbox(services.fatal.clone());
    if let Err(stop) = entry.serve(sender.clone()) {
        return stopped(entry, stop);
    }
    let definition = *definition;
    match master::serve(Arc::clone(entry), Arc::clone(services), definition.clone(), *core, sender, inbox).await {
        Outcome::Suspended => None,
        Outcome::Ended(snapshot, outside) => {
            let files = Files::of(&definition, snapshot.status);
            Some(Ending { snapshot: *snapshot, files: Some(files), writes: Some(outside) })
        }
    }
}

fn stopped(entry: &JobEntry, stop: Stop) -> Option<Ending> {
    let now = now_ms();
    match stop {
        Stop::Suspend => {
            entry.publish(sparse::in_status(&entry.snapshot(), JobStatus::Suspended, now));
            None
        }
        Stop::Cancel => {
            let snapshot = sparse::in_status(&entry.snapshot(), JobStatus::Canceled, now);
            Some(Ending { snapshot, files: None, writes: None })
        }
    }
}
