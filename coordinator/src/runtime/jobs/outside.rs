//! What is slow, beside the serial thread: timers, the store, the HA counter, user code that lists splits or labels
//! failures.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::entry::JobEntry;
use super::mailbox::Mailbox;
use crate::core::checkpoint::{CompletedCheckpoint, TaskSnapshotHandle};
use crate::core::event::{FailureId, JobEvent, StoreFailure, StoredCheckpoint};
use crate::graph::{FailureReport, JobId, SplitSource, TaskError, VertexId};
use crate::runtime::error::chain;
use crate::runtime::services::{HaFailure, Services, ha_call};
use crate::storage::CheckpointStorage;

/// Longest time to make a checkpoint durable. The store's own deadlines are shorter; this covers the HA store, too.
const STORE_DEADLINE: Duration = Duration::from_secs(120);

/// Longest time to list a source's splits.
const SPLITS_DEADLINE: Duration = Duration::from_secs(300);

/// Longest time to label a failure, the wait for a thread included.
const LABELS_DEADLINE: Duration = Duration::from_secs(10);

/// How long the clean-up of a job waits for checkpoints that are being stored.
const FINISH_DEADLINE: Duration = STORE_DEADLINE;

/// How long the end of a job waits until executors have its persistent results as the cluster's.
const PROMOTION_DEADLINE: Duration = Duration::from_secs(10);

/// Checkpoints (or parts of one) waiting to be deleted. Beyond it they stay until the job's clean-up.
const GARBAGE_QUEUE_ITEMS: usize = 1_024;

/// Something to delete from the store.
pub(crate) enum Garbage {
    /// A checkpoint that was subsumed.
    Checkpoint(Box<CompletedCheckpoint>),
    /// State of a checkpoint that did not complete.
    State(Vec<TaskSnapshotHandle>),
}

/// One job's slow work. All of it ends when this is dropped.
pub(crate) struct Outside {
    job: JobId,
    services: Arc<Services>,
    timers: JoinSet<()>,
    /// Answers that are being worked for, and labels.
    work: JoinSet<()>,
    /// Each ends when an executor has promoted what it was told to, or is lost.
    promotions: Vec<oneshot::Receiver<()>>,
    garbage: Option<(mpsc::Sender<Garbage>, AbortOnDropHandle<()>)>,
}

impl Outside {
    pub(crate) fn new(job: JobId, services: Arc<Services>) -> Self {
        let garbage = services.storage.clone().map(|storage| {
            let (queue, items) = mpsc::channel(GARBAGE_QUEUE_ITEMS);
            (queue, AbortOnDropHandle::new(tokio::spawn(collect_garbage(job, storage, items))))
        });
        Self { job, services, timers: JoinSet::new(), work: JoinSet::new(), promotions: vec![], garbage }
    }

    /// Runs `action` after `delay`.
    pub(crate) fn later(&mut self, delay: Duration, action: impl Future<Output = ()> + Send + 'static) {
        while self.timers.try_join_next().is_some() {}
        self.timers.spawn(async move {
            tokio::time::sleep(delay).await;
            action.await;
        });
    }

    fn work(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        while self.work.try_join_next().is_some() {}
        self.work.spawn(work);
    }

    /// Draws a checkpoint number from the HA store.
    pub(crate) fn allocate_checkpoint_id(&mut self, mailbox: Mailbox) {
        let (job, services) = (self.job, Arc::clone(&self.services));
        self.work(async move {
            let result = ha_call(services.ha.next_checkpoint_id(job)).await;
            if let Err(HaFailure::Ha(error)) = &result {
                services.fatal.raise_if_fenced(error);
            }
            mailbox.answer(JobEvent::CheckpointIdAllocated(result.map_err(|error| chain(&error)))).await;
        });
    }

    /// Makes a checkpoint durable.
    pub(crate) fn store_checkpoint(&mut self, checkpoint: CompletedCheckpoint, mailbox: Mailbox) {
        let services = Arc::clone(&self.services);
        self.work(async move {
            let result = store(&services, &checkpoint).await;
            mailbox.answer(JobEvent::CheckpointStored { checkpoint: checkpoint.id, result }).await;
        });
    }

    /// Deletes something, some time.
    pub(crate) fn discard(&mut self, garbage: Garbage) {
        if let Some((queue, _)) = &self.garbage
            && queue.try_send(garbage).is_err()
        {
            tracing::warn!(job = %self.job, "too much waits to be deleted: left to the job's clean-up");
        }
    }

    /// Lists a source's splits: the user's code, on a thread of its own.
    pub(crate) fn enumerate_splits(&mut self, vertex: VertexId, source: Option<SplitSource>, mailbox: Mailbox) {
        self.work(async move {
            let list = tokio::task::spawn_blocking(move || match source {
                Some(source) => source(),
                None => Err(TaskError::new("the vertex has no splits")),
            });
            let result = match tokio::time::timeout(SPLITS_DEADLINE, list).await {
                Ok(Ok(result)) => result,
                Ok(Err(panic)) => Err(TaskError::new(format!("listing the splits panicked: {panic}"))),
                Err(_) => {
                    Err(TaskError::new(format!("listing the splits took longer than {} s", SPLITS_DEADLINE.as_secs())))
                }
            };
            mailbox.answer(JobEvent::SplitsEnumerated { vertex, result }).await;
        });
    }

    /// Asks every failure enricher about a failure, each on a thread of its own. Labels go to `entry`, not to the job's
    /// serial thread: the job may be over by then.
    pub(crate) fn label_failure(&mut self, id: FailureId, failure: &Arc<FailureReport>, entry: &Arc<JobEntry>) {
        for enricher in self.services.registry.enrichers().to_vec() {
            let (failure, entry) = (Arc::clone(failure), Arc::clone(entry));
            let (job, threads) = (self.job, Arc::clone(&self.services.enricher_threads));
            self.work(async move {
                let asked = async {
                    // An enricher that never comes back keeps its thread, so their number is limited.
                    let thread = threads.acquire_owned().await.ok()?;
                    let asked = tokio::task::spawn_blocking(move || {
                        let labels = enricher.label(&failure);
                        drop(thread);
                        labels
                    });
                    asked.await.ok()
                };
                match tokio::time::timeout(LABELS_DEADLINE, asked).await {
                    Ok(Some(labels)) if !labels.is_empty() => entry.label(id, labels),
                    Ok(_) => {}
                    Err(_) => {
                        let waited = LABELS_DEADLINE.as_secs();
                        tracing::warn!(%job, "a failure enricher had no labels after {waited} s: there will be none");
                    }
                }
            });
        }
    }

    /// Partitions are being promoted.
    pub(crate) fn promotion(&mut self, done: oneshot::Receiver<()>) {
        self.promotions.push(done);
    }

    /// Waits until what was to be promoted is, or cannot be any more (reference 4.2: then the job may be seen to end).
    pub(crate) async fn promoted(&mut self) {
        let promotions = std::mem::take(&mut self.promotions);
        let all = async {
            for done in promotions {
                // Answered, or the executor is lost.
                let _ = done.await;
            }
        };
        if tokio::time::timeout(PROMOTION_DEADLINE, all).await.is_err() {
            let waited = PROMOTION_DEADLINE.as_secs();
            tracing::warn!(job = %self.job, "persistent results were not promoted within {waited} s");
        }
    }

    /// Waits for what is being written; drops timers and garbage (the job's clean-up deletes all there is).
    pub(crate) async fn finish(mut self) {
        self.timers.abort_all();
        let written = async { while self.work.join_next().await.is_some() {} };
        if tokio::time::timeout(FINISH_DEADLINE, written).await.is_err() {
            tracing::warn!(job = %self.job, "a checkpoint was still being stored, or a failure labelled, when the clean-up of the job began");
        }
    }
}

async fn store(services: &Services, checkpoint: &CompletedCheckpoint) -> Result<StoredCheckpoint, StoreFailure> {
    let Some(storage) = &services.storage else {
        return Err(StoreFailure {
            reason: "this coordinator has no checkpoint store".to_owned(),
            maybe_written: false,
        });
    };
    tokio::time::timeout(STORE_DEADLINE, storage.store(checkpoint)).await.unwrap_or_else(|_| {
        let reason = format!("storing it took longer than {} s", STORE_DEADLINE.as_secs());
        Err(StoreFailure { reason, maybe_written: true })
    })
}

async fn collect_garbage(job: JobId, storage: CheckpointStorage, mut items: mpsc::Receiver<Garbage>) {
    while let Some(item) = items.recv().await {
        let result = match &item {
            Garbage::Checkpoint(checkpoint) => storage.discard(checkpoint).await,
            Garbage::State(handles) => storage.discard_state(handles).await,
        };
        if let Err(error) = result {
            tracing::warn!(%job, error = %chain(&error), "an old checkpoint was not deleted completely");
        }
    }
}
