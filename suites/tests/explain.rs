//! `stormproof explain`: the same restart sets as the headline suites, and exit codes.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use stormproof::explain::{Picture, Question};
use stormproof::job::{JobGraph, Params};
use stormproof::oracle::Expectation;
use stormproof::oracle::incident::{Incident, incidents};
use stormproof::oracle::model::{self, Situation, Task};
use stormproof::oracle::observed::ObservedGraph;
use stormproof::oracle::restart_set;
use stormproof::timeline::{ObservedEdge, ObservedPlan, ObservedVertex, RecordKind, TaskFact, TaskName, Timeline};
use stormproof::verdict::Verdict;
use stormproof_suites::jobs::{stream, word_count};

/// A new folder below the target folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("explain-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn stormproof(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stormproof"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// Runs every headline suite that has one failure and judges its restart set, and asks `explain` the same of the facts
/// as they stood at that moment.
#[test]
fn explain_and_the_headline_suites_give_the_same_restart_sets() {
    let suites = [
        "batch::user_failure",
        "batch::executor_killed",
        "batch::partition_dropped",
        "stream::user_failure",
        "stream::executor_killed",
        "stream::failover_without_store",
    ];
    let folder = folder("suites");
    let report = folder.join("report");
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut arguments = vec!["run", "--report", report.to_str().unwrap(), "--input", input.to_str().unwrap()];
    arguments.extend(suites);
    // Whatever else they judge is for the suites' own test to say.
    let output = stormproof(&arguments, b"");
    assert!(output.status.code().is_some(), "{}", String::from_utf8_lossy(&output.stderr));
    for suite in suites {
        let timeline = Timeline::read(&report.join(suite.replace("::", ".")).join("timeline.jsonl")).unwrap();
        check(suite, &timeline);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

fn check(suite: &str, timeline: &Timeline) {
    let params = timeline.records().iter().find_map(|record| match &record.kind {
        RecordKind::Expected(Expectation::RestartSet(params)) => Some(params),
        _ => None,
    });
    let judgement = restart_set::judge(timeline, params.expect("the suite judges its restart set"));
    assert_eq!(judgement.verdict, Verdict::Pass, "{suite}: {judgement:?}");
    let job = timeline.job(None).unwrap();
    let plan = timeline.plan(job).unwrap();
    let observed = ObservedGraph::of(plan).unwrap();
    let end = timeline.first_status(job, 0, &["FINISHED"]).unwrap();
    let incidents = incidents(timeline, 0, end);
    let [incident] = &incidents[..] else { panic!("{suite}: one incident, not {incidents:?}") };
    let picture = Picture::of_facts(plan, &timeline.tasks(job, incident.position)).unwrap();
    let explanation = picture.explain(&question(incident)).unwrap();

    let before = timeline.tasks(job, incident.position);
    let attempt = |task: &TaskName| before.get(task).map_or(0, |fact| fact.attempt);
    let after = timeline.tasks(job, timeline.records().len());
    let restarted: BTreeSet<Task> = after
        .iter()
        .filter(|(task, fact)| fact.attempt > attempt(task))
        .filter_map(|(task, _)| observed.task(task))
        .collect();
    let told = picture.lines(&explanation).join("\n");
    assert!(!restarted.is_empty() && !explanation.certain().is_empty(), "{suite}: {told}");
    assert!(explanation.certain().is_subset(&restarted), "{suite}: {restarted:?} restarted, but\n{told}");
    assert!(restarted.is_subset(&explanation.possible()), "{suite}: {restarted:?} restarted, but\n{told}");
    if suite.starts_with("stream") {
        // Everything runs, so nothing is left open.
        assert_eq!(explanation.certain(), restarted, "{suite}:\n{told}");
    }
}

fn question(incident: &Incident) -> Question {
    let task = |task: &TaskName| format!("{}/{}", task.vertex, task.subtask);
    Question {
        fail: incident.losses.tasks.iter().map(task).collect(),
        executors: incident.losses.executors.clone(),
        lost: incident.losses.partitions.iter().map(ToString::to_string).collect(),
        ..Question::default()
    }
}

fn plan(graph: &JobGraph) -> ObservedPlan {
    let name = |position: usize| graph.vertices[position].name.clone();
    let vertices = graph.vertices.iter();
    let vertices = vertices.map(|vertex| ObservedVertex { name: vertex.name.clone(), parallelism: vertex.parallelism });
    let edges = graph.edges.iter().map(|edge| ObservedEdge {
        from: name(edge.from),
        to: name(edge.to),
        exchange: edge.partition_type.exchange_name().to_owned(),
        ship_strategy: edge.ship.rest_name().to_owned(),
        data_set: Some(edge.data_set),
    });
    ObservedPlan { vertices: vertices.collect(), edges: edges.collect() }
}

/// Every task of the shipped jobs failing, nothing begun or everything: as the independent model has it.
#[test]
fn the_shipped_jobs_restart_as_the_model_says() {
    let output = folder("jobs");
    let params =
        Params::default().with("input", env!("CARGO_MANIFEST_DIR")).with("output", output.display().to_string());
    for graph in [word_count::graph(&params).unwrap(), stream::graph(&params).unwrap()] {
        let plan = plan(&graph);
        let observed = ObservedGraph::of(&plan).unwrap();
        let running = observed.graph.tasks().map(|task| {
            let fact = TaskFact { attempt: 0, state: "RUNNING".into(), executor: None };
            (observed.name(task), fact)
        });
        let picture = Picture::of_facts(&plan, &running.collect()).unwrap();
        for failed in observed.graph.tasks() {
            let name = observed.name(failed).to_string();
            let explanation = picture.explain(&Question { fail: vec![name], ..Question::default() }).unwrap();
            let expected = model::restart_set(&observed.graph, &Situation::default(), failed).unwrap();
            assert_eq!(explanation.certain(), expected.members().collect(), "{} {failed:?}", graph.name);
        }
    }
    std::fs::remove_dir_all(output).unwrap();
}

#[test]
fn the_exit_code_tells_bad_input() {
    let code = |arguments: &[&str], input: &str| {
        let output = stormproof(arguments, input.as_bytes());
        let told = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap(), told)
    };
    let case = r#"{"id":"x","vertices":[{"name":"a","parallelism":1}],"edges":[],"states":{"a":["RUNNING"]},"lost":[],"fail":"a/0","cause":[]}"#;
    let answer = "{\"id\":\"x\",\"regions\":[[\"a/0\"]],\"restart\":[\"a/0\"]}\n";
    let good = code(&["explain", "--cases", "-"], case);
    assert_eq!(good, (0, answer.to_owned(), String::new()));
    let (status, out, told) = code(&["explain", "--cases", "-"], &format!("{case}\nnonsense\n{case}\n"));
    assert_eq!((status, out), (2, answer.repeat(2)));
    assert!(told.starts_with("stormproof: -, line 2: not a case: "), "{told}");

    let (status, _, told) = code(&["explain", "--job-file", "no/such/file"], "");
    assert_eq!(status, 2);
    assert!(told.contains("no/such/file"), "{told}");
    let folder = folder("plan");
    let file = folder.join("job.json");
    std::fs::write(&file, r#"{"plan":{"nodes":[{"id":"a","parallelism":"NaN"}]}}"#).unwrap();
    let file = file.to_str().unwrap();
    let (status, _, told) = code(&["explain", "--job-file", file], "");
    assert_eq!((status, told.as_str()), (2, "stormproof: vertex `a` has \"NaN\" as `parallelism`\n"));
    std::fs::write(file, r#"{"plan":{"nodes":[{"id":"a","parallelism":2}]}}"#).unwrap();
    let (status, out, _) = code(&["explain", "--job-file", file, "--fail", "a/1", "--regions"], "");
    assert_eq!((status, out.lines().nth(2)), (0, Some("region 1, 1 task: a[1]")));
    let (status, _, told) = code(&["explain", "--job-file", file, "--fail", "a/2"], "");
    assert_eq!(status, 2);
    assert!(told.contains("has no subtask 2"), "{told}");
    std::fs::remove_dir_all(folder).unwrap();
}
