//! `run` from start to report.

use std::fs;

use crate::support::Sandbox;

#[test]
fn a_green_run_says_so_everywhere_and_names_the_command_that_repeats_it() {
    let sandbox = Sandbox::new();
    sandbox.file("my texts/one.txt", "a b a\n");
    let arguments = [
        "run",
        "batch::control",
        "--input",
        "my texts",
        "--report",
        "report",
        "--junit",
        "junit.xml",
        "--json",
        "--timings",
        "--store",
        "embedded",
        "--proxy",
        "embedded",
        "--lease",
        "30",
    ];
    let finished = sandbox.run(&arguments);
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    sandbox.assert_nothing_left();
    let summary = finished.json();
    assert_eq!((&summary["verdict"], summary["suites"].as_array().map(Vec::len)), (&"pass".into(), Some(1)));
    let repeat = summary["repeat"].as_str().unwrap();
    assert!(repeat.contains("run batch::control ") && repeat.ends_with("--input 'my texts'"), "{repeat}");
    assert!(repeat.contains(" --lease 30 "), "{repeat}");
    let read = |name: &str| fs::read_to_string(sandbox.here().join(name)).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&read("report/summary.json")).unwrap(), summary);
    assert_eq!(read("junit.xml"), read("report/junit.xml"));
    assert!(read("junit.xml").contains("tests=\"1\" failures=\"0\" errors=\"0\""));
    assert!(read("report/report.md").trim_end().ends_with(repeat), "the last line repeats the run");
    assert!(finished.stderr.contains("PASS") && finished.stderr.contains("ready"), "{finished:?}");

    // The same folder is not written over.
    sandbox.run(&arguments).refused(&["report holds a report already"]);
}

#[test]
fn an_executor_that_exits_says_so_in_its_log_and_its_code_is_in_the_report() {
    let sandbox = Sandbox::new();
    let finished = sandbox.run(&["run", "executor::exits", "--report", "report"]);
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    sandbox.assert_nothing_left();
    let suite = sandbox.here().join("report/executor.exits");
    let log = |number: u32| fs::read_to_string(suite.join(format!("executor-{number}.log"))).unwrap();
    let exited: Vec<u32> = (1..=3).filter(|number| log(*number).contains("told to exit at once")).collect();
    assert!(exited.len() == 1 && log(exited[0]).contains("code=137"), "{exited:?}");
    let timeline = fs::read_to_string(suite.join("timeline.jsonl")).unwrap();
    assert!(timeline.contains(r#"{"count":137,"what":"exit code"}"#), "the parent sees an exit and no signal");
}

#[test]
fn a_disk_that_is_full_is_named_in_the_failure_of_the_task() {
    let sandbox = Sandbox::new();
    let finished = sandbox.run(&["run", "partition::disk_full", "--report", "report"]);
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    sandbox.assert_nothing_left();
    let timeline = fs::read_to_string(sandbox.here().join("report/partition.disk_full/timeline.jsonl")).unwrap();
    assert!(timeline.contains("cannot write a result partition; is the disk full?"), "{timeline}");
}

#[test]
fn a_fault_that_meets_nothing_is_vacuous_and_blames_nobody() {
    let sandbox = Sandbox::new();
    // Too few words for the rules of these suites.
    sandbox.file("texts/one.txt", "a b a\n");
    sandbox.file("texts/two.txt", "c\n");
    let suites = ["user_code::for_good", "user_code::after_records"];
    let finished = sandbox.run(&["run", suites[0], suites[1], "--input", "texts", "--report", "report", "--json"]);
    assert_eq!(finished.code(), Some(4), "{finished:?}");
    sandbox.assert_nothing_left();
    let summary = finished.json();
    let verdicts: Vec<_> = summary["suites"].as_array().unwrap().iter().map(|suite| &suite["verdict"]).collect();
    assert_eq!(verdicts, ["vacuous", "vacuous"]);
}

/// Words so few that no write meets the limit.
#[test]
fn a_limit_that_no_write_has_met_makes_the_run_vacuous() {
    let sandbox = Sandbox::new();
    sandbox.file("tiny/text.txt", "a few words\n");
    let finished = sandbox.run(&["run", "partition::disk_full", "--input", "tiny", "--report", "report"]);
    assert_eq!(finished.code(), Some(4), "{finished:?}");
    assert!(finished.stdout.contains("had no effect (0 processes out of room"), "{finished:?}");
    sandbox.assert_nothing_left();
}
