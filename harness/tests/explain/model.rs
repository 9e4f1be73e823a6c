//! The explanation against the oracle's independent model, on random plans with random states and places.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use stormproof::explain::{Picture, Question, Wave, WaveKind};
use stormproof::oracle::incident::{Incident, Scene};
use stormproof::oracle::model::{self, Exchange, Graph, Partition, Reason, Situation, Task};
use stormproof::oracle::observed::ObservedGraph;
use stormproof::timeline::{
    Losses, ObservedEdge, ObservedPlan, ObservedVertex, PartitionName, Record, RecordKind, TaskFact, TaskName, Timeline,
};

const JOB: &str = "00000000000000000000000000c0ffee";

/// The states of a running job, the usual ones more often.
const STATES: [&str; 8] = ["CREATED", "CREATED", "RUNNING", "RUNNING", "FINISHED", "FINISHED", "DEPLOYING", "CANCELED"];

#[derive(Debug, Clone)]
struct Story {
    plan: ObservedPlan,
    tasks: BTreeMap<TaskName, TaskFact>,
    failing: Vec<TaskName>,
    executor: Option<String>,
    lost: Vec<PartitionName>,
    named: Option<PartitionName>,
}

fn plans() -> impl Strategy<Value = ObservedPlan> {
    let edge = (
        (0..7_usize, 0..7_usize),
        prop::sample::select(Exchange::ALL.to_vec()),
        prop::sample::select(vec!["FORWARD", "RESCALE", "HASH", "REBALANCE", "BROADCAST", "GLOBAL", "odd", ""]),
    );
    (prop::collection::vec(1..=4_u32, 1..=6), prop::collection::vec(edge, 0..=9)).prop_map(|(sizes, drawn)| {
        let name = |at: usize| format!("v {at}/x");
        let vertices = sizes.iter().enumerate().map(|(at, size)| ObservedVertex { name: name(at), parallelism: *size });
        let edges = drawn.into_iter().filter_map(|((one, other), exchange, ship)| {
            let (one, other) = (one % sizes.len(), other % sizes.len());
            (one != other).then(|| ObservedEdge {
                from: name(one.min(other)),
                to: name(one.max(other)),
                exchange: exchange.name().to_owned(),
                ship_strategy: ship.to_owned(),
                data_set: None,
            })
        });
        ObservedPlan { vertices: vertices.collect(), edges: edges.collect() }
    })
}

fn stories() -> impl Strategy<Value = Story> {
    plans().prop_flat_map(|plan| {
        let observed = ObservedGraph::of(&plan).unwrap();
        let names: Vec<TaskName> = observed.graph.tasks().map(|task| observed.name(task)).collect();
        let partitions: Vec<PartitionName> = observed
            .graph
            .tasks()
            .flat_map(|task| observed.partitions_of(task).collect::<Vec<_>>())
            .map(|p| PartitionName { producer: observed.name(p.producer), data_set: Some(p.data_set) })
            .collect();
        let fact =
            (prop::sample::select(STATES.to_vec()), 0..3_u32, 0..3_u32).prop_map(|(state, attempt, executor)| {
                let executor = (state != "CREATED").then(|| format!("executor-{executor}"));
                TaskFact { attempt, state: state.to_owned(), executor }
            });
        let facts = prop::collection::vec(fact, names.len());
        let tasks = facts.prop_map({
            let names = names.clone();
            move |facts| names.iter().cloned().zip(facts).collect::<BTreeMap<_, _>>()
        });
        let named = match partitions.is_empty() {
            true => Just(None).boxed(),
            false => prop::option::weighted(0.3, prop::sample::select(partitions.clone())).boxed(),
        };
        let lost = prop::sample::subsequence(partitions.clone(), 0..=partitions.len().min(4));
        let failing = prop::sample::subsequence(names.clone(), 0..=names.len().min(2));
        let executor = prop::option::of((0..3_u32).prop_map(|number| format!("executor-{number}")));
        (Just(plan), tasks, failing, executor, lost, named).prop_map(|(plan, tasks, failing, executor, lost, named)| {
            // An executor can only be asked about if a task is there.
            let executor = executor.filter(|wanted| tasks.values().any(|fact| fact.executor.as_ref() == Some(wanted)));
            Story { plan, tasks, failing, executor, lost, named }
        })
    })
}

impl Story {
    fn question(&self) -> Question {
        let partition = |name: &PartitionName| {
            let TaskName { vertex, subtask } = &name.producer;
            format!("{vertex}.{}/{subtask}", name.data_set.unwrap())
        };
        Question {
            fail: self.failing.iter().map(|task| format!("{}/{}", task.vertex, task.subtask)).collect(),
            executors: self.executor.clone().into_iter().collect(),
            lost: self.lost.iter().map(partition).collect(),
            named: self.named.as_ref().filter(|_| !self.failing.is_empty()).map(partition),
            stale_honoured: false,
            partitions_are_kept: true,
        }
    }

    fn timeline(&self) -> Timeline {
        let states = self.tasks.iter().map(|(task, fact)| RecordKind::TaskState {
            job: JOB.into(),
            task: task.clone(),
            attempt: fact.attempt,
            state: fact.state.clone(),
            executor: fact.executor.clone(),
        });
        let record = |(seq, kind)| Record { seq, at_ms: 0, wall_ms: 0, kind };
        Timeline::new((0..).zip(states).map(record).collect())
    }

    fn created(&self, observed: &ObservedGraph) -> BTreeSet<Task> {
        let created = self.tasks.iter().filter(|(_, fact)| fact.state == "CREATED");
        created.filter_map(|(name, _)| observed.task(name)).collect()
    }
}

/// What is known of a graph by the model's definitions.
struct Truth {
    regions: BTreeMap<Task, usize>,
    reads: BTreeSet<(Partition, Task)>,
}

impl Truth {
    fn of(graph: &Graph) -> Self {
        let reads = graph.pairs();
        let reads =
            reads.map(|(edge, producer, reader)| (Partition { producer, data_set: edge.data_set }, reader)).collect();
        Self { regions: graph.regions().unwrap(), reads }
    }

    /// The reason holds, and what it points at was itself reached.
    fn allows(&self, wave: &Wave, task: Task) -> bool {
        let is_reached = |parent: &Task| wave.reached.contains_key(parent);
        match wave.reached[&task] {
            Reason::Failed => wave.failing.contains(&task),
            Reason::SameRegion(mate) => is_reached(&mate) && self.regions[&mate] == self.regions[&task],
            Reason::Consumes(from) => {
                is_reached(&from) && self.reads.iter().any(|(read, by)| (read.producer, *by) == (from, task))
            }
            Reason::InputLost { partition, needed_by } => {
                is_reached(&needed_by) && partition.producer == task && self.reads.contains(&(partition, needed_by))
            }
        }
    }
}

/// `PROPTEST_CASES=20000 cargo test --test explain` looks longer.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|number| number.parse().ok()).unwrap_or(1_000)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 300, ..ProptestConfig::with_cases(cases()) })]

    /// What fails now: the model over the same facts, put together here.
    #[test]
    fn the_first_wave_is_the_models_answer(story in stories()) {
        let observed = ObservedGraph::of(&story.plan).unwrap();
        let picture = Picture::of_facts(&story.plan, &story.tasks).unwrap();
        let question = story.question();
        let explanation = picture.explain(&question).unwrap();

        let on_lost = |fact: &TaskFact| story.executor.is_some() && fact.executor == story.executor;
        let ended = ["CREATED", "FINISHED", "CANCELED"];
        let mut failed: BTreeSet<Task> = story.failing.iter().filter_map(|name| observed.task(name)).collect();
        let there: Vec<_> = story.tasks.iter().filter(|(_, fact)| on_lost(fact)).collect();
        let live = there.iter().filter(|(_, fact)| !ended.contains(&fact.state.as_str()));
        failed.extend(live.filter_map(|(name, _)| observed.task(name)));
        let named = story.named.iter().filter(|_| !story.failing.is_empty());
        let mut lost: BTreeSet<Partition> =
            story.lost.iter().chain(named).flat_map(|name| observed.partitions(name)).collect();
        let held = there.iter().filter_map(|(name, _)| observed.task(name));
        lost.extend(held.flat_map(|task| observed.partitions_of(task).collect::<Vec<_>>()));
        let approximate = observed.graph.pairs().filter(|(edge, ..)| edge.exchange == Exchange::PipelinedApproximate);
        lost.extend(approximate.map(|(edge, producer, _)| Partition { producer, data_set: edge.data_set }));

        let situation = Situation { created: story.created(&observed), lost };
        let sets: Vec<_> =
            failed.iter().map(|task| model::restart_set(&observed.graph, &situation, *task).unwrap()).collect();
        let expected: BTreeSet<Task> = sets.iter().flat_map(model::RestartSet::members).collect();
        prop_assert_eq!(explanation.restart(WaveKind::Now).collect::<BTreeSet<_>>(), expected);
        let reached: BTreeSet<Task> = sets.iter().flat_map(|set| set.reached.keys().copied()).collect();
        let wave = &explanation.waves[0];
        prop_assert_eq!(wave.reached.keys().copied().collect::<BTreeSet<_>>(), reached);
        let truth = Truth::of(&observed.graph);
        for (task, reason) in &wave.reached {
            prop_assert!(truth.allows(wave, *task), "{:?}: {:?}", task, reason);
        }
        prop_assert!(wave.spared().all(|task| situation.created.contains(&task)));
        // Whatever there is to say can be said.
        prop_assert!(!picture.lines(&explanation).is_empty());
        let restart = picture.explanation_json(&explanation)["restart"].as_array().unwrap().len();
        prop_assert_eq!(restart, wave.restart.len());
    }

    /// All waves, released partitions included: what the oracle of the suites demands and allows.
    #[test]
    fn all_waves_are_what_the_oracle_expects(story in stories()) {
        let observed = ObservedGraph::of(&story.plan).unwrap();
        let picture = Picture::of_facts(&story.plan, &story.tasks).unwrap();
        let question = Question { named: None, partitions_are_kept: false, ..story.question() };
        let explanation = picture.explain(&question).unwrap();

        let timeline = story.timeline();
        let losses = Losses {
            executors: story.executor.clone().into_iter().collect(),
            partitions: story.lost.clone(),
            tasks: story.failing.clone(),
            impaired: vec![],
        };
        let position = timeline.records().len();
        let incident = Incident { what: "it".into(), position, losses, by_fault: true, is_late: false };
        let impact = Scene::new(&timeline, JOB, &observed, &incident).impact(&mut BTreeMap::new(), true).unwrap();
        let set = |situation, task: &Task| model::restart_set(&observed.graph, situation, *task).unwrap();
        let due = impact.failed.iter().chain(&impact.will_miss_input);
        let must: BTreeSet<Task> =
            due.clone().flat_map(|task| set(&impact.certain, task).members().collect::<Vec<_>>()).collect();
        prop_assert_eq!(explanation.certain(), must);
        let maybe = due.chain(&impact.maybe_failed);
        let may: BTreeSet<Task> = maybe.flat_map(|task| set(&impact.possible, task).reached.into_keys()).collect();
        let possible = explanation.possible();
        prop_assert!(possible.is_subset(&may), "{:?} are not allowed", possible.difference(&may).collect::<Vec<_>>());
    }
}
