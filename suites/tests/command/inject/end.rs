//! A fault ends, whoever dies or ends it before its time.

use rustix::process::Signal;

use super::{WINDOW, assert_only_left, ended, on_proxy, until_broken};
use crate::support::{Bystander, DEADLINE, Found, ProxyServer, Sandbox, answer, eventually};

fn guardian(sandbox: &Sandbox) -> Found {
    sandbox.processes().into_iter().find(Found::is_guardian).expect("there is a guardian")
}

#[test]
fn the_first_signal_heals_at_once_and_reports() {
    for signal in [Signal::INT, Signal::TERM] {
        let sandbox = Sandbox::new();
        let (proxy, server) = ProxyServer::start(&sandbox);
        let inject = sandbox.start(&on_proxy(&server, "blackhole", &["--for", "9min"]));
        until_broken(&server);
        inject.signal(signal);
        let finished = inject.finish();
        assert!(ended(&finished, 130).stdout.contains("healed early because of a signal"), "{finished:?}");
        assert!(server.is_whole());
        assert_only_left(&sandbox, &proxy);
    }
}

#[test]
fn the_second_signal_does_not_wait_for_the_heal() {
    let sandbox = Sandbox::new();
    let (proxy, server) = ProxyServer::start(&sandbox);
    let json = ["--for", "9min", "--lease", "600", "--json"];
    let mut inject = sandbox.start(&on_proxy(&server, "blackhole", &json));
    until_broken(&server);
    // It answers no more, so nothing can be healed.
    proxy.signal(Signal::STOP);
    eventually("it has ended", DEADLINE, || {
        let ended = inject.has_ended();
        if !ended {
            inject.signal(Signal::INT);
        }
        ended.then_some(())
    });
    let finished = inject.finish();
    assert!(ended(&finished, 130).stderr.contains("second signal"), "{finished:?}");
    let result = finished.json();
    assert_eq!((&result["interrupted"], &result["heal-verified"]), (&true.into(), &false.into()), "{result}");
    assert!(result["problems"][0].as_str().unwrap().contains("the guardian does it"), "{result}");
    proxy.signal(Signal::CONT);
    eventually("it is healed", DEADLINE, || server.is_whole().then_some(()));
}

#[test]
fn the_guardian_heals_what_a_killed_inject_held() {
    let sandbox = Sandbox::new();
    let (proxy, server) = ProxyServer::start(&sandbox);
    let bystander = Bystander::start();
    let pid = bystander.pid().to_string();
    let inject = [
        sandbox.start(&on_proxy(&server, "blackhole", &["--for", "9min", "--lease", "600"])),
        sandbox.start(&["inject", "hang", "--pid", &pid, "--for", "9min", "--lease", "600"]),
    ];
    until_broken(&server);
    eventually("it is stopped", DEADLINE, || bystander.is_stopped().then_some(()));
    for inject in inject {
        inject.signal(Signal::KILL);
        assert_eq!(inject.finish().signal(), Some(9));
    }
    eventually("both are healed", DEADLINE, || (server.is_whole() && !bystander.is_stopped()).then_some(()));
    eventually("nothing is left", DEADLINE, || sandbox.leftovers().is_empty().then_some(()));
    eventually("no guardian is left", DEADLINE, || (sandbox.processes().len() == 1).then_some(()));
    assert_only_left(&sandbox, &proxy);
}

#[test]
fn heal_undoes_what_outlived_inject_and_guardian() {
    let sandbox = Sandbox::new();
    let (proxy, server) = ProxyServer::start(&sandbox);
    let bystander = Bystander::start();
    let pid = bystander.pid().to_string();
    let faults = [
        on_proxy(&server, "blackhole", &["--for", "9min", "--lease", "600"]),
        vec!["inject", "hang", "--pid", &pid, "--for", "9min", "--lease", "600"],
    ];
    for fault in faults {
        let inject = sandbox.start(&fault);
        let broken = || !server.is_whole() || bystander.is_stopped();
        eventually("it is broken", DEADLINE, || broken().then_some(()));
        let passed_over = sandbox.run(&["heal"]);
        assert!(ended(&passed_over, 0).stdout.contains("is alive"), "{passed_over:?}");
        guardian(&sandbox).signal(Signal::KILL);
        inject.signal(Signal::KILL);
        assert_eq!(inject.finish().signal(), Some(9));
        assert!(broken(), "nobody was left to heal it");
        let healed = sandbox.run(&["heal", "--json"]).ended_quietly(0).json();
        assert_eq!(healed["runs"][0]["undone"].as_array().map(Vec::len), Some(1), "{healed}");
        eventually("it is healed", DEADLINE, || (!broken()).then_some(()));
        assert_only_left(&sandbox, &proxy);
        assert_eq!(sandbox.run(&["heal"]).ended_quietly(0).stdout, "no run has left anything\n");
    }
}

#[test]
fn without_anybody_the_proxy_itself_ends_the_fault() {
    let sandbox = Sandbox::new();
    let (_proxy, server) = ProxyServer::start(&sandbox);
    let inject = sandbox.start(&on_proxy(&server, "refuse", &["--for", "9min", "--lease", "1"]));
    until_broken(&server);
    guardian(&sandbox).signal(Signal::KILL);
    inject.signal(Signal::KILL);
    inject.finish();
    eventually("its lease has ended", DEADLINE, || server.is_whole().then_some(()));
    sandbox.run(&["heal"]).ended_quietly(0);
    assert_eq!(sandbox.leftovers(), Vec::<String>::new());
}

#[test]
fn a_guardian_that_died_is_done_without() {
    let sandbox = Sandbox::new();
    let (proxy, server) = ProxyServer::start(&sandbox);
    let inject = sandbox.start(&on_proxy(&server, "blackhole", &["--for", WINDOW]));
    until_broken(&server);
    guardian(&sandbox).signal(Signal::KILL);
    let asked = server.ask();
    ended(&inject.finish(), 0);
    assert!(answer(asked).contains("version"));
    assert_only_left(&sandbox, &proxy);
}

#[test]
fn a_fault_that_ended_before_its_time_proves_nothing() {
    let sandbox = Sandbox::new();
    let (proxy, server) = ProxyServer::start(&sandbox);
    // Its holder hangs for longer than its lease.
    let inject = sandbox.start(&on_proxy(&server, "blackhole", &["--for", "3s", "--lease", "1"]));
    until_broken(&server);
    inject.signal(Signal::STOP);
    eventually("it is undone", DEADLINE, || server.is_whole().then_some(()));
    inject.signal(Signal::CONT);
    let finished = inject.finish();
    // Guardian and proxy both end it, and in which step it was stopped is chance: so are the words.
    assert!(ended(&finished, 3).stdout.contains("in time"), "{finished:?}");
    assert!(finished.stdout.contains("is undone") && finished.stdout.ends_with("invalid\n"), "{finished:?}");
    assert_only_left(&sandbox, &proxy);

    // Somebody else ends it.
    let inject = sandbox.start(&on_proxy(&server, "refuse", &["--for", "9min"]));
    until_broken(&server);
    server.enable();
    let finished = inject.finish();
    assert!(ended(&finished, 3).stdout.contains("somebody else has enabled the proxy"), "{finished:?}");
    let bystander = Bystander::start();
    let inject = sandbox.start(&["inject", "hang", "--pid", &bystander.pid().to_string(), "--for", "9min"]);
    eventually("it is stopped", DEADLINE, || bystander.is_stopped().then_some(()));
    drop(bystander);
    let finished = inject.finish();
    assert!(ended(&finished, 3).stdout.contains("no longer stopped; it was continued or killed"), "{finished:?}");

    // Its proxy server is gone.
    let inject = sandbox.start(&on_proxy(&server, "blackhole", &["--for", "9min", "--json"]));
    until_broken(&server);
    proxy.signal(Signal::KILL);
    proxy.finish();
    let result = ended(&inject.finish(), 3).json();
    assert_eq!((&result["verdict"], &result["heal-verified"]), (&"invalid".into(), &false.into()), "{result}");
    // Whether it was still being injected then is chance.
    let problem = |number: usize| result["problems"][number].as_str().unwrap();
    assert!(
        problem(0).contains("got no answer") && problem(1).contains("nobody has seen whether it is gone"),
        "{result}"
    );
    sandbox.assert_nothing_left();
}
