//! What is not a case, and what only just is one. The sample of Flink's answers is in `tests/restart_sets.rs`.

use serde_json::{Value, json};

use super::answer_case;

fn case() -> Value {
    json!({
        "id": "x",
        "note": "ignored",
        "vertices": [{"name": "a", "parallelism": 2}, {"name": "b", "parallelism": 1}],
        "edges": [{"from": "a", "data": 0, "type": "BLOCKING", "to": "b", "pattern": "ALL_TO_ALL"}],
        "states": {"a": ["FINISHED", "FINISHED"], "b": ["RUNNING"]},
        "lost": ["a.0/1"],
        "fail": "b/0",
        "cause": [],
    })
}

/// The case with the value at `pointer` replaced.
fn with(pointer: &str, value: Value) -> Value {
    let mut case = case();
    *case.pointer_mut(pointer).unwrap() = value;
    case
}

fn answer(case: &Value) -> String {
    answer_case(&case.to_string()).unwrap()
}

fn error(case: &Value) -> String {
    answer_case(&case.to_string()).unwrap_err().to_string()
}

#[test]
fn a_case_is_answered() {
    let expected = r#"{"id":"x","regions":[["a/0"],["a/1"],["b/0"]],"restart":["a/1","b/0"]}"#;
    assert_eq!(answer(&case()), expected);
}

#[test]
fn refusals_say_when_and_why() {
    let refused = |kind: &str| format!(r#"{{"id":"x","error":{{"at":"graph","kind":"{kind}"}}}}"#);
    for parallelism in [0, -1, 32_769, i64::MIN] {
        assert_eq!(answer(&with("/vertices/0/parallelism", json!(parallelism))), refused("BAD_PARALLELISM"));
    }
    assert_eq!(answer(&with("/edges/0/to", json!("a"))), refused("CYCLIC"));
    let edge = |pattern: &str| json!({"from": "a", "data": 0, "type": "BLOCKING", "to": "b", "pattern": pattern});
    let edges = json!([edge("ALL_TO_ALL"), edge("POINTWISE")]);
    assert_eq!(answer(&with("/edges", edges)), refused("PATTERN_MISMATCH"));
    for task in ["b/1", "nobody/0", "b", "b/x", "b/-1", ""] {
        let expected =
            r#"{"id":"x","regions":[["a/0"],["a/1"],["b/0"]],"error":{"at":"failover","kind":"UNKNOWN_TASK"}}"#;
        assert_eq!(answer(&with("/fail", json!(task))), expected, "{task}");
    }
}

#[test]
fn unknown_partitions_have_no_effect() {
    let lost = with("/lost", json!(["a.0/9", "a.7/0", "nobody.0/0", "b.0/0"]));
    assert!(answer(&lost).ends_with(r#""restart":["b/0"]}"#));
}

#[test]
fn only_the_first_partition_exception_counts_and_a_stale_one_too() {
    let cause =
        |kind: &str, partition: &str, attempt: &str| json!({"kind": kind, "partition": partition, "attempt": attempt});
    let mut case = with("/lost", json!([]));
    let chain = [
        json!({"kind": "Exception"}),
        cause("PartitionConnectionException", "a.0/0", "stale"),
        cause("PartitionNotFoundException", "a.0/1", "current"),
    ];
    case["cause"] = json!(chain);
    assert!(answer(&case).ends_with(r#""restart":["a/0","b/0"]}"#));
    case["cause"] = json!([cause("PartitionNotFoundException", "nobody.0/0", "current"), chain[2]]);
    assert!(answer(&case).ends_with(r#""restart":["b/0"]}"#));
}

#[test]
fn names_may_contain_dots_and_slashes() {
    let text = case().to_string().replace("\"a\"", "\"s3://in.d/a.b\"").replace("a.0/1", "s3://in.d/a.b.0/1");
    assert!(answer_case(&text).unwrap().ends_with(r#""restart":["s3://in.d/a.b/1","b/0"]}"#));
}

#[test]
fn what_is_not_a_case_is_an_error_that_says_where() {
    assert_eq!(
        answer_case("{\"id\":").unwrap_err().to_string(),
        "not a case: EOF while parsing a value at line 1 column 6"
    );
    let mut missing = case();
    missing.as_object_mut().unwrap().remove("lost");
    assert!(error(&missing).starts_with("not a case: missing field `lost` at line 1"));
    let kind = error(&with("/edges/0/type", json!("BLOKING")));
    assert!(kind.starts_with("not a case: unknown variant `BLOKING`, expected one of `PIPELINED`"), "{kind}");
    let state = error(&with("/states/b", json!(["ASLEEP"])));
    assert!(state.contains("unknown variant `ASLEEP`"), "{state}");
}

#[test]
fn a_case_that_contradicts_itself_is_an_error_that_names_it() {
    assert_eq!(
        error(&with("/states/a", json!(["FINISHED"]))),
        "case `x`: `states` gives 1 states for vertex `a` of parallelism 2"
    );
    assert_eq!(
        error(&with("/edges/0/from", json!("z"))),
        "case `x`: `edges` names vertex `z`, which `vertices` does not list"
    );
    assert_eq!(error(&with("/vertices/1/name", json!("a"))), "case `x`: two vertices are called `a`");
    let states = json!({"a": ["FINISHED", "FINISHED"], "b": ["RUNNING"], "c": []});
    assert_eq!(error(&with("/states", states)), "case `x`: `states` names vertex `c`, which `vertices` does not list");
    assert_eq!(
        error(&with("/lost/0", json!("a/1"))),
        "case `x`: `a/1` in `lost` is not a partition; write `vertex.data/subtask`, e.g. `map.0/3`"
    );
    let edge = |kind: &str| json!({"from": "a", "data": 0, "type": kind, "to": "b", "pattern": "POINTWISE"});
    let edges = json!([edge("BLOCKING"), edge("PIPELINED")]);
    assert_eq!(
        error(&with("/edges", edges)),
        "case `x`: data set 0 of `a` has two result partition types; give each edge its own data set"
    );
}
