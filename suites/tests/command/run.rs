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
    ];
    let finished = sandbox.run(&arguments);
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    sandbox.assert_nothing_left();
    let summary = finished.json();
    assert_eq!((&summary["verdict"], summary["suites"].as_array().map(Vec::len)), (&"pass".into(), Some(1)));
    let repeat = summary["repeat"].as_str().unwrap();
    assert!(repeat.contains("run batch::control ") && repeat.ends_with("--input 'my texts'"), "{repeat}");
    let read = |name: &str| fs::read_to_string(sandbox.here().join(name)).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&read("report/summary.json")).unwrap(), summary);
    assert_eq!(read("junit.xml"), read("report/junit.xml"));
    assert!(read("junit.xml").contains("tests=\"1\" failures=\"0\" errors=\"0\""));
    assert!(read("report/report.md").trim_end().ends_with(repeat), "the last line repeats the run");
    assert!(finished.stderr.contains("PASS") && finished.stderr.contains("ready"), "{finished:?}");

    // The same folder is not written over.
    sandbox.run(&arguments).refused(&["report holds a report already"]);
}
