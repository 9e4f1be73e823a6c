//! Regions and restart sets straight from the definitions, over all pairs of tasks. Slow, and shares no code with what
//! it checks except the numbering of tasks and partitions.

use std::collections::BTreeSet;

use crate::core::topology::{PartitionIndex, TaskIndex, Topology};
use crate::graph::{DistributionPattern, ResultPartitionType};

/// `producer` feeds `consumer` through `partition`.
struct Pair {
    producer: usize,
    consumer: usize,
    partition: PartitionIndex,
    kind: ResultPartitionType,
    /// Both ends in one logical region.
    is_inner: bool,
}

pub(super) struct Model {
    pairs: Vec<Pair>,
    /// `together[a][b]`: in one region.
    together: Vec<Vec<bool>>,
}

/// Warshall's algorithm.
fn close(reaches: &mut [Vec<bool>]) {
    let size = reaches.len();
    for via in 0..size {
        let beyond = reaches[via].clone();
        for row in reaches.iter_mut().filter(|row| row[via]) {
            row.iter_mut().zip(&beyond).for_each(|(cell, reached)| *cell |= reached);
        }
    }
}

fn identity(size: usize) -> Vec<Vec<bool>> {
    (0..size).map(|row| (0..size).map(|column| row == column).collect()).collect()
}

fn reads(s: u32, t: u32, producer: u32, consumer: u32) -> bool {
    if s >= t {
        (consumer * s / t..(consumer + 1) * s / t).contains(&producer)
    } else {
        ((producer * t).div_ceil(s)..((producer + 1) * t).div_ceil(s)).contains(&consumer)
    }
}

impl Model {
    pub(super) fn of(topology: &Topology) -> Self {
        let graph = topology.graph();
        let mut logical = identity(graph.vertices.len());
        for edge in graph.edges.iter().filter(|edge| edge.partition_type.must_be_pipelined_consumed()) {
            (logical[edge.from][edge.to], logical[edge.to][edge.from]) = (true, true);
        }
        close(&mut logical);
        let mut pairs = Vec::new();
        let mut whole = Vec::new();
        for edge in &graph.edges {
            let (s, t) = (graph.vertices[edge.from].parallelism, graph.vertices[edge.to].parallelism);
            let is_all = edge.pattern == DistributionPattern::AllToAll;
            let is_inner = logical[edge.from][edge.to];
            if is_all && is_inner {
                whole.push(edge.from);
            }
            for (producer, consumer) in (0..s).flat_map(|p| (0..t).map(move |c| (p, c))) {
                if is_all || reads(s, t, producer, consumer) {
                    pairs.push(Pair {
                        producer: topology.task(edge.from, producer).unwrap().at(),
                        consumer: topology.task(edge.to, consumer).unwrap().at(),
                        partition: topology.partition(edge.from, edge.data_set, producer).unwrap(),
                        kind: edge.partition_type,
                        is_inner,
                    });
                }
            }
        }
        let mut together = identity(topology.task_count());
        for pair in pairs.iter().filter(|pair| pair.kind.must_be_pipelined_consumed()) {
            (together[pair.producer][pair.consumer], together[pair.consumer][pair.producer]) = (true, true);
        }
        let vertex_of = |task: usize| topology.location(TaskIndex(task as u32)).0;
        for (a, row) in together.iter_mut().enumerate() {
            for (b, cell) in row.iter_mut().enumerate() {
                *cell |= whole.iter().any(|&v| logical[v][vertex_of(a)] && logical[v][vertex_of(b)]);
            }
        }
        close(&mut together);
        merge_cycles(&mut together, &pairs);
        Self { pairs, together }
    }

    pub(super) fn regions(&self) -> Vec<Vec<TaskIndex>> {
        let mut regions: Vec<Vec<TaskIndex>> = Vec::new();
        for (task, row) in self.together.iter().enumerate() {
            if row[..task].iter().all(|is_together| !is_together) {
                let members = row.iter().enumerate().filter(|(_, is_together)| **is_together);
                regions.push(members.map(|(member, _)| TaskIndex(member as u32)).collect());
            }
        }
        regions
    }

    /// The least set that holds the failed task and is closed under region, consumers and producers of lost inputs.
    pub(super) fn restarts(
        &self,
        fails: TaskIndex,
        is_available: impl Fn(PartitionIndex) -> bool,
    ) -> BTreeSet<TaskIndex> {
        let mut restarts = vec![false; self.together.len()];
        restarts[fails.at()] = true;
        loop {
            let before = restarts.clone();
            for (task, row) in self.together.iter().enumerate() {
                restarts[task] |= row.iter().zip(&before).any(|(is_together, member)| *is_together && *member);
            }
            for pair in &self.pairs {
                restarts[pair.consumer] |= restarts[pair.producer];
                restarts[pair.producer] |= restarts[pair.consumer] && !is_available(pair.partition);
            }
            if restarts == before {
                let members = restarts.iter().enumerate().filter(|(_, member)| **member);
                return members.map(|(task, _)| TaskIndex(task as u32)).collect();
            }
        }
    }
}

/// Regions that reach each other through inner edges become one.
fn merge_cycles(together: &mut [Vec<bool>], pairs: &[Pair]) {
    let mut reaches = together.to_vec();
    for pair in pairs.iter().filter(|pair| pair.is_inner) {
        reaches[pair.producer][pair.consumer] = true;
    }
    close(&mut reaches);
    for (a, row) in together.iter_mut().enumerate() {
        for (b, cell) in row.iter_mut().enumerate() {
            *cell |= reaches[a][b] && reaches[b][a];
        }
    }
}
