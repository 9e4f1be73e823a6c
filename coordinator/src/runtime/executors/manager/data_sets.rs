//! Data sets of the cluster: promoted, listed, found, released.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use super::{Promotion, ResourceManager, State};
use crate::core::data_sets::{ClusterPartition, ReleaseState, Releases};
use crate::core::job::{CachedDataSets, CachedPartition};
use crate::graph::{DataSetId, ExecutorId, JobId};
use crate::runtime::executors::connection::Connection;
use crate::runtime::protocol::ToExecutor;

impl ResourceManager {
    /// Has `executor` give a job's partitions to the cluster. What is answered ends once it has, or cannot any more.
    pub(crate) fn promote(
        &self,
        job: JobId,
        executor: &ExecutorId,
        partitions: Vec<ClusterPartition>,
    ) -> oneshot::Receiver<()> {
        let (done, wait) = oneshot::channel();
        let mut state = self.lock();
        if state.sees(job, executor)
            && let Some(registered) = state.executors.get(executor)
        {
            registered.connection.send(ToExecutor::PromotePartitions { job, partitions });
            state.promotions.push(Promotion { job, executor: executor.clone(), _done: done });
        }
        wait
    }

    /// An executor tells which partitions belong to the cluster, perhaps because those of `promoted` do now.
    pub(crate) fn has_cluster_partitions(
        &self,
        id: &ExecutorId,
        connection: &Connection,
        promoted: Option<JobId>,
        partitions: &[ClusterPartition],
    ) {
        let mut state = self.lock();
        if !state.executors.get(id).is_some_and(|executor| executor.connection.same(connection)) {
            return;
        }
        let releases = state.data_sets.report(id, partitions);
        state.release(releases);
        state.promotions.retain(|promotion| promotion.executor != *id || Some(promotion.job) != promoted);
    }

    /// All data sets, and whether all their partitions are there.
    pub(crate) fn data_sets(&self) -> BTreeMap<DataSetId, bool> {
        self.lock().data_sets.list().collect()
    }

    /// Those of `wanted` that are complete, and where they can be read.
    pub(crate) fn cached<'a>(&self, wanted: impl Iterator<Item = &'a DataSetId>) -> CachedDataSets {
        let state = self.lock();
        let found = wanted.filter_map(|&id| {
            let partitions = state.data_sets.find(id)?.into_iter().map(|(executor, partition)| {
                let address = state.executors.get(&executor)?.data_address.clone();
                Some(CachedPartition { partition, executor, address })
            });
            Some((id, partitions.collect::<Option<_>>()?))
        });
        found.collect()
    }

    /// Begins to release a data set.
    pub(crate) fn release_data_set(&self, id: DataSetId) {
        let mut state = self.lock();
        let releases = state.data_sets.release(id);
        state.release(releases);
    }

    /// How far that is.
    pub(crate) fn release_state(&self, id: DataSetId) -> Option<ReleaseState> {
        self.lock().data_sets.release_state(id)
    }
}

impl State {
    pub(super) fn release(&self, releases: Releases) {
        let mut by_executor = BTreeMap::<_, Vec<_>>::new();
        for (executor, data_set) in releases {
            by_executor.entry(executor).or_default().push(data_set);
        }
        for (executor, data_sets) in by_executor {
            if let Some(executor) = self.executors.get(&executor) {
                executor.connection.send(ToExecutor::ReleaseDataSets(data_sets));
            }
        }
    }
}
