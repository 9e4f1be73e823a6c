//! SIGKILL of `inject` at many moments: no fault is left one second after its lease.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Bystander, DEADLINE, Found, NAME, ProxyServer, Sandbox, eventually, rounds, share};

/// In seconds, as the command wants it.
const LEASE: &str = "1";

/// What is promised: the lease and a second.
const LIMIT: Duration = Duration::from_secs(2);

/// Rounds of an ordinary test run; `STORMPROOF_KILL_ROUNDS` asks for more.
const ROUNDS: u64 = 5;

/// Longest pauses between a fact and the kill: short ones fall into one step, long ones into the next.
const MAX_JITTERS: [Duration; 3] = [Duration::from_millis(1), Duration::from_millis(5), Duration::from_millis(40)];

/// When `inject` is killed, in the order in which it meets these.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Started,
    Guarded,
    /// The undo is on disk: it is about to be injected.
    Journalled,
    Broken,
    /// What was broken is whole again, but not struck out yet.
    Whole,
    Closed,
}

const MOMENTS: [Moment; 6] =
    [Moment::Started, Moment::Guarded, Moment::Journalled, Moment::Broken, Moment::Whole, Moment::Closed];

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    Holder,
    /// Then only the proxy itself is left.
    HolderAndGuardian,
}

/// One round in `sandbox`; `arguments` inject what `is_broken` sees.
fn one_round(
    sandbox: &Sandbox,
    arguments: &[&str],
    who: Killed,
    (number, choice): (u64, u64),
    is_broken: impl Fn() -> bool,
) {
    let moment = MOMENTS[usize::try_from(number).unwrap() % MOMENTS.len()];
    let jitter = MAX_JITTERS[usize::try_from(choice % 3).unwrap()].mul_f64(share(choice));
    let what = format!("round {number}: {who:?} of {} at {moment:?} + {jitter:?}", arguments[1]);
    println!("{what}");
    let journal = format!("round-{number}/journal");
    let read = || fs::read_to_string(sandbox.here().join(&journal)).unwrap_or_default();
    let more = ["--journal", &journal, "--lease", LEASE, "--for", "150ms"];
    let mut inject = sandbox.start(&[arguments, &more].concat());
    let mut was_broken = false;
    // One that is over before is a moment, too.
    eventually(&what, DEADLINE, || {
        let has_come = match moment {
            Moment::Started => true,
            Moment::Guarded => sandbox.processes().iter().any(Found::is_guardian),
            Moment::Journalled => read().contains("\"open\""),
            Moment::Broken => is_broken(),
            Moment::Whole => {
                let is_broken = is_broken();
                was_broken |= is_broken;
                was_broken && !is_broken
            }
            Moment::Closed => read().contains("\"closed\""),
        };
        (has_come || inject.has_ended()).then_some(())
    });
    // No wait for anything: it only moves the kill on.
    std::thread::sleep(jitter);
    if who == Killed::HolderAndGuardian {
        sandbox.processes().iter().filter(|found| found.is_guardian()).for_each(|found| found.signal(Signal::KILL));
    }
    if !inject.has_ended() {
        inject.signal(Signal::KILL);
    }
    let killed = Instant::now();
    eventually("nothing is broken", LIMIT, || (!is_broken()).then_some(()));
    // A call of the dead may still be under way, and must not outlive the lease either.
    std::thread::sleep(LIMIT.saturating_sub(killed.elapsed()));
    assert!(!is_broken(), "{what}: it is broken again");
    let finished = inject.finish();
    assert!(finished.signal() == Some(9) || matches!(finished.code(), Some(0 | 4 | 5)), "{finished:?}");
    // One that was killed before its guardian was there is only written down.
    sandbox.run(&["heal"]).ended_quietly(0);
    assert_eq!(sandbox.leftovers(), Vec::<String>::new(), "{what}");
}

#[test]
fn nothing_in_a_proxy_outlives_its_holder() {
    let sandbox = Sandbox::new();
    let (proxy, server) = ProxyServer::start(&sandbox);
    rounds(ROUNDS, |number, choice| {
        let fault = if choice & 0x100 == 0 { "blackhole" } else { "refuse" };
        let who = if choice & 0x200 == 0 { Killed::Holder } else { Killed::HolderAndGuardian };
        let arguments = ["inject", fault, "--proxy-api", &server.api, "--proxy", NAME];
        one_round(&sandbox, &arguments, who, (number, choice), || !server.is_whole());
    });
    proxy.signal(Signal::TERM);
    let finished = proxy.finish();
    let is_told = |line: &str| line.contains("a lease was not renewed, so what it held is undone");
    assert!(finished.code() == Some(0) && finished.stderr.lines().all(is_told), "{finished:?}");
    sandbox.assert_nothing_left();
}

#[test]
fn no_process_stays_stopped_when_its_holder_is_dead() {
    let sandbox = Sandbox::new();
    let bystander = Bystander::start();
    let pid = bystander.pid().to_string();
    let arguments = ["inject", "hang", "--pid", &pid];
    rounds(ROUNDS, |number, choice| {
        one_round(&sandbox, &arguments, Killed::Holder, (number, choice), || bystander.is_stopped());
    });
    sandbox.assert_nothing_left();
}
