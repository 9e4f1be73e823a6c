//! From an observed plan to the graph that the model takes.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Edge, Exchange, Graph, Partition, Task};
use crate::timeline::{ObservedPlan, PartitionName, TaskName};

/// A job's plan as the model's graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedGraph {
    /// The graph; vertices in the order of the plan.
    pub graph: Graph,
}

/// The plan cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// An exchange that this build does not know.
    #[error("the edge from `{from}` to `{to}` has the exchange `{exchange}`, which the model does not know")]
    Exchange {
        /// Producer.
        from: String,
        /// Consumer.
        to: String,
        /// What it says.
        exchange: String,
    },
    /// An edge to a vertex that the plan does not list.
    #[error("the plan has an edge from `{from}` to `{to}` but not both vertices")]
    Dangling {
        /// Producer.
        from: String,
        /// Consumer.
        to: String,
    },
}

impl ObservedGraph {
    /// Reads a plan. Edges without a data-set number get one in the order of the plan. `FORWARD` and `RESCALE` are
    /// POINTWISE, all else is ALL_TO_ALL (reference 1.2).
    ///
    /// # Errors
    /// If an exchange or a vertex is unknown.
    pub fn of(plan: &ObservedPlan) -> Result<Self, PlanError> {
        let positions: BTreeMap<&str, usize> =
            plan.vertices.iter().enumerate().rev().map(|(at, vertex)| (vertex.name.as_str(), at)).collect();
        let position = |name: &str| positions.get(name).copied();
        let mut edges = vec![];
        let mut sets: BTreeMap<usize, u32> = BTreeMap::new();
        for edge in &plan.edges {
            let (from, to) = (edge.from.clone(), edge.to.clone());
            let exchange = Exchange::parse(&edge.exchange).ok_or_else(|| PlanError::Exchange {
                from: from.clone(),
                to: to.clone(),
                exchange: edge.exchange.clone(),
            })?;
            let ends = position(&from).zip(position(&to)).ok_or(PlanError::Dangling { from, to })?;
            let next = sets.entry(ends.0).or_default();
            let data_set = edge.data_set.unwrap_or(*next);
            // Numbers may come from anywhere, and one above the highest is as good as any.
            *next = (*next).max(data_set.saturating_add(1));
            let pointwise = matches!(edge.ship_strategy.to_ascii_uppercase().as_str(), "FORWARD" | "RESCALE");
            edges.push(Edge { from: ends.0, data_set, to: ends.1, exchange, pointwise });
        }
        let vertices = plan.vertices.iter().map(|vertex| (vertex.name.clone(), vertex.parallelism)).collect();
        Ok(Self { graph: Graph { vertices, edges } })
    }

    /// The task of this name.
    #[must_use]
    pub fn task(&self, name: &TaskName) -> Option<Task> {
        let vertex = self.graph.vertices.iter().position(|(known, _)| *known == name.vertex)?;
        (name.subtask < self.graph.vertices[vertex].1).then_some(Task { vertex, subtask: name.subtask })
    }

    /// The task's name.
    #[must_use]
    pub fn name(&self, task: Task) -> TaskName {
        TaskName::new(self.graph.vertices[task.vertex].0.clone(), task.subtask)
    }

    /// The partition's name.
    #[must_use]
    pub fn partition_name(&self, partition: Partition) -> String {
        let producer = self.name(partition.producer);
        if self.partitions_of(partition.producer).count() > 1 {
            format!("{producer}.{}", partition.data_set)
        } else {
            producer.to_string()
        }
    }

    /// All partitions that a task produces.
    pub fn partitions_of(&self, producer: Task) -> impl Iterator<Item = Partition> {
        let sets: BTreeSet<u32> =
            self.graph.edges.iter().filter(|edge| edge.from == producer.vertex).map(|edge| edge.data_set).collect();
        sets.into_iter().map(move |data_set| Partition { producer, data_set })
    }

    /// The partitions of this name.
    #[must_use]
    pub fn partitions(&self, name: &PartitionName) -> Vec<Partition> {
        let producer = self.task(&name.producer).into_iter();
        let all = producer.flat_map(|producer| self.partitions_of(producer).collect::<Vec<_>>());
        all.filter(|partition| name.data_set.is_none_or(|wanted| wanted == partition.data_set)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{ObservedEdge, ObservedVertex};

    fn plan(edges: &[(&str, &str, &str, &str)]) -> ObservedPlan {
        let vertices = ["a", "b", "c"].map(|name| ObservedVertex { name: name.into(), parallelism: 2 }).into();
        let edge = |(from, to, exchange, ship): &(&str, &str, &str, &str)| ObservedEdge {
            from: (*from).into(),
            to: (*to).into(),
            exchange: (*exchange).into(),
            ship_strategy: (*ship).into(),
            data_set: None,
        };
        ObservedPlan { vertices, edges: edges.iter().map(edge).collect() }
    }

    #[test]
    fn edges_of_one_producer_are_numbered() {
        let plan = plan(&[
            ("a", "b", "blocking", "HASH"),
            ("a", "c", "BLOCKING", "forward"),
            ("b", "c", "hybrid_full", "RESCALE"),
        ]);
        let observed = ObservedGraph::of(&plan).unwrap();
        let edges: Vec<_> =
            observed.graph.edges.iter().map(|edge| (edge.from, edge.data_set, edge.pointwise)).collect();
        assert_eq!(edges, [(0, 0, false), (0, 1, true), (1, 0, true)]);
        let task = observed.task(&TaskName::new("a", 1)).unwrap();
        let names: Vec<_> = observed.partitions_of(task).map(|partition| observed.partition_name(partition)).collect();
        assert_eq!(names, ["a[1].0", "a[1].1"]);
        assert_eq!(observed.task(&TaskName::new("a", 2)), None);
    }

    #[test]
    fn what_is_not_understood_is_an_error_and_not_a_guess() {
        let error = ObservedGraph::of(&plan(&[("a", "b", "teleported", "HASH")])).unwrap_err();
        assert!(error.to_string().contains("`teleported`"), "{error}");
        let error = ObservedGraph::of(&plan(&[("a", "z", "blocking", "HASH")])).unwrap_err();
        assert!(matches!(error, PlanError::Dangling { .. }));
    }
}
