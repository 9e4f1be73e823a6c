//! Explanations as JSON. Tasks and partitions are written as in `--cases`: `vertex/subtask`, `vertex.dataset/subtask`.

use serde_json::{Value, json};

use super::answer::{Explanation, Wave, WaveKind};
use super::picture::Picture;
use super::summary::Summary;
use crate::oracle::model::{Reason, Task};
use crate::oracle::tree;

impl Picture {
    /// The job, without its tasks.
    fn head_json(&self) -> Value {
        json!({"id": self.head.id, "name": self.head.name, "state": self.head.state,
            "tasks": self.topology.task_count(), "regions": self.regions.count()})
    }

    /// All regions, as in an answer of `--cases`.
    #[must_use]
    pub fn regions_json(&self) -> Value {
        self.regions().map(|tasks| self.texts(tasks)).collect()
    }

    /// `restart`, `later` and `perhaps` are lists of tasks, each leaving out what the one before has; `reasons` says
    /// for every task that was reached what reached it; `spared` are the reached ones that are CREATED.
    #[must_use]
    pub fn explanation_json(&self, explanation: &Explanation) -> Value {
        let list = |kind| self.texts(explanation.restart(kind));
        let spared = explanation.waves.iter().flat_map(Wave::spared);
        let failing = explanation.waves.iter().filter(|wave| wave.kind == WaveKind::Now);
        let reasons: Vec<Value> = explanation.waves.iter().flat_map(|wave| self.reasons(wave)).collect();
        json!({
            "job": self.head_json(),
            "incident": explanation.incident,
            "fail": self.texts(failing.flat_map(|wave| wave.failing.iter().copied())),
            "restart": list(WaveKind::Now),
            "later": list(WaveKind::Later),
            "perhaps": list(WaveKind::Perhaps),
            "spared": self.texts(spared),
            "reasons": reasons,
            "warnings": explanation.warnings,
            "notes": explanation.notes,
        })
    }

    /// A summary.
    #[must_use]
    pub fn summary_json(&self, summary: &Summary) -> Value {
        let vertices: Vec<Value> = summary
            .vertices
            .iter()
            .enumerate()
            .map(|(position, vertex)| {
                json!({"name": vertex.name, "id": self.ids.get(position), "parallelism": vertex.parallelism,
                    "states": vertex.states, "restarts": {"min": vertex.restarts.0, "max": vertex.restarts.1}})
            })
            .collect();
        json!({"job": self.head_json(), "vertices": vertices, "warnings": summary.warnings, "notes": summary.notes})
    }

    fn texts(&self, tasks: impl IntoIterator<Item = Task>) -> Value {
        tasks.into_iter().map(|task| self.task_text(task)).collect()
    }

    fn reasons(&self, wave: &Wave) -> impl Iterator<Item = Value> {
        wave.reached.iter().map(|(task, reason)| {
            let because = match wave.restart.contains(task) {
                true => tree::because(&self.observed, *reason),
                false => "is CREATED, so it need not restart".to_owned(),
            };
            let mut entry = json!({"task": self.task_text(*task), "because": because});
            let (kind, of) = match reason {
                Reason::Failed => ("failed", None),
                Reason::SameRegion(mate) => ("same_region", Some(mate)),
                Reason::Consumes(producer) => ("consumes", Some(producer)),
                Reason::InputLost { partition, needed_by } => {
                    entry["partition"] = json!(self.partition_text(*partition));
                    ("input_lost", Some(needed_by))
                }
            };
            entry["reason"] = json!(kind);
            if let Some(of) = of {
                entry["of"] = json!(self.task_text(*of));
            }
            entry
        })
    }
}
