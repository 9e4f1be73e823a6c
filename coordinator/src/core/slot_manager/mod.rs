//! Which request gets which slots: the resource manager's decisions, for all executors and all jobs.
//!
//! A request is served whole or not at all: a region with half its slots could not run and would keep others from
//! running. Requests wait in one queue in the order of their arrival. Any waiting request that fits into the free
//! slots is served, so a large request does not hold up small ones behind it, with one limit: a request that was
//! overtaken [`MAX_OVERTAKEN`] times, and that the registered executors could serve if they were idle, lets nothing
//! behind it pass any more. So a steady stream of small requests cannot starve it, while one that asks for more than
//! the cluster has never blocks anybody (it ends by `slot.request.timeout`).
//!
//! A request of a streaming job ends when that time is over: what holds the slots may hold them for ever. One of a
//! batch job goes on waiting while the slots that it needs are free, or held by batch jobs, whose tasks end by
//! themselves (reference 4.8); only if there are too few of them for the whole time does it end, too.
//!
//! Slots are taken from the executor with the fewest used slots (by name among equals), so a job spreads evenly.

mod executors;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use super::event::{AllocatedSlot, SlotId, SlotRequestId, SlotWish};
use crate::graph::{ExecutorId, JobId, JobKind};
use executors::{Executors, Holder};

/// How often later requests may be served before a waiting one.
pub const MAX_OVERTAKEN: u32 = 32;

/// A served request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Whose.
    pub job: JobId,
    /// Which.
    pub request: SlotRequestId,
    /// One slot for each wish, in order.
    pub slots: Vec<AllocatedSlot>,
}

/// Slots of one executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotCounts {
    /// All it has.
    pub total: u32,
    /// Held by jobs.
    pub used: u32,
}

/// What the time-out of a request comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimedOut {
    /// It waits no more: it was served or withdrawn.
    Over,
    /// It is to wait as long again.
    Extended,
    /// It was given up: it is not served any more.
    GivenUp,
}

#[derive(Debug, Clone)]
struct Waiting {
    holder: Holder,
    wishes: Vec<SlotWish>,
    overtaken: u32,
    /// When last looked at, there were not enough slots that are free or will be.
    is_hopeless: bool,
}

impl Waiting {
    fn is(&self, job: JobId, request: SlotRequestId) -> bool {
        self.holder.job == job && self.holder.request == request
    }

    /// Slots enough are free, or become so by themselves. What a streaming job waits for, nobody can say.
    fn has_hope(&self, executors: &Executors) -> bool {
        self.holder.kind == JobKind::Batch && self.wishes.len() <= executors.free_some_time()
    }
}

/// The state of all slots and of the queue. See the [module](self).
#[derive(Debug, Clone, Default)]
pub struct SlotManager {
    executors: Executors,
    queue: VecDeque<Waiting>,
}

impl SlotManager {
    /// No executor, no request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An executor registered. One that is already known is replaced: its slots are free, whoever held them
    /// (call [`Self::executor_removed`] first to learn who).
    pub fn executor_added(&mut self, executor: ExecutorId, slots: u32, data_address: String) -> Vec<Grant> {
        self.executors.add(executor, slots, data_address);
        self.serve()
    }

    /// An executor is gone. Answers who held which of its slots, by slot. Grants nothing: there is only less.
    pub fn executor_removed(&mut self, executor: &ExecutorId) -> Vec<(JobId, SlotId)> {
        self.executors.remove(executor)
    }

    /// A job of this kind wants slots, one for each wish. A second request of the same number replaces the first while
    /// it waits, and keeps its place.
    pub fn request(&mut self, job: JobId, kind: JobKind, request: SlotRequestId, wishes: Vec<SlotWish>) -> Vec<Grant> {
        match self.queue.iter_mut().find(|waiting| waiting.is(job, request)) {
            Some(waiting) => waiting.wishes = wishes,
            None => {
                let holder = Holder { job, request, kind };
                let mut waiting = Waiting { holder, wishes, overtaken: 0, is_hopeless: false };
                waiting.is_hopeless = !waiting.has_hope(&self.executors);
                self.queue.push_back(waiting);
            }
        }
        self.serve()
    }

    /// A request's time is over, for the first time or again. Gives it up unless it has hope (see the
    /// [module](self)), or had when it was last looked at. Once it is given up, call [`Self::cancel`].
    pub fn time_out(&mut self, job: JobId, request: SlotRequestId) -> TimedOut {
        let Some(waiting) = self.queue.iter_mut().find(|waiting| waiting.is(job, request)) else {
            return TimedOut::Over;
        };
        let was_hopeless = waiting.is_hopeless;
        waiting.is_hopeless = !waiting.has_hope(&self.executors);
        if was_hopeless && waiting.is_hopeless { TimedOut::GivenUp } else { TimedOut::Extended }
    }

    /// Forgets a waiting request; frees the slots of one that was already granted, if the job still holds them.
    /// (The job cancelled before the grant reached it, and must ignore that grant: it must *not* free its slots,
    /// which may be granted anew by then.)
    pub fn cancel(&mut self, job: JobId, request: SlotRequestId) -> Vec<Grant> {
        self.queue.retain(|waiting| !waiting.is(job, request));
        self.executors.free_where(|holder| holder.job == job && holder.request == request);
        self.serve()
    }

    /// A job returns a slot. Ignored unless the job holds it.
    pub fn free(&mut self, job: JobId, slot: &SlotId) -> Vec<Grant> {
        self.executors.free(job, slot);
        self.serve()
    }

    /// A job is over: its requests and slots are given up.
    pub fn job_removed(&mut self, job: JobId) -> Vec<Grant> {
        self.queue.retain(|waiting| waiting.holder.job != job);
        self.executors.free_where(|holder| holder.job == job);
        self.serve()
    }

    /// Slots by executor.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<ExecutorId, SlotCounts> {
        self.executors.counts()
    }

    /// Number of requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Walks the queue once and serves what may be served.
    fn serve(&mut self) -> Vec<Grant> {
        let total = self.executors.total();
        let mut grants = Vec::new();
        let mut skipped: VecDeque<Waiting> = VecDeque::new();
        let mut is_blocked = false;
        for waiting in std::mem::take(&mut self.queue) {
            let holder = waiting.holder;
            let served = if is_blocked { None } else { self.executors.allocate(&waiting.wishes, holder) };
            if let Some(slots) = served {
                skipped.iter_mut().for_each(|earlier| earlier.overtaken = earlier.overtaken.saturating_add(1));
                grants.push(Grant { job: holder.job, request: holder.request, slots });
            } else {
                is_blocked |= waiting.overtaken >= MAX_OVERTAKEN && waiting.wishes.len() <= total;
                skipped.push_back(waiting);
            }
        }
        self.queue = skipped;
        grants
    }
}
