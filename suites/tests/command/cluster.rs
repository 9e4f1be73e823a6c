//! `up`, and what is done on the cluster that it starts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt as _;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{DEADLINE, Finished, Running, Sandbox, eventually, listening_sockets, listens_on};

/// A cluster that `up` started.
struct Up {
    sandbox: Sandbox,
    running: Running,
    /// The line that it said.
    ready: Value,
    target: String,
}

impl Up {
    fn start(arguments: &[&str]) -> Self {
        let sandbox = Sandbox::new();
        let running = sandbox.start(&[&["up", "--rest", "127.0.0.1:0", "--json"], arguments].concat());
        let ready: Value = serde_json::from_str(&running.line()).unwrap();
        let target = ready["rest"][0].as_str().unwrap().to_owned();
        Self { sandbox, running, ready, target }
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.sandbox.run(&[arguments, &["--target", &self.target]].concat())
    }

    /// What the cluster says of job `id`.
    fn state(&self, id: &str) -> Option<String> {
        let answer = self.run(&["jobs", "--json"]).ended_quietly(0).json();
        let job = answer["jobs"].as_array()?.iter().find(|job| job["id"] == id)?;
        job["state"].as_str().map(ToOwned::to_owned)
    }

    /// Ends it and looks whether it left anything.
    fn end(self, signal: Signal) {
        self.running.signal(signal);
        let finished = self.running.finish();
        finished.ended_quietly(0);
        assert_eq!(finished.stdout, "", "the first line was all");
        self.sandbox.assert_nothing_left();
    }
}

/// `host:port` of every endpoint in the line that `up` said.
fn endpoints(ready: &Value) -> Vec<String> {
    let rest = ready["rest"].as_array().unwrap().iter();
    let others = ["store", "store-through-proxy", "proxy-api"].map(|name| &ready[name]);
    let all = rest.chain(others).map(|url| url.as_str().unwrap().strip_prefix("http://").unwrap());
    all.map(ToOwned::to_owned).collect()
}

#[test]
fn up_says_all_endpoints_on_one_line_and_ends_cleanly_at_sigterm() {
    let up = Up::start(&["--executors", "2", "--standbys", "1", "--store", "embedded", "--proxy", "embedded"]);
    let endpoints = endpoints(&up.ready);
    assert_eq!(endpoints.len(), 5, "{}", up.ready);
    for endpoint in &endpoints {
        TcpStream::connect(endpoint).unwrap_or_else(|error| panic!("{endpoint}: {error}"));
    }
    let own = listening_sockets(up.running.pid());
    assert_eq!(own.len(), 3, "the store, the proxy in front of it and its API; no network is to be cut");
    let said: BTreeMap<String, u32> = serde_json::from_value(up.ready["processes"].clone()).unwrap();
    let mut children: Vec<u32> = up
        .sandbox
        .processes()
        .iter()
        .filter(|found| found.role.is_some() && !found.is_guardian())
        .map(|found| found.pid)
        .collect();
    children.sort_unstable();
    let mut expected: Vec<u32> = said.values().copied().collect();
    expected.sort_unstable();
    assert_eq!(said.keys().collect::<Vec<_>>(), ["coordinator-1", "coordinator-2", "executor-1", "executor-2"]);
    assert_eq!(children, expected);
    up.end(Signal::TERM);
    for endpoint in &endpoints {
        assert!(TcpStream::connect(endpoint).is_err(), "{endpoint} still answers");
    }
}

#[test]
fn every_coordinator_answers_for_the_one_that_leads() {
    let up = Up::start(&["--executors", "1", "--standbys", "2"]);
    let output = format!("output={}", up.sandbox.here().join("out").display());
    let addresses: Vec<&str> = up.ready["rest"].as_array().unwrap().iter().map(|url| url.as_str().unwrap()).collect();
    assert_eq!(addresses.len(), 3);
    let ids = addresses.iter().map(|address| {
        let submit = ["submit", "stream", "--detach", "-p", &output, "--target", address];
        up.sandbox.run(&submit).ended_quietly(0).stdout.split("  ").next().unwrap().to_owned()
    });
    let ids: Vec<String> = ids.collect();
    for address in addresses {
        let jobs = up.sandbox.run(&["jobs", "--json", "--target", address]).ended_quietly(0).json();
        let listed = jobs["jobs"].as_array().unwrap().iter();
        let listed: Vec<&str> = listed.map(|job| job["id"].as_str().unwrap()).collect();
        assert!(ids.iter().all(|id| listed.contains(&id.as_str())), "{address}: {jobs} without one of {ids:?}");
    }
    up.end(Signal::TERM);
}

#[test]
fn a_folder_for_logs_belongs_to_one_cluster_at_a_time() {
    let up = Up::start(&["--executors", "1"]);
    let pid = up.running.pid();
    let record = up.sandbox.here().join("stormproof-up/guardian.json");
    let before = std::fs::read(&record).unwrap();
    let second = || up.sandbox.run(&["up", "--rest", "127.0.0.1:0", "--executors", "1"]);
    second().refused(&["stormproof-up is in use by another run", &format!("pid {pid}"), "name another folder"]);
    assert_eq!(std::fs::read(&record).unwrap(), before, "the first one's record is as it was");
    up.end(Signal::TERM);
}

#[test]
fn a_folder_of_ha_belongs_to_one_cluster_at_a_time_and_addresses_stand_in_order() {
    let up = Up::start(&["--executors", "1", "--standbys", "2", "--ha", "ha", "--logs", "first"]);
    for (number, address) in (1..).zip(up.ready["rest"].as_array().unwrap()) {
        let pid = up.ready["processes"][format!("coordinator-{number}")].as_u64().unwrap();
        let (_, port) = address.as_str().unwrap().rsplit_once(':').unwrap();
        let listens = listens_on(u32::try_from(pid).unwrap(), port.parse().unwrap());
        assert!(listens, "coordinator-{number}: {}", up.ready);
    }
    let leader = up.ready["processes"].as_object().unwrap().iter();
    let pids: Vec<String> = leader.map(|(_, pid)| format!("(pid {pid}, REST 127.0.0.1:")).collect();
    let second = up.sandbox.run(&["up", "--rest", "127.0.0.1:0", "--executors", "1", "--ha", "ha", "--logs", "second"]);
    second.refused(&["HA folder ha is in use", "name another folder"]);
    assert!(pids.iter().any(|pid| second.stderr.contains(pid)), "{second:?}");
    up.end(Signal::TERM);
}

#[test]
fn submit_waits_for_the_end_and_its_code_tells_it() {
    let up = Up::start(&[]);
    up.sandbox.file("texts/one.txt", "a b a\n");
    // Larger than what is read at once, and of a name that is no text.
    let large = up.sandbox.here().join("texts").join(OsStr::from_bytes(b"large-\xff"));
    std::fs::write(large, "c d\n".repeat(200_000)).unwrap();
    let file = up.sandbox.file("a-file", "no folder");
    let here = up.sandbox.here();
    let input = format!("input={}", here.join("texts").display());
    let submit = |output: String, rest: &[&str]| {
        up.run(&[&["submit", "word-count", "-p", &input, "-p", &format!("output={output}")], rest].concat())
    };

    let good = submit(here.join("out").display().to_string(), &[]);
    let (id, state) = good.ended_quietly(0).stdout.trim_end().split_once("  ").unwrap();
    assert_eq!((id.len(), state), (32, "FINISHED"));
    let parts = crate::support::names(&here.join("out"));
    let texts = parts.iter().map(|part| std::fs::read_to_string(here.join("out").join(part)).unwrap());
    let mut lines: Vec<String> =
        texts.flat_map(|text| text.lines().map(ToOwned::to_owned).collect::<Vec<_>>()).collect();
    lines.sort();
    assert_eq!(lines, ["a\t2", "b\t1", "c\t200000", "d\t200000"]);

    let json = submit(here.join("out-2").display().to_string(), &["--json"]).ended_quietly(0).json();
    assert_eq!(json["state"], "FINISHED", "{json}");

    let misspelt = submit(here.join("out-3").display().to_string(), &["-p", "paralelism=2"]);
    misspelt.refused(&["`word-count` has no parameter `paralelism`; it has: input, output, parallelism, faults"]);
    assert!(!here.join("out-3").exists(), "nothing ran");

    let bad = submit(file.join("out").display().to_string(), &[]);
    assert_eq!(bad.code(), Some(1), "{bad:?}");
    assert!(bad.stdout.ends_with("  FAILED\n"), "{bad:?}");
    assert!(
        bad.stderr.contains("failed: write (") && bad.stderr.contains("a-file/out") && bad.stderr.lines().count() == 1,
        "the task and why: {bad:?}"
    );
    let bad = submit(file.join("out").display().to_string(), &["--json"]);
    assert_eq!((bad.code(), &bad.json()["state"]), (Some(1), &Value::from("FAILED")));

    assert_eq!(up.state(id).as_deref(), Some("FINISHED"));
    let text = up.run(&["jobs"]);
    assert_eq!(text.ended_quietly(0).stdout.lines().count(), 4, "{text:?}");
    assert!(text.stdout.contains(&format!("{id}  FINISHED      word-count")), "{text:?}");
    up.end(Signal::INT);
}

#[test]
fn a_detached_job_is_listed_and_can_be_cancelled() {
    let up = Up::start(&["--executors", "3"]);
    assert_eq!(up.run(&["jobs"]).ended_quietly(0).stdout, "no jobs\n");
    assert_eq!(up.run(&["jobs", "--json"]).json()["jobs"], Value::Array(vec![]));
    let output = format!("output={}", up.sandbox.here().join("out").display());
    let detach = ["submit", "stream", "-p", &output, "-p", "records=1000000000", "--detach"];
    let submitted = up.run(&[&detach[..], &["--json"]].concat()).ended_quietly(0).json();
    let id = submitted["id"].as_str().unwrap();
    assert_eq!(submitted["state"], "SUBMITTED");
    eventually("the job runs", DEADLINE, || (up.state(id)? == "RUNNING").then_some(()));

    let cancelled = up.run(&["cancel", id]);
    assert!(cancelled.ended_quietly(0).stdout.contains(id), "{cancelled:?}");
    eventually("the job is cancelled", DEADLINE, || (up.state(id)? == "CANCELED").then_some(()));
    // A second time is what its caller wanted, and no error.
    assert_eq!(up.run(&["cancel", id, "--json"]).ended_quietly(0).json()["state"], "CANCELED");
    assert!(up.run(&["cancel", id]).ended_quietly(0).stdout.contains("is CANCELED already"));

    let text = up.run(&detach);
    assert!(text.ended_quietly(0).stdout.ends_with("  SUBMITTED\n"), "{text:?}");
    // With a job at work, the end is as clean.
    up.end(Signal::TERM);
}

#[test]
fn a_cluster_refuses_bad_submissions_in_one_sentence() {
    let up = Up::start(&["--executors", "1"]);
    let unknown = "00000000000000000000000000c0ffee";
    let cases: [(&[&str], &[&str]); 7] = [
        (&["submit", "word-cuont"], &["`word-cuont`", "word-count"]),
        (&["submit", "word-count"], &["`input`"]),
        (&["submit", "word-count", "-p", "input=no/such", "-p", "output=out"], &["no/such", "No such file"]),
        (&["submit", "stream", "-p", "output=out", "-p", "records=many"], &["`records`", "`many`"]),
        (
            &["submit", "stream", "-p", "output=out", "-D", "execution.checkpointing.intervall=1 s"],
            &["did you mean `execution.checkpointing.interval`"],
        ),
        (
            &["submit", "stream", "-p", "output=out", "-D", "heartbeat.timeout=1 s"],
            &["`heartbeat.timeout` belongs to the cluster"],
        ),
        (&["cancel", unknown], &[unknown, "not found"]),
    ];
    for (arguments, parts) in cases {
        up.run(arguments).refused(parts);
    }
    assert_eq!(up.run(&["jobs", "--json"]).json()["jobs"], Value::Array(vec![]), "none of them left a job");
    up.end(Signal::TERM);
}
