//! A restart set as a tree of reasons: `count[1] restarts because it consumes read[0]`.

use std::collections::BTreeMap;

use super::model::{Reason, RestartSet, Task};
use super::observed::ObservedGraph;

/// The reason as the end of a sentence that begins with the task's name.
#[must_use]
pub fn because(observed: &ObservedGraph, reason: Reason) -> String {
    match reason {
        Reason::Failed => "restarts because it failed".into(),
        Reason::SameRegion(mate) => format!("restarts because it is in one region with {}", observed.name(mate)),
        Reason::Consumes(producer) => format!("restarts because it consumes {}", observed.name(producer)),
        Reason::InputLost { partition, needed_by } => format!(
            "restarts because its partition {} is lost and {} needs it",
            observed.partition_name(partition),
            observed.name(needed_by)
        ),
    }
}

/// One line a task, children indented under the task that drew them in; the first line names the incident.
#[must_use]
pub fn lines(observed: &ObservedGraph, set: &RestartSet, incident: &str) -> Vec<String> {
    let mut children: BTreeMap<Task, Vec<Task>> = BTreeMap::new();
    let mut stack = vec![];
    for (task, reason) in &set.reached {
        match reason {
            Reason::Failed => stack.push((*task, 1)),
            Reason::SameRegion(parent) | Reason::Consumes(parent) | Reason::InputLost { needed_by: parent, .. } => {
                children.entry(*parent).or_default().push(*task);
            }
        }
    }
    let mut lines = vec![format!("{incident}:")];
    while let Some((task, depth)) = stack.pop() {
        let why = if set.spared.contains(&task) {
            "is CREATED, so it need not restart".into()
        } else {
            because(observed, set.reached[&task])
        };
        lines.push(format!("{}{} {why}", "  ".repeat(depth), observed.name(task)));
        stack.extend(children.remove(&task).into_iter().flatten().rev().map(|child| (child, depth + 1)));
    }
    lines
}
