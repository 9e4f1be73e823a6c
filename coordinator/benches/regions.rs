//! Region building and restart sets at the sizes of Flink's scheduler benchmarks (reference 10).
//!
//! Targets on two cores: regions of a million tasks in 25 ms and 64 MiB, the restart set of 4000 × 4000 in 1 ms and of
//! 10 000 × 10 000 in 3 ms. Flink 2.3 needs 11 to 31 ms and 43 to 90 ms for the latter two, warm.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use stormproof_coordinator::core::failover::{Failure, StalePolicy, restart_set};
use stormproof_coordinator::core::regions::Regions;
use stormproof_coordinator::core::status::ExecutionState;
use stormproof_coordinator::core::topology::{LogicalEdge, LogicalGraph, LogicalVertex, TaskIndex, Topology};
use stormproof_coordinator::graph::{DistributionPattern, ResultPartitionType};

const PIPELINED: (ResultPartitionType, DistributionPattern) =
    (ResultPartitionType::PipelinedBounded, DistributionPattern::Pointwise);
const BLOCKING: (ResultPartitionType, DistributionPattern) =
    (ResultPartitionType::Blocking, DistributionPattern::AllToAll);

/// A chain of vertices of equal parallelism; the edges take `kinds` in turn.
fn chain(vertices: usize, parallelism: u32, kinds: &[(ResultPartitionType, DistributionPattern)]) -> LogicalGraph {
    let vertex = |number| LogicalVertex { name: format!("layer-{number}"), parallelism };
    let edges = kinds.iter().cycle().take(vertices - 1).enumerate().map(|(from, &(partition_type, pattern))| {
        LogicalEdge { from, data_set: 0, to: from + 1, partition_type, pattern }
    });
    LogicalGraph { vertices: (0..vertices).map(vertex).collect(), edges: edges.collect() }
}

fn built(graph: LogicalGraph) -> Topology {
    Topology::build(graph).expect("the graph is a chain")
}

/// The most memory this process ever had, KiB (Linux; elsewhere nothing is printed).
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok())
}

fn regions(criterion: &mut Criterion) {
    let graph = chain(250, 4_000, &[PIPELINED, BLOCKING]);
    // The first thing this process does, so that the growth of its peak is what topology and regions need.
    let before = peak_kib();
    let topology = built(graph.clone());
    let regions = Regions::build(&topology);
    if let (Some(before), Some(after)) = (before, peak_kib()) {
        println!("a million tasks, {} regions: {} KiB for topology and regions", regions.count(), after - before);
    }
    criterion.bench_function("build the topology of a million tasks", |b| b.iter(|| built(black_box(graph.clone()))));
    criterion.bench_function("build the regions of a million tasks", |b| b.iter(|| Regions::build(&topology)));
}

fn restart_sets(criterion: &mut Criterion) {
    let running = |_: TaskIndex| ExecutionState::Running;
    for parallelism in [4_000, 10_000] {
        for (name, kind, expected) in [
            ("BLOCKING", BLOCKING, parallelism as usize + 1),
            ("PIPELINED", (PIPELINED.0, DistributionPattern::AllToAll), parallelism as usize * 2),
        ] {
            let topology = built(chain(2, parallelism, &[kind]));
            let regions = Regions::build(&topology);
            let failure = Failure { task: TaskIndex(0), named: None };
            let set = || restart_set(&topology, &regions, &failure, StalePolicy::Honour, running, |_| true);
            assert_eq!(set().len(), expected);
            criterion.bench_function(&format!("restart set of {parallelism} × {parallelism} {name}"), |b| b.iter(set));
        }
    }
}

criterion_group!(benches, regions, restart_sets);
criterion_main!(benches);
