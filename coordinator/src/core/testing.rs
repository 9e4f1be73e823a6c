//! Small graphs in a line of text, for tests.

use std::collections::BTreeMap;

use super::topology::{
    DynamicGraph, GrowthError, LogicalEdge, LogicalGraph, LogicalVertex, PartitionIndex, TaskIndex, Topology,
};
use crate::graph::{DistributionPattern, ResultPartitionType};

fn kind(text: &str) -> ResultPartitionType {
    match text {
        "P" => ResultPartitionType::PipelinedBounded,
        "PU" => ResultPartitionType::Pipelined,
        "PA" => ResultPartitionType::PipelinedApproximate,
        "B" => ResultPartitionType::Blocking,
        "BP" => ResultPartitionType::BlockingPersistent,
        "HF" => ResultPartitionType::HybridFull,
        "HS" => ResultPartitionType::HybridSelective,
        other => panic!("no partition type `{other}`"),
    }
}

/// `vertices`: names, with `*n` for a parallelism, e.g. `a b*2`. `edges`: `a-b:P` pointwise, `a=b:B` all-to-all,
/// `a-b,c:B` one data set that `b` and `c` share.
pub(crate) fn graph(vertices: &str, edges: &str) -> LogicalGraph {
    let vertices: Vec<_> = vertices
        .split_whitespace()
        .map(|vertex| {
            let (name, parallelism) = vertex.split_once('*').unwrap_or((vertex, "1"));
            LogicalVertex { name: name.to_owned(), parallelism: parallelism.parse().unwrap() }
        })
        .collect();
    let position = |name: &str| vertices.iter().position(|vertex| vertex.name == name).unwrap();
    let mut next_set: BTreeMap<usize, u32> = BTreeMap::new();
    let mut list = Vec::new();
    for edge in edges.split_whitespace() {
        let (ends, kind_text) = edge.split_once(':').unwrap();
        let (from, to, pattern) = match ends.split_once('=') {
            Some((from, to)) => (from, to, DistributionPattern::AllToAll),
            None => {
                let (from, to) = ends.split_once('-').unwrap();
                (from, to, DistributionPattern::Pointwise)
            }
        };
        let from = position(from);
        let data_set = next_set.entry(from).or_default();
        for to in to.split(',').map(position) {
            list.push(LogicalEdge { from, data_set: *data_set, to, partition_type: kind(kind_text), pattern });
        }
        *data_set += 1;
    }
    LogicalGraph { vertices, edges: list }
}

pub(crate) fn topology(vertices: &str, edges: &str) -> Topology {
    Topology::build(graph(vertices, edges)).unwrap()
}

/// As [`graph`] reads it, with `b*?` for an undecided vertex and `b*?7` for one with a limit of its own. The others may
/// get 16 subtasks.
pub(crate) fn dynamic_graph(vertices: &str, edges: &str) -> DynamicGraph {
    let mut undecided = BTreeMap::new();
    let mut plain = Vec::new();
    for (position, vertex) in vertices.split_whitespace().enumerate() {
        let (name, max) = vertex.split_once("*?").unwrap_or((vertex, "none"));
        plain.push(name);
        if max != "none" {
            undecided.insert(position, max.parse().ok());
        }
    }
    DynamicGraph { graph: graph(&plain.join(" "), edges), undecided, default_max_parallelism: 16 }
}

pub(crate) fn dynamic_topology(vertices: &str, edges: &str) -> Topology {
    Topology::build_dynamic(dynamic_graph(vertices, edges)).unwrap()
}

/// Decides vertices in a list like `b*3 c`. Answers the names of all that were laid out.
pub(crate) fn grow(topology: &mut Topology, decided: &str) -> Result<String, GrowthError> {
    let position = |name: &str| topology.graph().vertices.iter().position(|vertex| vertex.name == name).unwrap();
    let decisions = decided.split_whitespace().map(|vertex| vertex.split_once('*').unwrap_or((vertex, "1")));
    let decisions = decisions.map(|(name, parallelism)| (position(name), parallelism.parse().unwrap())).collect();
    let laid_out = topology.grow(&decisions)?;
    let names: Vec<_> = laid_out.into_iter().map(|vertex| topology.graph().vertices[vertex].name.clone()).collect();
    Ok(names.join(" "))
}

/// `a` is the only subtask of `a`; `a2` is the second of several.
pub(crate) fn task(topology: &Topology, name: &str) -> TaskIndex {
    let vertex = |name: &str| topology.graph().vertices.iter().position(|vertex| vertex.name == name);
    if let Some(vertex) = vertex(name) {
        return topology.task(vertex, 0).unwrap();
    }
    let (base, subtask) = name.split_at(name.len() - 1);
    topology.task(vertex(base).unwrap(), subtask.parse::<u32>().unwrap() - 1).unwrap()
}

/// All tasks of a list like `a b1 b2`.
pub(crate) fn tasks(topology: &Topology, names: &str) -> Vec<TaskIndex> {
    names.split_whitespace().map(|name| task(topology, name)).collect()
}

/// `a`: what task `a` puts into its first data set; `a->b`: what it puts into the one that vertex `b` reads.
pub(crate) fn partition(topology: &Topology, name: &str) -> PartitionIndex {
    let (producer, consumer) = name.split_once("->").unwrap_or((name, ""));
    let producer = task(topology, producer);
    if consumer.is_empty() {
        return topology.produced(producer).next().unwrap();
    }
    let reads = |partition: &PartitionIndex| {
        topology.consumer_groups(*partition).any(|group| {
            let to = topology.graph().edges[topology.group_edge(group)].to;
            topology.graph().vertices[to].name == consumer
        })
    };
    topology.produced(producer).find(reads).unwrap()
}

/// All partitions of a list like `a b->c`.
pub(crate) fn partitions(topology: &Topology, names: &str) -> Vec<PartitionIndex> {
    names.split_whitespace().map(|name| partition(topology, name)).collect()
}

/// Tasks as [`tasks`] reads them.
pub(crate) fn names(topology: &Topology, tasks: &[TaskIndex]) -> String {
    let name = |task: &TaskIndex| {
        let (vertex, subtask) = topology.location(*task);
        let vertex = &topology.graph().vertices[vertex];
        if vertex.parallelism == 1 { vertex.name.clone() } else { format!("{}{}", vertex.name, subtask + 1) }
    };
    tasks.iter().map(name).collect::<Vec<_>>().join(" ")
}
