//! The serial owner of one job: events in, commands out, one at a time (reference 13, rule 1).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::commands::Commands;
use super::define::Definition;
use super::entry::JobEntry;
use super::mailbox::{Inbox, Mailbox};
use super::outside::Outside;
use crate::core::event::JobEvent;
use crate::core::job::JobCore;
use crate::core::snapshot::JobSnapshot;
use crate::core::status::JobStatus;
use crate::runtime::clock::now_ms;
use crate::runtime::services::Services;

/// While events are queued, a new snapshot is published this often, and less often if taking one costs more than a
/// fifth of the time; else after every event.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(10);

/// How a job left its JobMaster.
pub(crate) enum Outcome {
    /// It is over for every coordinator: its last snapshot, not published yet, and writes that are on their way.
    Ended(Box<JobSnapshot>, Outside),
    /// This coordinator stops; another may go on.
    Suspended,
}

/// Serves one job until it ends or is suspended. Only this task touches `core`; nothing in here waits for anything
/// but the next event.
pub(crate) async fn serve(
    entry: Arc<JobEntry>,
    services: Arc<Services>,
    definition: Definition,
    mut core: JobCore,
    mailbox: Mailbox,
    mut inbox: Inbox,
) -> Outcome {
    let mut commands = Commands::new(Arc::clone(&entry), Arc::clone(&services), definition, mailbox.clone());
    // From now on the job is told of lost executors, before it can hold any of their slots.
    services.manager.start_job(entry.id, mailbox);
    step(&entry, &services, &mut core, &mut commands, JobEvent::Start);
    loop {
        let began = Instant::now();
        entry.publish(core.snapshot(now_ms()));
        let interval = PUBLISH_INTERVAL.max(began.elapsed() * 4);
        let Some(event) = inbox.next().await else { return Outcome::Suspended };
        let began = Instant::now();
        let mut next = Some(event);
        while let Some(event) = next {
            step(&entry, &services, &mut core, &mut commands, event);
            let status = core.status();
            if status == JobStatus::Suspended {
                entry.publish(core.snapshot(now_ms()));
                return Outcome::Suspended;
            }
            if status.is_globally_terminal() {
                return Outcome::Ended(Box::new(core.snapshot(now_ms())), commands.into_outside());
            }
            next = if began.elapsed() < interval { inbox.try_next() } else { None };
        }
        tokio::task::yield_now().await;
    }
}

fn step(entry: &JobEntry, services: &Services, core: &mut JobCore, commands: &mut Commands, event: JobEvent) {
    let lost = match &event {
        JobEvent::ExecutorLost { executor, .. } => Some(executor.clone()),
        _ => None,
    };
    for command in core.handle(event, now_ms()) {
        commands.execute(command);
    }
    if let Some(executor) = lost {
        // Whatever the job says of this name from now on means an executor that registered later.
        services.manager.loss_seen(entry.id, &executor);
    }
}
