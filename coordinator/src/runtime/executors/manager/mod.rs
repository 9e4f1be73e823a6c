//! The registry of executors, jobs and data sets of the cluster.
//!
//! One lock, held for moments and never across a wait. What happens under it happens in one order for everybody: a
//! job's control queue receives grants and losses in exactly the order in which they were decided here.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::connection::Connection;
use crate::core::data_sets::{ClusterPartition, DataSets};
use crate::core::event::{JobEvent, SlotId, SlotRequestId, SlotWish};
use crate::core::slot_manager::{Grant, SlotManager, TimedOut};
use crate::graph::{ExecutorId, JobId, JobKind};
use crate::rest::cluster::ExecutorView;
use crate::runtime::clock::now_ms;
use crate::runtime::jobs::mailbox::Mailbox;
use crate::runtime::protocol::{Hello, ToExecutor};

mod data_sets;

/// Silence after which a name in use may be taken over, in heartbeat intervals: a living executor sends one each.
const DEAD_AFTER_INTERVALS: u32 = 2;

/// Most slots of one executor; more is a mistake.
const MAX_SLOTS: u32 = 4_096;

/// Where events of a job go.
pub(crate) enum Route {
    /// To its JobMaster.
    To(Mailbox),
    /// The job is INITIALIZING, or being cleaned up: nothing of it can run.
    NotStarted,
    /// There is no such job.
    Unknown,
}

struct Executor {
    connection: Connection,
    pid: u32,
    path: String,
    data_address: String,
    partitions: u32,
}

/// An executor has been told to promote a job's partitions. Dropped once it has, or is lost, which somebody waits for.
struct Promotion {
    job: JobId,
    executor: ExecutorId,
    _done: oneshot::Sender<()>,
}

#[derive(Default)]
struct State {
    slots: SlotManager,
    executors: BTreeMap<ExecutorId, Executor>,
    jobs: BTreeMap<JobId, Option<Mailbox>>,
    /// Losses that a job was told of and has not handled yet, by count. Until then what it says about that executor
    /// means the lost one, not one that has registered under the same name since.
    unseen_losses: BTreeMap<(JobId, ExecutorId), u32>,
    data_sets: DataSets,
    promotions: Vec<Promotion>,
}

/// The resource manager. Its calls never wait.
pub(crate) struct ResourceManager {
    state: Mutex<State>,
    session: OnceLock<u64>,
    heartbeat_interval: Duration,
    heartbeat_timeout: Duration,
}

impl ResourceManager {
    pub(crate) fn new(heartbeat_interval: Duration, heartbeat_timeout: Duration) -> Self {
        Self { state: Mutex::default(), session: OnceLock::new(), heartbeat_interval, heartbeat_timeout }
    }

    /// Heartbeat interval and time-out.
    pub(crate) fn heartbeat(&self) -> (Duration, Duration) {
        (self.heartbeat_interval, self.heartbeat_timeout)
    }

    /// Executors may register from now on, for this leader session.
    pub(crate) fn lead(&self, session: u64) {
        let _ = self.session.set(session);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an executor; answers the leader session. A name in use is taken over if the old connection is dead.
    ///
    /// # Errors
    /// Why it was refused.
    pub(crate) fn register(&self, hello: &Hello, path: String, connection: Connection) -> Result<u64, String> {
        let session = *self.session.get().ok_or("this coordinator does not lead")?;
        if hello.slots == 0 || hello.slots > MAX_SLOTS {
            return Err(format!("it offers {} slots; from 1 to {MAX_SLOTS} are possible", hello.slots));
        }
        let mut state = self.lock();
        let id = &hello.executor;
        if let Some(old) = state.executors.get(id).map(|old| old.connection.clone()) {
            let silent = Duration::from_millis(now_ms().saturating_sub(old.last_heard_ms()));
            if !old.is_closed() && silent <= self.heartbeat_interval * DEAD_AFTER_INTERVALS {
                return Err(format!(
                    "the name {id} is in use; its executor was heard of {} ms ago",
                    silent.as_millis()
                ));
            }
            old.close("another executor has registered under its name");
            state.remove(id, "another executor has registered under its name");
        }
        let Hello { slots, data_address, pid, .. } = hello;
        let executor = Executor { connection, pid: *pid, path, data_address: data_address.clone(), partitions: 0 };
        state.executors.insert(id.clone(), executor);
        let grants = state.slots.executor_added(id.clone(), *slots, data_address.clone());
        state.grant(grants);
        Ok(session)
    }

    /// The executor of this connection is gone: its slots with it, and every job is told. Does nothing if another
    /// connection has taken its place.
    pub(crate) fn lost(&self, id: &ExecutorId, connection: &Connection, reason: &str) {
        let mut state = self.lock();
        if state.executors.get(id).is_some_and(|executor| executor.connection.same(connection)) {
            state.remove(id, reason);
        }
    }

    /// Keeps what a heartbeat says.
    pub(crate) fn heard(
        &self,
        id: &ExecutorId,
        connection: &Connection,
        partitions: u32,
        cluster_partitions: &[ClusterPartition],
    ) {
        let mut state = self.lock();
        if let Some(executor) = state.executors.get_mut(id)
            && executor.connection.same(connection)
        {
            executor.partitions = partitions;
            let releases = state.data_sets.report(id, cluster_partitions);
            state.release(releases);
        }
    }

    /// Makes a job known; its tasks' messages are dropped until [`Self::start_job`].
    pub(crate) fn add_job(&self, job: JobId) {
        self.lock().jobs.entry(job).or_default();
    }

    /// The job's JobMaster exists.
    pub(crate) fn start_job(&self, job: JobId, mailbox: Mailbox) {
        self.lock().jobs.insert(job, Some(mailbox));
    }

    /// The job is over for this coordinator: its slots are free, executors delete what they have of it.
    pub(crate) fn remove_job(&self, job: JobId) {
        let mut state = self.lock();
        state.jobs.remove(&job);
        state.unseen_losses.retain(|(of, _), _| *of != job);
        for executor in state.executors.values() {
            executor.connection.send(ToExecutor::ReleaseJob(job));
        }
        let grants = state.slots.job_removed(job);
        state.grant(grants);
    }

    /// Where events of `job` go.
    pub(crate) fn route(&self, job: JobId) -> Route {
        match self.lock().jobs.get(&job) {
            Some(Some(mailbox)) => Route::To(mailbox.clone()),
            Some(None) => Route::NotStarted,
            None => Route::Unknown,
        }
    }

    /// A job of this kind wants slots; the grant comes to its mailbox, perhaps at once.
    pub(crate) fn request_slots(&self, job: JobId, kind: JobKind, request: SlotRequestId, wishes: Vec<SlotWish>) {
        let mut state = self.lock();
        if state.jobs.contains_key(&job) {
            let grants = state.slots.request(job, kind, request, wishes);
            state.grant(grants);
        }
    }

    /// Forgets a request, or takes back what was granted to it.
    pub(crate) fn cancel_request(&self, job: JobId, request: SlotRequestId) {
        let mut state = self.lock();
        let grants = state.slots.cancel(job, request);
        state.grant(grants);
    }

    /// `after` has passed since the request was made, or since the last call: fails it if it still waits, unless
    /// slots for it will become free by themselves. True if it is to be looked at again after as long.
    pub(crate) fn time_out_request(&self, job: JobId, request: SlotRequestId, after: Duration) -> bool {
        let mut state = self.lock();
        let timed_out = state.slots.time_out(job, request);
        if timed_out == TimedOut::GivenUp {
            let grants = state.slots.cancel(job, request);
            state.grant(grants);
            let free: u32 = state.slots.counts().values().map(|counts| counts.total - counts.used).sum();
            let reason = format!(
                "the requested slots were not free within {} ms (`slot.request.timeout`); {free} free slots on {} executors",
                after.as_millis(),
                state.executors.len()
            );
            state.tell(job, JobEvent::SlotRequestFailed { request, reason });
        }
        timed_out == TimedOut::Extended
    }

    /// A job returns a slot.
    pub(crate) fn free_slot(&self, job: JobId, slot: &SlotId) {
        let mut state = self.lock();
        if state.sees(job, &slot.executor) {
            let grants = state.slots.free(job, slot);
            state.grant(grants);
        }
    }

    /// A job has handled the loss of an executor.
    pub(crate) fn loss_seen(&self, job: JobId, executor: &ExecutorId) {
        let mut state = self.lock();
        let key = (job, executor.clone());
        if let Some(count) = state.unseen_losses.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                state.unseen_losses.remove(&key);
            }
        }
    }

    /// Sends a job's message. Dropped when the executor it means is gone: the job learns of that by the loss, which
    /// is in its queue already or was handled.
    pub(crate) fn send(&self, job: JobId, executor: &ExecutorId, message: ToExecutor) {
        let state = self.lock();
        if state.sees(job, executor)
            && let Some(executor) = state.executors.get(executor)
        {
            executor.connection.send(message);
        }
    }

    /// All executors, by name.
    pub(crate) fn executors(&self) -> Vec<ExecutorView> {
        let state = self.lock();
        let counts = state.slots.counts();
        let view = |(id, executor): (&ExecutorId, &Executor)| {
            let (slots, used) = counts.get(id).map_or((0, 0), |counts| (counts.total, counts.used));
            ExecutorView {
                id: id.clone(),
                pid: executor.pid,
                path: executor.path.clone(),
                data_address: executor.data_address.clone(),
                last_heartbeat_ms: executor.connection.last_heard_ms(),
                slots,
                free_slots: slots - used,
                partitions: executor.partitions,
            }
        };
        state.executors.iter().map(view).collect()
    }
}

impl State {
    fn remove(&mut self, id: &ExecutorId, reason: &str) {
        self.executors.remove(id);
        self.promotions.retain(|promotion| promotion.executor != *id);
        let releases = self.data_sets.executor_lost(id);
        self.release(releases);
        self.slots.executor_removed(id);
        let started: Vec<JobId> =
            self.jobs.iter().filter(|(_, mailbox)| mailbox.is_some()).map(|(id, _)| *id).collect();
        for job in started {
            *self.unseen_losses.entry((job, id.clone())).or_default() += 1;
            self.tell(job, JobEvent::ExecutorLost { executor: id.clone(), reason: reason.to_owned() });
        }
    }

    fn grant(&mut self, grants: Vec<Grant>) {
        for Grant { job, request, slots } in grants {
            self.tell(job, JobEvent::SlotsAllocated { request, slots });
        }
    }

    fn tell(&self, job: JobId, event: JobEvent) {
        if let Some(Some(mailbox)) = self.jobs.get(&job) {
            mailbox.control(event);
        }
    }

    /// The job knows of every loss of this executor name.
    fn sees(&self, job: JobId, executor: &ExecutorId) -> bool {
        !self.unseen_losses.contains_key(&(job, executor.clone()))
    }
}

#[cfg(test)]
mod tests;
