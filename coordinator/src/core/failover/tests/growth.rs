//! Restart sets, regions and releases of a topology that grows: those of the same graph built at once.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::model;
use super::properties::{knot, logical_graph};
use crate::core::failover::{Failure, StalePolicy, restart_all, restart_set};
use crate::core::partition_release::PartitionRelease;
use crate::core::regions::{Regions, deadlocked_vertices};
use crate::core::status::ExecutionState;
use crate::core::testing::{dynamic_topology, grow, names, partitions, task};
use crate::core::topology::{DynamicGraph, LogicalEdge, LogicalGraph, PartitionIndex, TaskIndex, Topology};

#[test]
fn restart_sets_reach_what_is_decided_and_no_further() {
    let mut topology = dynamic_topology("a*2 b*? c*?", "a=b:B b-c:B");
    let mut regions = Regions::build(&topology);
    let restarts = |topology: &Topology, regions: &Regions, fails: &str, lost: &str| {
        let lost = partitions(topology, lost);
        let failure = Failure { task: task(topology, fails), named: None };
        let running = |_| ExecutionState::Running;
        names(topology, &restart_set(topology, regions, &failure, StalePolicy::Honour, running, |p| !lost.contains(&p)))
    };
    assert_eq!(restarts(&topology, &regions, "a1", ""), "a1");
    assert_eq!(names(&topology, &restart_all(&topology)), "a1 a2");
    grow(&mut topology, "b*3").unwrap();
    regions.grow(&topology);
    assert_eq!(restarts(&topology, &regions, "a1", ""), "a1 b1 b2 b3");
    assert_eq!(restarts(&topology, &regions, "b2", "a2"), "a2 b1 b2 b3");
    grow(&mut topology, "c*3").unwrap();
    regions.grow(&topology);
    assert_eq!(restarts(&topology, &regions, "b2", ""), "b2 c2");
    assert_eq!(restarts(&topology, &regions, "c1", "b1 a2"), "a2 b1 b2 b3 c1 c2 c3");
    assert_eq!(names(&topology, &restart_all(&topology)), "a1 a2 b1 b2 b3 c1 c2 c3");
}

/// For each vertex all that are in one logical region with it, found by going round until nothing changes.
fn logical_regions(graph: &LogicalGraph) -> Vec<BTreeSet<usize>> {
    let mut together: Vec<BTreeSet<usize>> = (0..graph.vertices.len()).map(|vertex| BTreeSet::from([vertex])).collect();
    loop {
        let before = together.clone();
        for edge in graph.edges.iter().filter(|edge| edge.partition_type.must_be_pipelined_consumed()) {
            let joined: BTreeSet<usize> = together[edge.from].union(&together[edge.to]).copied().collect();
            joined.iter().for_each(|&vertex| together[vertex] = joined.clone());
        }
        if together == before {
            return together;
        }
    }
}

/// A graph, and which of its logical regions are undecided at first.
#[derive(Debug, Clone)]
struct Scenario {
    graph: LogicalGraph,
    undecided: BTreeSet<usize>,
    /// Chooses states, losses, and which vertices are decided next.
    choices: Vec<u8>,
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let graph = prop_oneof![3 => logical_graph().boxed(), 1 => knot().boxed()];
    let graph = graph.prop_filter("its regions wait for each other", |graph| deadlocked_vertices(graph).is_none());
    (graph, prop::collection::vec(any::<bool>(), 5), prop::collection::vec(any::<u8>(), 64)).prop_map(
        |(graph, drawn, choices)| {
            let undecided = undecided(&graph, &drawn);
            Scenario { graph, undecided, choices }
        },
    )
}

/// Whole logical regions, namely those drawn and those of several vertices that hang on them: a part of a region that
/// is laid out early keeps the rest out for ever.
fn undecided(graph: &LogicalGraph, drawn: &[bool]) -> BTreeSet<usize> {
    let together = logical_regions(graph);
    let is_drawn = |vertex: usize| together[vertex].iter().any(|&member| drawn[member]);
    let mut late: BTreeSet<usize> = (0..graph.vertices.len()).filter(|&vertex| is_drawn(vertex)).collect();
    let mut undecided = late.clone();
    loop {
        let before = late.len();
        for LogicalEdge { to, .. } in
            graph.edges.iter().filter(|edge| late.contains(&edge.from)).copied().collect::<Vec<_>>()
        {
            late.extend(&together[to]);
            if together[to].len() > 1 {
                undecided.extend(&together[to]);
            }
        }
        if late.len() == before {
            return undecided;
        }
    }
}

impl Scenario {
    fn chosen(&self, at: usize, modulus: u8) -> bool {
        self.choices[at % 64].is_multiple_of(modulus)
    }

    /// A topology that starts with what is decided.
    fn begin(&self) -> Topology {
        let undecided = self.undecided.iter().map(|&vertex| (vertex, Some(9))).collect();
        let graph = DynamicGraph { graph: self.graph.clone(), undecided, default_max_parallelism: 1 };
        Topology::build_dynamic(graph).unwrap()
    }

    /// A logical region that can be decided next: all it reads from outside is there.
    fn next_decision(&self, topology: &Topology, step: usize) -> Option<BTreeMap<usize, u32>> {
        let together = logical_regions(&self.graph);
        let is_fed = |vertex: &usize| {
            let members = &together[*vertex];
            let mut inputs = self.graph.edges.iter().filter(|edge| members.contains(&edge.to));
            inputs.all(|edge| members.contains(&edge.from) || topology.is_laid_out(edge.from))
        };
        let ready: Vec<usize> = topology.undecided().filter(is_fed).collect();
        let vertex = *ready.get(usize::from(self.choices[step]) % ready.len().max(1))?;
        let decided = together[vertex].iter().map(|&member| (member, self.graph.vertices[member].parallelism));
        Some(decided.collect())
    }

    /// What is laid out, as a graph of its own, with its vertices in the order in which they were laid out.
    fn at_once(&self, topology: &Topology) -> Topology {
        let mut order: Vec<usize> = topology.tasks().map(|task| topology.location(task).0).collect();
        order.dedup();
        let position = |vertex: usize| order.iter().position(|&it| it == vertex);
        let edges = self.graph.edges.iter().filter_map(|edge| {
            let (from, to) = position(edge.from).zip(position(edge.to))?;
            Some(LogicalEdge { from, to, ..*edge })
        });
        let vertices = order.iter().map(|&vertex| self.graph.vertices[vertex].clone()).collect();
        Topology::build(LogicalGraph { vertices, edges: edges.collect() }).unwrap()
    }

    /// The same for both topologies: whose partition it is decides, not its number.
    fn is_lost(&self, topology: &Topology, partition: PartitionIndex) -> bool {
        let (producer, data_set) = topology.partition_location(partition);
        self.chosen(producer.at() * 3 + data_set as usize, 3)
    }

    fn restarts(&self, topology: &Topology, regions: &Regions, fails: TaskIndex) -> Vec<TaskIndex> {
        let failure = Failure { task: fails, named: None };
        let state = |task: TaskIndex| {
            if self.chosen(task.at() + 31, 5) { ExecutionState::Created } else { ExecutionState::Running }
        };
        let is_tracked = |partition| !self.is_lost(topology, partition);
        restart_set(topology, regions, &failure, StalePolicy::Honour, state, is_tracked)
    }
}

fn listed(regions: &Regions) -> Vec<Vec<TaskIndex>> {
    regions.all().map(|region| regions.tasks(region).to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// After each step a topology that grew has the regions and the restart sets of what is laid out, built at once;
    /// even the numbers of tasks and regions are the same. The naive model agrees in the end.
    #[test]
    fn growing_is_the_same_as_building_at_once(scenario in scenario()) {
        let mut topology = scenario.begin();
        let mut regions = Regions::build(&topology);
        for step in 0.. {
            let at_once = scenario.at_once(&topology);
            let expected = Regions::build(&at_once);
            prop_assert_eq!(topology.task_count(), at_once.task_count());
            prop_assert_eq!(listed(&regions), listed(&expected));
            for fails in topology.tasks() {
                let restarts = scenario.restarts(&topology, &regions, fails);
                prop_assert_eq!(restarts, scenario.restarts(&at_once, &expected, fails), "{:?} fails", fails);
            }
            let Some(decided) = scenario.next_decision(&topology, step) else { break };
            topology.grow(&decided).unwrap();
            regions.grow(&topology);
        }
        prop_assert!((0..scenario.graph.vertices.len()).all(|vertex| topology.is_laid_out(vertex)));
        let model = model::Model::of(&topology);
        prop_assert_eq!(listed(&regions), model.regions());
    }

    /// Tasks that finish while the topology grows release what they release if it was all there from the start.
    #[test]
    fn growing_releases_the_same(scenario in scenario(), finished in prop::collection::vec(any::<u32>(), 0..40)) {
        let mut whole = scenario.begin();
        let mut steps = vec![whole.task_count() as u32];
        while let Some(decided) = scenario.next_decision(&whole, steps.len() - 1) {
            whole.grow(&decided).unwrap();
            steps.push(whole.task_count() as u32);
        }
        let whole_regions = Regions::build(&whole);
        let mut expected = PartitionRelease::new(&whole, &whole_regions, true);
        let mut topology = scenario.begin();
        let mut regions = Regions::build(&topology);
        let mut release = PartitionRelease::new(&topology, &regions, true);
        for (step, tasks) in steps.into_iter().enumerate() {
            if step > 0 {
                topology.grow(&scenario.next_decision(&topology, step - 1).unwrap()).unwrap();
                regions.grow(&topology);
                release.grow(&topology, &regions);
            }
            for task in finished.iter().filter(|_| tasks > 0).map(|number| TaskIndex(number % tasks)) {
                if scenario.chosen(task.at() + step, 4) {
                    release.vertex_unfinished(&topology, &regions, task);
                    expected.vertex_unfinished(&whole, &whole_regions, task);
                }
                let released = release.vertex_finished(&topology, &regions, task);
                prop_assert_eq!(released, expected.vertex_finished(&whole, &whole_regions, task), "{:?}", task);
            }
        }
    }
}
