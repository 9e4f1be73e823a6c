//! Random job graphs, most of them wrong: built and checked, or refused by the vertex's name; never a panic.

use std::collections::BTreeSet;

use proptest::prelude::*;
use stormproof::job::{
    Collector, JobGraph, JobGraphError, JobKind, Operator, Record, ResultPartitionType, ShipStrategy, Source,
    SourceStatus, TaskContext, TaskError,
};

struct Nothing;

impl Source for Nothing {
    fn poll(&mut self, _: &mut dyn TaskContext, _: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
        Ok(SourceStatus::Finished)
    }
}

impl Operator for Nothing {
    fn process(
        &mut self,
        _: usize,
        _: Record,
        _: &mut dyn TaskContext,
        _: &mut dyn Collector,
    ) -> Result<(), TaskError> {
        Ok(())
    }
}

#[derive(Debug, Clone)]
struct Drawn {
    /// Number in the name, whether it is a source, parallelism.
    vertices: Vec<(u8, bool, u32)>,
    /// Ends; those out of range are handles of another builder.
    edges: Vec<(usize, usize, ShipStrategy, ResultPartitionType)>,
}

fn drawings() -> impl Strategy<Value = Drawn> {
    use ShipStrategy::{Broadcast, Forward, Global, Hash, Rebalance, Rescale};
    let sizes = prop_oneof![
        8 => 1..4_u32,
        1 => prop::sample::select(vec![0, 32_768, 32_769, u32::MAX]),
    ];
    let vertex = (prop_oneof![6 => 0..200_u8, 1 => 0..3_u8], prop::bool::weighted(0.3), sizes);
    let ships = prop::sample::select(vec![Forward, Rescale, Hash, Rebalance, Broadcast, Global]);
    let types = prop::sample::select(ResultPartitionType::ALL.to_vec());
    let edge = (0..8_usize, 0..8_usize, ships, types);
    let any_edges = prop::collection::vec(edge, 0..10);
    (prop::collection::vec(vertex, 0..7), any_edges, prop::bool::weighted(0.7)).prop_map(
        |(vertices, edges, is_tame)| {
            let edges = edges.into_iter().map(|(from, to, ship, kind)| {
                // Most wild graphs fail at their first edge; tame ones get further.
                let count = vertices.len().max(1);
                let (a, b) = (from % count, to % count);
                if is_tame { (a.min(b), a.max(b), ship, kind) } else { (from, to, ship, kind) }
            });
            Drawn { edges: edges.filter(|(from, to, ..)| !is_tame || from != to).collect(), vertices: vertices.clone() }
        },
    )
}

fn build(drawn: &Drawn) -> Result<JobGraph, JobGraphError> {
    let mut job = JobGraph::builder("drawn", JobKind::Batch);
    let mut other = JobGraph::builder("other", JobKind::Batch);
    let mut handles = vec![];
    for (number, is_source, parallelism) in &drawn.vertices {
        let name = format!("vertex-{number}");
        handles.push(match is_source {
            true => job.source(name, *parallelism, |_| Ok(Box::new(Nothing))),
            false => job.operator(name, *parallelism, |_| Ok(Box::new(Nothing))),
        });
    }
    let foreign: Vec<_> =
        (0..16).map(|number| other.source(format!("other-{number}"), 1, |_| Ok(Box::new(Nothing)))).collect();
    for (from, to, ship, kind) in &drawn.edges {
        let handle = |at: usize| handles.get(at).copied().unwrap_or(foreign[at]);
        job.connect(handle(*from), handle(*to), *ship, *kind);
    }
    job.build()
}

fn check(graph: &JobGraph, drawn: &Drawn) {
    assert_eq!((graph.vertices.len(), graph.edges.len()), (drawn.vertices.len(), drawn.edges.len()));
    assert!(graph.edges.iter().all(|edge| edge.from < edge.to), "in topological order");
    let names: BTreeSet<_> = graph.vertices.iter().map(|vertex| &vertex.name).collect();
    assert_eq!(names.len(), graph.vertices.len());
    assert!(graph.vertices.iter().all(|vertex| (1..=32_768).contains(&vertex.parallelism)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    #[test]
    fn a_random_graph_is_built_or_refused_by_name(drawn in drawings()) {
        match build(&drawn) {
            Ok(graph) => check(&graph, &drawn),
            Err(JobGraphError::Empty) => prop_assert!(drawn.vertices.is_empty()),
            Err(error) => {
                let told = error.to_string();
                let named = drawn.vertices.iter().any(|(number, ..)| told.contains(&format!("vertex-{number}")));
                prop_assert!(named || matches!(&error, JobGraphError::ForeignVertex(_)), "{}", told);
            }
        }
    }
}

#[test]
fn a_handle_of_another_builder_is_refused() {
    let edge = |from, to| (from, to, ShipStrategy::Hash, ResultPartitionType::Blocking);
    let drawn = |edges| Drawn { vertices: vec![(1, true, 2), (2, false, 2)], edges };
    let refused = |edges| build(&drawn(edges)).expect_err("refused").to_string();
    assert_eq!(
        refused(vec![edge(0, 1), edge(5, 1)]),
        "`vertex-2` is joined to a vertex of another job's graph; join vertices of one builder"
    );
    assert!(refused(vec![edge(0, 7)]).contains("vertex-1"));
    assert!(build(&drawn(vec![edge(0, 1)])).is_ok());
}
