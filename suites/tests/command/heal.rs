//! Runs that died together with their guardian: what they left is healed by hand, and nothing else is touched.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{DEADLINE, NAME, ProxyServer, Sandbox, eventually, state};

#[test]
fn what_a_run_left_that_died_with_its_guardian_is_healed_once() {
    let sandbox = Sandbox::new();
    let run = sandbox.start(&["run", "batch::executor_killed", "--report", "report"]);
    let suite = sandbox.here().join("report/batch.executor_killed");
    let read = |name: &str| fs::read_to_string(suite.join(name)).unwrap_or_default();
    eventually("a fault is held", DEADLINE, || read("timeline.jsonl").contains("\"effective\"").then_some(()));
    // Stopped, they cannot finish anything before they are dead.
    let guardian = sandbox.processes().into_iter().find(|found| found.is_guardian()).unwrap();
    run.signal(Signal::STOP);
    guardian.signal(Signal::KILL);
    let refused = sandbox.run(&["heal", "report"]);
    assert_eq!(refused.code(), Some(7), "{refused:?}");
    assert!(refused.stdout.contains("is alive"), "{refused:?}");
    let passed_over = sandbox.run(&["heal"]);
    passed_over.ended_quietly(0);
    assert!(!sandbox.leftovers().is_empty(), "a run that lives keeps its folders");
    run.signal(Signal::KILL);
    assert_eq!(run.finish().signal(), Some(9));

    let healed = sandbox.run(&["heal", "--json"]).ended_quietly(0).json();
    let runs = healed["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "{healed}");
    assert_eq!(runs[0]["state"], "healed");
    let undone = runs[0]["undone"].as_array().unwrap();
    assert!(undone.iter().any(|what| what.as_str().unwrap().starts_with("hold-user-code")), "{healed}");
    assert!(!runs[0]["removed"].as_array().unwrap().is_empty(), "{healed}");
    sandbox.assert_nothing_left();
    assert_eq!(sandbox.run(&["heal"]).ended_quietly(0).stdout, "no run has left anything\n");
    let again = sandbox.run(&["heal", "report/batch.executor_killed/faults.journal"]);
    assert!(again.ended_quietly(0).stdout.ends_with("had left nothing\n"), "{again:?}");
}

/// A process of the dead run that does not die with it: the parent-death signal reaches nobody who cleared it.
#[test]
fn processes_that_outlived_their_run_are_killed_even_while_stopped() {
    let sandbox = Sandbox::new();
    let up = sandbox.start(&["up", "--rest", "127.0.0.1:0", "--json", "--executors", "1"]);
    let ready: Value = serde_json::from_str(&up.line()).unwrap();
    let executor = u32::try_from(ready["processes"]["executor-1"].as_u64().unwrap()).unwrap();
    let environment = fs::read(format!("/proc/{executor}/environ")).unwrap();
    let tag = environment.split(|&byte| byte == 0).find_map(|entry| entry.strip_prefix(b"STORMPROOF_RUN=")).unwrap();
    let mut outlives = sandbox.command(&["proxy", "--port", "0", "--json"]);
    outlives.env("STORMPROOF_RUN", String::from_utf8(tag.to_vec()).unwrap());
    let outlives = crate::support::Running::start(outlives);
    outlives.line();
    let guardian = sandbox.processes().into_iter().find(|found| found.is_guardian()).unwrap();
    guardian.signal(Signal::KILL);
    up.signal(Signal::KILL);
    assert_eq!(up.finish().signal(), Some(9));
    outlives.signal(Signal::STOP);
    eventually("it is stopped", DEADLINE, || (state(outlives.pid()) == Some('T')).then_some(()));

    let healed = sandbox.run(&["heal", "--json"]).ended_quietly(0).json();
    let killed = healed["runs"][0]["killed"].as_array().unwrap();
    assert!(killed.contains(&outlives.pid().into()), "{healed}");
    assert_eq!(outlives.finish().signal(), Some(9));
    sandbox.assert_nothing_left();
}

/// Alive is not at work. (One that is stopped when its runner dies is continued by the kernel; this one is stopped
/// while it does its work.)
#[test]
fn a_guardian_that_is_stopped_is_continued_and_waited_for() {
    let sandbox = Sandbox::new();
    let (proxy, server) = ProxyServer::start(&sandbox);
    let arguments = ["inject", "blackhole", "--proxy-api", &server.api, "--proxy", NAME, "--lease", "600"];
    let inject = sandbox.start(&arguments);
    eventually("something is broken", DEADLINE, || (!server.is_whole()).then_some(()));
    let guardian = sandbox.processes().into_iter().find(|found| found.is_guardian()).unwrap();
    // It answers nobody, so the guardian is at work for as long as it takes to stop it.
    proxy.signal(Signal::STOP);
    inject.signal(Signal::KILL);
    assert_eq!(inject.finish().signal(), Some(9));
    guardian.signal(Signal::STOP);
    eventually("it is stopped", DEADLINE, || (state(guardian.pid) == Some('T')).then_some(()));
    proxy.signal(Signal::CONT);
    assert!(!server.is_whole(), "nobody tidies up");
    let healed = sandbox.run(&["heal"]);
    let said = "was stopped, so it was continued; it has tidied up";
    assert!(healed.ended_quietly(0).stdout.contains(said), "{healed:?}");
    assert!(server.is_whole());
    assert_eq!(sandbox.leftovers(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_healed_is_told_with_code_3_and_kept() {
    let sandbox = Sandbox::new();
    let up = sandbox.start(&["up", "--rest", "127.0.0.1:0", "--executors", "1"]);
    up.line();
    let guardian = sandbox.processes().into_iter().find(|found| found.is_guardian()).unwrap();
    guardian.signal(Signal::KILL);
    up.signal(Signal::KILL);
    assert_eq!(up.finish().signal(), Some(9));
    let journal = sandbox.here().join("stormproof-up/faults.journal");
    fs::write(&journal, "nonsense\n").unwrap();
    let refused = sandbox.run(&["heal"]);
    assert_eq!(refused.code(), Some(3), "{refused:?}");
    assert!(refused.stdout.contains("line 1 of the fault journal"), "{refused:?}");
    fs::remove_file(&journal).unwrap();
    let unknown = sandbox.run(&["heal", "--json"]);
    assert_eq!(unknown.code(), Some(3), "{unknown:?}");
    assert_eq!(unknown.json()["runs"][0]["state"], "not-healed");
    assert!(unknown.stdout.contains("nobody can know"), "{unknown:?}");
    fs::write(&journal, "").unwrap();
    sandbox.run(&["heal"]).ended_quietly(0);
    sandbox.assert_nothing_left();
}

#[test]
fn a_record_that_its_writer_could_not_finish_is_tidied_up() {
    let sandbox = Sandbox::new();
    let runs = sandbox.state().join("stormproof/runs");
    fs::create_dir_all(&runs).unwrap();
    // No process has this number.
    fs::write(runs.join("4194999-1a.unfinished"), "{\"runner\":").unwrap();
    let ours = format!("{}-1a.unfinished", std::process::id());
    fs::write(runs.join(&ours), "{\"runner\":").unwrap();
    let healed = sandbox.run(&["heal"]);
    assert!(healed.ended_quietly(0).stdout.contains("run 4194999-1a: removed: "), "{healed:?}");
    assert!(healed.stdout.contains("is alive"), "{healed:?}");
    assert_eq!(sandbox.leftovers(), [ours], "its writer may be at it");
}

#[test]
fn a_path_that_is_no_run_is_bad_input() {
    let sandbox = Sandbox::new();
    sandbox.run(&["heal", "absent"]).refused(&["absent", "belongs to no run"]);
    assert_eq!(sandbox.run(&["heal"]).ended_quietly(0).stdout, "no run has left anything\n");
}
