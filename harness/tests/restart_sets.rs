//! The restart-set model against Flink's own answers (`restart-sets/`: 697 cases computed by flink-runtime 2.3.0).

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use stormproof::oracle::model::{self, Edge, Exchange, Graph, ModelError, Partition, Situation, Task};

#[derive(Deserialize)]
struct Case {
    id: String,
    vertices: Vec<Vertex>,
    edges: Vec<CaseEdge>,
    states: std::collections::BTreeMap<String, Vec<String>>,
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/restart-sets").join(file);
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
                let mut regions = std::collections::BTreeMap::<usize, BTreeSet<String>>::new();
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
