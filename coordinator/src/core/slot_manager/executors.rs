//! Executors and who holds their slots.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::SlotCounts;
use crate::core::event::{AllocatedSlot, SlotId, SlotRequestId, SlotWish};
use crate::graph::{ExecutorId, JobId, JobKind};

/// Who holds a slot, and by which request it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) job: JobId,
    pub(super) request: SlotRequestId,
    /// Of the job.
    pub(super) kind: JobKind,
}

#[derive(Debug, Clone)]
struct Executor {
    data_address: String,
    slots: Vec<Option<Holder>>,
}

impl Executor {
    fn used(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_some()).count()
    }

    fn has_free(&self) -> bool {
        self.slots.iter().any(Option::is_none)
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Executors(BTreeMap<ExecutorId, Executor>);

impl Executors {
    pub(super) fn add(&mut self, id: ExecutorId, slots: u32, data_address: String) {
        self.0.insert(id, Executor { data_address, slots: vec![None; slots as usize] });
    }

    pub(super) fn remove(&mut self, id: &ExecutorId) -> Vec<(JobId, SlotId)> {
        let Some(executor) = self.0.remove(id) else { return Vec::new() };
        let slot = |index| SlotId { executor: id.clone(), index };
        (0..).zip(executor.slots).filter_map(|(index, holder)| Some((holder?.job, slot(index)))).collect()
    }

    pub(super) fn total(&self) -> usize {
        self.0.values().map(|executor| executor.slots.len()).sum()
    }

    /// Slots that are free, or held by jobs whose tasks end by themselves.
    pub(super) fn free_some_time(&self) -> usize {
        let ends = |slot: &&Option<Holder>| slot.is_none_or(|holder| holder.kind == JobKind::Batch);
        self.0.values().flat_map(|executor| &executor.slots).filter(ends).count()
    }

    pub(super) fn counts(&self) -> BTreeMap<ExecutorId, SlotCounts> {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let counts =
            |executor: &Executor| SlotCounts { total: count(executor.slots.len()), used: count(executor.used()) };
        self.0.iter().map(|(id, executor)| (id.clone(), counts(executor))).collect()
    }

    pub(super) fn free(&mut self, job: JobId, slot: &SlotId) {
        let Some(executor) = self.0.get_mut(&slot.executor) else { return };
        let Some(holder) = executor.slots.get_mut(slot.index as usize) else { return };
        holder.take_if(|holder| holder.job == job);
    }

    pub(super) fn free_where(&mut self, is_freed: impl Fn(&Holder) -> bool) {
        for slot in self.0.values_mut().flat_map(|executor| &mut executor.slots) {
            slot.take_if(|holder| is_freed(holder));
        }
    }

    /// One slot for each wish, in order, or nothing.
    pub(super) fn allocate(&mut self, wishes: &[SlotWish], holder: Holder) -> Option<Vec<AllocatedSlot>> {
        let free: usize = self.0.values().map(|executor| executor.slots.len() - executor.used()).sum();
        if free < wishes.len() {
            return None;
        }
        // The pickiest wishes first, so that the others do not take what these could have had.
        let mut order: Vec<usize> = (0..wishes.len()).collect();
        order.sort_by_key(|&wish| Reverse(wishes[wish].avoid.len()));
        let mut slots: Vec<Option<AllocatedSlot>> = vec![None; wishes.len()];
        for wish in order {
            slots[wish] = self.take(&wishes[wish].avoid, holder);
        }
        slots.into_iter().collect()
    }

    /// A slot of the least used executor, if possible not one of `avoid`.
    fn take(&mut self, avoid: &[ExecutorId], holder: Holder) -> Option<AllocatedSlot> {
        let candidates = self.0.iter_mut().filter(|(_, executor)| executor.has_free());
        let (id, executor) =
            candidates.min_by_key(|(id, executor)| (avoid.contains(id), executor.used(), (*id).clone()))?;
        let (index, slot) = (0..).zip(&mut executor.slots).find(|(_, slot)| slot.is_none())?;
        *slot = Some(holder);
        let slot = SlotId { executor: id.clone(), index };
        Some(AllocatedSlot { slot, data_address: executor.data_address.clone() })
    }
}
