//! A job as the Dispatcher sees it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

use tokio_util::sync::CancellationToken;

use super::mailbox::Mailbox;
use super::sparse;
use crate::core::event::{FailureId, JobEvent};
use crate::core::snapshot::{ExceptionEntry, JobSnapshot};
use crate::core::status::JobStatus;
use crate::graph::{FailureLabels, JobId};
use crate::runtime::clock::now_ms;

/// Failures whose labels are kept, newest first: more than an exception history holds.
const LABELLED_FAILURES: usize = 4_096;

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

/// What readers are given, and what failure enrichers have said: of a failure that is not published yet, too.
struct Published {
    snapshot: Arc<JobSnapshot>,
    labels: BTreeMap<FailureId, FailureLabels>,
}

impl Published {
    /// Takes `snapshot`, with all labels that are known.
    fn set(&mut self, mut snapshot: JobSnapshot) {
        let fill = |entry: &mut ExceptionEntry| {
            if let Some(labels) = entry.id.and_then(|id| self.labels.get(&id)) {
                entry.labels.clone_from(labels);
            }
        };
        for root in &mut snapshot.exceptions {
            fill(root);
            root.concurrent.iter_mut().for_each(fill);
        }
        self.snapshot = Arc::new(snapshot);
    }
}

/// A job: its published snapshot, which readers take without waiting for anybody, and its phase.
pub(crate) struct JobEntry {
    pub(crate) id: JobId,
    published: RwLock<Published>,
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
            published: RwLock::new(Published { snapshot: Arc::new(snapshot), labels: BTreeMap::new() }),
            phase: Mutex::new(phase),
            stop: CancellationToken::new(),
            left: CancellationToken::new(),
        })
    }

    /// The newest snapshot.
    pub(crate) fn snapshot(&self) -> Arc<JobSnapshot> {
        Arc::clone(&self.published.read().unwrap_or_else(PoisonError::into_inner).snapshot)
    }

    /// Replaces the snapshot.
    pub(crate) fn publish(&self, snapshot: JobSnapshot) {
        self.published().set(snapshot);
    }

    /// Adds labels to a failure, which may be published only later. The job may be over.
    pub(crate) fn label(&self, failure: FailureId, labels: FailureLabels) {
        let mut published = self.published();
        published.labels.entry(failure).or_default().extend(labels);
        while published.labels.len() > LABELLED_FAILURES {
            published.labels.pop_first();
        }
        let snapshot = JobSnapshot::clone(&published.snapshot);
        published.set(snapshot);
    }

    fn published(&self) -> RwLockWriteGuard<'_, Published> {
        self.published.write().unwrap_or_else(PoisonError::into_inner)
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
