//! `inject`: what it does to what is there, what it refuses, and that it leaves nothing.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::support::{DEADLINE, Finished, Found, NAME, ProxyServer, Running, Sandbox, answer, eventually, state};

/// Lives until its test ends.
pub(crate) struct Bystander(Child);

impl Bystander {
    pub(crate) fn start() -> Self {
        Self(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        state(self.pid()) == Some('T')
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        // Killed already by a test that is about that.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `inject` with a fault on the proxy of `server`.
fn on_proxy<'a>(server: &'a ProxyServer, fault: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["inject", fault, "--proxy-api", &server.api, "--proxy", NAME], more].concat()
}

/// Long enough for a test to notice that something is broken, and to use it.
const WINDOW: &str = "2s";

const LATENCY: [&str; 4] = ["--type", "latency", "--attribute", "latency=200"];

/// Without what its progress said: that is no part of the result.
fn ended(finished: &Finished, code: i32) -> &Finished {
    assert_eq!(finished.code(), Some(code), "{finished:?}");
    finished
}

fn guardian(sandbox: &Sandbox) -> Found {
    sandbox.processes().into_iter().find(Found::is_guardian).expect("there is a guardian")
}

/// The proxy is broken.
fn until_broken(server: &ProxyServer) {
    eventually("something is broken", DEADLINE, || (!server.is_whole()).then_some(()));
}

/// Everything but the proxy server itself is gone.
fn assert_only_left(sandbox: &Sandbox, proxy: &Running) {
    let pids: Vec<u32> = sandbox.processes().iter().map(|found| found.pid).collect();
    assert_eq!((pids, sandbox.leftovers()), (vec![proxy.pid()], vec![]));
}

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
    let again = sandbox.run(&["inject", "kill", "--pid", &pid]);
    assert!(ended(&again, 6).stderr.contains("dead already"), "{again:?}");
    sandbox.assert_nothing_left();
}

#[test]
fn what_must_not_be_hurt_is_refused_before_the_first_call() {
    let sandbox = Sandbox::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    // Reaches this machine all the same: whoever called it would be seen.
    let elsewhere = format!("http://0.0.0.0:{}", listener.local_addr().unwrap().port());
    let remote = ["inject", "blackhole", "--proxy", NAME, "--proxy-api", &elsewhere];
    let (init, own) = (1.to_string(), std::process::id().to_string());
    let bystander = Bystander::start();
    let pid = bystander.pid().to_string();
    let refused: [(Vec<&str>, &str); 6] = [
        (remote.to_vec(), "say so twice"),
        ([&remote[..], &["--allow-host", "0.0.0.0"]].concat(), "say so twice"),
        (vec!["inject", "kill", "--pid", &init], "pid 1 runs this machine"),
        (vec!["inject", "hang", "--pid", &own], "started this process"),
        (vec!["inject", "hang", "--pid", &pid, "--for", "11min"], "longer than the 600 s"),
        (vec!["inject", "hang", "--pid", &pid, "--for", "2s", "--max", "1s"], "--max allows more"),
    ];
    for (arguments, why) in refused {
        let finished = sandbox.run(&arguments);
        assert_eq!((ended(&finished, 7).stdout.as_str(), finished.stderr.contains(why)), ("", true), "{finished:?}");
    }
    assert!(listener.accept().is_err(), "it was called");
    assert!(!bystander.is_stopped());
    drop(listener);
    let mut allowed = sandbox.command(&[&remote[..], &["--allow-host", "0.0.0.0"]].concat());
    allowed.env("STORMPROOF_ALLOW_REMOTE", "1");
    let finished = Running::start(allowed).finish();
    assert!(ended(&finished, 6).stderr.contains("is it running there"), "{finished:?}");
    sandbox.assert_nothing_left();
}

#[test]
fn bad_input_is_told_apart_from_what_is_not_there() {
    let sandbox = Sandbox::new();
    let (proxy, server) = ProxyServer::start(&sandbox);
    let bad: [(&[&str], &str); 9] = [
        (&["--type", "latencyy"], "invalid toxic type"),
        (&["--type", "bandwidth", "--attribute", "rat=1000"], "no attribute rat; it has rate"),
        (&["--type", "latency", "--attribute", "latncy=500"], "no attribute latncy; it has latency, jitter"),
        (
            &["--type", "slicer", "-a", "delay=5"],
            "needs the attribute average_size; it has average_size, size_variation",
        ),
        (&["--type", "noop", "--proxy-api", "http://me:secret@127.0.0.1"], "…@127.0.0.1` is no base URL"),
        (&["--type", "latency", "--attribute", "latency"], "key=value"),
        (&["--type", "latency", "--for", "30"], "e.g. 500ms, 30s or 2min"),
        (&["--type", "latency", "--toxicity", "2"], "within 0 and 1"),
        (&["--type", "noop", "--proxy-api", "127.0.0.1"], "no base URL"),
    ];
    for (more, why) in bad {
        let place: &[&str] = if more.contains(&"--proxy-api") { &[] } else { &["--proxy-api", &server.api] };
        let finished = sandbox.run(&[&["inject", "toxic", "--proxy", NAME], place, more].concat());
        finished.refused(&[why]);
    }
    let absent = sandbox.run(&["inject", "blackhole", "--proxy-api", &server.api, "--proxy", "cache"]);
    assert!(ended(&absent, 6).stderr.contains("no proxy of") && absent.stderr.contains("there are db"), "{absent:?}");
    let journal = sandbox.file("kept/faults.journal", "");
    let journal = journal.to_str().unwrap();
    let taken = sandbox.run(&on_proxy(&server, "blackhole", &["--journal", journal]));
    taken.refused(&["holds another run's journal"]);
    assert!(server.is_whole());
    assert_only_left(&sandbox, &proxy);
}

#[test]
fn the_help_names_the_attributes_of_each_type() {
    let help = Sandbox::new().run(&["inject", "toxic", "--help"]);
    let stdout = &help.ended_quietly(0).stdout;
    for line in ["  latency     latency [jitter]\n", "  timeout     [timeout] [deadline]\n", "  limit_data  bytes\n"] {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
}

#[test]
fn a_dry_run_names_each_call_and_makes_none() {
    let sandbox = Sandbox::new();
    let (proxy, server) = ProxyServer::start(&sandbox);
    let bystander = Bystander::start();
    let dry = sandbox.run(&on_proxy(&server, "toxic", &[&LATENCY[..], &["--dry-run"]].concat()));
    for part in [", for 30 s:\n", "/proxies/db/toxics {", "\"latency\":200", "  DELETE http://"] {
        assert!(dry.ended_quietly(0).stdout.contains(part), "{part}: {dry:?}");
    }
    let dry = sandbox.run(&on_proxy(&server, "refuse", &["--dry-run", "--json"])).ended_quietly(0).json();
    assert_eq!((&dry["undo"][0]["undo"], &dry["for-ms"]), (&"enable-proxy".into(), &30_000.into()));
    assert_eq!((&dry["listen"], &dry["upstream"]), (&server.listen().into(), &server.upstream().into()));
    let pid = bystander.pid().to_string();
    for fault in ["hang", "kill"] {
        let dry = sandbox.run(&["inject", fault, "--pid", &pid, "--dry-run"]);
        assert!(
            dry.ended_quietly(0)
                .stdout
                .contains(&format!("SIG{} to pid {pid}", if fault == "hang" { "STOP" } else { "KILL" })),
            "{dry:?}"
        );
    }
    assert!(server.is_whole() && state(bystander.pid()) == Some('S'));
    assert_only_left(&sandbox, &proxy);
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
    let mut inject = sandbox.start(&on_proxy(&server, "blackhole", &["--for", "9min", "--lease", "600"]));
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
    assert_eq!(finished.stdout, "", "nothing was verified");
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
    assert!(result["problems"][0].as_str().unwrap().contains("got no answer"), "{result}");
    sandbox.assert_nothing_left();
}
