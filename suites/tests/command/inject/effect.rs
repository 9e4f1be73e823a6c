//! What each fault does, what is told of it, and that it is gone afterwards.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;

use super::{LATENCY, WINDOW, assert_only_left, ended, on_proxy, until_broken};
use crate::support::{Bystander, DEADLINE, ProxyServer, Sandbox, answer, eventually};

#[test]
fn a_toxic_is_felt_counted_and_gone() {
    let sandbox = Sandbox::new();
    let (proxy, server) = ProxyServer::start(&sandbox);
    let inject = sandbox.start(&on_proxy(&server, "toxic", &[&LATENCY[..], &["--for", WINDOW, "--json"]].concat()));
    until_broken(&server);
    let toxic = &server.proxy().toxics[0];
    assert!(toxic.name.starts_with("stormproof-") && toxic.attributes["latency"] == 200, "{toxic:?}");
    assert!(answer(server.ask()).contains("version"));
    let result = ended(&inject.finish(), 0).json();
    assert_eq!(
        (&result["verdict"], &result["heal-verified"], &result["journal"]),
        (&"pass".into(), &true.into(), &().into())
    );
    assert_eq!(result["effects"]["connections_hit"], 1, "{result}");
    assert!(result["effects"]["bytes_held"].as_u64().unwrap() > 20, "{result}");
    assert!(server.is_whole());
    assert_only_left(&sandbox, &proxy);
}

#[test]
fn a_toxic_that_nobody_felt_is_vacuous() {
    let sandbox = Sandbox::new();
    let (proxy, server) = ProxyServer::start(&sandbox);
    let finished = sandbox.run(&on_proxy(&server, "toxic", &[&LATENCY[..], &["--for", "200ms"]].concat()));
    assert!(ended(&finished, 4).stdout.ends_with("vacuous: nobody felt it\n"), "{finished:?}");
    let api = &server.api;
    let way = format!("on proxy db ({} → {}) of {api} (latency downstream)", server.listen(), server.upstream());
    assert!(finished.stdout.contains(&way), "{way}: {finished:?}");
    assert!(finished.stdout.contains("the heal is verified"), "{finished:?}");
    assert!(server.is_whole());
    assert_only_left(&sandbox, &proxy);
}

#[test]
fn nobody_has_to_read_what_it_says() {
    let sandbox = Sandbox::new();
    let (proxy, server) = ProxyServer::start(&sandbox);
    let (reader, gone) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = sandbox.command(&on_proxy(&server, "toxic", &[&LATENCY[..], &["--for", "200ms"]].concat()));
    let output = command.stdin(Stdio::null()).stderr(gone).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("the heal is verified"), "{output:?}");
    assert!(server.is_whole());
    assert_only_left(&sandbox, &proxy);
}

#[test]
fn a_black_hole_gives_back_what_it_held() {
    let sandbox = Sandbox::new();
    let (_proxy, server) = ProxyServer::start(&sandbox);
    let inject = sandbox.start(&on_proxy(&server, "blackhole", &["--for", WINDOW, "--json"]));
    until_broken(&server);
    let asked = server.ask();
    let result = ended(&inject.finish(), 0).json();
    assert_eq!((&result["listen"], &result["upstream"]), (&server.listen().into(), &server.upstream().into()));
    assert!(result["effects"]["bytes_held"].as_u64().unwrap() > 20, "{result}");
    assert!(answer(asked).contains("version"), "it only came late");
}

#[test]
fn a_disabled_proxy_cuts_refuses_and_is_enabled_again() {
    let sandbox = Sandbox::new();
    let (_proxy, server) = ProxyServer::start(&sandbox);
    // Silent: the API waits for a request.
    let idle = server.idle();
    eventually("the proxy has it", DEADLINE, || (server.open_connections() == 1).then_some(()));
    let finished = sandbox.run(&on_proxy(&server, "down", &["--for", "200ms", "--json"]));
    assert_eq!(ended(&finished, 0).json()["effects"]["connections_cut"], 1, "{finished:?}");
    assert_eq!(answer(idle), "");
    assert!(server.is_whole());
    let unknown = sandbox.run(&on_proxy(&server, "refuse", &["--for", "200ms", "--json"]));
    let result = ended(&unknown, 5).json();
    assert_eq!((&result["verdict"], &result["effects"]), (&"inconclusive".into(), &().into()), "{unknown:?}");
    server.disable();
    let refused = sandbox.run(&on_proxy(&server, "refuse", &[]));
    assert!(ended(&refused, 6).stderr.contains("disabled already"), "{refused:?}");
    assert!(!server.proxy().enabled, "whoever disabled it wants it so");
}

#[test]
fn a_process_hangs_for_a_while() {
    let sandbox = Sandbox::new();
    let bystander = Bystander::start();
    let pid = bystander.pid().to_string();
    let inject = sandbox.start(&["inject", "hang", "--pid", &pid, "--for", WINDOW]);
    eventually("it is stopped", DEADLINE, || bystander.is_stopped().then_some(()));
    let again = sandbox.run(&["inject", "hang", "--pid", &pid]);
    assert!(ended(&again, 6).stderr.contains("stopped already"), "{again:?}");
    let finished = inject.finish();
    assert!(ended(&finished, 0).stdout.ends_with("\n  1 process stopped\npass\n"), "{finished:?}");
    assert!(!bystander.is_stopped());
    sandbox.assert_nothing_left();
}

#[test]
fn a_process_is_slow_for_a_while() {
    let sandbox = Sandbox::new();
    let bystander = Bystander::start();
    let pid = bystander.pid().to_string();
    let slow = ["inject", "slow", "--pid", &pid, "--percent", "30"];
    let result = ended(&sandbox.run(&[&slow[..], &["--for", "1s", "--json"]].concat()), 0).json();
    assert_eq!((&result["fault"], &result["verdict"]), (&"slow".into(), &"pass".into()), "{result}");
    assert!(result["effects"]["stops"].as_u64() >= Some(2), "{result}");
    // Its holder dies while it is stopped: the guardian continues it.
    let inject = sandbox.start(&[&slow[..], &["--for", "9min"]].concat());
    eventually("it is stopped", DEADLINE, || bystander.is_stopped().then_some(()));
    inject.signal(Signal::KILL);
    inject.finish();
    eventually("nobody is at it any more", DEADLINE, || sandbox.leftovers().is_empty().then_some(()));
    assert!(!bystander.is_stopped());
    let none = sandbox.run(&["inject", "slow", "--pid", &pid, "--percent", "100"]);
    assert!(ended(&none, 2).stderr.contains("100 is not in 1..=99"), "{none:?}");
    sandbox.assert_nothing_left();
}

#[test]
fn a_process_is_killed_once() {
    let sandbox = Sandbox::new();
    let bystander = Bystander::start();
    let pid = bystander.pid().to_string();
    let result = ended(&sandbox.run(&["inject", "kill", "--pid", &pid, "--json"]), 0).json();
    assert_eq!((&result["effects"]["processes_killed"], &result["held-ms"]), (&1.into(), &().into()), "{result}");
    assert!(result["heal-verified"].is_null(), "nothing was healed: {result}");
    let again = sandbox.run(&["inject", "kill", "--pid", &pid]);
    assert!(ended(&again, 6).stderr.contains("dead already"), "{again:?}");
    sandbox.assert_nothing_left();
}

#[test]
fn a_journal_that_was_asked_for_is_kept() {
    let sandbox = Sandbox::new();
    let bystander = Bystander::start();
    let pid = bystander.pid().to_string();
    let arguments = ["inject", "hang", "--pid", &pid, "--for", "100ms", "--json", "--journal", "kept/journal"];
    let result = ended(&sandbox.run(&arguments), 0).json();
    let journal = fs::read_to_string(result["journal"].as_str().unwrap()).unwrap();
    assert!(journal.contains("\"open\"") && journal.contains("\"closed\""), "{journal}");
    sandbox.assert_nothing_left();
    let healed = sandbox.run(&["heal", "kept"]);
    assert!(healed.ended_quietly(0).stdout.contains("had left nothing"), "{healed:?}");
    sandbox.run(&arguments).refused(&["kept/journal holds another run's journal"]);
}
