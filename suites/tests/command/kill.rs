//! SIGKILL of a run, at many moments: nothing is left five seconds later.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{DEADLINE, Found, Running, Sandbox, eventually, is_listening, listening_sockets, rounds, share};

/// What is promised.
const LIMIT: Duration = Duration::from_secs(5);

/// Rounds of an ordinary test run; `STORMPROOF_KILL_ROUNDS` asks for more.
const ROUNDS: u64 = 12;

/// Longest pause between a fact and the kill, so that kills fall between facts as well.
const MAX_JITTER: Duration = Duration::from_millis(30);

const SUITES: [&str; 3] = ["batch::executor_killed", "stream::failover_without_store", "stream::recovery_blocked"];

/// When a run is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// So many processes are there, the command itself included.
    Processes(usize),
    /// A timeline holds this text.
    Recorded(&'static str),
}

/// In the order in which a run meets them.
const MOMENTS: [Moment; 12] = [
    Moment::Processes(1),
    Moment::Processes(2),
    Moment::Processes(4),
    Moment::Processes(5),
    Moment::Recorded("job_submitted"),
    Moment::Recorded("\"injected\""),
    Moment::Recorded("\"RUNNING\""),
    Moment::Recorded("\"effective\""),
    Moment::Recorded("\"heal_verified\""),
    Moment::Recorded("\"FINISHED\""),
    Moment::Recorded("\"leftovers\""),
    Moment::Recorded("\"run_ended\""),
];

fn has_come(moment: Moment, sandbox: &Sandbox) -> bool {
    match moment {
        Moment::Processes(count) => sandbox.processes().len() >= count,
        Moment::Recorded(text) => {
            let report = sandbox.here().join("report");
            let suites = fs::read_dir(report).into_iter().flatten().flatten();
            suites.into_iter().any(|suite| holds(&suite.path().join("timeline.jsonl"), text))
        }
    }
}

fn holds(file: &Path, text: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|content| content.contains(text))
}

/// SIGKILL to the command alone, or to everything but the guardian; returns the sockets that listened until then.
fn kill(sandbox: &Sandbox, run: &mut Running, everything: bool) -> BTreeSet<String> {
    let processes = sandbox.processes();
    let sockets = processes.iter().flat_map(|found| listening_sockets(found.pid)).collect();
    if everything {
        // A process without a role that is not the command is one between fork and exec: it may become the guardian.
        let is_meant = |found: &&Found| found.pid == run.pid() || (found.role.is_some() && !found.is_guardian());
        processes.iter().filter(is_meant).for_each(|found| found.signal(Signal::KILL));
    } else if !run.has_ended() {
        run.signal(Signal::KILL);
    }
    sockets
}

fn one_round(number: u64, choice: u64) {
    let moment = MOMENTS[usize::try_from(number).unwrap() % MOMENTS.len()];
    let suite = SUITES[usize::try_from(choice % 3).unwrap()];
    let everything = choice & 0x100 != 0;
    let jitter = MAX_JITTER.mul_f64(share(choice));
    let what = format!("round {number}: {suite} at {moment:?} + {jitter:?}, everything at once: {everything}");
    println!("{what}");

    let sandbox = Sandbox::new();
    let mut run = sandbox.start(&["run", suite, "--report", "report"]);
    // A run that is over before is a moment, too.
    eventually(&what, DEADLINE, || (has_come(moment, &sandbox) || run.has_ended()).then_some(()));
    // No wait for anything: it only moves the kill on.
    std::thread::sleep(jitter);
    let sockets = kill(&sandbox, &mut run, everything);
    let killed = Instant::now();
    let left = || LIMIT.saturating_sub(killed.elapsed());
    sandbox.wait_until_nothing_left(left());
    eventually("no port listens", left(), || (!sockets.iter().any(|inode| is_listening(inode))).then_some(()));
    let finished = run.finish();
    assert!(finished.signal() == Some(9) || finished.code() == Some(0), "{finished:?}");
}

#[test]
fn a_killed_run_leaves_nothing() {
    rounds(ROUNDS, one_round);
}

#[test]
fn a_killed_up_leaves_nothing() {
    let sandbox = Sandbox::new();
    let mut up = sandbox.start(&["up", "--rest", "127.0.0.1:0", "--json"]);
    up.line();
    let sockets = kill(&sandbox, &mut up, false);
    assert!(sockets.len() >= 7, "REST, RPC, three data ports, store and proxy: {sockets:?}");
    sandbox.wait_until_nothing_left(LIMIT);
    eventually("no port listens", LIMIT, || (!sockets.iter().any(|inode| is_listening(inode))).then_some(()));
    assert_eq!(up.finish().signal(), Some(9));
}
