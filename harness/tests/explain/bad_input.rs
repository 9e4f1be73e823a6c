//! REST answers with holes and nonsense in them: an error that names the thing, or an answer; never a panic.

use proptest::prelude::*;
use serde_json::{Value, json};
use stormproof::explain::{ExplainError, Picture, Question, Saved};

use super::samples::{VERSIONS, details, fails, sample};

fn batch() -> Saved {
    sample("1.20.5", "batch_before_tm_kill_job")
}

/// The job with the value at `pointer` replaced, or removed.
fn with(pointer: &str, value: Option<Value>) -> Saved {
    let mut job = batch();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = job.value.pointer_mut(parent).unwrap();
    match (value, parent) {
        (Some(value), parent) => *parent.pointer_mut(&format!("/{key}")).unwrap() = value,
        (None, Value::Object(fields)) => drop(fields.remove(key).unwrap()),
        (None, other) => panic!("{other} has no fields"),
    }
    job
}

fn told(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn refused(job: &Saved) -> String {
    told(&Picture::of_rest(job, &[]).map(drop).expect_err("refused"))
}

#[test]
fn a_field_without_a_sensible_value_is_named_with_its_vertex() {
    let nan = || Some(json!("NaN"));
    // The plan says it as well.
    assert!(Picture::of_rest(&with("/vertices/1/parallelism", nan()), &[]).is_ok());
    for (value, found) in
        [(json!(0), "0"), (json!(-3), "-3"), (json!(32_769), "32769"), (json!(1e18), "1000000000000000000")]
    {
        let expected = format!("vertex `mid` has {found} (it must be from 1 to 32768) as `parallelism`");
        assert_eq!(refused(&with("/vertices/1/parallelism", Some(value))), expected);
    }
    let mut job = with("/vertices/1/parallelism", nan());
    job.value["plan"]["nodes"][1].as_object_mut().unwrap().remove("parallelism");
    assert_eq!(refused(&job), "vertex `mid` has \"NaN\" as `parallelism`");
    assert_eq!(
        refused(&with("/plan/nodes/1/inputs/0/exchange", None)),
        "vertex `mid` has nothing for its input from `Source: src -> gen` as `exchange`"
    );
    assert_eq!(
        refused(&with("/plan/nodes/1/inputs/0/exchange", nan())),
        "the edge from `Source: src -> gen` to `mid` has the exchange `NaN`, which the model does not know"
    );
    assert_eq!(
        refused(&with("/plan/nodes/1/inputs/0/id", nan())),
        "vertex `mid` reads from vertex `\"NaN\"`, which the plan does not have"
    );
    assert_eq!(refused(&with("/vertices/1/id", None)), "vertex `mid` has nothing as `id`");
    assert_eq!(refused(&with("/vertices/1/id", nan())), "vertex `mid` has no node as `plan`");
    assert_eq!(
        refused(&with("/plan/nodes/1/id", None)),
        "batch_before_tm_kill_job has a plan node with nothing as `id`"
    );
    let states = Some(json!({"ASLEEP": 2}));
    assert_eq!(refused(&with("/vertices/1/tasks", states)), "vertex `mid` has `ASLEEP` as `status`");
    let twice = batch().value["vertices"][0].clone();
    assert_eq!(refused(&with("/vertices/1", Some(twice))), "vertex `Source: src -> gen` is given twice");
}

#[test]
fn answers_that_are_no_job_are_told_apart() {
    let parse = |text: &str| Saved::parse("job.json", text).and_then(|job| Picture::of_rest(&job, &[])).map(drop);
    let error = |text: &str| told(&parse(text).expect_err("refused"));
    assert_eq!(error("{\"jid\":"), "job.json is not JSON: EOF while parsing a value at line 1 column 7");
    assert_eq!(error("[]"), "job.json is not a JSON object");
    assert_eq!(error("{}"), "job.json has no `plan`; save the answer of `GET /jobs/:id`");
    assert_eq!(
        error(r#"{"errors":["Job c0ffee not found\n\tat x"]}"#),
        "job.json is an error answer: Job c0ffee not found"
    );
    assert_eq!(
        error(r#"{"jid":"c0ffee","state":"INITIALIZING","vertices":[],"plan":{}}"#),
        "job `c0ffee` is INITIALIZING and shows no vertices; ask again once it runs"
    );
    for version in ["1.13.6", "2.3.0"] {
        let job = sample(version, "ha_job_INITIALIZING");
        assert!(matches!(Picture::of_rest(&job, &[]), Err(ExplainError::NoVertices { .. })), "{version}");
    }
}

#[test]
fn an_empty_plan_is_no_job_and_no_sentence_has_holes() {
    let nothing = Saved { place: "job.json".to_owned(), value: json!({ "plan": {} }) };
    assert!(
        refused(&nothing).starts_with("job.json shows no vertices, nor of which job it is"),
        "{}",
        refused(&nothing)
    );
    let stateless = Saved { place: "job.json".to_owned(), value: json!({ "jid": "c0ffee", "plan": { "nodes": [] } }) };
    assert!(refused(&stateless).starts_with("job `c0ffee` is in an unknown state and shows no vertices"));
}

#[test]
fn a_cycle_is_named_and_so_is_a_vertex_that_reads_itself() {
    let input = json!([{"id": "e883208d19e3c34f8aaf2a3168a63337", "exchange": "blocking", "ship_strategy": "HASH"}]);
    let mut job = batch();
    job.value["plan"]["nodes"][2]["inputs"] = input.clone();
    assert_eq!(refused(&job), "the job graph has a cycle through Source: src -> gen, mid, out -> sink");
    let mut job = batch();
    job.value["plan"]["nodes"][0]["inputs"] = input;
    assert_eq!(refused(&job), "the job graph has a cycle through out -> sink");
}

#[test]
fn names_that_are_not_there_are_answered_with_what_is() {
    let picture = Picture::of_rest(&batch(), &[]).unwrap();
    let error = |question: &Question| told(&picture.explain(question).map(drop).expect_err("refused"));
    assert_eq!(error(&fails("src/0", &[])), "there is no vertex `src`; did you mean `Source: src -> gen`?");
    assert_eq!(error(&fails("mid/2", &[])), "vertex `mid` has no subtask 2: its parallelism is 2, counted from 0");
    assert_eq!(error(&fails("mid", &[])), "`mid` is not a task; write `vertex/subtask`, e.g. `map/3`");
    assert_eq!(error(&fails("mid/0", &["mid.1/0"])), "vertex `mid` has no data set 1; it has 0");
    assert_eq!(error(&fails("mid/0", &["out -> sink.0/0"])), "vertex `out -> sink` has no data set 0; it has none");
    assert_eq!(error(&fails("mid/0", &["mdi.0/0"])), "there is no vertex `mdi`; did you mean `mid`?");
    assert!(error(&fails("mid/0", &["mid.0"])).starts_with("`mid.0` is not a partition"));
    let executor = Question { executors: vec!["tm1".into()], ..Question::default() };
    assert!(error(&executor).contains("give a --vertex-file for each vertex"), "{}", error(&executor));
    // By identifier, and with the data set left out.
    let by_id = fails("9dd63673dd41ea021b896d5203f3ba7c/0", &["cbc357ccb763df2852fee8c4fc7d55f2[1]"]);
    assert_eq!(picture.explain(&by_id).unwrap().certain().len(), 3);
}

#[test]
fn a_vertex_answer_that_does_not_fit_is_named() {
    let refused = |detail: &Value, times: usize| {
        let detail = Saved { place: "v.json".into(), value: detail.clone() };
        told(&Picture::of_rest(&batch(), &vec![detail; times]).map(drop).expect_err("refused"))
    };
    let mid = || details("1.20.5", "batch_before_tm_kill", 3).remove(1).value;
    assert_eq!(refused(&mid(), 2), "vertex `mid` is given twice");
    let changed = |pointer: &str, value: Value| {
        let mut mid = mid();
        *mid.pointer_mut(pointer).unwrap() = value;
        mid
    };
    assert_eq!(refused(&changed("/id", json!("x")), 1), "v.json is about vertex `x`, which the job does not have");
    assert!(refused(&changed("/subtasks", json!("NaN")), 1).starts_with("v.json has no list `subtasks`"));
    assert_eq!(refused(&changed("/subtasks/0/status", json!("NaN")), 1), "vertex `mid` has `NaN` as `status`");
    assert_eq!(refused(&changed("/subtasks/0/status", json!(null)), 1), "vertex `mid` has null as `status`");
    assert_eq!(
        refused(&changed("/subtasks/0/subtask", json!(9)), 1),
        "vertex `mid` has no subtask 9: its parallelism is 2, counted from 0"
    );
    assert_eq!(refused(&changed("/subtasks/0/subtask", json!("NaN")), 1), "vertex `mid` has \"NaN\" as `subtask`");
}

/// What a value is replaced by.
fn nonsense() -> impl Strategy<Value = Option<Value>> {
    let values = vec![
        None,
        Some(Value::Null),
        Some(json!("NaN")),
        Some(json!("")),
        Some(json!(-1)),
        Some(json!(0)),
        Some(json!(2)),
        // Wide enough to be odd; wide jobs and the limits have tests of their own.
        Some(json!(40)),
        Some(json!(32_769)),
        Some(json!(u64::MAX)),
        Some(json!(1e300)),
        Some(json!(true)),
        Some(json!([])),
        Some(json!({})),
        Some(json!({"data_set": u32::MAX})),
        Some(json!("pipelined_bounded")),
        Some(json!("hybrid_selective")),
        Some(json!("FORWARD")),
        Some(json!("cbc357ccb763df2852fee8c4fc7d55f2")),
        Some(json!("RUNNING")),
    ];
    prop::sample::select(values)
}

/// Number of values in a document, itself included.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum::<usize>(),
        _ => 0,
    }
}

/// Replaces or removes the value number `at`, counted depth first. True once done.
fn mutate(value: &mut Value, at: &mut usize, by: &Option<Value>) -> bool {
    if *at == 0 {
        *value = by.clone().unwrap_or(Value::Null);
        return true;
    }
    *at -= 1;
    match value {
        Value::Array(items) => {
            if by.is_none() && *at < items.len() {
                items.remove(*at);
                return true;
            }
            items.iter_mut().any(|item| mutate(item, at, by))
        }
        Value::Object(fields) => {
            if by.is_none() && *at < fields.len() {
                let key = fields.keys().nth(*at).cloned().unwrap();
                fields.remove(&key);
                return true;
            }
            fields.values_mut().any(|item| mutate(item, at, by))
        }
        _ => false,
    }
}

/// Asks everything of a picture.
fn exercise(picture: &Picture) {
    let summary = picture.summary(false).unwrap();
    assert_eq!(summary.vertices.len(), picture.observed().graph.vertices.len());
    assert!(!picture.summary_json(&summary).to_string().is_empty() && !picture.headline().is_empty());
    assert!(summary.lines().len() >= summary.vertices.len() && picture.region_lines().len() <= summary.tasks);
    let names: Vec<String> = picture.observed().graph.vertices.iter().map(|(name, _)| name.clone()).collect();
    for name in names {
        let question = Question {
            lost: vec![format!("{name}[0]")],
            executors: vec!["tm1".into()],
            ..fails(&format!("{name}/0"), &[])
        };
        let questions = [Question { executors: vec![], ..question.clone() }, question];
        for explanation in questions.iter().filter_map(|question| picture.explain(question).ok()) {
            assert!(picture.lines(&explanation)[0].starts_with(&explanation.incident));
            assert!(picture.explanation_json(&explanation)["restart"].is_array());
            assert!(explanation.certain().is_subset(&explanation.possible()));
        }
    }
}

#[test]
fn a_wide_job_is_answered_in_time() {
    // Wide vertices, each subtask a region of its own: work that grows with the square of the
    // width would keep this test for hours.
    let mut job = batch();
    for number in 0..3 {
        job.value["vertices"][number]["parallelism"] = json!(8_192);
        job.value["vertices"][number]["tasks"] = json!({"FINISHED": 8_192});
        job.value["plan"]["nodes"][number]["parallelism"] = json!(8_192);
    }
    exercise(&Picture::of_rest(&job, &[]).expect("a picture"));
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|number| number.parse().ok()).unwrap_or(600)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn mutated_answers_never_panic(
        version in prop::sample::select(VERSIONS.to_vec()),
        moment in prop::sample::select(vec!["batch_before_tm_kill", "stream_before_failure"]),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), nonsense()), 1..=6),
        only_the_plan in prop::bool::weighted(0.5),
    ) {
        let mut job = sample(version, &format!("{moment}_job"));
        let mut vertices = match (version, moment) {
            ("1.20.5", "batch_before_tm_kill") => details("1.20.5", "batch_before_tm_kill", 3),
            ("2.3.0", "stream_before_failure") => details("2.3.0", "stream_before_failure", 3),
            _ => vec![],
        };
        for (document, place, by) in hits {
            let target = match document.index(vertices.len() + 1).checked_sub(1) {
                Some(vertex) => &mut vertices[vertex].value,
                // Half of the hits go where it hurts.
                None if only_the_plan && job.value.get("plan").is_some() => &mut job.value["plan"],
                None => &mut job.value,
            };
            let mut at = place.index(size(target));
            mutate(target, &mut at, &by);
        }
        match Picture::of_rest(&job, &vertices) {
            Ok(picture) => exercise(&picture),
            Err(error) => prop_assert!(told(&error).len() > 10, "{}", error),
        }
    }

    #[test]
    fn truncated_answers_never_panic(cut in any::<prop::sample::Index>(), junk in ".{0,8}") {
        let text = batch().value.to_string();
        let mut end = cut.index(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = format!("{}{junk}", &text[..end]);
        match Saved::parse("job.json", &text) {
            Ok(job) => drop(Picture::of_rest(&job, &[])),
            Err(error) => prop_assert!(error.to_string().starts_with("job.json is not"), "{}", error),
        }
    }
}
