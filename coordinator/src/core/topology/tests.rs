use std::collections::BTreeMap;

use super::*;
use crate::core::testing::{dynamic_graph, dynamic_topology, graph, grow, names, partition, task, tasks, topology};
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
        groups.map(|group| topology.subpartitions_read(group, consumer)).collect::<Vec<_>>()
    };
    let expected = [[0..1, 0..1], [3..4, 3..4], [0..1, 4..5], [2..3, 6..7]];
    assert_eq!(["b1", "b4", "b5", "b7"].map(read), expected.map(Vec::from));
}

/// What all consumers of a partition read of it, in order.
fn all_subpartitions_read(topology: &Topology, partition: PartitionIndex) -> Vec<u32> {
    let consumers = |group| topology.group_consumers(group).map(move |consumer| (group, consumer));
    let all = topology.consumer_groups(partition).flat_map(consumers);
    let mut read: Vec<u32> = all.flat_map(|(group, consumer)| topology.subpartitions_read(group, consumer)).collect();
    read.sort_unstable();
    read
}

#[test]
fn each_consumer_of_a_partition_reads_a_subpartition_of_its_own() {
    for (producers, consumers) in [(1, 1), (3, 2), (2, 3), (5, 5), (2, 7), (7, 2)] {
        for edge in ["a-b:B", "a=b:B"] {
            let topology = topology(&format!("a*{producers} b*{consumers}"), edge);
            for partition in (0..producers).map(PartitionIndex) {
                let read = all_subpartitions_read(&topology, partition);
                assert_eq!(read, (0..topology.subpartitions(partition)).collect::<Vec<_>>(), "{edge}");
            }
        }
    }
}

#[test]
fn graphs_that_cannot_be_executed_are_refused_by_name() {
    let refused = |graph: LogicalGraph| Topology::build(graph).unwrap_err().to_string();
    assert_eq!(refused(graph("a b c", "a-b:B b-c:P c-b:B")), "the job graph has a cycle through b, c");
    let behind = graph("a b c d e", "a-b:B b-c:P c-b:B c-d:B d-e:B");
    assert_eq!(refused(behind), "the job graph has a cycle through b, c");
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

/// Every number a topology gives to what exists now, with what it stands for.
fn numbered(topology: &Topology) -> Vec<String> {
    let tasks = topology.tasks().map(|task| format!("{task:?} {:?}", topology.location(task)));
    let partitions = (0..topology.partition_count() as u32).map(PartitionIndex);
    let partitions =
        partitions.map(|p| format!("{p:?} {:?} {}", topology.partition_location(p), topology.subpartitions(p)));
    let groups = (0..topology.group_count() as u32).map(GroupIndex).map(|group| {
        let consumers = topology.group_consumers(group).map(|task| (task, topology.subpartitions_read(group, task)));
        let partitions: Vec<_> = topology.group_partitions(group).collect();
        format!("{group:?} {} {partitions:?} {:?}", topology.group_edge(group), consumers.collect::<Vec<_>>())
    });
    tasks.chain(partitions).chain(groups).collect()
}

// P032
#[test]
fn a_topology_grows_by_the_vertices_that_are_decided() {
    let mut topology = dynamic_topology("a*3 b*?", "a=b:B");
    assert_eq!((topology.task_count(), topology.partition_count(), topology.group_count()), (3, 3, 0));
    assert_eq!(grow(&mut topology, "b*3").unwrap(), "b");
    assert_eq!(topology.task_count(), 6);
    let all: Vec<_> = topology.tasks().collect();
    assert_eq!(names(&topology, &all), "a1 a2 a3 b1 b2 b3");
    let group = topology.produced_groups(task(&topology, "a2")).next().unwrap();
    assert_eq!(topology.group_consumers(group).collect::<Vec<_>>(), tasks(&topology, "b1 b2 b3"));
    assert_eq!(topology.consumed_groups(task(&topology, "b3")).collect::<Vec<_>>(), [group]);
}

#[test]
fn what_is_not_decided_has_no_numbers() {
    let mut topology = dynamic_topology("a b*?5 c*2", "a=b:B b=c:B");
    let laid_out = |topology: &Topology| [0, 1, 2, 3].map(|vertex| topology.is_laid_out(vertex));
    assert_eq!(laid_out(&topology), [true, false, false, false], "c waits for b");
    assert_eq!([topology.task(1, 0), topology.task(2, 0)], [None, None]);
    assert_eq!(topology.partition(1, 0, 0), None);
    assert_eq!((topology.tasks_of(1).count(), topology.edge_groups(0).count()), (0, 0));
    assert_eq!(topology.produced_groups(task(&topology, "a")).count(), 0);
    assert!(!topology.has_all_consumers(partition(&topology, "a")));
    assert_eq!(topology.undecided().collect::<Vec<_>>(), [1]);
    assert_eq!(grow(&mut topology, "b*2").unwrap(), "b c", "and comes with it");
    assert_eq!(laid_out(&topology), [true, true, true, false]);
    assert!(topology.has_all_consumers(partition(&topology, "a")));
    assert_eq!((topology.undecided().count(), topology.graph().vertices[1].parallelism), (0, 2));
}

#[test]
fn numbers_stay_when_more_is_laid_out() {
    let mut topology = dynamic_topology("c*?4 a*2 b*?4 d*3 e*?", "a-b,d:B a=c:B b=c:B c-e:B d=e:HF");
    let mut before = numbered(&topology);
    for decided in ["b*3", "c*2", "e*5"] {
        grow(&mut topology, decided).unwrap();
        let after = numbered(&topology);
        assert!(before.iter().all(|it| after.contains(it)), "{decided}: {before:#?} {after:#?}");
        assert!(after.len() > before.len());
        before = after;
    }
    let all: Vec<_> = topology.tasks().collect();
    assert_eq!(names(&topology, &all), "a1 a2 d1 d2 d3 b1 b2 b3 c1 c2 e1 e2 e3 e4 e5");
}

#[test]
fn several_vertices_can_be_decided_at_once() {
    let mut topology = dynamic_topology("a b*? c*? d*?", "a=b:B b-c:P c=d:B");
    assert_eq!(grow(&mut topology, "c*2 b*2").unwrap(), "b c");
    let all: Vec<_> = topology.tasks().collect();
    assert_eq!(names(&topology, &all), "a b1 b2 c1 c2");
}

#[test]
fn a_graph_without_undecided_vertices_is_numbered_as_ever() {
    let (vertices, edges) = ("c*4 a*2 b*3 d*3", "a-b,d:B a=c:B b=c:B c-d:HF");
    let dynamic = dynamic_topology(vertices, edges);
    let of = |topology: &Topology| -> Vec<_> {
        let groups = |task| topology.consumed_groups(task).map(|group| group.0).collect::<Vec<_>>();
        topology.tasks().map(|task| (topology.location(task), groups(task))).collect()
    };
    assert_eq!(of(&dynamic), of(&topology(vertices, edges)));
}

// P033
#[test]
fn new_tasks_cannot_join_old_regions() {
    let mut topology = dynamic_topology("a*3 b*?", "a=b:P");
    let refused = grow(&mut topology, "b*3").unwrap_err();
    let (vertex, producer) = ("b".to_owned(), "a".to_owned());
    assert_eq!(refused, GrowthError::JoinsOldRegion { vertex, producer });
    // Nor can they come along with a vertex that is decided.
    let mut topology = dynamic_topology("a*3 x*? b*3", "x=b:B a-b:P");
    let refused = grow(&mut topology, "x").unwrap_err().to_string();
    assert_eq!(refused, "vertex `b` must run together with `a`, whose regions exist already; decide both at once");
    // Other types are borders.
    for kind in ["B", "BP", "HF", "HS", "PA"] {
        assert_eq!(grow(&mut dynamic_topology("a*3 b*?", &format!("a=b:{kind}")), "b").unwrap(), "b");
    }
}

#[test]
fn a_refused_growth_changes_nothing() {
    let mut topology = dynamic_topology("a*2 b*?4 c*?4 d*?", "a=b:B b=c:B a-d:P");
    let before = numbered(&topology);
    let mut refused = |decided: &str| {
        let reason = grow(&mut topology, decided).unwrap_err().to_string();
        assert_eq!(numbered(&topology), before, "{decided}");
        assert_eq!(topology.undecided().collect::<Vec<_>>(), [1, 2, 3], "{decided}");
        reason
    };
    assert_eq!(refused("c*2"), "vertex `c` reads `b`, which is not decided yet");
    assert_eq!(refused("b*5"), "vertex `b` cannot get parallelism 5; it must be from 1 to 4");
    assert_eq!(refused("b*0"), "vertex `b` cannot get parallelism 0; it must be from 1 to 4");
    assert_eq!(refused("a*2"), "the parallelism of vertex `a` is decided already");
    assert_eq!(
        refused("b*2 d"),
        "vertex `d` must run together with `a`, whose regions exist already; decide both at once"
    );
    assert_eq!(topology.grow(&BTreeMap::from([(9, 1)])), Err(GrowthError::UnknownVertex(9)));
    assert_eq!(grow(&mut topology, "b*4 c*4").unwrap(), "b c");
    assert_eq!(grow(&mut topology, "c*4").unwrap_err().to_string(), "the parallelism of vertex `c` is decided already");
}

#[test]
fn a_static_topology_has_nothing_to_decide() {
    let mut topology = topology("a b", "a-b:B");
    assert_eq!(topology.grow(&BTreeMap::new()), Ok(vec![]));
    assert_eq!(grow(&mut topology, "b"), Err(GrowthError::AlreadyDecided("b".to_owned())));
}

#[test]
fn limits_of_undecided_vertices_are_checked_at_once() {
    let refused = |graph: DynamicGraph| Topology::build_dynamic(graph).unwrap_err().to_string();
    let mut dynamic = dynamic_graph("a b*?", "a=b:B");
    dynamic.default_max_parallelism = 40_000;
    assert_eq!(refused(dynamic), "vertex `b` has parallelism 40000; it must be from 1 to 32768");
    assert_eq!(refused(dynamic_graph("a b*?0", "a=b:B")), "vertex `b` has parallelism 0; it must be from 1 to 32768");
    let mut dynamic = dynamic_graph("a b*?", "a=b:B");
    dynamic.undecided.insert(2, None);
    assert_eq!(refused(dynamic), "vertex number 2 is to be decided later, but there are only 2");
}

// P151
#[test]
fn subpartitions_of_a_dynamic_graph_suffice_for_all_that_may_be_decided() {
    // Consumers of known parallelism, of a limit of their own, and of the default limit (here 16).
    for (consumer, all_to_all, pointwise) in [("b*7", 7, 4), ("b*?7", 7, 4), ("b*?", 16, 8)] {
        let mut topology = dynamic_topology(&format!("a*2 {consumer}"), "a=b:B a-b:B");
        let cut = |topology: &Topology| {
            let partitions = [(0, 0), (0, 1), (1, 0), (1, 1)];
            partitions.map(|(set, subtask)| topology.subpartitions(topology.partition(0, set, subtask).unwrap()))
        };
        let expected = [all_to_all, all_to_all, pointwise, pointwise];
        assert_eq!(cut(&topology), expected, "{consumer}");
        if consumer != "b*7" {
            grow(&mut topology, "b*3").unwrap();
            assert_eq!(cut(&topology), expected, "{consumer}: what is written is not cut anew");
        }
    }
    let topology = dynamic_topology("a b*?3 c*?9", "a=b,c:B");
    assert_eq!(topology.subpartitions(partition(&topology, "a")), 9, "enough for each consumer of a shared data set");
}

#[test]
fn consumers_of_a_dynamic_graph_share_the_subpartitions_out() {
    let read = |edge: &str, parallelism: u32| {
        let mut topology = dynamic_topology("a*2 b*?7", edge);
        grow(&mut topology, &format!("b*{parallelism}")).unwrap();
        let consumers: Vec<_> = topology.tasks_of(1).collect();
        let range = |task| topology.subpartitions_read(topology.consumed_groups(task).next().unwrap(), task);
        consumers.into_iter().map(range).collect::<Vec<_>>()
    };
    // Flink's computeConsumedSubpartitionRange.
    assert_eq!(read("a=b:B", 3), [0..2, 2..4, 4..7]);
    assert_eq!(read("a=b:B", 7), [0..1, 1..2, 2..3, 3..4, 4..5, 5..6, 6..7]);
    assert_eq!((read("a=b:B", 1), read("a-b:B", 1)), (vec![0..7; 1], vec![0..4; 1]));
    assert_eq!(read("a-b:B", 2), [0..4, 0..4]);
    assert_eq!(read("a-b:B", 5), [0..1, 1..2, 2..4, 0..2, 2..4]);
}

#[test]
fn each_subpartition_of_a_dynamic_graph_is_read_once_over_each_edge() {
    for (producers, max) in [(1, 1), (3, 2), (2, 3), (5, 5), (2, 7), (7, 2)] {
        for (edge, decided) in ["a-b:B", "a=b:B"].into_iter().flat_map(|edge| (1..=max).map(move |it| (edge, it))) {
            let mut topology = dynamic_topology(&format!("a*{producers} b*?{max}"), edge);
            grow(&mut topology, &format!("b*{decided}")).unwrap();
            for partition in (0..producers).map(PartitionIndex) {
                let read = all_subpartitions_read(&topology, partition);
                assert_eq!(read, (0..topology.subpartitions(partition)).collect::<Vec<_>>(), "{edge} {decided}/{max}");
            }
        }
    }
}
