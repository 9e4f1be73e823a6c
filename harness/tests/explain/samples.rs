//! Answers of real Flink clusters, before and after something failed: what `explain` says beforehand is what
//! restarted.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use stormproof::explain::{Explanation, Picture, Question, Saved, WaveKind};

pub(crate) const VERSIONS: [&str; 4] = ["1.13.6", "1.14.6", "1.20.5", "2.3.0"];

pub(crate) fn sample(version: &str, name: &str) -> Saved {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flink-rest").join(version).join(format!("{name}.json"));
    let mut sample = Saved::parse(name, &std::fs::read_to_string(file).unwrap()).unwrap();
    // Files of calls that may fail are wrapped with their status.
    if let Some(body) = sample.value.get("body") {
        sample.value = body.clone();
    }
    sample
}

pub(crate) fn details(version: &str, moment: &str, vertices: u32) -> Vec<Saved> {
    (0..vertices).map(|vertex| sample(version, &format!("{moment}_vertex{vertex}"))).collect()
}

pub(crate) fn fails(task: &str, lost: &[&str]) -> Question {
    let lost = lost.iter().map(|name| (*name).to_owned()).collect();
    Question { fail: vec![task.to_owned()], lost, ..Question::default() }
}

/// `vertex/subtask` of the tasks that restart in one wave.
pub(crate) fn restart(picture: &Picture, explanation: &Explanation, kind: WaveKind) -> BTreeSet<String> {
    let name = |task| picture.observed().name(task);
    explanation.restart(kind).map(name).map(|task| format!("{}/{}", task.vertex, task.subtask)).collect()
}

fn now(picture: &Picture, question: &Question) -> BTreeSet<String> {
    restart(picture, &picture.explain(question).unwrap(), WaveKind::Now)
}

/// Tasks whose current attempt is not their first.
fn restarted(details: &[Saved]) -> BTreeSet<String> {
    let of = |detail: &Saved| {
        let vertex = detail.value["name"].as_str().unwrap().to_owned();
        let subtasks = detail.value["subtasks"].as_array().unwrap().clone();
        let again = subtasks.into_iter().filter(|subtask| subtask["attempt"].as_u64().unwrap() > 0);
        again.map(move |subtask| format!("{vertex}/{}", subtask["subtask"])).collect::<Vec<_>>()
    };
    details.iter().flat_map(of).collect()
}

#[test]
fn a_killed_executor_restarts_what_explain_says_on_every_flink() {
    for version in VERSIONS {
        let picture = Picture::of_rest(&sample(version, "batch_before_tm_kill_job"), &[]).unwrap();
        let lost = if version == "1.14.6" { "Source: src -> gen.0/1" } else { "Source: src -> gen.0/0" };
        let seen = restarted(&details(version, "batch_finished_after_tm_kill", 3));
        assert_eq!(now(&picture, &fails("mid/1", &[lost])), seen, "{version}");
        assert_eq!(seen.len(), 3, "the source's task and both readers, and not the sink, which had not begun");
    }
}

#[test]
fn failing_user_code_restarts_what_explain_says() {
    let job = sample("2.3.0", "stream_before_failure_job");
    let picture = Picture::of_rest(&job, &details("2.3.0", "stream_before_failure", 3)).unwrap();
    let seen = restarted(&details("2.3.0", "stream_after_user_failure", 3));
    assert_eq!(now(&picture, &fails("work[1]", &[])), seen);
    assert_eq!(seen, ["Source: src -> gen/1", "sink/1", "work/1"].map(str::to_owned).into());
}

#[test]
fn the_lines_are_for_people_and_the_json_is_for_programs() {
    let job = sample("1.20.5", "batch_before_tm_kill_job");
    let picture = Picture::of_rest(&job, &details("1.20.5", "batch_before_tm_kill", 3)).unwrap();
    let explanation = picture.explain(&Question { executors: vec!["tm4".into()], ..Question::default() }).unwrap();
    let lines = [
        "tm4 is lost: 3 of 6 tasks restart",
        "  mid[1] restarts because it failed",
        "    Source: src -> gen[1] restarts because its partition Source: src -> gen[1] is lost and mid[1] needs it",
        "      mid[0] restarts because it consumes Source: src -> gen[1]",
        "  reached but CREATED, so nothing is there to restart: out -> sink[0-1]",
    ];
    assert_eq!(picture.lines(&explanation), lines);
    assert!(picture.headline().ends_with("RUNNING): 6 tasks in 6 regions"), "{}", picture.headline());
    let json = picture.explanation_json(&explanation);
    assert_eq!(json["restart"], json!(["Source: src -> gen/1", "mid/0", "mid/1"]));
    assert_eq!(json["spared"], json!(["out -> sink/0", "out -> sink/1"]));
    let reason = json!({"task": "Source: src -> gen/1", "reason": "input_lost", "of": "mid/1",
        "partition": "Source: src -> gen.0/1",
        "because": "restarts because its partition Source: src -> gen[1] is lost and mid[1] needs it"});
    assert!(json["reasons"].as_array().unwrap().contains(&reason), "{json}");
}

#[test]
fn lost_partitions_alone_fail_their_readers_later_or_perhaps() {
    let mut job = sample("1.20.5", "batch_before_tm_kill_job");
    let lost = Question { lost: vec!["Source: src -> gen.0/1".into()], ..Question::default() };
    let waves = |job: &Saved| {
        let picture = Picture::of_rest(job, &[]).unwrap();
        let explanation = picture.explain(&lost).unwrap();
        [WaveKind::Now, WaveKind::Later, WaveKind::Perhaps].map(|kind| restart(&picture, &explanation, kind).len())
    };
    assert_eq!(waves(&job), [0, 0, 3], "both readers run, and may have read all of it");
    for vertex in [1, 2] {
        job.value["vertices"][vertex]["tasks"] = json!({"CREATED": 2});
    }
    assert_eq!(waves(&job), [0, 1, 0], "the readers will not find it, and have nothing to restart yet");
}

#[test]
fn partitions_that_nobody_needs_any_more_are_gone() {
    let mut job = sample("1.20.5", "batch_before_tm_kill_job");
    for (vertex, state) in [(1, "FINISHED"), (2, "RUNNING")] {
        job.value["vertices"][vertex]["tasks"] = json!({ state: 2 });
    }
    let picture = Picture::of_rest(&job, &[]).unwrap();
    // mid[0] must run again, and reads what was deleted when `mid` had finished.
    let question = fails("out -> sink/0", &["mid.0/0"]);
    assert_eq!(now(&picture, &question).len(), 6);
    let notes = picture.explain(&question).unwrap().notes;
    assert_eq!(notes, ["2 partitions count as released, since all that reads them has finished"]);
    let kept = Question { partitions_are_kept: true, ..question };
    assert_eq!(now(&picture, &kept).len(), 3);
}

#[test]
fn a_named_partition_counts_if_its_attempt_is_current_or_flink_is_followed() {
    let job = sample("1.20.5", "batch_before_tm_kill_job");
    let picture = Picture::of_rest(&job, &details("1.20.5", "batch_before_tm_kill", 3)).unwrap();
    let named = |name: &str| Question { named: Some(name.to_owned()), ..fails("mid/0", &[]) };
    assert_eq!(now(&picture, &named("Source: src -> gen.0/1")).len(), 3);
    assert_eq!(now(&picture, &named("Source: src -> gen[1].0@0")).len(), 3);
    let stale = named("Source: src -> gen.0/1@4");
    assert_eq!(now(&picture, &stale).len(), 1);
    assert_eq!(now(&picture, &Question { stale_honoured: true, ..stale }).len(), 3);
}

#[test]
fn what_is_assumed_is_said() {
    let mut job = sample("1.20.5", "batch_before_tm_kill_job");
    let notes = |job: &Saved| Picture::of_rest(job, &[]).unwrap().summary(true).unwrap().notes;
    assert!(notes(&job).is_empty(), "every vertex is in one state");
    assert_eq!(
        notes(&sample("2.3.0", "batch_before_tm_kill_job")),
        ["2 operators are not planned yet and so not part of the answer"]
    );
    job.value["vertices"][0]["tasks"] = json!({"FINISHED": 1, "RUNNING": 1});
    job.value["vertices"][1]["tasks"] = json!({"RUNNING": "NaN"});
    let edge = job.value.pointer_mut("/plan/nodes/0/inputs/0").unwrap().as_object_mut().unwrap();
    edge.insert("ship_strategy".into(), json!("TELEPORT"));
    assert_eq!(
        notes(&job),
        [
            "the edge from `mid` to `out -> sink` has \"TELEPORT\" as `ship_strategy`: taken as ALL_TO_ALL",
            "`Source: src -> gen` has 1 FINISHED, 1 RUNNING; which subtask is which is a guess, its --vertex-file would tell",
            "the states of `mid` are not known: taken to be RUNNING",
        ]
    );
    job.value["vertices"][2]["parallelism"] = json!(-1);
    let summary = Picture::of_rest(&job, &[]).unwrap().summary(true).unwrap();
    assert_eq!((summary.tasks, summary.vertices.len()), (4, 2), "a vertex that is not decided has no tasks");
    assert!(summary.notes[0].starts_with("the parallelism of `out -> sink` is not decided yet"), "{:?}", summary.notes);
}

#[test]
fn a_bare_plan_is_enough() {
    let plan = sample("1.20.5", "batch_before_tm_kill_job_plan");
    let picture = Picture::of_rest(&plan, &[]).unwrap();
    let summary = picture.summary(false).unwrap();
    let vertices: Vec<_> = summary.vertices.iter().map(|vertex| (vertex.name.as_str(), vertex.restarts)).collect();
    assert_eq!(vertices, [("out -> sink", (1, 1)), ("mid", (3, 3)), ("Source: src -> gen", (5, 5))]);
    assert_eq!(picture.summary_json(&summary)["vertices"][1]["restarts"], json!({"min": 3, "max": 3}));
    assert_eq!(summary.notes.len(), 3, "{:?}", summary.notes);
    assert_eq!(picture.regions().count(), 6);
    assert_eq!(picture.region_lines()[2], "region 2, 1 task: mid[0]");
}

#[test]
fn regions_that_wait_for_each_other_are_warned_of() {
    // Reference 1.5, second row.
    let node = |id: &str, inputs: Value| json!({"id": id, "parallelism": 1, "inputs": inputs});
    let input = |id: &str, exchange: &str| json!({"id": id, "ship_strategy": "FORWARD", "exchange": exchange});
    let (blocking, pipelined) = ("blocking", "pipelined_bounded");
    let nodes = json!([
        node("a", json!([])),
        node("b", json!([input("a", blocking)])),
        node("c", json!([input("a", pipelined)])),
        node("d", json!([input("b", blocking), input("c", pipelined)])),
    ]);
    let plan = Saved::parse("plan", &json!({"plan": {"nodes": nodes}}).to_string()).unwrap();
    let picture = Picture::of_rest(&plan, &[]).unwrap();
    let explanation = picture.explain(&fails("a/0", &[])).unwrap();
    let warning = "the pipelined regions of a, b, c, d wait for each other: Flink 1.14 to 2.3 starts none of them";
    assert_eq!(explanation.warnings, [warning]);
    assert!(picture.lines(&explanation).contains(&format!("warning: {warning}")));
}

/// 4 000 tasks to 4 000 over an all-to-all edge: told in a few lines, and without looking at the pairs.
#[test]
fn a_wide_job_is_told_in_a_few_lines() {
    let node = |id: &str, inputs: Value| json!({"id": id, "parallelism": 4_000, "inputs": inputs});
    let input = json!([{"id": "a", "ship_strategy": "HASH", "exchange": "pipelined_bounded"}]);
    let plan = json!({"nodes": [node("a", json!([])), node("b", input)]});
    let picture = Picture::of_rest(&Saved::parse("plan", &plan.to_string()).unwrap(), &[]).unwrap();
    let explanation = picture.explain(&fails("b/17", &[])).unwrap();
    assert_eq!(
        picture.lines(&explanation)[..4],
        [
            "b[17] fails: 8000 of 8000 tasks restart",
            "  b[17] restarts because it failed",
            "    a[0-3999] restart because they are in one region with b[17]",
            "    b[0-16,18-3999] restart because they are in one region with b[17]",
        ]
    );
}

/// Twenty thousand vertices in a row: no recursion, and no indentation without end.
#[test]
fn a_long_chain_is_told_in_part() {
    let vertices = 20_000;
    let inputs = |at: usize| match at.checked_sub(1) {
        None => json!([]),
        Some(before) => json!([{"id": format!("v{before}"), "ship_strategy": "FORWARD", "exchange": "blocking"}]),
    };
    let nodes: Vec<_> =
        (0..vertices).map(|at| json!({"id": format!("v{at}"), "parallelism": 1, "inputs": inputs(at)})).collect();
    let plan = Saved { place: "plan".into(), value: json!({ "nodes": nodes }) };
    let picture = Picture::of_rest(&plan, &[]).unwrap();
    let explanation = picture.explain(&fails("v0/0", &[])).unwrap();
    assert_eq!(explanation.certain().len(), vertices);
    let lines = picture.lines(&explanation);
    assert_eq!(lines[401], "  … and 19600 more lines; --json has them all");
    assert!(lines.iter().all(|line| line.len() < 200));
}
