use super::*;
use crate::core::testing::{graph, partition, task, tasks, topology};
use crate::graph::DistributionPattern;

#[test]
fn tasks_are_numbered_by_vertex_then_subtask() {
    let topology = topology("a*2 b*3", "a=b:B");
    let locations: Vec<_> = topology.tasks().map(|task| topology.location(task)).collect();
    assert_eq!(locations, [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]);
    assert_eq!(topology.task(1, 2), Some(TaskIndex(4)));
}

// P029: unknown tasks and partitions cannot even be named.
#[test]
fn what_does_not_exist_has_no_number() {
    let topology = topology("a*2 b*3", "a=b:B");
    assert_eq!([topology.task(1, 3), topology.task(2, 0)], [None, None]);
    assert_eq!([topology.partition(0, 0, 2), topology.partition(0, 1, 0), topology.partition(1, 0, 0)], [None; 3]);
    assert_eq!(topology.partition(7, 0, 0), None);
    assert_eq!(topology.partition(0, 0, 1), Some(PartitionIndex(1)));
}

#[test]
fn partitions_know_their_producer_data_set_and_type() {
    let topology = topology("a*2 b c", "a-b:B a-c:P b-c:HF");
    assert_eq!(topology.partition_count(), 5);
    let all: Vec<_> = (0..5)
        .map(PartitionIndex)
        .map(|p| (topology.partition_location(p).0.0, topology.partition_location(p).1, topology.partition_type(p)))
        .collect();
    let (b, p, h) =
        (ResultPartitionType::Blocking, ResultPartitionType::PipelinedBounded, ResultPartitionType::HybridFull);
    assert_eq!(all, [(0, 0, b), (1, 0, b), (0, 1, p), (1, 1, p), (2, 0, h)]);
    let produced: Vec<_> = topology.produced(task(&topology, "a2")).collect();
    assert_eq!(produced, [PartitionIndex(1), PartitionIndex(3)]);
}

#[test]
fn sparse_data_set_numbers_are_kept() {
    let mut sparse = graph("a b c", "a-b:B a-c:B");
    (sparse.edges[0].data_set, sparse.edges[1].data_set) = (50, 7);
    let topology = Topology::build(sparse).unwrap();
    let partition = topology.partition(0, 50, 0).unwrap();
    assert_eq!(topology.partition_location(partition), (TaskIndex(0), 50));
    assert_eq!(topology.group_edge(topology.consumer_groups(partition).next().unwrap()), 0);
    assert_eq!(topology.partition(0, 7, 0), Some(PartitionIndex(0)));
    assert_eq!(topology.partition(0, 0, 0), None);
}

#[test]
fn an_all_to_all_edge_is_one_group() {
    let topology = topology("a*3 b*2", "a=b:B");
    assert_eq!(topology.group_count(), 1);
    assert_eq!(topology.group_producers(GroupIndex(0)).collect::<Vec<_>>(), tasks(&topology, "a1 a2 a3"));
    assert_eq!(topology.group_consumers(GroupIndex(0)).collect::<Vec<_>>(), tasks(&topology, "b1 b2"));
    let group = topology.consumed_groups(task(&topology, "b2")).next();
    assert_eq!(group, topology.produced_groups(task(&topology, "a3")).next());
}

#[test]
fn inputs_are_numbered_by_edge() {
    let topology = topology("a b c", "b-c:B a-c:P a-b:B a-c:B");
    let edges: Vec<_> =
        topology.consumed_groups(task(&topology, "c")).map(|group| topology.group_edge(group)).collect();
    assert_eq!(edges, [0, 1, 3]);
}

#[test]
fn edges_that_share_a_data_set_have_groups_of_their_own() {
    let topology = topology("a*2 b c*4", "a-b,c:B");
    let groups = |name: &str| topology.consumer_groups(partition(&topology, name)).collect::<Vec<_>>();
    assert_eq!(groups("a1"), [GroupIndex(0), GroupIndex(1)]);
    assert_eq!(groups("a2"), [GroupIndex(0), GroupIndex(2)]);
    assert_eq!(topology.group_consumers(GroupIndex(2)).collect::<Vec<_>>(), tasks(&topology, "c3 c4"));
}

#[test]
fn subpartitions_follow_the_consumers() {
    let topology = topology("a*2 b*7", "a-b:B a=b:B");
    let subpartitions = |name: &str, set| {
        let (vertex, subtask) = topology.location(task(&topology, name));
        topology.subpartitions(topology.partition(vertex, set, subtask).unwrap())
    };
    assert_eq!([subpartitions("a1", 0), subpartitions("a2", 0), subpartitions("a1", 1)], [4, 3, 7]);
    let read = |name: &str| {
        let consumer = task(&topology, name);
        let groups = topology.consumed_groups(consumer);
        groups
            .map(|g| topology.subpartition_of(g, consumer, topology.group_partitions(g).next().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!([read("b1"), read("b4"), read("b5"), read("b7")], [vec![0, 0], vec![3, 3], vec![0, 4], vec![2, 6]]);
}

#[test]
fn each_consumer_of_a_partition_reads_a_subpartition_of_its_own() {
    for (producers, consumers) in [(1, 1), (3, 2), (2, 3), (5, 5), (2, 7), (7, 2)] {
        for edge in ["a-b:B", "a=b:B"] {
            let topology = topology(&format!("a*{producers} b*{consumers}"), edge);
            for partition in (0..producers).map(PartitionIndex) {
                let mut read: Vec<u32> = topology
                    .consumer_groups(partition)
                    .flat_map(|group| topology.group_consumers(group).map(move |consumer| (group, consumer)))
                    .map(|(group, consumer)| topology.subpartition_of(group, consumer, partition))
                    .collect();
                read.sort_unstable();
                assert_eq!(read, (0..topology.subpartitions(partition)).collect::<Vec<_>>(), "{edge}");
            }
        }
    }
}

#[test]
fn graphs_that_cannot_be_executed_are_refused_by_name() {
    let refused = |graph: LogicalGraph| Topology::build(graph).unwrap_err().to_string();
    assert_eq!(refused(graph("a b c", "a-b:B b-c:P c-b:B")), "the job graph has a cycle through b, c");
    assert_eq!(refused(graph("a b", "b-b:B a-b:B")), "the job graph has a cycle through b");
    assert_eq!(refused(graph("a b*0", "a-b:B")), "vertex `b` has parallelism 0; it must be from 1 to 32768");
    assert_eq!(refused(graph("a*32769", "")), "vertex `a` has parallelism 32769; it must be from 1 to 32768");
    let mut shared = graph("a b c", "a-b,c:B");
    shared.edges[1].pattern = DistributionPattern::AllToAll;
    assert_eq!(
        refused(shared.clone()),
        "data set 0 of `a` is read with different distribution patterns; give each edge its own"
    );
    shared.edges[1] = LogicalEdge { partition_type: ResultPartitionType::HybridFull, ..shared.edges[0] };
    assert_eq!(
        refused(shared.clone()),
        "data set 0 of `a` has two result partition types; give each edge its own data set"
    );
    shared.edges[1].to = 9;
    assert_eq!(refused(shared), "edge 1 names vertex number 9, but there are only 3");
}

#[test]
fn nothing_is_a_topology_too() {
    let empty = Topology::build(LogicalGraph::default()).unwrap();
    assert_eq!((empty.task_count(), empty.partition_count(), empty.group_count()), (0, 0, 0));
}
