//! Co-location: subtasks of one number of several vertices share a slot, always (Flink's `CoLocationGroup`).
//!
//! Tasks of one pipelined region and one subtask number share a slot anyhow, in every attempt. So a group asks for no
//! other placement; it makes the job depend on it, and [`check`] refuses a job in which it would not hold.

use super::job::{JobGraph, JobGraphError};
use crate::core::regions::Regions;
use crate::core::topology::{LogicalGraph, Topology};

/// Refuses a group whose vertices differ in parallelism, or of which subtasks with one number lie in different
/// pipelined regions: those are scheduled, and restart, without each other.
pub(super) fn check(graph: &JobGraph) -> Result<(), JobGraphError> {
    let groups: Vec<&Vec<usize>> = graph.co_located.iter().filter(|group| group.len() > 1).collect();
    if groups.is_empty() {
        return Ok(());
    }
    // A graph that cannot be laid out is refused with its reason when the job starts.
    let Ok(topology) = Topology::build(LogicalGraph::of_job(graph)) else { return Ok(()) };
    let regions = Regions::build(&topology);
    let region = |vertex: usize, subtask: u32| topology.task(vertex, subtask).map(|task| regions.region_of(task));
    for group in groups {
        let (first, parallelism) = (group[0], graph.vertices[group[0]].parallelism);
        for &other in &group[1..] {
            let refuse = |problem| JobGraphError::CoLocation {
                first: graph.vertices[first].name.clone(),
                second: graph.vertices[other].name.clone(),
                problem,
            };
            if graph.vertices[other].parallelism != parallelism {
                return Err(refuse("their parallelism differs"));
            }
            if (0..parallelism).any(|subtask| region(first, subtask) != region(other, subtask)) {
                return Err(refuse(
                    "they are not in one pipelined region, so that each is scheduled without the other",
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::ResultPartitionType::{self, Blocking, PipelinedBounded};
    use crate::graph::ShipStrategy::{self, Forward, Hash, Rescale};
    use crate::graph::{JobKind, TaskError};

    /// `a` → `b` → `c`, of which `a` and `c` are to be co-located.
    fn chain(widths: [u32; 3], edges: [(ShipStrategy, ResultPartitionType); 2]) -> Result<JobGraph, JobGraphError> {
        let mut job = JobGraph::builder("chain", JobKind::Batch);
        let a = job.source("a", widths[0], |_| Err(TaskError::new("not run")));
        let [b, c] =
            [("b", 1), ("c", 2)].map(|(name, at)| job.operator(name, widths[at], |_| Err(TaskError::new("not run"))));
        job.connect(a, b, edges[0].0, edges[0].1).connect(b, c, edges[1].0, edges[1].1).co_locate([c, a]);
        job.build()
    }

    // P031
    #[test]
    fn co_located_vertices_must_lie_in_one_region() {
        let error = chain([2, 2, 2], [(Forward, PipelinedBounded), (Forward, Blocking)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`c` and `a` cannot be co-located: they are not in one pipelined region, so that each is scheduled without the other"
        );
        let graph = chain([2, 2, 2], [(Forward, PipelinedBounded), (Hash, PipelinedBounded)]).unwrap();
        assert_eq!(graph.co_located, [vec![2, 0]], "positions in topological order");
        assert!(chain([2, 2, 2], [(Forward, PipelinedBounded), (Forward, PipelinedBounded)]).is_ok());
        assert!(chain([4, 2, 4], [(Rescale, PipelinedBounded), (Rescale, PipelinedBounded)]).is_ok());
    }

    #[test]
    fn co_located_vertices_must_be_equally_wide() {
        let error = chain([2, 2, 3], [(Forward, PipelinedBounded), (Hash, PipelinedBounded)]).unwrap_err();
        assert_eq!(error.to_string(), "`c` and `a` cannot be co-located: their parallelism differs");
    }

    #[test]
    fn a_vertex_of_another_builder_is_refused() {
        let mut other = JobGraph::builder("other", JobKind::Batch);
        let handles = ["x", "y"].map(|name| other.source(name, 1, |_| Err(TaskError::new("not run"))));
        let mut job = JobGraph::builder("job", JobKind::Batch);
        let own = job.source("own", 1, |_| Err(TaskError::new("not run")));
        job.co_locate([own, handles[1]]);
        assert_eq!(job.build().unwrap_err(), JobGraphError::ForeignVertex("own".into()));
    }
}
