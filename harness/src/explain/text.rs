//! Explanations for a terminal. Siblings without children of their own are told in one line.

use std::collections::BTreeMap;

use super::answer::{Explanation, Wave, WaveKind};
use super::picture::Picture;
use super::summary::Summary;
use crate::oracle::model::{Reason, Task};
use crate::oracle::tree;

/// Longest tree, lines. `--json` has no limit.
const MAX_LINES: usize = 400;

/// Deepest indentation, levels: a chain of vertices may be much longer.
const MAX_INDENT: usize = 24;

impl Picture {
    /// The job in one line.
    #[must_use]
    pub fn headline(&self) -> String {
        let name = if self.head.name.is_empty() { "job" } else { &self.head.name };
        let mut facts: Vec<&str> = vec![];
        facts.extend([self.head.id.as_str(), self.head.state.as_str()].iter().filter(|fact| !fact.is_empty()));
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        format!("{name}{facts}: {} tasks in {} regions", self.topology.task_count(), self.regions.count())
    }

    /// All regions, one line each.
    #[must_use]
    pub fn region_lines(&self) -> Vec<String> {
        let line = |tasks: Vec<Task>| {
            let plural = if tasks.len() == 1 { "task" } else { "tasks" };
            format!("{} {plural}: {}", tasks.len(), self.folded(&tasks))
        };
        self.regions().enumerate().map(|(number, tasks)| format!("region {number}, {}", line(tasks))).collect()
    }

    /// The explanation as lines: trees of reasons, then what was assumed.
    #[must_use]
    pub fn lines(&self, explanation: &Explanation) -> Vec<String> {
        let mut lines = vec![];
        for wave in &explanation.waves {
            self.wave_lines(explanation, wave, &mut lines);
        }
        lines.extend(explanation.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines.extend(explanation.notes.iter().map(|note| format!("note: {note}")));
        lines
    }

    fn wave_lines(&self, explanation: &Explanation, wave: &Wave, lines: &mut Vec<String>) {
        let count = wave.restart.len();
        let verb = if count == 1 { "restarts" } else { "restart" };
        let more = if count == 1 { "more task restarts" } else { "more tasks restart" };
        let failing: Vec<Task> = wave.failing.iter().copied().collect();
        lines.push(match wave.kind {
            WaveKind::Now if wave.failing.is_empty() => format!("{}: nothing fails at once", explanation.incident),
            WaveKind::Now => {
                format!("{}: {count} of {} tasks {verb}", explanation.incident, self.topology.task_count())
            }
            WaveKind::Later => {
                format!("later, when {} begins and finds its input gone: {count} {more}", self.folded(&failing))
            }
            WaveKind::Perhaps => {
                format!("perhaps, if {} has not read all of what is lost: {count} {more}", self.folded(&failing))
            }
        });
        let mut tree = Tree { picture: self, wave, children: BTreeMap::new(), lines: vec![] };
        tree.draw();
        let left_out = tree.lines.len().saturating_sub(MAX_LINES);
        lines.extend(tree.lines.into_iter().take(MAX_LINES));
        if left_out > 0 {
            lines.push(format!("  … and {left_out} more lines; --json has them all"));
        }
        let spared: Vec<Task> = wave.spared().filter(|task| !wave.failing.contains(task)).collect();
        if !spared.is_empty() {
            lines.push(format!("  reached but CREATED, so nothing is there to restart: {}", self.folded(&spared)));
        }
    }

    /// `count[0-2], write[1]`
    pub(super) fn folded(&self, tasks: &[Task]) -> String {
        let mut parts: Vec<(usize, Vec<u32>)> = vec![];
        for task in tasks {
            match parts.last_mut() {
                Some((vertex, subtasks)) if *vertex == task.vertex => subtasks.push(task.subtask),
                _ => parts.push((task.vertex, vec![task.subtask])),
            }
        }
        let part =
            |(vertex, subtasks): &(usize, Vec<u32>)| format!("{}[{}]", self.vertex_name(*vertex), ranges(subtasks));
        parts.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}

/// `0-2,5`
fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = vec![];
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let run = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

fn parent(reason: Reason) -> Option<Task> {
    match reason {
        Reason::Failed => None,
        Reason::SameRegion(parent) | Reason::Consumes(parent) | Reason::InputLost { needed_by: parent, .. } => {
            Some(parent)
        }
    }
}

/// What siblings must have in common to share a line.
fn kind(reason: Reason) -> u8 {
    match reason {
        Reason::Failed => 0,
        Reason::SameRegion(_) => 1,
        Reason::Consumes(_) => 2,
        Reason::InputLost { .. } => 3,
    }
}

struct Tree<'a> {
    picture: &'a Picture,
    wave: &'a Wave,
    children: BTreeMap<Task, Vec<Task>>,
    lines: Vec<String>,
}

impl Tree<'_> {
    fn draw(&mut self) {
        let mut roots = vec![];
        for (task, reason) in &self.wave.reached {
            match parent(*reason).filter(|parent| self.wave.reached.contains_key(parent)) {
                Some(parent) => self.children.entry(parent).or_default().push(*task),
                // What drew it in belongs to an earlier wave.
                None => roots.push(*task),
            }
        }
        let mut stack = self.grouped(roots, 1);
        // A tree deeper or wider than what is shown is not worth drawing to its end; the count needs only its size.
        while let Some((group, depth)) = stack.pop() {
            let indent = "  ".repeat(depth.min(MAX_INDENT));
            self.lines.push(if self.lines.len() < MAX_LINES {
                format!("{indent}{}", self.told(&group))
            } else {
                String::new()
            });
            let children = group.iter().filter_map(|task| self.children.remove(task)).flatten().collect();
            stack.extend(self.grouped(children, depth + 1));
        }
    }

    /// Siblings as groups that share a line, the first to draw at the end.
    fn grouped(&self, siblings: Vec<Task>, depth: usize) -> Vec<(Vec<Task>, usize)> {
        let mut groups: Vec<(Vec<Task>, usize)> = vec![];
        for task in siblings.into_iter().filter(|task| !self.is_idle(task)) {
            match groups.last_mut() {
                Some((group, _)) if self.share_a_line(group[0], task) => group.push(task),
                _ => groups.push((vec![task], depth)),
            }
        }
        groups.reverse();
        groups
    }

    /// A CREATED task that draws in nothing that restarts is not worth a line.
    fn is_idle(&self, task: &Task) -> bool {
        !self.wave.restart.contains(task) && !self.wave.failing.contains(task) && !self.children.contains_key(task)
    }

    fn share_a_line(&self, one: Task, other: Task) -> bool {
        let is_leaf = |task| !self.children.contains_key(&task);
        let [a, b] = [one, other].map(|task| (kind(self.wave.reached[&task]), self.wave.restart.contains(&task)));
        one.vertex == other.vertex && is_leaf(one) && is_leaf(other) && a == b
    }

    fn told(&self, group: &[Task]) -> String {
        let observed = &self.picture.observed;
        let reason = self.wave.reached[&group[0]];
        let name = self.picture.folded(group);
        let restarts = self.wave.restart.contains(&group[0]);
        if !restarts && reason != Reason::Failed {
            return format!("{name} is CREATED, so it need not restart");
        }
        if reason == Reason::Failed && self.wave.kind != WaveKind::Now {
            let s = if group.len() == 1 { "s" } else { "" };
            return format!("{name} fail{s}: what it reads is lost");
        }
        if group.len() == 1 {
            return format!("{name} {}", tree::because(observed, reason));
        }
        match reason {
            Reason::Failed => format!("{name} restart because they failed"),
            Reason::SameRegion(mate) => {
                format!("{name} restart because they are in one region with {}", observed.name(mate))
            }
            Reason::Consumes(producer) => format!("{name} restart because they consume {}", observed.name(producer)),
            Reason::InputLost { needed_by, .. } => {
                format!("{name} restart because their partitions are lost and {} needs them", observed.name(needed_by))
            }
        }
    }
}

impl Summary {
    /// The summary as lines.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let width = self.vertices.iter().map(|vertex| vertex.name.chars().count()).max().unwrap_or(0).min(48);
        let mut lines = vec![];
        for vertex in &self.vertices {
            let states: Vec<_> = vertex.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
            let (fewest, most) = vertex.restarts;
            let range = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
            let plural = if (fewest, most) == (1, 1) { "task restarts" } else { "tasks restart" };
            let states = states.join(", ");
            lines.push(format!("  {:width$}  {states:20}  if one of its tasks fails, {range} {plural}", vertex.name));
        }
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines
    }
}
