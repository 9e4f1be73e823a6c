//! The job status machine (reference 3.9): start, failing, cancelling, suspending, the end.

use super::JobCore;
use super::failure::Failure;
use crate::core::event::{FailureId, JobCommand};
use crate::core::status::{ExecutionState, JobStatus};

impl JobCore {
    /// Nothing changes any more.
    pub(super) fn is_over(&self) -> bool {
        self.status.is_globally_terminal() || self.status == JobStatus::Suspended
    }

    pub(super) fn set_status(&mut self, status: JobStatus) {
        self.status = status;
        self.timestamps.insert(status, self.now);
        self.out.push(JobCommand::StatusChanged(status));
    }

    pub(super) fn start(&mut self) {
        if self.status != JobStatus::Created {
            return;
        }
        self.set_status(JobStatus::Running);
        self.enumerate_splits();
        self.prepare_restore();
        self.consider_all_regions();
    }

    /// The job will be FAILED once everything is cancelled: failure `id` ends it, told as `failure`.
    pub(super) fn fail_job(&mut self, id: FailureId, failure: &Failure) {
        self.archive_global_failure(id, failure);
        self.wind_down(JobStatus::Failing);
    }

    /// P091, P131, P132: in every state that is not over. While FAILING it turns the end into CANCELED.
    pub(super) fn cancel(&mut self) {
        match self.status {
            JobStatus::Cancelling => {}
            _ => self.wind_down(JobStatus::Cancelling),
        }
    }

    fn wind_down(&mut self, status: JobStatus) {
        self.drop_restarts();
        self.set_status(status);
        let all: Vec<_> = self.topology.tasks().collect();
        self.cancel_slot_requests(&all);
        for &task in &all {
            self.cancel_attempt(task);
        }
        self.stop_checkpoints();
    }

    /// P136, P138: at once, from every state. The executors' connections end with the session of this leader, which
    /// stops what runs there; the requests below only make it quicker. Slots go with the session too.
    pub(super) fn suspend(&mut self) {
        self.drop_restarts();
        let all: Vec<_> = self.topology.tasks().collect();
        self.cancel_slot_requests(&all);
        for &task in &all {
            self.cancel_attempt(task);
        }
        self.stop_checkpoints();
        self.timers.clear();
        self.set_status(JobStatus::Suspended);
    }

    pub(super) fn end_if_done(&mut self) {
        let (all, terminal) = (self.tasks.len(), self.counts.terminal());
        let end = match self.status {
            // P140
            JobStatus::Running if self.counts.of(ExecutionState::Finished) == all => JobStatus::Finished,
            JobStatus::Failing if terminal == all => JobStatus::Failed,
            JobStatus::Cancelling if terminal == all => JobStatus::Canceled,
            _ => return,
        };
        self.stop_checkpoints();
        self.timers.clear();
        if end == JobStatus::Finished {
            self.promote_persistent();
        }
        self.set_status(end);
        let discard = self.take_all_checkpoints();
        self.out.push(JobCommand::JobTerminated { status: end, discard });
    }
}
