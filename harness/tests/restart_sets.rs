//! The restart-set model against Flink's own answers (697 cases computed by flink-runtime 2.3.0; they lie with the
//! coordinator, which answers them too), and against the coordinator on random graphs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;
use serde::Deserialize;
use stormproof::oracle::model::{self, Edge, Exchange, Graph, ModelError, Partition, Situation, Task};
use stormproof_coordinator::core::failover::{self, Failure, NamedPartition, StalePolicy};
use stormproof_coordinator::core::regions::{Regions, deadlocked_vertices};
use stormproof_coordinator::core::status::ExecutionState;
use stormproof_coordinator::core::topology::{
    DynamicGraph, LogicalEdge, LogicalGraph, LogicalVertex, PartitionIndex, TaskIndex, Topology,
};
use stormproof_coordinator::graph::{DistributionPattern, ResultPartitionType};

#[derive(Deserialize)]
struct Case {
    id: String,
    vertices: Vec<Vertex>,
    edges: Vec<CaseEdge>,
    states: BTreeMap<String, Vec<String>>,
    lost: Vec<String>,
    fail: String,
    cause: Vec<Cause>,
}

#[derive(Deserialize)]
struct Vertex {
    name: String,
    parallelism: u32,
}

#[derive(Deserialize)]
struct CaseEdge {
    from: String,
    data: u32,
    #[serde(rename = "type")]
    exchange: String,
    to: String,
    pattern: String,
}

#[derive(Deserialize)]
struct Cause {
    partition: Option<String>,
}

#[derive(Deserialize, Default, Debug, PartialEq)]
#[serde(default)]
struct Answer {
    id: String,
    regions: Option<BTreeSet<BTreeSet<String>>>,
    restart: Option<BTreeSet<String>>,
    error: Option<Refusal>,
}

#[derive(Deserialize, Debug, PartialEq)]
struct Refusal {
    at: String,
    kind: String,
}

fn lines<T: for<'de> Deserialize<'de>>(file: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../coordinator/tests/restart-sets").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Case {
    fn position(&self, vertex: &str) -> usize {
        self.vertices.iter().position(|known| known.name == vertex).unwrap_or(usize::MAX)
    }

    fn graph(&self) -> Graph {
        let edge = |edge: &CaseEdge| Edge {
            from: self.position(&edge.from),
            data_set: edge.data,
            to: self.position(&edge.to),
            exchange: Exchange::parse(&edge.exchange).unwrap(),
            pointwise: edge.pattern == "POINTWISE",
        };
        Graph {
            vertices: self.vertices.iter().map(|vertex| (vertex.name.clone(), vertex.parallelism)).collect(),
            edges: self.edges.iter().map(edge).collect(),
        }
    }

    /// `a/0`
    fn task(&self, name: &str) -> Task {
        let (vertex, subtask) = name.split_once('/').unwrap();
        Task { vertex: self.position(vertex), subtask: subtask.parse().unwrap() }
    }

    /// `a.0/3`
    fn partition(&self, name: &str) -> Partition {
        let (set, subtask) = name.split_once('/').unwrap();
        let (vertex, data_set) = set.rsplit_once('.').unwrap();
        let producer = self.task(&format!("{vertex}/{subtask}"));
        Partition { producer, data_set: data_set.parse().unwrap() }
    }

    fn situation(&self) -> Situation {
        let named = self.cause.iter().find_map(|cause| cause.partition.as_deref());
        let lost = self.lost.iter().map(String::as_str).chain(named).map(|name| self.partition(name)).collect();
        let created = |(vertex, states): (&String, &Vec<String>)| {
            let vertex = self.position(vertex);
            let is_created = states.iter().zip(0..).filter(|(state, _)| *state == "CREATED");
            is_created.map(|(_, subtask)| Task { vertex, subtask }).collect::<Vec<_>>()
        };
        Situation { created: self.states.iter().flat_map(created).collect(), lost }
    }

    fn answer(&self) -> Answer {
        let graph = self.graph();
        let name = |task: Task| format!("{}/{}", graph.vertices[task.vertex].0, task.subtask);
        let refuse = |at: &str, error: &ModelError| {
            let kind = match error {
                ModelError::Cyclic(_) => "CYCLIC",
                ModelError::Pattern(_) => "PATTERN_MISMATCH",
                ModelError::NoTasks(_) => "BAD_PARALLELISM",
                ModelError::UnknownTask(_) => "UNKNOWN_TASK",
                ModelError::UnknownVertex(_) => "UNKNOWN_VERTEX",
            };
            Some(Refusal { at: at.into(), kind: kind.into() })
        };
        let mut answer = Answer { id: self.id.clone(), ..Answer::default() };
        match graph.regions() {
            Ok(region_of) => {
                let mut regions = BTreeMap::<usize, BTreeSet<String>>::new();
                for (task, region) in region_of {
                    regions.entry(region).or_default().insert(name(task));
                }
                answer.regions = Some(regions.into_values().collect());
            }
            Err(error) => return Answer { error: refuse("graph", &error), ..answer },
        }
        match model::restart_set(&graph, &self.situation(), self.task(&self.fail)) {
            Ok(set) => Answer { restart: Some(set.members().map(name).collect()), ..answer },
            Err(error) => Answer { error: refuse("failover", &error), ..answer },
        }
    }
}

#[test]
fn the_model_agrees_with_flink() {
    let (cases, answers) = (lines::<Case>("cases.jsonl"), lines::<Answer>("answers.jsonl"));
    assert_eq!((cases.len(), answers.len()), (697, 697));
    for (case, expected) in cases.iter().zip(answers) {
        assert_eq!(case.answer(), expected, "case {}", case.id);
    }
}

/// A random job with everything that decides a restart set.
#[derive(Debug, Clone)]
struct Scene {
    graph: Graph,
    created: BTreeSet<Task>,
    lost: BTreeSet<Partition>,
    failed: Task,
    named: Option<Partition>,
}

/// An edge as drawn: two ends, type, pattern, whether it shares an earlier data set.
type Drawn = (usize, usize, Exchange, bool, bool);

fn graphs() -> impl Strategy<Value = Graph> {
    let edge = || ((0..7_usize, 0..7_usize), exchanges(), any::<bool>(), prop::bool::weighted(0.2));
    let edges = prop::collection::vec(edge(), 0..=10).prop_map(|edges| {
        edges.into_iter().map(|((one, other), exchange, pointwise, shares)| (one, other, exchange, pointwise, shares))
    });
    prop_oneof![
        2 => assembled(1..=5, 1..=7, edges.prop_map(Iterator::collect).boxed()),
        1 => assembled(2..=8, 4..=4, knots().boxed()),
    ]
}

/// A pipelined tree of pointwise edges with blocking ones across it. Between uneven parallelisms its regions often
/// reach each other in circles, which is rare in other graphs.
fn knots() -> impl Strategy<Value = Vec<Drawn>> {
    let tree = (0..2_usize, 0..3_usize).prop_map(|(two, three)| [(0, 1), (two, 2), (three, 3)]);
    let across = prop::collection::vec((0..4_usize, 0..4_usize), 2..=5);
    (tree, across).prop_map(|(tree, across)| {
        let tied = tree.into_iter().map(|(from, to)| (from, to, Exchange::PipelinedBounded, true, false));
        tied.chain(across.into_iter().map(|(from, to)| (from, to, Exchange::Blocking, true, false))).collect()
    })
}

fn assembled(
    sizes: std::ops::RangeInclusive<u32>,
    vertices: std::ops::RangeInclusive<usize>,
    edges: BoxedStrategy<Vec<Drawn>>,
) -> BoxedStrategy<Graph> {
    (prop::collection::vec(sizes, vertices), edges)
        .prop_flat_map(|(sizes, drawn)| {
            let order = Just((0..sizes.len()).collect::<Vec<_>>()).prop_shuffle();
            (Just(sizes), order, Just(drawn))
        })
        .prop_map(|(sizes, order, drawn)| assemble(&sizes, &order, drawn))
        .boxed()
}

/// Edges go along a random order of the vertices, so the graph has no cycle and is not sorted.
fn assemble(sizes: &[u32], order: &[usize], drawn: Vec<Drawn>) -> Graph {
    let mut edges: Vec<Edge> = vec![];
    let mut sets = vec![0; sizes.len()];
    for (one, other, exchange, pointwise, shares) in drawn {
        let (one, other) = (one % sizes.len(), other % sizes.len());
        if one == other {
            continue;
        }
        let (from, to) = (order[one.min(other)], order[one.max(other)]);
        let shared = edges.iter().rev().find(|edge| shares && edge.from == from).copied();
        edges.push(match shared {
            Some(edge) => Edge { to, ..edge },
            None => Edge { from, data_set: sets[from], to, exchange, pointwise },
        });
        if shared.is_none() {
            sets[from] += 1;
        }
    }
    let vertices = sizes.iter().enumerate().map(|(number, size)| (format!("v{number}"), *size)).collect();
    Graph { vertices, edges }
}

/// The types that tie regions are as likely as all borders together, else regions stay small.
fn exchanges() -> impl Strategy<Value = Exchange> {
    let ties = prop::sample::select(vec![Exchange::Pipelined, Exchange::PipelinedBounded]);
    prop_oneof![ties, prop::sample::select(Exchange::ALL[2..].to_vec())]
}

fn scenes() -> impl Strategy<Value = Scene> {
    graphs().prop_flat_map(|graph| {
        let tasks: Vec<_> = graph.tasks().collect();
        let partitions: Vec<_> = graph
            .pairs()
            .map(|(edge, producer, _)| Partition { producer, data_set: edge.data_set })
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let lost = prop::sample::subsequence(partitions.clone(), 0..=partitions.len().min(4));
        let created = prop::sample::subsequence(tasks.clone(), 0..=tasks.len().min(6));
        let named = if partitions.is_empty() {
            Just(None).boxed()
        } else {
            prop::option::weighted(0.3, prop::sample::select(partitions)).boxed()
        };
        (Just(graph), created, lost, prop::sample::select(tasks), named).prop_map(
            |(graph, created, lost, failed, named)| Scene {
                graph,
                created: created.into_iter().collect(),
                lost: lost.into_iter().collect(),
                failed,
                named,
            },
        )
    })
}

impl Scene {
    fn by_the_model(&self) -> (BTreeSet<BTreeSet<Task>>, BTreeSet<Task>) {
        let lost = self.lost.iter().chain(&self.named).copied().collect();
        let situation = Situation { created: self.created.clone(), lost };
        let mut regions = BTreeMap::<usize, BTreeSet<Task>>::new();
        for (task, region) in self.graph.regions().unwrap() {
            regions.entry(region).or_default().insert(task);
        }
        let set = model::restart_set(&self.graph, &situation, self.failed).unwrap();
        (regions.into_values().collect(), set.members().collect())
    }

    fn topology(&self) -> Topology {
        Topology::build(self.logical_graph()).unwrap()
    }

    fn logical_graph(&self) -> LogicalGraph {
        let pattern =
            |pointwise| if pointwise { DistributionPattern::Pointwise } else { DistributionPattern::AllToAll };
        let vertex =
            |(name, parallelism): &(String, u32)| LogicalVertex { name: name.clone(), parallelism: *parallelism };
        let edge = |edge: &Edge| LogicalEdge {
            from: edge.from,
            data_set: edge.data_set,
            to: edge.to,
            partition_type: ResultPartitionType::from_exchange_name(edge.exchange.name()).unwrap(),
            pattern: pattern(edge.pointwise),
        };
        let vertices = self.graph.vertices.iter().map(vertex).collect();
        LogicalGraph { vertices, edges: self.graph.edges.iter().map(edge).collect() }
    }

    /// The topology and its regions, grown from nothing: what must run together is decided together, as soon as all
    /// that it reads is there. None if regions wait for each other, for then nothing can come first.
    fn grown(&self) -> Option<(Topology, Regions)> {
        let graph = self.logical_graph();
        if deadlocked_vertices(&graph).is_some() {
            return None;
        }
        let parallelism: Vec<u32> = graph.vertices.iter().map(|vertex| vertex.parallelism).collect();
        let undecided = (0..parallelism.len()).map(|vertex| (vertex, None)).collect();
        let dynamic = DynamicGraph { graph, undecided, default_max_parallelism: 64 };
        let mut topology = Topology::build_dynamic(dynamic).unwrap();
        let mut regions = Regions::build(&topology);
        loop {
            let next = topology.undecided().next();
            let Some(first) = next else { break };
            let mut together = BTreeSet::from([first]);
            loop {
                let size = together.len();
                for edge in &self.graph.edges {
                    let is_tie = matches!(edge.exchange, Exchange::Pipelined | Exchange::PipelinedBounded);
                    let [from, to] = [edge.from, edge.to].map(|end| together.contains(&end));
                    // With a member come those it is tied to, and whatever it reads that is not there yet.
                    if (is_tie && (from || to)) || (to && !topology.is_laid_out(edge.from)) {
                        together.extend([edge.from, edge.to]);
                    }
                }
                if together.len() == size {
                    break;
                }
            }
            topology.grow(&together.into_iter().map(|vertex| (vertex, parallelism[vertex])).collect()).unwrap();
            regions.grow(&topology);
        }
        Some((topology, regions))
    }

    fn by_the_coordinator(&self) -> (BTreeSet<BTreeSet<Task>>, BTreeSet<Task>) {
        let topology = self.topology();
        let regions = Regions::build(&topology);
        self.answer_on(&topology, &regions)
    }

    fn answer_on(&self, topology: &Topology, regions: &Regions) -> (BTreeSet<BTreeSet<Task>>, BTreeSet<Task>) {
        let task = |index: TaskIndex| {
            let (vertex, subtask) = topology.location(index);
            Task { vertex, subtask }
        };
        let partition = |index: PartitionIndex| {
            let (producer, data_set) = topology.partition_location(index);
            Partition { producer: task(producer), data_set }
        };
        let named = self.named.map(|named| NamedPartition {
            partition: topology.partition(named.producer.vertex, named.data_set, named.producer.subtask).unwrap(),
            is_current_attempt: true,
        });
        let state = |index| {
            if self.created.contains(&task(index)) { ExecutionState::Created } else { ExecutionState::Running }
        };
        let failed = topology.task(self.failed.vertex, self.failed.subtask).unwrap();
        let failure = Failure { task: failed, named };
        let is_tracked = |index| !self.lost.contains(&partition(index));
        let set = failover::restart_set(topology, regions, &failure, StalePolicy::Ignore, state, is_tracked);
        let all = regions.all().map(|region| regions.tasks(region).iter().copied().map(task).collect());
        (all.collect(), set.into_iter().map(task).collect())
    }
}

/// `PROPTEST_CASES=20000 cargo test --test restart_sets` looks longer.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|number| number.parse().ok()).unwrap_or(2_000)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 300, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn the_coordinator_agrees_with_the_model(scene in scenes()) {
        prop_assert_eq!(scene.by_the_coordinator(), scene.by_the_model());
    }

    /// Also if the parallelism of its vertices was decided one after the other.
    #[test]
    fn a_coordinator_whose_graph_grew_agrees_with_the_model(scene in scenes()) {
        if let Some((topology, regions)) = scene.grown() {
            prop_assert_eq!(scene.answer_on(&topology, &regions), scene.by_the_model());
        }
    }

    /// What must hold of any restart set, whoever computed it (reference 2.8).
    #[test]
    fn a_restart_set_is_closed(scene in scenes()) {
        let (regions, members) = scene.by_the_model();
        let restarts_or_is_created = |task: &Task| members.contains(task) || scene.created.contains(task);
        let region = regions.iter().find(|region| region.contains(&scene.failed)).unwrap();
        prop_assert!(region.iter().all(restarts_or_is_created));
        prop_assert!(members.is_disjoint(&scene.created));
        for (edge, producer, consumer) in scene.graph.pairs() {
            let partition = Partition { producer, data_set: edge.data_set };
            let is_gone = scene.lost.contains(&partition) || scene.named == Some(partition);
            prop_assert!(!members.contains(&producer) || restarts_or_is_created(&consumer));
            prop_assert!(!is_gone || !members.contains(&consumer) || restarts_or_is_created(&producer));
        }
    }
}
