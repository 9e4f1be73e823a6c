//! The vertices and edges of REST answers.

use std::collections::BTreeMap;

use serde_json::Value;
use stormproof_coordinator::graph::job::MAX_PARALLELISM;

use super::error::ExplainError;
use super::rest::{Saved, found, text, whole};
use crate::timeline::{ObservedEdge, ObservedVertex};

/// A vertex as `GET /jobs/:id` shows it.
#[derive(Debug)]
pub(super) struct RestVertex {
    pub(super) id: String,
    /// Unique.
    pub(super) name: String,
    /// 0 if it is not decided.
    pub(super) parallelism: u32,
    /// Its parallelism is decided once its inputs are there (adaptive batch): it has no tasks.
    pub(super) is_undecided: bool,
    /// Number of tasks by state, without zeros.
    pub(super) counts: BTreeMap<String, u32>,
}

impl RestVertex {
    pub(super) fn observed(&self) -> ObservedVertex {
        ObservedVertex { name: self.name.clone(), parallelism: self.parallelism }
    }
}

fn entries<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// All vertices: in the order of the job's list, which is topological, then what only the plan has.
pub(super) fn read(job: &Saved, plan: &Value, notes: &mut Vec<String>) -> Result<Vec<RestVertex>, ExplainError> {
    let mut nodes: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut order = vec![];
    for node in entries(plan, "nodes") {
        let Some(id) = text(node, "id").filter(|id| !id.is_empty()) else {
            return Err(job.shape(&format!("has a plan node with {} as `id`", found(node.get("id")))));
        };
        if nodes.insert(id, node).is_some() {
            return Err(ExplainError::Twice(id.to_owned()));
        }
        order.push(id);
    }
    let mut listed: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut vertices = vec![];
    for entry in entries(&job.value, "vertices") {
        let name = text(entry, "name").unwrap_or("?");
        let Some(id) = text(entry, "id") else {
            let (vertex, found) = (name.to_owned(), found(entry.get("id")));
            return Err(ExplainError::Field { vertex, field: "id", found });
        };
        if listed.insert(id, entry).is_some() {
            return Err(ExplainError::Twice(name.to_owned()));
        }
        let Some(node) = nodes.get(id) else {
            return Err(ExplainError::Field { vertex: name.to_owned(), field: "plan", found: "no node".to_owned() });
        };
        vertices.push(vertex(id, Some(entry), node, notes)?);
    }
    for id in order.into_iter().filter(|id| !listed.contains_key(id)) {
        vertices.push(vertex(id, None, nodes[id], notes)?);
    }
    make_unique(&mut vertices);
    Ok(vertices)
}

fn vertex(id: &str, entry: Option<&Value>, node: &Value, notes: &mut Vec<String>) -> Result<RestVertex, ExplainError> {
    let name = entry.and_then(|entry| text(entry, "name")).filter(|name| !name.is_empty());
    let name = name.map(str::to_owned).or_else(|| described(node)).unwrap_or_else(|| id.to_owned());
    let sources = [entry, Some(node)].map(|value| value.and_then(|value| value.get("parallelism")));
    let Some(parallelism) = sources.iter().find_map(|value| value.and_then(whole)) else {
        let found = found(sources.into_iter().flatten().next());
        return Err(ExplainError::Field { vertex: name, field: "parallelism", found });
    };
    let is_undecided = parallelism == -1;
    if is_undecided {
        notes.push(format!("the parallelism of `{name}` is not decided yet: it has no tasks to restart"));
    }
    let parallelism = if is_undecided { 0 } else { parallelism };
    let Some(parallelism) =
        u32::try_from(parallelism).ok().filter(|p| is_undecided || (1..=MAX_PARALLELISM).contains(p))
    else {
        let found = format!("{parallelism} (it must be from 1 to {MAX_PARALLELISM})");
        return Err(ExplainError::Field { vertex: name, field: "parallelism", found });
    };
    let counts = entry.and_then(|entry| entry.get("tasks")).and_then(Value::as_object).into_iter().flatten();
    let counts = counts.filter_map(|(state, count)| {
        let count = whole(count).and_then(|count| u32::try_from(count).ok())?;
        (1..=MAX_PARALLELISM).contains(&count).then(|| (state.clone(), count))
    });
    Ok(RestVertex { id: id.to_owned(), name, parallelism, is_undecided, counts: counts.collect() })
}

/// The name that a plan node's description, which is HTML, comes to: `out<br/>+- sink<br/>` is `out -> sink`.
fn described(node: &Value) -> Option<String> {
    let plain = text(node, "description")?.replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&");
    let lines = plain.split("<br/>").map(|line| line.trim().trim_start_matches(['+', ':', '-', ' ']));
    let name = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" -> ");
    (!name.is_empty()).then_some(name)
}

/// Flink allows vertices of one name; a part of the identifier tells them apart.
fn make_unique(vertices: &mut [RestVertex]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    vertices.iter().for_each(|vertex| *counts.entry(vertex.name.clone()).or_default() += 1);
    let mut taken: Vec<String> = vec![];
    for vertex in vertices.iter_mut().filter(|vertex| counts[&vertex.name] > 1) {
        let short = format!("{}#{}", vertex.name, vertex.id.chars().take(8).collect::<String>());
        vertex.name = if taken.contains(&short) { format!("{}#{}", vertex.name, vertex.id) } else { short };
        taken.push(vertex.name.clone());
    }
}

/// All edges between vertices that have tasks, inputs of each vertex in order.
pub(super) fn edges(
    plan: &Value,
    vertices: &[RestVertex],
    notes: &mut Vec<String>,
) -> Result<Vec<ObservedEdge>, ExplainError> {
    let by_id: BTreeMap<&str, &RestVertex> = vertices.iter().map(|vertex| (vertex.id.as_str(), vertex)).collect();
    let nodes: BTreeMap<&str, &Value> =
        entries(plan, "nodes").iter().filter_map(|node| Some((text(node, "id")?, node))).collect();
    let mut edges = vec![];
    for to in vertices {
        let mut inputs: Vec<(usize, &Value)> = entries(nodes[to.id.as_str()], "inputs").iter().enumerate().collect();
        inputs.sort_by_key(|(position, input)| {
            (
                input.get("num").and_then(whole).unwrap_or_else(|| i64::try_from(*position).unwrap_or(i64::MAX)),
                *position,
            )
        });
        for (_, input) in inputs {
            let producer = text(input, "id").unwrap_or_default();
            let Some(from) = by_id.get(producer) else {
                let (vertex, producer) = (to.name.clone(), found(input.get("id")));
                return Err(ExplainError::Producer { vertex, producer });
            };
            if !from.is_undecided && !to.is_undecided {
                edges.push(edge(from, to, input, notes)?);
            }
        }
    }
    Ok(edges)
}

fn edge(
    from: &RestVertex,
    to: &RestVertex,
    input: &Value,
    notes: &mut Vec<String>,
) -> Result<ObservedEdge, ExplainError> {
    let Some(exchange) = text(input, "exchange") else {
        let found = format!("{} for its input from `{}`", found(input.get("exchange")), from.name);
        return Err(ExplainError::Field { vertex: to.name.clone(), field: "exchange", found });
    };
    let ship_strategy = text(input, "ship_strategy").unwrap_or_default();
    let between = || format!("the edge from `{}` to `{}`", from.name, to.name);
    match ship_strategy.to_ascii_uppercase().as_str() {
        "FORWARD" if from.parallelism != to.parallelism => notes.push(format!(
            "{} is FORWARD between parallelisms {} and {}: taken as POINTWISE",
            between(),
            from.parallelism,
            to.parallelism
        )),
        "FORWARD" | "RESCALE" | "HASH" | "REBALANCE" | "BROADCAST" | "GLOBAL" | "SHUFFLE" | "CUSTOM" => {}
        _ => notes.push(format!(
            "{} has {} as `ship_strategy`: taken as ALL_TO_ALL",
            between(),
            found(input.get("ship_strategy"))
        )),
    }
    let data_set = input.get("stormproof").and_then(|ours| ours.get("data_set")).and_then(whole);
    Ok(ObservedEdge {
        from: from.name.clone(),
        to: to.name.clone(),
        exchange: exchange.to_owned(),
        ship_strategy: ship_strategy.to_owned(),
        data_set: data_set.and_then(|number| u32::try_from(number).ok()),
    })
}
