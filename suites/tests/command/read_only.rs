//! Commands that start nothing, from a folder that is not the workspace.

use crate::support::Sandbox;

#[test]
fn doctor_works_from_any_folder() {
    let sandbox = Sandbox::new();
    let text = sandbox.run(&["doctor"]);
    text.ended_quietly(0);
    for part in ["ok", "process list", "temporary folder", "stream, word-count"] {
        assert!(text.stdout.contains(part), "{part}: {text:?}");
    }
    let json = sandbox.run(&["doctor", "--json"]).ended_quietly(0).json();
    let checks = json["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["ok"] == true || check["needed"] == false), "{json}");
    sandbox.assert_nothing_left();
}

#[test]
fn doctor_without_a_temporary_folder_says_so_with_code_6() {
    let sandbox = Sandbox::new();
    std::fs::remove_dir(sandbox.temporary()).unwrap();
    let sick = sandbox.run(&["doctor"]);
    sick.ended_quietly(6);
    assert!(sick.stdout.contains("MISSING") && sick.stdout.contains("set TMPDIR"), "{sick:?}");
}

#[test]
fn a_result_that_cannot_be_printed_is_not_green_and_told_once() {
    let sandbox = Sandbox::new();
    for arguments in [["doctor"].as_slice(), &["run", "--list"], &["run", "--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = sandbox.command(arguments).stdout(full).output().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), stderr.lines().count()), (Some(3), 1), "{arguments:?}: {stderr}");
        assert!(stderr.contains("No space left on device"), "{stderr}");
    }
}

#[test]
fn parity_counts_rows_from_any_folder() {
    let sandbox = Sandbox::new();
    let text = sandbox.run(&["doctor", "--parity"]);
    text.ended_quietly(0);
    assert!(text.stdout.contains("of 324 rows have a test"), "{text:?}");
    assert!(text.stdout.contains("8.11 end-to-end scripts and Jepsen"), "{text:?}");
    let json = sandbox.run(&["doctor", "--parity", "--json"]).ended_quietly(0).json();
    assert!(json["parity"][0]["with-a-test"].as_array().is_some_and(|rows| rows.len() > 100), "{json}");
}

#[test]
fn lists_and_dry_runs_start_nothing() {
    let sandbox = Sandbox::new();
    let all = sandbox.run(&["run", "--list"]);
    all.ended_quietly(0);
    let one = sandbox.run(&["run", "--list", "batch::control"]);
    assert_eq!(one.ended_quietly(0).stdout, "batch::control\n", "a whole name selects one suite");
    let batch = sandbox.run(&["run", "--list", "batch"]);
    assert!(batch.stdout.lines().count() > 1 && all.stdout.lines().count() > batch.stdout.lines().count());
    let more = sandbox.run(&["run", "--list", "--all"]);
    assert!(
        more.ended_quietly(0).stdout.starts_with(&all.stdout) && more.stdout.contains("executor::exits\n"),
        "{more:?}"
    );
    let json = sandbox.run(&["run", "--list", "--json"]).ended_quietly(0).json();
    let listed: Vec<_> = json["suites"].as_array().unwrap().iter().map(|suite| &suite["name"]).collect();
    assert_eq!(listed, all.stdout.lines().collect::<Vec<_>>());
    let dry = sandbox.run(&["run", "--dry-run", "batch::executor_killed"]);
    assert!(dry.ended_quietly(0).stdout.contains("fault kill:") && dry.stdout.contains(", not healed\n"), "{dry:?}");
    assert!(!dry.stdout.contains("healed at the end of the run"), "a kill is for good: {dry:?}");
    let budget =
        "at most 5 targets, 3 faults at the same time, 50 % of the executors, 600 s for each fault, on this machine\n";
    assert!(dry.stdout.contains(budget), "{dry:?}");
    let dry = sandbox.run(&["run", "--dry-run", "--json", "batch::executor_killed"]).ended_quietly(0).json();
    assert_eq!(dry["suites"].as_array().map(Vec::len), Some(1), "{dry}");
    sandbox.assert_nothing_left();
    assert_eq!(crate::support::names(&sandbox.here()), Vec::<String>::new());
}

#[test]
fn help_and_version_are_results() {
    let sandbox = Sandbox::new();
    for arguments in [["--help"].as_slice(), &["run", "--help"], &["--version"]] {
        let finished = sandbox.run(arguments);
        assert!(!finished.ended_quietly(0).stdout.is_empty());
    }
    let nothing = sandbox.run(&[]);
    assert_eq!((nothing.code(), nothing.stdout.as_str()), (Some(2), ""));
    assert!(nothing.stderr.contains("doctor"), "{nothing:?}");
}
