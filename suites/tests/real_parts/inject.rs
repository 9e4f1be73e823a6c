//! `inject` on a real Toxiproxy: it knows no leases and does not tell what its toxics did.

use std::process::Command;

use rustix::process::Signal;
use stormproof::chaos::part::RealPart;
use stormproof::chaos::process::ProcessId;
use stormproof::chaos::toxiproxy::real;

use crate::support::{DEADLINE, Found, NAME, ProxyServer, Running, Sandbox, answer, eventually};

/// A Toxiproxy of its own, which outlives whoever breaks something in it.
fn toxiproxy() -> (Running, ProxyServer) {
    let mut command = Command::new(RealPart::ToxiproxyServer.find().unwrap());
    command.args(real::ARGUMENTS).env("LOG_LEVEL", "error");
    let running = Running::start(command);
    let process = ProcessId::of(running.pid()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let api = runtime.block_on(real::ready(process, DEADLINE)).unwrap();
    (running, ProxyServer::at(&api))
}

fn arguments<'a>(server: &'a ProxyServer, fault: &'a str, hold_for: &'a str) -> Vec<&'a str> {
    vec!["inject", fault, "--proxy-api", &server.api, "--proxy", NAME, "--lease", "1", "--for", hold_for]
}

fn until_broken(server: &ProxyServer) {
    eventually("something is broken", DEADLINE, || (!server.is_whole()).then_some(()));
}

pub(crate) fn what_it_did_is_not_known_but_it_is_healed() {
    let (_toxiproxy, server) = toxiproxy();
    let sandbox = Sandbox::new();
    for fault in ["blackhole", "refuse"] {
        let inject = sandbox.start(&[&arguments(&server, fault, "1s")[..], &["--json"]].concat());
        until_broken(&server);
        let finished = inject.finish();
        assert_eq!(finished.code(), Some(5), "{finished:?}");
        let result = finished.json();
        assert_eq!((&result["verdict"], &result["effects"]), (&"inconclusive".into(), &().into()), "{result}");
        assert_eq!(result["heal-verified"], true, "{result}");
        assert!(server.is_whole() && answer(server.ask()).contains("version"));
        sandbox.assert_nothing_left();
    }
}

pub(crate) fn its_guardian_or_heal_undoes_it() {
    let (_toxiproxy, server) = toxiproxy();
    let sandbox = Sandbox::new();
    for fault in ["blackhole", "refuse"] {
        for is_guardian_dead in [false, true] {
            let inject = sandbox.start(&arguments(&server, fault, "9min"));
            until_broken(&server);
            if is_guardian_dead {
                let guardian = sandbox.processes().into_iter().find(Found::is_guardian).unwrap();
                guardian.signal(Signal::KILL);
            }
            inject.signal(Signal::KILL);
            assert_eq!(inject.finish().signal(), Some(9));
            if is_guardian_dead {
                assert!(!server.is_whole(), "nobody was left to heal it");
                let healed = sandbox.run(&["heal"]);
                assert!(healed.ended_quietly(0).stdout.contains("undone: "), "{healed:?}");
                assert!(server.is_whole());
            }
            eventually("it is healed", DEADLINE, || server.is_whole().then_some(()));
            sandbox.wait_until_nothing_left(DEADLINE);
        }
    }
}
