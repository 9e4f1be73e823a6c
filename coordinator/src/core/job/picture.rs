//! The picture of a job that REST answers from.

use super::JobCore;
use super::attempts::{Attempt, Task};
use crate::core::event::Millis;
use crate::core::snapshot::{AttemptSnapshot, EdgeSnapshot, JobSnapshot, SubtaskSnapshot, VertexSnapshot};

impl JobCore {
    /// The job as it stands. Costs what the job has tasks and earlier attempts.
    #[must_use]
    pub fn snapshot(&self, _now: Millis) -> JobSnapshot {
        let over = self.status.is_globally_terminal();
        JobSnapshot {
            id: self.id,
            name: self.graph.name.clone(),
            kind: self.graph.kind,
            status: self.status,
            start_ms: self.submitted_ms,
            end_ms: self.timestamps.get(&self.status).copied().filter(|_| over),
            timestamps: self.timestamps.clone(),
            vertices: (0..self.graph.vertices.len()).map(|position| self.vertex_snapshot(position)).collect(),
            edges: (self.graph.edges.iter())
                .map(|edge| EdgeSnapshot {
                    from: edge.from,
                    to: edge.to,
                    partition_type: edge.partition_type,
                    ship: edge.ship,
                })
                .collect(),
            exceptions: self.history.entries().cloned().collect(),
            checkpoints: self.checkpoints.as_ref().map(|checkpoints| checkpoints.stats.picture()),
            restarts: self.restarts.count,
            config: self.config.clone(),
        }
    }

    fn vertex_snapshot(&self, position: usize) -> VertexSnapshot {
        let vertex = &self.graph.vertices[position];
        VertexSnapshot {
            id: vertex.id,
            name: vertex.name.clone(),
            subtasks: self.topology.tasks_of(position).map(|task| subtask_snapshot(self.task(task))).collect(),
        }
    }
}

fn subtask_snapshot(task: &Task) -> SubtaskSnapshot {
    SubtaskSnapshot {
        current: attempt_snapshot(&task.current),
        earlier: task.earlier.iter().map(attempt_snapshot).collect(),
    }
}

fn attempt_snapshot(attempt: &Attempt) -> AttemptSnapshot {
    AttemptSnapshot {
        attempt: attempt.number,
        state: attempt.state(),
        executor: attempt.executor().cloned(),
        endpoint: attempt.endpoint.clone(),
        timestamps: attempt.timestamps.clone(),
        metrics: attempt.metrics,
        failure: attempt.failure.as_ref().map(|failure| failure.message()),
    }
}
