//! What is refused, and what a dry run and the help say: nothing is called.

use std::net::TcpListener;

use super::{LATENCY, assert_only_left, ended, on_proxy};
use crate::support::{Bystander, NAME, ProxyServer, Running, Sandbox, state};

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
    let bad: [(&[&str], &str); 13] = [
        (&["--type", "latencyy"], "did you mean `latency`"),
        (&["--type", "packet_loss", "--dry-run"], "knows no packets"),
        // P68
        (&["--type", "bandwidth", "-a", "rate=-1", "--dry-run"], "rate is -1, must not be negative"),
        (&["--type", "slicer", "-a", "average_size=5", "-a", "size_variation=9"], "must be below average_size"),
        (&["--type", "latency", "-a", "latency=1.5", "--dry-run"], "write a whole number"),
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
    let lines: Vec<Vec<&str>> = stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    for line in [
        ["latency", "latency", "[jitter]"].as_slice(),
        &["timeout", "[timeout]", "[deadline]"],
        &["bandwidth", "rate", "[shared]"],
        &["limit_data", "bytes"],
        &["connect_refuse", "[first]"],
    ] {
        assert!(lines.iter().any(|found| found == line), "{line:?}: {stdout}");
    }
    assert!(stdout.contains("[clients]"), "{stdout}");
}

#[test]
fn a_dry_run_names_each_call_and_makes_none() {
    let sandbox = Sandbox::new();
    let (proxy, server) = ProxyServer::start(&sandbox);
    let bystander = Bystander::start();
    let dry = sandbox.run(&on_proxy(&server, "toxic", &[&LATENCY[..], &["--dry-run"]].concat()));
    let leases = [
        format!("  POST {}/leases {{\"id\":\"LEASE\",\"ttl_ms\":10000}}\n", server.api),
        format!("  PATCH {}/leases/LEASE ", server.api),
        format!("  DELETE {}/leases/LEASE\n", server.api),
    ];
    for part in [
        ", for 30 s:\n",
        "/proxies/db/toxics {",
        "\"latency\":200",
        "  DELETE http://",
        &leases[0],
        &leases[1],
        &leases[2],
    ] {
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
