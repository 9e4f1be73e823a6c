//! Every sample case is answered as Flink's own classes answered it.
//!
//! `restart-sets/cases.jsonl` and `answers.jsonl` are facts, computed by JobGraph, ExecutionGraph,
//! DefaultExecutionTopology and RestartPipelinedRegionFailoverStrategy of flink-runtime 2.3.0: 97 worked examples and
//! 600 small random graphs.

use stormproof_coordinator::explain::{Answer, answer_case};

const CASES: &str = include_str!("restart-sets/cases.jsonl");
const ANSWERS: &str = include_str!("restart-sets/answers.jsonl");

#[test]
fn all_sample_cases_are_answered_as_flink_answers_them() {
    let (mut asked, mut wrong) = (0, Vec::new());
    for (case, expected) in CASES.lines().zip(ANSWERS.lines()) {
        let expected: Answer = serde_json::from_str(expected).unwrap();
        let given: Answer = serde_json::from_str(&answer_case(case).unwrap()).unwrap();
        asked += 1;
        if given != expected {
            wrong.push(format!("{case}\n  expected {expected:?}\n  got      {given:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {asked} are wrong, the first:\n{}", wrong.len(), wrong[0]);
    assert_eq!((asked, CASES.lines().count(), ANSWERS.lines().count()), (697, 697, 697));
}

#[test]
fn an_answer_is_written_as_flinks_is() {
    let line = |id: &str| {
        let of = |text: &'static str| text.lines().find(|line| line.contains(&format!("\"{id}\""))).unwrap();
        (of(CASES), of(ANSWERS))
    };
    for id in ["2.6/8b", "2.6/10c", "B00220", "B00524"] {
        let (case, answer) = line(id);
        assert_eq!(answer_case(case).unwrap(), answer);
    }
}
