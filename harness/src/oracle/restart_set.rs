//! Did exactly the tasks restart that Flink's rule names?
//!
//! Expected: the independent [`super::model`] over the observed plan and the recorded losses. Observed: tasks whose
//! attempt number rose. The expectation carries the uncertainty of a polled timeline: *must* are restarts that the
//! rule demands whatever was unseen, *may* adds those that depend on it.

use std::collections::{BTreeMap, BTreeSet};

use super::expectation::RestartSet as Params;
use super::incident::{self, Impact, Incident, Scene};
use super::model::{self, ModelError, Reason, RestartSet, Task};
use super::observed::ObservedGraph;
use super::tree;
use super::{Judgement, judgement};
use crate::timeline::query::task_fact;
use crate::timeline::{FaultEvent, RecordKind, TaskName, Timeline};
use crate::verdict::Verdict;

const ORACLE: &str = "restart-set";

/// What was expected of one run.
#[derive(Debug, Default)]
struct Expected {
    /// With the reason.
    must: BTreeMap<Task, Reason>,
    /// All of `must` and more.
    may: BTreeSet<Task>,
    trees: Vec<String>,
}

/// Judges the restart set.
#[must_use]
pub fn judge(timeline: &Timeline, params: &Params) -> Judgement {
    match try_judge(timeline, params) {
        Ok(judgement) => judgement,
        Err(why) => judgement(ORACLE, Verdict::Inconclusive, why, vec![]),
    }
}

fn try_judge(timeline: &Timeline, params: &Params) -> Result<Judgement, String> {
    let job = timeline.job(params.job.as_deref()).ok_or("no such job was submitted")?;
    let plan = timeline.plan(job).ok_or("the job's plan was never seen")?;
    let observed = ObservedGraph::of(plan).map_err(|error| error.to_string())?;
    let position = |mark, from| timeline.position(mark, from).ok_or_else(|| format!("{mark:?} never came"));
    let from = position(&params.window.from, 0)?;
    let to = position(&params.window.to, from)?;
    // What is lost once the job is over (executors that are shut down) restarts nothing.
    let over = timeline.first_status(job, from, &["FINISHED", "CANCELED", "FAILED"]).map_or(to, |over| over.min(to));
    let incidents = incident::incidents(timeline, from, over);
    if incidents.is_empty() && !took_effect(timeline, from, over) {
        return Ok(judgement(ORACLE, Verdict::Vacuous, "nothing was broken, so nothing had to restart".into(), vec![]));
    }
    let first = incidents.first().map_or(from, |incident| incident.position);
    if leader_changed(timeline, job, first, over) {
        return Err("the job was INITIALIZING again, and attempt numbers start anew with a new leader".into());
    }
    let restarted = restarted(timeline, job, &observed, from, to);
    let scene = |incident| Scene::new(timeline, job, &observed, incident);
    let expected = expected(scene, &observed, &incidents, &restarted, params).map_err(|error| error.to_string())?;
    let status = timeline.job_status(job, to + 1).unwrap_or("unknown");
    Ok(compare(&observed, &expected, &restarted, status))
}

fn took_effect(timeline: &Timeline, from: usize, to: usize) -> bool {
    timeline.records()[from..=to].iter().any(|record| {
        matches!(
            record.kind,
            RecordKind::Fault { event: FaultEvent::Effective { .. }, .. } | RecordKind::ExecutorLost { .. }
        )
    })
}

fn leader_changed(timeline: &Timeline, job: &str, from: usize, to: usize) -> bool {
    timeline.first_status(job, from, &["INITIALIZING"]).is_some_and(|at| at <= to)
}

fn expected<'a>(
    scene: impl Fn(&'a Incident) -> Scene<'a>,
    observed: &ObservedGraph,
    incidents: &'a [Incident],
    restarted: &BTreeMap<Task, (u32, u32)>,
    params: &Params,
) -> Result<Expected, ModelError> {
    let mut expected = Expected::default();
    let mut lost = BTreeMap::new();
    for incident in incidents {
        let Impact { failed, will_miss_input, maybe_failed, certain, possible } =
            scene(incident).impact(&mut lost, !params.partitions_are_kept)?;
        // A task that failed restarts, so what was observed tells which of the doubtful ones did.
        // The certain ones come first, since the first tree that reaches a task is the one that is shown.
        let did_fail = maybe_failed.iter().filter(|task| restarted.contains_key(task));
        for task in failed.iter().chain(&will_miss_input).chain(did_fail) {
            let set = model::restart_set(&observed.graph, &certain, *task)?;
            // Several failures of one incident reach the same tasks; one tree tells it.
            if set.members().any(|member| !expected.must.contains_key(&member)) {
                expected.trees.extend(tree::lines(observed, &set, &incident.what));
            }
            expected.must_restart(&set);
            expected.may_restart(&model::restart_set(&observed.graph, &possible, *task)?, params.exact_states);
        }
    }
    Ok(expected)
}

impl Expected {
    fn must_restart(&mut self, set: &RestartSet) {
        for task in set.members() {
            self.must.entry(task).or_insert(set.reached[&task]);
            self.may.insert(task);
        }
    }

    fn may_restart(&mut self, set: &RestartSet, exact_states: bool) {
        if exact_states {
            self.may.extend(set.members());
        } else {
            self.may.extend(set.reached.keys());
        }
    }
}

/// Tasks whose attempt number rose in the window: from, to.
fn restarted(
    timeline: &Timeline,
    job: &str,
    observed: &ObservedGraph,
    from: usize,
    to: usize,
) -> BTreeMap<Task, (u32, u32)> {
    let mut before: BTreeMap<TaskName, u32> =
        timeline.tasks(job, from).into_iter().map(|(task, fact)| (task, fact.attempt)).collect();
    let mut after = BTreeMap::new();
    for (task, fact) in timeline.records()[from..=to].iter().filter_map(|record| task_fact(record, job)) {
        before.entry(task.clone()).or_insert(fact.attempt);
        let highest = after.entry(task.clone()).or_insert(fact.attempt);
        *highest = fact.attempt.max(*highest);
    }
    let rose =
        after.into_iter().map(|(task, after)| (before[&task], after, task)).filter(|(before, after, _)| after > before);
    rose.filter_map(|(before, after, task)| Some((observed.task(&task)?, (before, after)))).collect()
}

fn compare(
    observed: &ObservedGraph,
    expected: &Expected,
    restarted: &BTreeMap<Task, (u32, u32)>,
    status: &str,
) -> Judgement {
    let missing: BTreeSet<Task> = expected.must.keys().filter(|task| !restarted.contains_key(task)).copied().collect();
    let useless: BTreeSet<Task> = restarted.keys().filter(|task| !expected.may.contains(task)).copied().collect();
    let mut evidence: Vec<String> = vec![];
    evidence.extend(useless.iter().map(|task| {
        let (before, after) = restarted[task];
        format!(
            "useless restart: {} went from attempt {before} to {after}, and nothing it needs was lost",
            observed.name(*task)
        )
    }));
    evidence.extend(missing.iter().map(|task| {
        format!("missing restart: {} {}", observed.name(*task), tree::because(observed, expected.must[task]))
    }));
    evidence.extend(expected.trees.iter().cloned());

    let (precision, recall) = (
        ratio(restarted.len() - useless.len(), restarted.len()),
        ratio(expected.must.len() - missing.len(), expected.must.len()),
    );
    let all = observed.graph.tasks().count();
    let facts = format!("{} of {all} tasks restarted; precision {precision}, recall {recall}", restarted.len());
    // A job that ended otherwise may never have come to restart what is missing.
    let is_cut_short = matches!(status, "FAILED" | "CANCELED" | "CANCELLING" | "FAILING");
    let (verdict, summary) = match (useless.is_empty(), missing.is_empty()) {
        (true, true) => (Verdict::Pass, format!("exactly the right tasks restarted: {facts}")),
        (true, false) if is_cut_short => {
            (Verdict::Inconclusive, format!("the job was {status} before everything could restart: {facts}"))
        }
        (useless_none, missing_none) => {
            let wrong = [(useless_none, useless.len(), "useless"), (missing_none, missing.len(), "missing")];
            let wrong: Vec<_> =
                wrong.iter().filter(|(none, ..)| !none).map(|(_, n, what)| format!("{n} {what}")).collect();
            (Verdict::Fail, format!("{}: {facts}", wrong.join(", ")))
        }
    };
    judgement(ORACLE, verdict, summary, evidence)
}

/// Two decimals; nothing of nothing is all of it.
fn ratio(part: usize, whole: usize) -> String {
    let hundredths = (part * 100).checked_div(whole).unwrap_or(100);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::timeline::Losses;

    /// `read` and `count` with two tasks each; executor-2 has `read[1]`'s finished partition and runs `count[1]`.
    fn word_count() -> Story {
        let mut story = Story::new();
        story.plan(&[("read", 2), ("count", 2)], &[("read", "count", "blocking", "HASH")]);
        for (task, state) in [("read", "FINISHED"), ("count", "RUNNING")] {
            story.task(task, 0, 0, state, Some("executor-1")).task(task, 1, 0, state, Some("executor-2"));
        }
        story
    }

    fn kill(story: &mut Story) -> &mut Story {
        story.fault("kill", Losses { executors: vec!["executor-2".into()], ..Losses::default() })
    }

    fn verdict(story: &Story) -> Judgement {
        judge(&story.timeline(), &Params::default())
    }

    fn restart(story: &mut Story, tasks: &[(&str, u32)]) {
        for (vertex, subtask) in tasks {
            story.task(vertex, *subtask, 1, "CREATED", None).task(vertex, *subtask, 1, "RUNNING", Some("executor-1"));
        }
    }

    #[test]
    fn exactly_the_right_tasks_is_a_pass_with_the_reasons() {
        let mut story = word_count();
        kill(&mut story);
        restart(&mut story, &[("read", 1), ("count", 0), ("count", 1)]);
        let judgement = verdict(&story);
        assert_eq!(judgement.verdict, Verdict::Pass);
        assert_eq!(
            judgement.summary,
            "exactly the right tasks restarted: 3 of 4 tasks restarted; precision 1.00, recall 1.00"
        );
        let tree = [
            "kill:",
            "  count[1] restarts because it failed",
            "    read[1] restarts because its partition read[1] is lost and count[1] needs it",
            "      count[0] restarts because it consumes read[1]",
        ];
        assert_eq!(judgement.evidence, tree);
    }

    #[test]
    fn a_useless_and_a_missing_restart_are_named() {
        let mut story = word_count();
        kill(&mut story);
        restart(&mut story, &[("read", 0), ("read", 1), ("count", 1)]);
        let judgement = verdict(&story);
        assert_eq!(judgement.verdict, Verdict::Fail);
        assert_eq!(judgement.summary, "1 useless, 1 missing: 3 of 4 tasks restarted; precision 0.66, recall 0.66");
        assert_eq!(
            judgement.evidence[..2],
            [
                "useless restart: read[0] went from attempt 0 to 1, and nothing it needs was lost",
                "missing restart: count[0] restarts because it consumes read[1]",
            ]
        );
    }

    #[test]
    fn what_is_seen_after_the_injection_does_not_blur_the_picture() {
        for engine_says_so in [true, false] {
            let mut story = word_count();
            story.injected("kill");
            // The engine is quicker than the confirmation.
            if engine_says_so {
                story.record(RecordKind::ExecutorLost { executor: "executor-2".into() });
            }
            restart(&mut story, &[("read", 1), ("count", 0), ("count", 1)]);
            story.effective("kill", Losses { executors: vec!["executor-2".into()], ..Losses::default() });
            let judgement = verdict(&story);
            assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
            assert_eq!(judgement.evidence.iter().filter(|line| line.ends_with(':')).count(), 1, "one incident");
        }
    }

    #[test]
    fn an_effect_that_is_confirmed_when_the_job_is_over_came_before_its_end() {
        let mut story = word_count();
        story.injected("fail");
        restart(&mut story, &[("count", 1)]);
        story.status("FINISHED");
        story.effective("fail", Losses { tasks: vec![TaskName::new("count", 1)], ..Losses::default() });
        assert_eq!(verdict(&story).verdict, Verdict::Pass, "{:?}", verdict(&story));
        // A failure that came for certain is one that must be seen in the restarts.
        let mut story = word_count();
        story.injected("fail").status("FINISHED");
        story.effective("fail", Losses { tasks: vec![TaskName::new("count", 1)], ..Losses::default() });
        assert!(verdict(&story).summary.starts_with("1 missing"), "{:?}", verdict(&story));
    }

    #[test]
    fn an_executor_that_is_known_to_be_dead_when_the_job_is_over_may_have_outlived_it() {
        let late_kill = |restarted: &[(&str, u32)]| {
            let mut story = word_count();
            story.injected("kill");
            restart(&mut story, restarted);
            story.status("FINISHED");
            story.effective("kill", Losses { executors: vec!["executor-2".into()], ..Losses::default() });
            verdict(&story)
        };
        assert_eq!(late_kill(&[]).verdict, Verdict::Pass, "{:?}", late_kill(&[]));
        assert_eq!(late_kill(&[("read", 1), ("count", 0), ("count", 1)]).verdict, Verdict::Pass);
        assert!(late_kill(&[("read", 0)]).summary.starts_with("1 useless"), "{:?}", late_kill(&[("read", 0)]));
        assert!(late_kill(&[("count", 1)]).summary.starts_with("2 missing"), "{:?}", late_kill(&[("count", 1)]));
    }

    #[test]
    fn a_running_reader_of_a_lost_partition_may_have_read_it_all() {
        let chain = || {
            let mut story = Story::new();
            let edges = [("a", "b", "blocking", "FORWARD"), ("b", "c", "blocking", "FORWARD")];
            story.plan(&[("a", 1), ("b", 1), ("c", 1)], &edges);
            story.task("a", 0, 0, "FINISHED", Some("executor-1")).task("b", 0, 0, "FINISHED", Some("executor-2"));
            story.task("c", 0, 0, "RUNNING", Some("executor-1"));
            kill(&mut story);
            story
        };
        assert_eq!(verdict(&chain()).verdict, Verdict::Pass, "nothing restarted, nothing had to");
        // `a`'s partition was deleted when `b` finished, so it is part of the set.
        let mut story = chain();
        restart(&mut story, &[("a", 0), ("b", 0), ("c", 0)]);
        assert_eq!(verdict(&story).verdict, Verdict::Pass);
        let kept = Params { partitions_are_kept: true, ..Params::default() };
        assert_eq!(judge(&story.timeline(), &kept).verdict, Verdict::Fail, "with kept partitions `a` is useless");
        // If `c` did fail, then the rest of its set is due.
        let mut story = chain();
        restart(&mut story, &[("c", 0)]);
        assert!(verdict(&story).summary.starts_with("2 missing"), "{}", verdict(&story).summary);
        // `b` alone is explained by nothing.
        let mut story = chain();
        restart(&mut story, &[("b", 0)]);
        assert!(verdict(&story).summary.starts_with("1 useless"), "{}", verdict(&story).summary);
    }

    #[test]
    fn a_consumer_that_has_not_begun_draws_in_the_lost_producer() {
        let mut story = Story::new();
        story.plan(&[("a", 1), ("b", 1)], &[("a", "b", "blocking", "HASH")]);
        story.task("a", 0, 0, "FINISHED", Some("executor-2")).task("b", 0, 0, "CREATED", None);
        kill(&mut story);
        assert_eq!(verdict(&story).verdict, Verdict::Fail, "`a` must run again");
        restart(&mut story, &[("a", 0)]);
        assert_eq!(verdict(&story).verdict, Verdict::Pass);
        restart(&mut story, &[("b", 0)]);
        assert_eq!(verdict(&story).verdict, Verdict::Pass, "`b` may have been deployed unseen");
        let exact = Params { exact_states: true, ..Params::default() };
        assert_eq!(judge(&story.timeline(), &exact).verdict, Verdict::Fail, "CREATED needs no restart");
    }

    #[test]
    fn a_task_that_finished_unseen_did_not_fail() {
        let mut story = Story::new();
        story.plan(&[("a", 2)], &[]);
        story.task("a", 0, 0, "RUNNING", Some("executor-2")).task("a", 1, 0, "RUNNING", Some("executor-2"));
        kill(&mut story);
        story.task("a", 0, 0, "FINISHED", Some("executor-2"));
        restart(&mut story, &[("a", 1)]);
        assert_eq!(verdict(&story).verdict, Verdict::Pass, "{:?}", verdict(&story));
    }

    #[test]
    fn a_failed_task_takes_its_pipelined_region_along() {
        let mut story = Story::new();
        story.plan(&[("a", 2), ("b", 2)], &[("a", "b", "pipelined_bounded", "FORWARD")]);
        for subtask in 0..2 {
            story.task("a", subtask, 0, "RUNNING", Some("executor-1")).task(
                "b",
                subtask,
                0,
                "RUNNING",
                Some("executor-1"),
            );
        }
        story.fault("user code", Losses { tasks: vec![TaskName::new("b", 1)], ..Losses::default() });
        restart(&mut story, &[("a", 1), ("b", 1)]);
        let judgement = verdict(&story);
        assert_eq!(judgement.verdict, Verdict::Pass);
        assert_eq!(judgement.evidence[2], "    a[1] restarts because it is in one region with b[1]");
    }

    #[test]
    fn tasks_on_an_impaired_executor_may_fail_and_no_others() {
        let impaired = || {
            let mut story = word_count();
            story.fault("disk full", Losses { impaired: vec!["executor-2".into()], ..Losses::default() });
            story
        };
        assert_eq!(verdict(&impaired()).verdict, Verdict::Pass, "it need not have failed");
        let mut story = impaired();
        restart(&mut story, &[("count", 1)]);
        assert_eq!(verdict(&story).verdict, Verdict::Pass, "{:?}", verdict(&story));
        for (task, why) in [("count", "another executor"), ("read", "finished before")] {
            let mut story = impaired();
            restart(&mut story, &[(task, u32::from(task == "read"))]);
            assert!(verdict(&story).summary.starts_with("1 useless"), "{why}: {:?}", verdict(&story));
        }
    }

    #[test]
    fn what_cannot_be_judged_is_not_judged() {
        let mut story = word_count();
        assert_eq!(verdict(&story).verdict, Verdict::Vacuous);
        kill(&mut story).status("CANCELED");
        assert_eq!(verdict(&story).verdict, Verdict::Inconclusive, "cancelled before it could restart");
        let mut story = word_count();
        kill(&mut story).status("INITIALIZING");
        assert!(verdict(&story).summary.contains("new leader"));
        assert_eq!(judge(&Timeline::default(), &Params::default()).verdict, Verdict::Inconclusive);
    }

    #[test]
    fn a_restart_without_a_loss_is_useless() {
        let mut story = word_count();
        story.status("FINISHED").record(RecordKind::ExecutorLost { executor: "executor-1".into() });
        assert_eq!(verdict(&story).verdict, Verdict::Vacuous, "shutting down is no fault");
        let mut story = word_count();
        story.fault("blackhole the store", Losses::default());
        assert_eq!(verdict(&story).verdict, Verdict::Pass);
        restart(&mut story, &[("count", 0)]);
        assert_eq!(verdict(&story).verdict, Verdict::Fail);
    }
}
