//! Which request gets which slots: the resource manager's decisions, for all executors and all jobs.
//!
//! A request is served whole or not at all: a region with half its slots could not run and would keep others from
//! running. Requests wait in one queue in the order of their arrival. Any waiting request that fits into the free
//! slots is served, so a large request does not hold up small ones behind it, with one limit: a request that was
//! overtaken [`MAX_OVERTAKEN`] times, and that the registered executors could serve if they were idle, lets nothing
//! behind it pass any more. So a steady stream of small requests cannot starve it, while one that asks for more than
//! the cluster has never blocks anybody (it ends by `slot.request.timeout`).
//!
//! Slots are taken from the executor with the fewest used slots (by name among equals), so a job spreads evenly.

mod executors;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use super::event::{AllocatedSlot, SlotId, SlotRequestId, SlotWish};
use crate::graph::{ExecutorId, JobId};
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

#[derive(Debug, Clone)]
struct Waiting {
    job: JobId,
    request: SlotRequestId,
    wishes: Vec<SlotWish>,
    overtaken: u32,
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

    /// A job wants slots, one for each wish. A second request of the same number replaces the first while it waits,
    /// and keeps its place.
    pub fn request(&mut self, job: JobId, request: SlotRequestId, wishes: Vec<SlotWish>) -> Vec<Grant> {
        match self.queue.iter_mut().find(|waiting| waiting.job == job && waiting.request == request) {
            Some(waiting) => waiting.wishes = wishes,
            None => self.queue.push_back(Waiting { job, request, wishes, overtaken: 0 }),
        }
        self.serve()
    }

    /// Forgets a waiting request; frees the slots of one that was already granted, if the job still holds them.
    /// (The job cancelled before the grant reached it, and must ignore that grant: it must *not* free its slots,
    /// which may be granted anew by then.)
    pub fn cancel(&mut self, job: JobId, request: SlotRequestId) -> Vec<Grant> {
        self.queue.retain(|waiting| waiting.job != job || waiting.request != request);
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
        self.queue.retain(|waiting| waiting.job != job);
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
            let holder = Holder { job: waiting.job, request: waiting.request };
            let served = if is_blocked { None } else { self.executors.allocate(&waiting.wishes, holder) };
            if let Some(slots) = served {
                skipped.iter_mut().for_each(|earlier| earlier.overtaken = earlier.overtaken.saturating_add(1));
                grants.push(Grant { job: waiting.job, request: waiting.request, slots });
            } else {
                is_blocked |= waiting.overtaken >= MAX_OVERTAKEN && waiting.wishes.len() <= total;
                skipped.push_back(waiting);
            }
        }
        self.queue = skipped;
        grants
    }
}
