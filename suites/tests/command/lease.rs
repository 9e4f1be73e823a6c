//! Faults end when their lease does, whatever has become of who holds them.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::support::{DEADLINE, Sandbox, eventually, names};

/// Names of the files in the work folder of the only run by which its tasks are told to wait.
fn held(temporary: &Path) -> Vec<String> {
    let runs = fs::read_dir(temporary).into_iter().flatten().flatten();
    let folders = runs.map(|run| run.path().join("faults")).filter(|folder| folder.is_dir());
    folders.flat_map(|folder| names(&folder)).filter(|name| name.starts_with("hold-")).collect()
}

#[test]
fn faults_of_a_run_that_hangs_end_and_it_proves_nothing() {
    let sandbox = Sandbox::new();
    let run = sandbox.start(&["run", "batch::executor_killed", "--report", "report", "--lease", "2"]);
    let suite = sandbox.here().join("report/batch.executor_killed");
    let read = |name: &str| fs::read_to_string(suite.join(name)).unwrap_or_default();
    eventually("a fault is held", DEADLINE, || read("timeline.jsonl").contains("\"effective\"").then_some(()));
    run.signal(Signal::STOP);
    assert_eq!(held(&sandbox.temporary()).len(), 3, "all three subtasks are held");
    eventually("the guardian has undone it", DEADLINE, || read("faults.journal").contains("expired").then_some(()));
    assert_eq!(held(&sandbox.temporary()), Vec::<String>::new());
    run.signal(Signal::CONT);
    let finished = run.finish();
    assert_eq!(finished.code(), Some(3), "{finished:?}");
    assert!(finished.stdout.contains("was not renewed in time"), "{finished:?}");
    sandbox.assert_nothing_left();
}

#[test]
fn faults_of_a_run_that_lives_outlast_their_first_lease() {
    let sandbox = Sandbox::new();
    // The sources are held until two checkpoints are complete: longer than the third of a lease.
    let run = sandbox.run(&["run", "stream::recovery_blocked", "--report", "report", "--lease", "2"]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    let journal = fs::read_to_string(sandbox.here().join("report/stream.recovery_blocked/faults.journal")).unwrap();
    assert!(journal.contains("renewed") && !journal.contains("expired"), "{journal}");
}
