//! Region scheduling: which regions start, and the slots they hold.

use std::collections::{BTreeMap, BTreeSet};

use super::JobCore;
use super::failure::Failure;
use super::region_inputs::RegionInputs;
use crate::core::event::{AllocatedSlot, JobCommand, SlotId, SlotRequestId, SlotWish};
use crate::core::regions::{RegionIndex, Regions};
use crate::core::status::{ExecutionState, JobStatus};
use crate::core::topology::{TaskIndex, Topology};
use crate::graph::ExecutorId;

/// What is scheduled and what it holds.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) inputs: RegionInputs,
    /// Regions that may have become consumable; looked at when the event is handled.
    pub(super) candidates: BTreeSet<RegionIndex>,
    /// By region: scheduled and not reset since.
    scheduled: Vec<bool>,
    /// Requests that are not answered yet.
    requests: BTreeMap<SlotRequestId, RegionIndex>,
    /// The open request of each region.
    request_of: BTreeMap<RegionIndex, SlotRequestId>,
    /// Slots held, with the number of tasks in each that have not ended.
    slots: BTreeMap<SlotId, u32>,
    next_request: u64,
}

impl Schedule {
    pub(super) fn new(topology: &Topology, regions: &Regions) -> Self {
        Self {
            inputs: RegionInputs::new(topology, regions),
            candidates: BTreeSet::new(),
            scheduled: vec![false; regions.count()],
            requests: BTreeMap::new(),
            request_of: BTreeMap::new(),
            slots: BTreeMap::new(),
            next_request: 0,
        }
    }

    fn take_request(&mut self, request: SlotRequestId) -> Option<RegionIndex> {
        let region = self.requests.remove(&request)?;
        self.request_of.remove(&region);
        Some(region)
    }

    /// The executor took its slots with it: there is nothing to return.
    pub(super) fn forget_slots_on(&mut self, executor: &ExecutorId) {
        self.slots.retain(|slot, _| slot.executor != *executor);
    }
}

impl JobCore {
    /// Schedules the candidates that can start, upstream first.
    pub(super) fn schedule_candidates(&mut self) {
        let candidates = std::mem::take(&mut self.schedule.candidates);
        if candidates.is_empty() || !matches!(self.status, JobStatus::Running | JobStatus::Restarting) {
            return;
        }
        let again = self.groups_produced_again();
        let is_ready = |&region: &RegionIndex| self.can_schedule(region) && !self.reads_any(region, &again);
        let mut ready: Vec<RegionIndex> = candidates.into_iter().filter(is_ready).collect();
        ready.sort_by_key(|&region| self.regions.tasks(region).first().copied());
        for region in ready {
            self.schedule_region(region);
        }
    }

    /// FLINK-21707: a region whose tasks are not all CREATED is not touched, however often its producers finish.
    fn can_schedule(&self, region: RegionIndex) -> bool {
        !self.schedule.scheduled[region.0 as usize]
            && self.regions.tasks(region).iter().all(|&task| self.state(task) == ExecutionState::Created)
            && self.is_consumable(region)
    }

    fn schedule_region(&mut self, region: RegionIndex) {
        self.schedule.scheduled[region.0 as usize] = true;
        let tasks = self.regions.tasks(region).to_vec();
        let mut wishes: BTreeMap<u32, BTreeSet<ExecutorId>> = BTreeMap::new();
        for &task in &tasks {
            self.set_state(task, ExecutionState::Scheduled);
            let wish = wishes.entry(self.topology.location(task).1).or_default();
            wish.extend(self.lately_failed_on(task).cloned());
        }
        let request = SlotRequestId(self.schedule.next_request);
        self.schedule.next_request += 1;
        self.schedule.requests.insert(request, region);
        self.schedule.request_of.insert(region, request);
        let slots = wishes.into_values().map(|avoid| SlotWish { avoid: avoid.into_iter().collect() }).collect();
        self.out.push(JobCommand::RequestSlots { request, slots });
    }

    /// Where the attempt before this one failed.
    fn lately_failed_on(&self, task: TaskIndex) -> Option<&ExecutorId> {
        let before = self.task(task).earlier.back()?;
        before.executor().filter(|_| before.state() == ExecutionState::Failed)
    }

    pub(super) fn slots_allocated(&mut self, request: SlotRequestId, slots: Vec<AllocatedSlot>) {
        // P077, P078: a request that was cancelled meanwhile is unknown here; who cancels it returns its slots.
        let Some(region) = self.schedule.take_request(request) else { return };
        let tasks = self.regions.tasks(region).to_vec();
        let subtasks: BTreeSet<u32> = tasks.iter().map(|&task| self.topology.location(task).1).collect();
        if subtasks.len() != slots.len() {
            let reason = format!("{} slots were granted where {} are needed", slots.len(), subtasks.len());
            self.out.extend(slots.into_iter().map(|granted| JobCommand::FreeSlot(granted.slot)));
            self.fail_unplaced(region, &reason);
            return;
        }
        let by_subtask: BTreeMap<u32, AllocatedSlot> = subtasks.into_iter().zip(slots).collect();
        for &task in &tasks {
            let AllocatedSlot { slot, data_address } = by_subtask[&self.topology.location(task).1].clone();
            *self.schedule.slots.entry(slot.clone()).or_default() += 1;
            let attempt = &mut self.task_mut(task).current;
            attempt.slot = Some(slot);
            attempt.endpoint = Some(data_address);
        }
        self.deploy_region(&tasks);
    }

    pub(super) fn slot_request_failed(&mut self, request: SlotRequestId, reason: &str) {
        if let Some(region) = self.schedule.take_request(request) {
            self.fail_unplaced(region, reason);
        }
    }

    /// P075: an ordinary, restartable failure of a task of the region.
    fn fail_unplaced(&mut self, region: RegionIndex, reason: &str) {
        let Some(&task) = self.regions.tasks(region).first() else { return };
        let failure = Failure::no_resources(reason, self.now);
        self.fail_before_deployment(task, failure);
    }

    /// P093, P094, P130: withdraws the open requests of these tasks' regions, before any slot comes back that could
    /// be granted to them.
    pub(super) fn cancel_slot_requests(&mut self, tasks: &[TaskIndex]) {
        let regions: BTreeSet<RegionIndex> = tasks.iter().map(|&task| self.regions.region_of(task)).collect();
        for region in regions {
            if let Some(request) = self.schedule.request_of.remove(&region) {
                self.schedule.requests.remove(&request);
                self.out.push(JobCommand::CancelSlotRequest(request));
            }
        }
    }

    /// The task's attempt has ended: its slot is returned once nothing runs in it.
    pub(super) fn leave_slot(&mut self, task: TaskIndex) {
        let Some(slot) = self.task(task).current.slot.clone() else { return };
        let Some(tasks) = self.schedule.slots.get_mut(&slot) else { return };
        *tasks -= 1;
        if *tasks == 0 {
            self.schedule.slots.remove(&slot);
            self.out.push(JobCommand::FreeSlot(slot));
        }
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
