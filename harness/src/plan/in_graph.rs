//! Whether a plan speaks of vertices and subtasks that its job has: known only once the job's graph was seen.
//!
//! A fault that begins at a name with a typo never begins: the whole job would run to prove nothing.

use std::slice;

use super::{FaultSpec, Party, Plan, PlannedFault, Trigger};
use crate::nearest::nearest;
use crate::plural::counted;
use crate::timeline::ObservedPlan;

/// A plan speaks of what its job does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotInGraph {
    /// No such vertex.
    #[error("fault `{fault}`: job `{job}` has no vertex `{vertex}`{nearest}")]
    Vertex {
        /// The fault.
        fault: String,
        /// The job.
        job: String,
        /// What it names.
        vertex: String,
        /// What it may mean.
        nearest: String,
    },
    /// No such subtask.
    #[error("fault `{fault}`: vertex `{vertex}` of job `{job}` has no subtask {subtask}; it has {}, from 0 on", counted(*parallelism, "subtask"))]
    Subtask {
        /// The fault.
        fault: String,
        /// The job.
        job: String,
        /// The vertex.
        vertex: String,
        /// What it names.
        subtask: u32,
        /// How many there are.
        parallelism: u32,
    },
}

impl Plan {
    /// Checks the names in faults and their triggers against the job's graph as it was seen.
    ///
    /// # Errors
    /// The first one that is not there.
    pub fn check_names(&self, graph: &ObservedPlan) -> Result<(), NotInGraph> {
        for fault in &self.faults {
            for (vertex, subtasks) in named(fault) {
                self.check_name(graph, fault, vertex, subtasks)?;
            }
        }
        Ok(())
    }

    fn check_name(
        &self,
        graph: &ObservedPlan,
        fault: &PlannedFault,
        vertex: &str,
        subtasks: &[u32],
    ) -> Result<(), NotInGraph> {
        let (fault, job) = (fault.name.clone(), self.job.name.clone());
        let Some(found) = graph.vertices.iter().find(|known| known.name == vertex) else {
            let nearest = nearest(vertex, graph.vertices.iter().map(|known| known.name.as_str()));
            return Err(NotInGraph::Vertex { fault, job, vertex: vertex.to_owned(), nearest });
        };
        match subtasks.iter().find(|subtask| **subtask >= found.parallelism) {
            None => Ok(()),
            Some(subtask) => Err(NotInGraph::Subtask {
                fault,
                job,
                vertex: vertex.to_owned(),
                subtask: *subtask,
                parallelism: found.parallelism,
            }),
        }
    }
}

/// The vertices, and subtasks of them, that a fault and its triggers speak of.
fn named(fault: &PlannedFault) -> impl Iterator<Item = (&str, &[u32])> {
    let triggers = [&fault.begin, &fault.heal].into_iter().flat_map(Trigger::with_parts);
    victims(&fault.spec).into_iter().chain(triggers.filter_map(watched))
}

fn watched(trigger: &Trigger) -> Option<(&str, &[u32])> {
    match trigger {
        Trigger::Vertex { vertex, subtasks, .. } => Some((vertex, subtasks)),
        _ => None,
    }
}

fn victims(spec: &FaultSpec) -> Vec<(&str, &[u32])> {
    match spec {
        FaultSpec::KillExecutorOf { vertex, subtask }
        | FaultSpec::HangExecutorOf { vertex, subtask }
        | FaultSpec::SlowExecutorOf { vertex, subtask, .. }
        | FaultSpec::ExitExecutorOf { vertex, subtask, .. }
        | FaultSpec::LimitFilesOf { vertex, subtask, .. }
        | FaultSpec::DropPartitionOf { vertex, subtask }
        | FaultSpec::HidePartitionOf { vertex, subtask }
        | FaultSpec::CorruptPartitionOf { vertex, subtask }
        | FaultSpec::FailUserCode { vertex, subtask }
        | FaultSpec::FailUserCodeByRule { vertex, subtask, .. } => vec![(vertex, slice::from_ref(subtask))],
        FaultSpec::HoldUserCode { vertex, subtasks } => vec![(vertex, subtasks)],
        FaultSpec::PartitionNetwork { from, to, .. } => [from, to].into_iter().filter_map(party).collect(),
        FaultSpec::KillCoordinator
        | FaultSpec::HangCoordinator
        | FaultSpec::IsolateCoordinator
        | FaultSpec::HurtStoreRequests { .. }
        | FaultSpec::BlackholeStore
        | FaultSpec::RefuseStore => vec![],
    }
}

fn party(party: &Party) -> Option<(&str, &[u32])> {
    match party {
        Party::ExecutorOf { vertex, subtask } => Some((vertex, slice::from_ref(subtask))),
        Party::AllExecutors | Party::LeadingCoordinator => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::ObservedVertex;

    fn told(spec: FaultSpec, begin: Trigger) -> Option<String> {
        let vertex = |name: &str, parallelism| ObservedVertex { name: name.to_owned(), parallelism };
        let graph = ObservedPlan { vertices: vec![vertex("numbers", 2), vertex("count", 1)], edges: vec![] };
        let plan = Plan::new("a::b", "", "numbers").fault("fail", spec, begin);
        plan.check_names(&graph).err().map(|error| error.to_string())
    }

    fn fail(vertex: &str, subtask: u32) -> FaultSpec {
        FaultSpec::FailUserCode { vertex: vertex.to_owned(), subtask }
    }

    #[test]
    fn a_typo_in_a_vertex_is_told_with_the_nearest_name() {
        let expected = "fault `fail`: job `numbers` has no vertex `cuont`; did you mean `count`?";
        assert_eq!(told(fail("cuont", 0), Trigger::BeforeSubmission).as_deref(), Some(expected));
        let begin = Trigger::Any(vec![Trigger::task("cuont", 0, "RUNNING").after_ms(5), Trigger::AfterMs(5)]);
        assert_eq!(told(FaultSpec::KillCoordinator, begin).as_deref(), Some(expected));
        assert_eq!(told(fail("count", 0), Trigger::vertex("numbers", "FINISHED")), None);
        let (from, to) = (Party::AllExecutors, Party::executor_of("cuont", 0));
        let cut = FaultSpec::PartitionNetwork { from, to, both_ways: true };
        assert_eq!(told(cut, Trigger::BeforeSubmission).as_deref(), Some(expected));
    }

    #[test]
    fn a_subtask_beyond_the_last_is_told() {
        let expected = "fault `fail`: vertex `count` of job `numbers` has no subtask 1; it has 1 subtask, from 0 on";
        assert_eq!(told(fail("count", 1), Trigger::BeforeSubmission).as_deref(), Some(expected));
        let hold = |subtasks| FaultSpec::HoldUserCode { vertex: "numbers".to_owned(), subtasks };
        assert_eq!(told(hold(vec![0, 1]), Trigger::BeforeSubmission), None);
        assert!(
            told(hold(vec![0, 2]), Trigger::BeforeSubmission).is_some_and(|error| error.contains("has no subtask 2"))
        );
    }
}
