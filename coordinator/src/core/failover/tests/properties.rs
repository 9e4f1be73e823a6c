//! Properties of restart sets (reference 2.8) on random graphs, and equality with a naive model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::model;
use crate::core::failover::{Failure, NamedPartition, StalePolicy, restart_set};
use crate::core::regions::Regions;
use crate::core::status::ExecutionState;
use crate::core::topology::{LogicalEdge, LogicalGraph, LogicalVertex, PartitionIndex, TaskIndex, Topology};
use crate::graph::{DistributionPattern, ResultPartitionType};

/// A graph and what happens in it.
#[derive(Debug, Clone)]
struct Scenario {
    graph: LogicalGraph,
    /// Chooses states, losses, the failing task and the named partition.
    choices: Vec<u8>,
    fails: u32,
    named: Option<(u32, bool)>,
}

fn edge(vertices: usize) -> impl Strategy<Value = LogicalEdge> {
    let pattern = prop_oneof![3 => Just(DistributionPattern::Pointwise), 1 => Just(DistributionPattern::AllToAll)];
    // Half of the edges tie regions, so that regions of several tasks are common.
    let kind = prop_oneof![
        3 => Just(ResultPartitionType::PipelinedBounded),
        4 => prop::sample::select(&ResultPartitionType::ALL[..]),
    ];
    (0..vertices - 1, 1..vertices, kind, pattern).prop_map(move |(from, step, partition_type, pattern)| LogicalEdge {
        from,
        data_set: 0,
        to: (from + step).min(vertices - 1),
        partition_type,
        pattern,
    })
}

pub(super) fn logical_graph() -> impl Strategy<Value = LogicalGraph> {
    (2..6_usize).prop_flat_map(|vertices| {
        let parallelism = prop::collection::vec(1..6_u32, vertices);
        let edges = prop::collection::vec((edge(vertices), any::<bool>()), 0..9);
        (parallelism, edges).prop_map(|(parallelism, edges)| named_graph(parallelism, edges))
    })
}

fn named_graph(parallelism: Vec<u32>, edges: Vec<(LogicalEdge, bool)>) -> LogicalGraph {
    let vertices = ["a", "b", "c", "d", "e"]
        .iter()
        .zip(parallelism)
        .map(|(name, parallelism)| LogicalVertex { name: (*name).to_owned(), parallelism })
        .collect();
    LogicalGraph { vertices, edges: with_data_sets(edges) }
}

/// A pipelined tree of uneven parallelism with blocking pointwise edges across it: its regions often reach each
/// other, which is rare in [`logical_graph`].
pub(super) fn knot() -> impl Strategy<Value = LogicalGraph> {
    let pointwise = |partition_type| {
        move |(from, to)| LogicalEdge { from, data_set: 0, to, partition_type, pattern: DistributionPattern::Pointwise }
    };
    let tree = (0..3_usize, 0..3_usize).prop_map(|(c, d)| vec![(0, 1), (c.min(1), 2), (d, 3)]);
    let across = prop::collection::vec((0..3_usize, 1..4_usize).prop_map(|(a, b)| (a.min(b - 1), b)), 2..5);
    (prop::collection::vec(2..8_u32, 4), tree, across).prop_map(move |(parallelism, tree, across)| {
        let tied = tree.into_iter().map(pointwise(ResultPartitionType::PipelinedBounded));
        let edges = tied.chain(across.into_iter().map(pointwise(ResultPartitionType::Blocking)));
        named_graph(parallelism, edges.map(|edge| (edge, false)).collect())
    })
}

/// Numbers the data sets; an edge marked so shares the newest one of its producer.
fn with_data_sets(edges: Vec<(LogicalEdge, bool)>) -> Vec<LogicalEdge> {
    let mut newest: BTreeMap<usize, LogicalEdge> = BTreeMap::new();
    let mut list = Vec::new();
    for (edge, shares) in edges {
        let edge = match newest.get(&edge.from) {
            Some(other) if shares => LogicalEdge { to: edge.to, ..*other },
            Some(other) => LogicalEdge { data_set: other.data_set + 1, ..edge },
            None => edge,
        };
        newest.insert(edge.from, edge);
        list.push(edge);
    }
    list
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let named = prop::option::of((any::<u32>(), any::<bool>()));
    let graph = prop_oneof![2 => logical_graph().boxed(), 1 => knot().boxed()];
    (graph, prop::collection::vec(any::<u8>(), 64), any::<u32>(), named)
        .prop_map(|(graph, choices, fails, named)| Scenario { graph, choices, fails, named })
}

/// A scenario laid out.
struct Case {
    topology: Topology,
    regions: Regions,
    failure: Failure,
    created: BTreeSet<TaskIndex>,
    lost: BTreeSet<PartitionIndex>,
}

impl Case {
    fn of(scenario: &Scenario) -> Self {
        let topology = Topology::build(scenario.graph.clone()).unwrap();
        let chosen = |at: u32, modulus: u8| scenario.choices[at as usize % 64].is_multiple_of(modulus);
        let tasks = topology.task_count() as u32;
        let partitions = topology.partition_count() as u32;
        let named = scenario.named.filter(|_| partitions > 0).map(|(number, is_current_attempt)| NamedPartition {
            partition: PartitionIndex(number % partitions),
            is_current_attempt,
        });
        Self {
            regions: Regions::build(&topology),
            failure: Failure { task: TaskIndex(scenario.fails % tasks), named },
            created: (0..tasks).filter(|&at| chosen(at, 5)).map(TaskIndex).collect(),
            lost: (0..partitions).filter(|&at| chosen(at + 17, 4)).map(PartitionIndex).collect(),
            topology,
        }
    }

    fn restarts_with(&self, lost: &BTreeSet<PartitionIndex>, stale: StalePolicy) -> BTreeSet<TaskIndex> {
        let set = restart_set(
            &self.topology,
            &self.regions,
            &self.failure,
            stale,
            |task| if self.created.contains(&task) { ExecutionState::Created } else { ExecutionState::Running },
            |partition| !lost.contains(&partition),
        );
        assert!(set.is_sorted(), "{set:?}");
        set.into_iter().collect()
    }

    fn restarts(&self) -> BTreeSet<TaskIndex> {
        self.restarts_with(&self.lost, StalePolicy::Honour)
    }

    fn is_available(&self, partition: PartitionIndex) -> bool {
        let kind = self.topology.partition_type(partition);
        self.failure.named.is_none_or(|named| named.partition != partition)
            && !self.lost.contains(&partition)
            && (kind.is_reconsumable() || kind == ResultPartitionType::PipelinedApproximate)
    }

    /// All tasks, with those that restart or would if they were not CREATED.
    fn restarting(&self, set: &BTreeSet<TaskIndex>, task: TaskIndex) -> bool {
        set.contains(&task) || self.created.contains(&task)
    }
}

/// Tasks by vertex name and subtask: the same whatever the order of vertices.
fn by_name(topology: &Topology, set: &BTreeSet<TaskIndex>) -> BTreeSet<(String, u32)> {
    let name = |task: &TaskIndex| {
        let (vertex, subtask) = topology.location(*task);
        (topology.graph().vertices[vertex].name.clone(), subtask)
    };
    set.iter().map(name).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Property 1: the failed task's region restarts, as far as it is not CREATED.
    #[test]
    fn the_failed_region_restarts(scenario in scenario()) {
        let case = Case::of(&scenario);
        let set = case.restarts();
        let region = case.regions.region_of(case.failure.task);
        prop_assert!(case.regions.tasks(region).iter().all(|&task| case.restarting(&set, task)));
        prop_assert!(set.is_disjoint(&case.created));
    }

    /// Property 2: consumers of what restarts restart.
    #[test]
    fn consumers_restart(scenario in scenario()) {
        let case = Case::of(&scenario);
        let set = case.restarts();
        for group in set.iter().flat_map(|&task| case.topology.produced_groups(task)) {
            prop_assert!(case.topology.group_consumers(group).all(|consumer| case.restarting(&set, consumer)));
        }
    }

    /// Property 3: for each member, the producer of each input that is not available restarts or is CREATED.
    #[test]
    fn producers_of_lost_inputs_restart(scenario in scenario()) {
        let case = Case::of(&scenario);
        let set = case.restarts();
        for group in set.iter().flat_map(|&task| case.topology.consumed_groups(task)) {
            for partition in case.topology.group_partitions(group) {
                let (producer, _) = case.topology.partition_location(partition);
                prop_assert!(case.is_available(partition) || case.restarting(&set, producer));
            }
        }
    }

    /// Property 4: losing more never restarts less.
    #[test]
    fn monotone_in_what_is_lost(scenario in scenario(), more in prop::collection::vec(any::<u32>(), 1..4)) {
        let case = Case::of(&scenario);
        let partitions = case.topology.partition_count() as u32;
        let more = more.into_iter().filter(|_| partitions > 0).map(|number| PartitionIndex(number % partitions));
        let lost = case.lost.iter().copied().chain(more).collect();
        prop_assert!(case.restarts().is_subset(&case.restarts_with(&lost, StalePolicy::Honour)));
    }

    /// Property 5: the order in which vertices and edges are listed does not matter.
    #[test]
    fn independent_of_order(scenario in scenario()) {
        let case = Case::of(&scenario);
        let last = scenario.graph.vertices.len() - 1;
        let mut reversed = scenario.graph.clone();
        reversed.vertices.reverse();
        reversed.edges.reverse();
        reversed.edges.iter_mut().for_each(|edge| (edge.from, edge.to) = (last - edge.from, last - edge.to));
        let topology = Topology::build(reversed).unwrap();
        let task = |task: TaskIndex| {
            let (vertex, subtask) = case.topology.location(task);
            topology.task(last - vertex, subtask).unwrap()
        };
        let partition = |partition: PartitionIndex| {
            let (producer, data_set) = case.topology.partition_location(partition);
            let (vertex, subtask) = case.topology.location(producer);
            topology.partition(last - vertex, data_set, subtask).unwrap()
        };
        let named = case.failure.named.map(|it| NamedPartition { partition: partition(it.partition), ..it });
        let mirrored = Case {
            regions: Regions::build(&topology),
            failure: Failure { task: task(case.failure.task), named },
            created: case.created.iter().copied().map(task).collect(),
            lost: case.lost.iter().copied().map(partition).collect(),
            topology: topology.clone(),
        };
        prop_assert_eq!(by_name(&topology, &mirrored.restarts()), by_name(&case.topology, &case.restarts()));
    }

    /// Ignoring a stale exception is the same as no exception; it never restarts more.
    #[test]
    fn a_stale_exception_that_is_ignored_names_nothing(scenario in scenario()) {
        let mut case = Case::of(&scenario);
        let (ignored, honoured) = (case.restarts_with(&case.lost, StalePolicy::Ignore), case.restarts());
        prop_assert!(ignored.is_subset(&honoured));
        if case.failure.named.is_some_and(|named| !named.is_current_attempt) {
            case.failure.named = None;
            prop_assert_eq!(ignored, case.restarts());
        }
    }

    /// Regions and restart set equal those of a model that looks at every pair of tasks.
    #[test]
    fn equal_to_the_naive_model(scenario in scenario()) {
        let case = Case::of(&scenario);
        let model = model::Model::of(&case.topology);
        let regions: Vec<Vec<TaskIndex>> =
            case.regions.all().map(|region| case.regions.tasks(region).to_vec()).collect();
        prop_assert_eq!(&regions, &model.regions());
        let mut expected = model.restarts(case.failure.task, |partition| case.is_available(partition));
        expected.retain(|task| !case.created.contains(task));
        prop_assert_eq!(case.restarts(), expected);
    }
}
