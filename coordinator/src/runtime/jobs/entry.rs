//! A job as the Dispatcher sees it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio_util::sync::CancellationToken;

use super::mailbox::Mailbox;
use super::sparse;
use crate::core::event::JobEvent;
use crate::core::snapshot::JobSnapshot;
use crate::core::status::JobStatus;
use crate::graph::JobId;
use crate::runtime::clock::now_ms;

/// Why a job's initialization was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The user cancelled the job.
    Cancel,
    /// The coordinator stops.
    Suspend,
}

enum Phase {
    /// No JobMaster yet.
    Initializing { stopped: Option<Stop> },
    /// The JobMaster takes events.
    Serving(Mailbox),
    /// It has ended like this; perhaps not recorded yet.
    Over(JobStatus),
}

/// A job: its published snapshot, which readers take without waiting for anybody, and its phase.
pub(crate) struct JobEntry {
    pub(crate) id: JobId,
    snapshot: RwLock<Arc<JobSnapshot>>,
    phase: Mutex<Phase>,
    stop: CancellationToken,
    left: CancellationToken,
}

impl JobEntry {
    /// A job that is INITIALIZING.
    pub(crate) fn new(snapshot: JobSnapshot) -> Arc<Self> {
        Self::in_phase(snapshot, Phase::Initializing { stopped: None })
    }

    /// A job that ended under an earlier leader.
    pub(crate) fn ended(snapshot: JobSnapshot) -> Arc<Self> {
        let phase = Phase::Over(snapshot.status);
        let entry = Self::in_phase(snapshot, phase);
        entry.leave();
        entry
    }

    fn in_phase(snapshot: JobSnapshot, phase: Phase) -> Arc<Self> {
        Arc::new(Self {
            id: snapshot.id,
            snapshot: RwLock::new(Arc::new(snapshot)),
            phase: Mutex::new(phase),
            stop: CancellationToken::new(),
            left: CancellationToken::new(),
        })
    }

    /// The newest snapshot.
    pub(crate) fn snapshot(&self) -> Arc<JobSnapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the snapshot.
    pub(crate) fn publish(&self, snapshot: JobSnapshot) {
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends when the initialization is to be stopped.
    pub(crate) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Why the initialization was stopped, if it was.
    pub(crate) fn why_stopped(&self) -> Option<Stop> {
        match *self.phase() {
            Phase::Initializing { stopped } => stopped,
            _ => None,
        }
    }

    /// The JobMaster exists: events go to `mailbox` from now on.
    ///
    /// # Errors
    /// The initialization was stopped a moment ago.
    pub(crate) fn serve(&self, mailbox: Mailbox) -> Result<(), Stop> {
        let mut phase = self.phase();
        if let Phase::Initializing { stopped: Some(stop) } = *phase {
            return Err(stop);
        }
        *phase = Phase::Serving(mailbox);
        Ok(())
    }

    /// The job ended; nothing can change that any more.
    pub(crate) fn over(&self, status: JobStatus) {
        *self.phase() = Phase::Over(status);
    }

    /// How the job ended, if it has.
    pub(crate) fn end(&self) -> Option<JobStatus> {
        match *self.phase() {
            Phase::Over(status) => Some(status),
            _ => None,
        }
    }

    /// Stops the job: at once while it is INITIALIZING, else through its JobMaster. Nothing happens once it is over.
    pub(crate) fn stop(&self, stop: Stop) {
        let mut phase = self.phase();
        match &mut *phase {
            Phase::Initializing { stopped } => {
                // A cancellation is never taken back by a suspension.
                stopped.get_or_insert(stop);
                self.stop.cancel();
                if *stopped == Some(Stop::Cancel) {
                    self.publish(sparse::in_status(&self.snapshot(), JobStatus::Cancelling, now_ms()));
                }
            }
            Phase::Serving(mailbox) => mailbox.control(match stop {
                Stop::Cancel => JobEvent::Cancel,
                Stop::Suspend => JobEvent::Suspend,
            }),
            Phase::Over(_) => {}
        }
    }

    /// The job's own task has nothing more to do that somebody must wait for.
    pub(crate) fn leave(&self) {
        self.left.cancel();
    }

    /// Waits until then.
    pub(crate) async fn gone(&self) {
        self.left.cancelled().await;
    }
}
