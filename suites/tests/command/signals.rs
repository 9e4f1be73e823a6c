//! SIGINT and SIGTERM.

use std::fs;
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{DEADLINE, Sandbox, eventually};

#[test]
fn servers_end_cleanly_with_code_0() {
    let servers: [(&[&str], &str); 2] = [
        (&["proxy", "--port", "0", "--json"], "proxy-api"),
        (&["s3", "--listen", "127.0.0.1:0", "--bucket", "data", "--json"], "endpoint"),
    ];
    for (arguments, endpoint) in servers {
        for signal in [Signal::INT, Signal::TERM] {
            let sandbox = Sandbox::new();
            let server = sandbox.start(arguments);
            let ready: Value = serde_json::from_str(&server.line()).unwrap();
            let address = ready[endpoint].as_str().unwrap().strip_prefix("http://").unwrap();
            // A client that stays connected must not keep it.
            let _client = TcpStream::connect(address).unwrap();
            server.signal(signal);
            let finished = server.finish();
            finished.ended_quietly(0);
            assert_eq!(finished.stdout, "", "the first line was all");
            assert!(TcpStream::connect(address).is_err());
            sandbox.assert_nothing_left();
        }
    }
}

#[test]
fn up_can_be_ended_while_it_starts() {
    let sandbox = Sandbox::new();
    let up = sandbox.start(&["up", "--rest", "127.0.0.1:0"]);
    eventually("the first executor starts", DEADLINE, || {
        sandbox.processes().iter().any(|found| found.role.as_deref() == Some("executor")).then_some(())
    });
    up.signal(Signal::INT);
    let finished = up.finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    sandbox.assert_nothing_left();
}

#[test]
fn a_run_that_is_interrupted_heals_first_and_ends_with_130() {
    for signal in [Signal::INT, Signal::TERM] {
        let sandbox = Sandbox::new();
        let run = sandbox.start(&["run", "batch::executor_killed", "--report", "report"]);
        let suite = sandbox.here().join("report/batch.executor_killed");
        let read = |name: &str| fs::read_to_string(suite.join(name)).unwrap_or_default();
        eventually("a fault is held", DEADLINE, || read("timeline.jsonl").contains("\"injected\"").then_some(()));
        run.signal(signal);
        let finished = run.finish();
        assert_eq!((finished.code(), finished.stdout.as_str()), (Some(130), ""), "{finished:?}");
        assert!(finished.stderr.contains("everything is healed"), "{finished:?}");
        sandbox.assert_nothing_left();
        assert!(read("timeline.jsonl").contains("told to stop"), "the record says that it was cut short");
        assert!(!sandbox.here().join("report/summary.json").exists(), "nothing was proved");
    }
}

#[test]
fn suites_that_wait_for_their_turn_are_not_started_after_an_interrupt() {
    let sandbox = Sandbox::new();
    let run = sandbox.start(&["run", "batch", "--jobs", "1", "--report", "report"]);
    let timeline = sandbox.here().join("report/batch.control/timeline.jsonl");
    eventually("the first suite runs", DEADLINE, || timeline.exists().then_some(()));
    run.signal(Signal::INT);
    assert_eq!(run.finish().code(), Some(130));
    sandbox.assert_nothing_left();
    assert!(!sandbox.here().join("report/batch.user_failure/timeline.jsonl").exists());
}

#[test]
fn up_names_each_process_with_its_pid() {
    let sandbox = Sandbox::new();
    let up = sandbox.start(&["up", "--rest", "127.0.0.1:0", "--executors", "2"]);
    assert!(up.line().starts_with("ready after "));
    let pids = sandbox.processes();
    up.signal(Signal::TERM);
    let finished = up.finish();
    let stdout = &finished.ended_quietly(0).stdout;
    for name in ["coordinator-1", "executor-1", "executor-2"] {
        let line = stdout.lines().find_map(|line| line.strip_prefix(&format!("  {name} (pid "))).expect(name);
        let pid = line.trim_end_matches(')').parse::<u32>().expect(name);
        assert!(pids.iter().any(|found| found.pid == pid), "{name}: {stdout}");
    }
    sandbox.assert_nothing_left();
}

#[test]
fn a_second_signal_does_not_wait_for_what_hangs() {
    let sandbox = Sandbox::new();
    let up = sandbox.start(&["up", "--rest", "127.0.0.1:0", "--json", "--executors", "2"]);
    up.line();
    // A clean end has to wait for these two until its deadlines are over, and says so with another code.
    let all = sandbox.processes();
    let hung = all.iter().find(|found| found.role.as_deref() == Some("executor")).unwrap();
    let guardian = all.iter().find(|found| found.is_guardian()).unwrap();
    hung.signal(Signal::STOP);
    guardian.signal(Signal::STOP);
    up.signal(Signal::INT);
    let coordinator = all.iter().find(|found| found.role.as_deref() == Some("coordinator")).unwrap();
    eventually("the first signal is being obeyed", DEADLINE, || {
        (!sandbox.processes().contains(coordinator)).then_some(())
    });
    up.signal(Signal::INT);
    let finished = up.finish();
    assert_eq!(finished.code(), Some(130), "{finished:?}");
    assert!(finished.stderr.contains("second signal"), "{finished:?}");
    guardian.signal(Signal::CONT);
    sandbox.wait_until_nothing_left(DEADLINE);
}
