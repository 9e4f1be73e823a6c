//! What an executor is sent to run an attempt.

use super::JobCore;
use super::failure::Failure;
use crate::core::event::JobCommand;
use crate::core::status::ExecutionState;
use crate::core::topology::{GroupIndex, PartitionIndex, TaskIndex};
use crate::graph::ExecutorId;
use crate::runtime::protocol::{InputChannel, InputGate, OutputDescriptor, TaskDeployment};

impl JobCore {
    /// Deploys the tasks of one region, upstream first; all of them have slots.
    ///
    /// An input that is known to be lost fails its consumer before anything is sent (Flink sends it, and sees the
    /// failure one round trip later): the failure names the partition.
    pub(super) fn deploy_region(&mut self, tasks: &[TaskIndex]) {
        if let Some((consumer, partition)) = self.lost_input(tasks) {
            let named = self.current_partition(partition);
            let producer = self.topology.partition_location(partition).0;
            let name = self.graph.vertices[self.topology.location(producer).0].name.clone();
            self.fail_before_deployment(consumer, Failure::input_lost(named, &name, self.now));
            return;
        }
        let mut order = tasks.to_vec();
        order.sort_by_key(|&task| self.topology.location(task));
        for task in order {
            self.deploy(task);
        }
    }

    /// The first input from another region whose data is nowhere.
    fn lost_input(&self, tasks: &[TaskIndex]) -> Option<(TaskIndex, PartitionIndex)> {
        let mut seen = std::collections::BTreeSet::new();
        for &task in tasks {
            for group in self.topology.consumed_groups(task) {
                if self.topology.group_type(group).must_be_pipelined_consumed() || !seen.insert(group) {
                    continue;
                }
                let lost = self.topology.group_partitions(group).find(|&partition| {
                    let producer = self.topology.partition_location(partition).0;
                    self.regions.region_of(producer) != self.regions.region_of(task) && !self.is_readable(partition)
                });
                if let Some(partition) = lost {
                    return Some((task, partition));
                }
            }
        }
        None
    }

    /// The current attempt's data is where its producer ran. What the scheduler releases must still be tracked.
    fn is_readable(&self, partition: PartitionIndex) -> bool {
        let producer = self.topology.partition_location(partition).0;
        self.task(producer).current.is_located()
            && (!self.topology.partition_type(partition).is_release_by_scheduler()
                || self.tracker.is_tracked(&self.current_partition(partition)))
    }

    fn deploy(&mut self, task: TaskIndex) {
        let Some(executor) = self.task(task).current.executor().cloned() else { return };
        for partition in self.topology.produced(task) {
            let kind = self.topology.partition_type(partition);
            self.tracker.start_tracking(self.current_partition(partition), executor.clone(), kind);
        }
        let deployment = Box::new(self.deployment_of(task));
        self.set_state(task, ExecutionState::Deploying);
        self.out.push(JobCommand::Deploy { executor, deployment });
    }

    fn deployment_of(&self, task: TaskIndex) -> TaskDeployment {
        let (position, subtask) = self.topology.location(task);
        let vertex = &self.graph.vertices[position];
        TaskDeployment {
            attempt: self.attempt_id(task),
            job_name: self.job_name.clone(),
            params: self.params.clone(),
            vertex: vertex.name.clone(),
            parallelism: vertex.parallelism,
            checkpointing: self.checkpoints.is_some(),
            inputs: (self.topology.consumed_groups(task).map(|group| self.input_gate(group, task)))
                .chain(self.data_set_gates(vertex, subtask))
                .collect(),
            outputs: self.topology.produced(task).map(|partition| self.output(position, partition)).collect(),
            restore: self.restore_of(task),
        }
    }

    fn input_gate(&self, group: GroupIndex, consumer: TaskIndex) -> InputGate {
        let channels = self.topology.group_partitions(group).map(|partition| {
            let producer = self.topology.partition_location(partition).0;
            let attempt = &self.task(producer).current;
            InputChannel {
                job: self.id,
                partition: self.current_partition(partition),
                subpartition: self.topology.subpartitions_read(group, consumer).start,
                // A located producer has a slot; within a region, slots are given before the first deployment.
                executor: attempt.executor().cloned().unwrap_or_else(|| ExecutorId(String::new())),
                address: attempt.endpoint.clone().unwrap_or_default(),
            }
        });
        InputGate { partition_type: self.topology.group_type(group), channels: channels.collect() }
    }

    fn output(&self, producer: usize, partition: PartitionIndex) -> OutputDescriptor {
        let named = self.current_partition(partition);
        let edge = self.graph.outputs(producer).find(|edge| edge.data_set == named.partition.data_set);
        OutputDescriptor {
            partition: named,
            partition_type: self.topology.partition_type(partition),
            ship: edge.expect("every data set of the topology comes from an edge of the graph").ship,
            subpartitions: self.topology.subpartitions(partition),
        }
    }
}
