//! Region scheduling: which regions start, when they have all their slots.

use std::collections::{BTreeMap, BTreeSet};

use super::JobCore;
use super::failure::Failure;
use super::region_inputs::RegionInputs;
use super::slots::{Place, Request, Share, SharedSlots};
use crate::core::event::{AllocatedSlot, JobCommand, SlotRequestId, SlotWish};
use crate::core::regions::{RegionIndex, Regions};
use crate::core::status::{ExecutionState, JobStatus};
use crate::core::topology::{TaskIndex, Topology};
use crate::graph::{ExecutorId, JobKind};

/// What is scheduled and what it holds.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) inputs: RegionInputs,
    /// Regions that may have become consumable; looked at when the event is handled.
    pub(super) candidates: BTreeSet<RegionIndex>,
    /// By region: scheduled and not reset since.
    scheduled: Vec<bool>,
    pub(super) slots: SharedSlots,
}

impl Schedule {
    pub(super) fn new(topology: &Topology, regions: &Regions, kind: JobKind) -> Self {
        Self {
            inputs: RegionInputs::new(topology, regions),
            candidates: BTreeSet::new(),
            scheduled: vec![false; regions.count()],
            slots: SharedSlots::new(kind),
        }
    }
}

impl JobCore {
    /// Schedules the candidates that can start, upstream first. False if there are none: else what was deployed may
    /// have made others.
    pub(super) fn schedule_candidates(&mut self) -> bool {
        let candidates = std::mem::take(&mut self.schedule.candidates);
        if candidates.is_empty() || !matches!(self.status, JobStatus::Running | JobStatus::Restarting) {
            return false;
        }
        let again = self.groups_produced_again();
        let is_ready = |&region: &RegionIndex| self.can_schedule(region) && !self.reads_any(region, &again);
        let mut ready: Vec<RegionIndex> = candidates.into_iter().filter(is_ready).collect();
        ready.sort_by_key(|&region| self.regions.tasks(region).first().copied());
        for &region in &ready {
            self.schedule_region(region);
        }
        self.deploy_complete(&ready);
        true
    }

    /// FLINK-21707: a region whose tasks are not all CREATED is not touched, however often its producers finish.
    fn can_schedule(&self, region: RegionIndex) -> bool {
        !self.schedule.scheduled[region.0 as usize]
            && self.regions.tasks(region).iter().all(|&task| self.state(task) == ExecutionState::Created)
            && self.is_consumable(region)
    }

    /// Its tasks enter the slots that the job has for them already; the others are asked for.
    fn schedule_region(&mut self, region: RegionIndex) {
        self.schedule.scheduled[region.0 as usize] = true;
        let tasks = self.regions.tasks(region).to_vec();
        let mut wishes: BTreeMap<Share, BTreeSet<ExecutorId>> = BTreeMap::new();
        for &task in &tasks {
            self.set_state(task, ExecutionState::Scheduled);
            let share = self.share_of(task);
            match self.schedule.slots.enter(share, region) {
                Place::Held(granted) => self.put_into(task, granted),
                Place::Asked => {}
                Place::Nowhere => wishes.entry(share).or_default().extend(self.task(task).failed_on.clone()),
            }
        }
        if wishes.is_empty() {
            return;
        }
        let (shares, avoid): (Vec<Share>, Vec<_>) = wishes.into_iter().unzip();
        let request = self.schedule.slots.ask(shares, region);
        let slots = avoid.into_iter().map(|avoid| SlotWish { avoid: avoid.into_iter().collect() }).collect();
        self.out.push(JobCommand::RequestSlots { request, slots });
    }

    fn share_of(&self, task: TaskIndex) -> Share {
        self.schedule.slots.share(self.regions.region_of(task), self.topology.location(task).1)
    }

    fn put_into(&mut self, task: TaskIndex, granted: AllocatedSlot) {
        let attempt = &mut self.task_mut(task).current;
        attempt.slot = Some(granted.slot);
        attempt.endpoint = Some(granted.data_address);
    }

    pub(super) fn slots_allocated(&mut self, request: SlotRequestId, slots: Vec<AllocatedSlot>) {
        // P077, P078: a request that was cancelled meanwhile is unknown here; who cancels it returns its slots.
        let Some(Request { shares, regions }) = self.schedule.slots.take(request) else { return };
        if shares.len() != slots.len() {
            let reason = format!("{} slots were granted where {} are needed", slots.len(), shares.len());
            self.out.extend(slots.into_iter().map(|granted| JobCommand::FreeSlot(granted.slot)));
            self.fail_unplaced(&regions, &reason);
            return;
        }
        for (&share, granted) in shares.iter().zip(slots) {
            self.schedule.slots.hold(share, granted);
        }
        for &region in &regions {
            for task in self.regions.tasks(region).to_vec() {
                if self.task(task).current.slot.is_none()
                    && let Place::Held(granted) = self.schedule.slots.enter(self.share_of(task), region)
                {
                    self.put_into(task, granted);
                }
            }
        }
        // Of a region that no longer waits.
        let unused = shares.into_iter().filter_map(|share| self.schedule.slots.return_unused(share));
        self.out.extend(unused.map(JobCommand::FreeSlot));
        let mut regions: Vec<RegionIndex> = regions.into_iter().collect();
        regions.sort_by_key(|&region| self.regions.tasks(region).first().copied());
        self.deploy_complete(&regions);
    }

    /// Deploys those of these regions that have all their slots, in order. A failure of one may withdraw the next.
    fn deploy_complete(&mut self, regions: &[RegionIndex]) {
        for &region in regions {
            let tasks = self.regions.tasks(region).to_vec();
            let is_scheduled = tasks.iter().all(|&task| self.state(task) == ExecutionState::Scheduled);
            if is_scheduled && self.schedule.slots.is_complete(region) {
                self.deploy_region(&tasks);
            }
        }
    }

    pub(super) fn slot_request_failed(&mut self, request: SlotRequestId, reason: &str) {
        if let Some(Request { regions, .. }) = self.schedule.slots.take(request) {
            self.fail_unplaced(&regions, reason);
        }
    }

    /// P075: an ordinary, restartable failure of a task of each region, handled as one.
    fn fail_unplaced(&mut self, regions: &BTreeSet<RegionIndex>, reason: &str) {
        let unplaced = |&region: &RegionIndex| {
            self.regions.tasks(region).iter().copied().find(|&task| self.task(task).current.slot.is_none())
        };
        let failed: Vec<TaskIndex> = regions.iter().filter_map(unplaced).collect();
        for &task in &failed {
            self.fail_attempt(task, Failure::no_resources(reason, self.now));
        }
        self.handle_task_failures(&failed);
    }

    /// P093, P094, P130: withdraws the open requests of these tasks' regions, before any slot comes back that could
    /// be granted to them. A request that another region waits for, too, goes on.
    pub(super) fn cancel_slot_requests(&mut self, tasks: &[TaskIndex]) {
        let regions: BTreeSet<RegionIndex> = tasks.iter().map(|&task| self.regions.region_of(task)).collect();
        for region in regions {
            let withdrawn = self.schedule.slots.withdraw(region);
            self.out.extend(withdrawn.into_iter().map(JobCommand::CancelSlotRequest));
        }
    }

    /// The task's attempt has ended: its slot is returned once nothing of the job is in it.
    pub(super) fn leave_slot(&mut self, task: TaskIndex) {
        let Some(slot) = &self.task(task).current.slot else { return };
        let (slot, share) = (slot.clone(), self.share_of(task));
        self.out.extend(self.schedule.slots.leave(share, &slot).map(JobCommand::FreeSlot));
    }

    /// The regions of these tasks, all reset, may be scheduled again.
    pub(super) fn reschedule(&mut self, tasks: &[TaskIndex]) {
        for &task in tasks {
            let region = self.regions.region_of(task);
            self.schedule.scheduled[region.0 as usize] = false;
            self.schedule.candidates.insert(region);
        }
    }

    /// All regions are looked at once, at start.
    pub(super) fn consider_all_regions(&mut self) {
        self.schedule.candidates = self.topology.tasks().map(|task| self.regions.region_of(task)).collect();
    }
}
