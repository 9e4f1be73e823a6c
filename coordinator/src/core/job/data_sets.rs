//! Data sets of the cluster: what this job reads of another's, and what it leaves (reference 4.1, 4.2).

use std::collections::BTreeMap;

use super::JobCore;
use super::spec::JobInitError;
use crate::core::data_sets::ClusterPartition;
use crate::core::event::JobCommand;
use crate::graph::{DataSetId, ExecutorId, JobGraph, ResultPartitionType, Vertex};
use crate::runtime::protocol::{InputChannel, InputGate};

/// A partition of a data set that the cluster has, and where it can be read. Found once, before the job starts (P181).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedPartition {
    /// What it is.
    pub partition: ClusterPartition,
    /// The executor that has it.
    pub executor: ExecutorId,
    /// That executor's data address.
    pub address: String,
}

/// The data sets that a job reads, each with its partitions by subtask.
pub type CachedDataSets = BTreeMap<DataSetId, Vec<CachedPartition>>;

/// Every data set that `graph` reads must be there, in a shape that its reader can read.
pub(super) fn check(graph: &JobGraph, cached: &CachedDataSets) -> Result<(), JobInitError> {
    for vertex in &graph.vertices {
        for &data_set in &vertex.data_sets {
            let name = || vertex.name.clone();
            let Some(partitions) = cached.get(&data_set) else {
                return Err(JobInitError::DataSetMissing { vertex: name(), data_set });
            };
            // P194
            let readers = readers(partitions);
            if readers != vertex.parallelism {
                let parallelism = vertex.parallelism;
                return Err(JobInitError::DataSetReaders { vertex: name(), data_set, parallelism, readers });
            }
        }
    }
    Ok(())
}

/// Subtasks that a data set was made for: one for each subpartition, or for each partition if those are not divided.
fn readers(partitions: &[CachedPartition]) -> u32 {
    let subpartitions = partitions.first().map_or(0, |cached| cached.partition.subpartitions);
    if subpartitions > 1 { subpartitions } else { u32::try_from(partitions.len()).unwrap_or(u32::MAX) }
}

impl JobCore {
    /// The input of subtask `subtask` of `vertex` from each data set that it reads.
    pub(super) fn data_set_gates(&self, vertex: &Vertex, subtask: u32) -> impl Iterator<Item = InputGate> {
        vertex.data_sets.iter().map(move |data_set| {
            let partitions = self.data_sets.get(data_set).map_or(&[][..], Vec::as_slice);
            let is_divided = partitions.first().is_some_and(|cached| cached.partition.subpartitions > 1);
            let channels = partitions.iter().enumerate().filter_map(|(position, cached)| {
                let is_read = is_divided || position == subtask as usize;
                is_read.then(|| InputChannel {
                    job: cached.partition.job,
                    partition: cached.partition.partition,
                    subpartition: if is_divided { subtask } else { 0 },
                    executor: cached.executor.clone(),
                    address: cached.address.clone(),
                })
            });
            InputGate { partition_type: ResultPartitionType::BlockingPersistent, channels: channels.collect() }
        })
    }

    /// The job has FINISHED: what is persistent belongs to the cluster from now on, all else ends with the job (P192).
    pub(super) fn promote_persistent(&mut self) {
        let mut promoted = BTreeMap::<ExecutorId, Vec<ClusterPartition>>::new();
        for (&id, executor, _) in self.tracker.all().filter(|(.., kind)| kind.is_persistent()) {
            let Some(vertex) = self.graph.position(id.partition.producer.vertex) else { continue };
            let data_set = id.partition.data_set;
            let Some(index) = self.topology.partition(vertex, data_set, id.partition.producer.subtask) else {
                continue;
            };
            promoted.entry(executor.clone()).or_default().push(ClusterPartition {
                data_set: DataSetId::of(self.id, id.partition),
                total: self.graph.vertices[vertex].parallelism,
                job: self.id,
                partition: id,
                subpartitions: self.topology.subpartitions(index),
            });
        }
        let commands = promoted.into_iter();
        self.out.extend(commands.map(|(executor, partitions)| JobCommand::PromotePartitions { executor, partitions }));
    }
}
