//! SIGKILL of the runner: programs of others go with it.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use crate::FLAGS;
use crate::support::{DEADLINE, Sandbox, eventually};

/// What is promised.
const LIMIT: Duration = Duration::from_secs(5);

const SUITE: &str = "stream::recovery_blocked";

/// Moments by what is in the timeline: while the parts start, while the store is a black hole, while the job goes on.
const MOMENTS: [&str; 3] = ["run_started", "\"effective\"", "\"heal_verified\""];

pub(crate) fn a_killed_run_leaves_nothing() {
    for moment in MOMENTS {
        let sandbox = Sandbox::new();
        let mut run = sandbox.start(&[&["run", SUITE, "--report", "report"], &FLAGS[..]].concat());
        let timeline = sandbox.here().join("report").join(SUITE.replace("::", ".")).join("timeline.jsonl");
        eventually(moment, DEADLINE, || {
            let come = fs::read_to_string(&timeline).is_ok_and(|text| text.contains(moment));
            (come || run.has_ended()).then_some(())
        });
        assert!(!run.has_ended(), "it was over before {moment}");
        run.signal(Signal::KILL);
        sandbox.wait_until_nothing_left(LIMIT);
        assert_eq!(run.finish().signal(), Some(9));
    }
}

pub(crate) fn parts_die_with_the_runner_even_if_its_guardian_is_dead() {
    let sandbox = Sandbox::new();
    let up = sandbox.start(&[&["up", "--rest", "127.0.0.1:0", "--json"], &FLAGS[..]].concat());
    up.line();
    let processes = sandbox.processes();
    let parts = processes.iter().filter(|found| found.role.is_none()).count();
    assert_eq!(parts, 3, "the command, MinIO and Toxiproxy: {processes:?}");
    processes.iter().filter(|found| found.is_guardian()).for_each(|found| found.signal(Signal::KILL));
    up.signal(Signal::KILL);
    eventually("no process is left", LIMIT, || sandbox.processes().is_empty().then_some(()));
    assert_eq!(up.finish().signal(), Some(9));
    // Its folders stay: nobody is left who would remove them.
    sandbox.in_memory().iter().for_each(|folder| fs::remove_dir_all(folder).unwrap());
}
