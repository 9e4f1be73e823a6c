//! Slot sharing: which tasks use one slot, and the slots that the job holds or has asked for (reference 4.8).
//!
//! A slot holds one subtask of each vertex of a slot sharing group: those of one number. All vertices of a streaming
//! job are one group, whatever regions they are in: it needs as many slots as its widest vertex has subtasks, and a
//! region that restarts alone goes back to the slots that the others are in. In a batch job each region is a group of
//! its own (as in Flink): its regions run one after the other, and a slot is free again once its region has ended.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::event::{AllocatedSlot, SlotId, SlotRequestId};
use crate::core::regions::RegionIndex;
use crate::graph::{ExecutorId, JobKind};

/// Tasks that use the same slot: subtasks of one number in one slot sharing group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Share {
    /// The region in a batch job; the same for all in a streaming job.
    group: u32,
    subtask: u32,
}

/// Where the slot of a share is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Here; one more task is in it now.
    Held(AllocatedSlot),
    /// Asked for, by a request that the region waits for now.
    Asked,
    /// Nowhere: it is to be asked for.
    Nowhere,
}

#[derive(Debug)]
struct Held {
    granted: AllocatedSlot,
    /// In it that have not ended.
    tasks: u32,
}

/// A request that is not answered yet.
#[derive(Debug)]
pub(super) struct Request {
    /// What was asked for, in the order of the wishes.
    pub(super) shares: Vec<Share>,
    /// Who waits for it. Never nobody.
    pub(super) regions: BTreeSet<RegionIndex>,
}

/// The slots of one job.
#[derive(Debug)]
pub(super) struct SharedSlots {
    kind: JobKind,
    held: BTreeMap<Share, Held>,
    asked: BTreeMap<Share, SlotRequestId>,
    requests: BTreeMap<SlotRequestId, Request>,
    /// What each region waits for.
    waits: BTreeMap<RegionIndex, BTreeSet<SlotRequestId>>,
    next_request: u64,
}

impl SharedSlots {
    /// None, of a job of this kind.
    pub(super) fn new(kind: JobKind) -> Self {
        Self {
            kind,
            held: BTreeMap::new(),
            asked: BTreeMap::new(),
            requests: BTreeMap::new(),
            waits: BTreeMap::new(),
            next_request: 0,
        }
    }

    /// The share of subtask number `subtask` of a vertex in `region`.
    pub(super) fn share(&self, region: RegionIndex, subtask: u32) -> Share {
        match self.kind {
            JobKind::Streaming => Share { group: 0, subtask },
            JobKind::Batch => Share { group: region.0, subtask },
        }
    }

    /// A task of `region` is to use the slot of `share`.
    pub(super) fn enter(&mut self, share: Share, region: RegionIndex) -> Place {
        if let Some(held) = self.held.get_mut(&share) {
            held.tasks += 1;
            return Place::Held(held.granted.clone());
        }
        let Some(&request) = self.asked.get(&share) else { return Place::Nowhere };
        if let Some(asked) = self.requests.get_mut(&request) {
            asked.regions.insert(region);
            self.waits.entry(region).or_default().insert(request);
        }
        Place::Asked
    }

    /// A new request for these shares, each [nowhere](Place::Nowhere), that `region` waits for.
    pub(super) fn ask(&mut self, shares: Vec<Share>, region: RegionIndex) -> SlotRequestId {
        let request = SlotRequestId(self.next_request);
        self.next_request += 1;
        self.asked.extend(shares.iter().map(|&share| (share, request)));
        self.requests.insert(request, Request { shares, regions: BTreeSet::from([region]) });
        self.waits.entry(region).or_default().insert(request);
        request
    }

    /// Whether all slots of the region, once it was scheduled, are here.
    pub(super) fn is_complete(&self, region: RegionIndex) -> bool {
        !self.waits.contains_key(&region)
    }

    /// The request is answered: nobody waits for it any more. `None` if it was withdrawn.
    pub(super) fn take(&mut self, request: SlotRequestId) -> Option<Request> {
        let taken = self.requests.remove(&request)?;
        taken.shares.iter().for_each(|share| _ = self.asked.remove(share));
        for &region in &taken.regions {
            self.waits_no_more(region, request);
        }
        Some(taken)
    }

    fn waits_no_more(&mut self, region: RegionIndex, request: SlotRequestId) {
        if let Some(waits) = self.waits.get_mut(&region) {
            waits.remove(&request);
            if waits.is_empty() {
                self.waits.remove(&region);
            }
        }
    }

    /// A slot came, with nothing in it yet.
    pub(super) fn hold(&mut self, share: Share, granted: AllocatedSlot) {
        self.held.insert(share, Held { granted, tasks: 0 });
    }

    /// Gives back the slot of `share` if nothing is in it.
    pub(super) fn return_unused(&mut self, share: Share) -> Option<SlotId> {
        self.held.get(&share).filter(|held| held.tasks == 0)?;
        self.held.remove(&share).map(|held| held.granted.slot)
    }

    /// A task that was in `slot` has ended. Answers the slot if that was the last one in it.
    pub(super) fn leave(&mut self, share: Share, slot: &SlotId) -> Option<SlotId> {
        let held = self.held.get_mut(&share).filter(|held| held.granted.slot == *slot)?;
        held.tasks -= 1;
        self.return_unused(share)
    }

    /// The region waits for nothing any more. Answers the requests that nobody waits for now: they are forgotten.
    pub(super) fn withdraw(&mut self, region: RegionIndex) -> Vec<SlotRequestId> {
        let mut withdrawn = Vec::new();
        for request in self.waits.remove(&region).unwrap_or_default() {
            let Some(asked) = self.requests.get_mut(&request) else { continue };
            asked.regions.remove(&region);
            if asked.regions.is_empty() {
                self.take(request);
                withdrawn.push(request);
            }
        }
        withdrawn
    }

    /// The executor took its slots with it: there is nothing to return.
    pub(super) fn forget(&mut self, executor: &ExecutorId) {
        self.held.retain(|_, held| held.granted.slot.executor != *executor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(executor: &str) -> AllocatedSlot {
        let slot = SlotId { executor: ExecutorId(executor.into()), index: 0 };
        AllocatedSlot { slot, data_address: String::new() }
    }

    #[test]
    fn a_streaming_job_shares_over_regions_and_a_batch_job_within_one() {
        let (first, second) = (RegionIndex(0), RegionIndex(1));
        let streaming = SharedSlots::new(JobKind::Streaming);
        assert_eq!(streaming.share(first, 1), streaming.share(second, 1));
        assert_ne!(streaming.share(first, 1), streaming.share(first, 0));
        let batch = SharedSlots::new(JobKind::Batch);
        assert_ne!(batch.share(first, 1), batch.share(second, 1));
    }

    #[test]
    fn a_request_is_withdrawn_with_the_last_region_that_waits_for_it() {
        let mut slots = SharedSlots::new(JobKind::Streaming);
        let (first, second) = (RegionIndex(0), RegionIndex(1));
        let share = slots.share(first, 0);
        assert_eq!(slots.enter(share, first), Place::Nowhere);
        let request = slots.ask(vec![share], first);
        assert_eq!(slots.enter(share, second), Place::Asked);
        assert_eq!(slots.withdraw(first), []);
        assert!(slots.is_complete(first) && !slots.is_complete(second));
        assert_eq!(slots.withdraw(second), [request]);
        assert!(slots.take(request).is_none());
        assert_eq!(slots.enter(share, second), Place::Nowhere, "it can be asked for again");
    }

    #[test]
    fn a_slot_goes_back_with_the_last_task_in_it_and_not_with_its_executor() {
        let mut slots = SharedSlots::new(JobKind::Streaming);
        let region = RegionIndex(0);
        let share = slots.share(region, 0);
        slots.hold(share, granted("e"));
        assert_eq!(slots.enter(share, region), Place::Held(granted("e")));
        assert_eq!(slots.enter(share, RegionIndex(1)), Place::Held(granted("e")));
        assert_eq!(slots.leave(share, &granted("old").slot), None, "that one was lost before");
        assert_eq!(slots.leave(share, &granted("e").slot), None);
        assert_eq!(slots.leave(share, &granted("e").slot), Some(granted("e").slot));
        assert_eq!(slots.enter(share, region), Place::Nowhere);
        slots.hold(share, granted("f"));
        assert_eq!(slots.enter(share, region), Place::Held(granted("f")));
        slots.forget(&ExecutorId("f".into()));
        assert_eq!(slots.leave(share, &granted("f").slot), None);
    }
}
