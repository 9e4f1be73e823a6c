//! Region building and restart sets at the sizes of Flink's scheduler benchmarks (reference 10).
//!
//! Targets on two cores: regions of a million tasks in 25 ms and 64 MiB, the restart set of 4000 × 4000 in 1 ms warm and
//! 5 ms cold, and of 10 000 × 10 000 in 3 ms warm. Flink 2.3's own classes need 9 and 17 ms warm, 25 and 42 ms cold.
//!
//! Warm is criterion's estimate. Cold is the first call in a process of its own, once for each of several processes.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use stormproof_coordinator::core::failover::{Failure, StalePolicy, restart_set};
use stormproof_coordinator::core::regions::Regions;
use stormproof_coordinator::core::status::ExecutionState;
use stormproof_coordinator::core::topology::{
    DynamicGraph, LogicalEdge, LogicalGraph, LogicalVertex, TaskIndex, Topology,
};
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

/// Fifty vertices of 4000 tasks, decided one after the other. What is there before must not matter, but for the arrays
/// that now and then move as a whole.
fn growth(criterion: &mut Criterion) {
    const ADDED: usize = 50;
    for before in [2, 250] {
        let graph = chain(before + ADDED, 4_000, &[BLOCKING]);
        let undecided = (before..before + ADDED).map(|vertex| (vertex, None)).collect();
        let dynamic = DynamicGraph { graph, undecided, default_max_parallelism: 4_000 };
        let topology = Topology::build_dynamic(dynamic).expect("the graph is a chain");
        let regions = Regions::build(&topology);
        let grow = |(topology, regions): &mut (Topology, Regions)| {
            for vertex in before..before + ADDED {
                topology.grow(&BTreeMap::from([(vertex, 4_000)])).expect("its input is there");
                regions.grow(topology);
            }
        };
        let name = format!("grow {before} vertices of 4000 tasks by {ADDED} more");
        criterion.bench_function(&name, |b| {
            b.iter_batched_ref(|| (topology.clone(), regions.clone()), grow, BatchSize::LargeInput);
        });
    }
}

/// Cost follows tasks: the throughput must not fall as the job grows.
fn scaling(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("regions of 250 layers");
    for parallelism in [4, 40, 400, 4_000] {
        let topology = built(chain(250, parallelism, &[PIPELINED, BLOCKING]));
        let tasks = u64::from(parallelism) * 250;
        group.throughput(Throughput::Elements(tasks));
        group.bench_with_input(BenchmarkId::from_parameter(format!("{tasks} tasks")), &topology, |b, topology| {
            b.iter(|| Regions::build(topology));
        });
    }
}

/// A job of two vertices, all-to-all, of which the first task of the first fails.
struct Pair {
    name: &'static str,
    parallelism: u32,
    kind: (ResultPartitionType, DistributionPattern),
    /// Tasks that restart.
    restarts: usize,
}

const PAIRS: [Pair; 4] = [
    Pair { name: "4000 × 4000 BLOCKING", parallelism: 4_000, kind: BLOCKING, restarts: 4_001 },
    Pair { name: "4000 × 4000 PIPELINED", parallelism: 4_000, kind: PIPELINED_ALL, restarts: 8_000 },
    Pair { name: "10000 × 10000 BLOCKING", parallelism: 10_000, kind: BLOCKING, restarts: 10_001 },
    Pair { name: "10000 × 10000 PIPELINED", parallelism: 10_000, kind: PIPELINED_ALL, restarts: 20_000 },
];

const PIPELINED_ALL: (ResultPartitionType, DistributionPattern) =
    (ResultPartitionType::PipelinedBounded, DistributionPattern::AllToAll);

impl Pair {
    fn built(&self) -> (Topology, Regions) {
        let topology = built(chain(2, self.parallelism, &[self.kind]));
        let regions = Regions::build(&topology);
        (topology, regions)
    }

    fn restart_set(&self, topology: &Topology, regions: &Regions) -> usize {
        let running = |_: TaskIndex| ExecutionState::Running;
        let failure = Failure { task: TaskIndex(0), named: None };
        let set = restart_set(topology, regions, &failure, StalePolicy::Honour, running, |_| true);
        assert_eq!(set.len(), self.restarts);
        set.len()
    }
}

fn restart_sets(criterion: &mut Criterion) {
    for pair in &PAIRS {
        let (topology, regions) = pair.built();
        let name = format!("restart set of {}", pair.name);
        criterion.bench_function(&name, |b| b.iter(|| pair.restart_set(&topology, &regions)));
    }
}

/// Names the pair whose cold time this process is to print, in nanoseconds.
const COLD_VARIABLE: &str = "STORMPROOF_BENCH_COLD";

/// Processes that each cold figure is taken from.
const COLD_PROCESSES: usize = 9;

fn print_cold_time(name: &str) {
    let pair = PAIRS.iter().find(|pair| pair.name == name).expect("the name came from here");
    let (topology, regions) = pair.built();
    let began = Instant::now();
    black_box(pair.restart_set(&topology, &regions));
    println!("{}", began.elapsed().as_nanos());
}

fn cold_restart_sets() {
    let binary = std::env::current_exe().expect("a bench is a file");
    for pair in &PAIRS {
        let one = |_| {
            let output = Command::new(&binary).env(COLD_VARIABLE, pair.name).output().expect("it started before");
            String::from_utf8_lossy(&output.stdout).trim().parse::<u64>().expect("nanoseconds")
        };
        let mut times: Vec<u64> = (0..COLD_PROCESSES).map(one).collect();
        times.sort_unstable();
        let [least, median, most] = [0, COLD_PROCESSES / 2, COLD_PROCESSES - 1].map(|at| times[at] as f64 / 1e6);
        println!("restart set of {}, cold: median {median:.2} ms ({least:.2} to {most:.2} ms)", pair.name);
    }
}

fn main() {
    if let Ok(name) = std::env::var(COLD_VARIABLE) {
        print_cold_time(&name);
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    regions(&mut criterion);
    scaling(&mut criterion);
    growth(&mut criterion);
    cold_restart_sets();
    restart_sets(&mut criterion);
    criterion.final_summary();
}
