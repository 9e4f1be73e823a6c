//! `proxy`: Toxiproxy's flags, and what it costs for long.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};
use stormproof::chaos::toxiproxy::TOXIPROXY_VERSION;

use crate::support::{DEADLINE, Running, Sandbox, eventually};

const CONNECTIONS: usize = 10_000;
const ROUNDS: usize = 5;
const CLIENTS: usize = 8;
/// Leaks of a hundred bytes in each connection of a round are more than this.
const GROWTH_LIMIT_KILOBYTES: u64 = (CONNECTIONS / ROUNDS / 11) as u64;

/// Body of what the server answers to a request of its API.
fn body(api: &str, method: &str, path: &str, body: &Value) -> String {
    let body = body.to_string();
    let mut stream = TcpStream::connect(api).unwrap();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: {api}\r\nConnection: close\r\nContent-Length: {}", body.len());
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The same where it answers with JSON.
fn ask(api: &str, method: &str, path: &str, wanted: &Value) -> Value {
    serde_json::from_str(&body(api, method, path, wanted)).unwrap()
}

/// Starts the server in `sandbox` with `more` flags, and reads where its API is.
fn started(sandbox: &Sandbox, more: &[&str]) -> (Running, String) {
    ready(sandbox.start(&[&["proxy", "-port", "0", "--json"], more].concat()))
}

fn ready(server: Running) -> (Running, String) {
    let ready: Value = serde_json::from_str(&server.line()).unwrap();
    let api = ready["proxy-api"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    (server, api)
}

fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut bytes = [0; 64];
                while let Ok(length @ 1..) = (&stream).read(&mut bytes) {
                    if (&stream).write_all(&bytes[..length]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

/// Opens, uses and leaves connections: half of them in good order, the others with bytes unread.
fn connect_often(address: &str, times: usize) {
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                for time in 0..times / CLIENTS {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.write_all(b"ping").unwrap();
                    if time % 2 == 0 {
                        stream.read_exact(&mut [0; 4]).unwrap();
                    }
                }
            });
        }
    });
}

/// Its open files once they are as few as they should be.
fn settled(server: &Running, files: usize) -> usize {
    let folder = format!("/proc/{}/fd", server.pid());
    let open = || fs::read_dir(&folder).unwrap().count();
    eventually("its connections are closed", DEADLINE, || (open() <= files).then(open))
}

fn resident_kilobytes(server: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn ten_thousand_connections_leave_nothing_behind() {
    let sandbox = Sandbox::new();
    let (server, api) = started(&sandbox, &[]);
    let wanted = json!({"name": "p", "listen": "127.0.0.1:0", "upstream": echo()});
    let listen = ask(&api, "POST", "/proxies", &wanted)["listen"].as_str().unwrap().to_owned();
    let toxic = json!({"type": "latency", "attributes": {"latency": 1}});
    ask(&api, "POST", "/proxies/p/toxics", &toxic);
    let files = settled(&server, usize::MAX);
    // A leak grows in every round; what many connections at once have needed is kept for the next ones, and does not.
    let mut memory = Vec::new();
    for _ in 0..ROUNDS {
        connect_often(&listen, CONNECTIONS / ROUNDS);
        settled(&server, files);
        memory.push(resident_kilobytes(&server));
    }
    let least = memory.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).min();
    assert!(least <= Some(GROWTH_LIMIT_KILOBYTES), "it grows with each round: {memory:?} KB");
    let accepted = eventually("no connection is counted as open", DEADLINE, || {
        let effects = ask(&api, "GET", "/proxies/p/effects", &Value::Null);
        (effects["connections_open"] == 0).then(|| effects["connections_accepted"].clone())
    });
    assert_eq!(accepted, CONNECTIONS);
    server.signal(Signal::TERM);
    server.finish().ended_quietly(0);
    sandbox.assert_nothing_left();
}

#[test]
fn the_soft_limit_on_open_files_is_raised() {
    let sandbox = Sandbox::new();
    for arguments in [&["proxy", "--port", "0"][..], &["s3", "--listen", "127.0.0.1:0"]] {
        let server = sandbox.start_limited("-Sn 64", arguments);
        server.line();
        let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
        let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let [soft, hard] = [3, 4].map(|word| files.split_whitespace().nth(word).unwrap());
        assert_eq!(soft, hard);
        server.signal(Signal::TERM);
        server.finish().ended_quietly(0);
    }
}

#[test]
fn the_api_answers_however_many_clients_there_are() {
    let sandbox = Sandbox::new();
    let (server, api) = ready(sandbox.start_limited("-n 64", &["proxy", "--port", "0", "--json"]));
    let wanted = json!({"name": "p", "listen": "127.0.0.1:0", "upstream": echo()});
    let listen = ask(&api, "POST", "/proxies", &wanted)["listen"].as_str().unwrap().to_owned();
    let mut clients: Vec<_> = (0..100).map(|_| TcpStream::connect(&listen).unwrap()).collect();
    let open = |api: &str| ask(api, "GET", "/proxies/p/effects", &Value::Null)["connections_open"].as_u64().unwrap();
    let served = eventually("some of them are served", DEADLINE, || Some(open(&api)).filter(|open| *open >= 10));
    // Without descriptors kept back, the clients would have them all, and a connection to the API only what they leave.
    let files = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    assert!(files <= 56, "{served} connections, {files} of 64 descriptors");
    // The others wait, and have their turn.
    let mut last = clients.pop().unwrap();
    drop(clients);
    last.write_all(b"ping").unwrap();
    last.read_exact(&mut [0; 4]).unwrap();
    assert_eq!(ask(&api, "GET", "/proxies/p/effects", &Value::Null)["connections_refused"], 0);
    server.signal(Signal::TERM);
    let finished = server.finish();
    assert_eq!((finished.code(), finished.stderr.lines().count()), (Some(0), 1), "told once: {finished:?}");
    assert!(finished.stderr.contains("raise the limit of open files"), "{finished:?}");
    sandbox.assert_nothing_left();
}

#[test]
fn toxiproxys_own_flags_do_what_they_do_there() {
    let sandbox = Sandbox::new();
    let version = sandbox.run(&["proxy", "-version"]);
    let as_which = format!("(as Toxiproxy {TOXIPROXY_VERSION})\n");
    assert!(version.ended_quietly(0).stdout.ends_with(&as_which), "{version:?}");
    let counters = |more: &[&str]| {
        let (server, api) = started(&sandbox, more);
        let listed = body(&api, "GET", "/metrics", &Value::Null);
        server.signal(Signal::TERM);
        server.finish().ended_quietly(0);
        ["toxiproxy_proxy_received_bytes_total", "go_build_info"].map(|name| listed.contains(name))
    };
    // P75
    assert_eq!(counters(&[]), [false, false]);
    assert_eq!(counters(&["-proxy-metrics", "-runtime-metrics"]), [true, true]);
    assert_eq!(counters(&["-proxy-metrics"]), [true, false]);
    assert_eq!(counters(&["-runtime-metrics=true", "-proxy-metrics=false"]), [false, true]);
    sandbox.assert_nothing_left();
}

#[test]
fn a_bad_config_file_is_told_and_gone_on_without_if_lenient() {
    // P79
    let sandbox = Sandbox::new();
    let bad = sandbox.file("bad.json", "[{\"name\": \"\"}]");
    let (bad, none) = (bad.to_str().unwrap(), "/nowhere/at-all.json");
    for (file, said) in [(bad, "missing required field: name at proxy 1"), (none, "No such file")] {
        sandbox.run(&["proxy", "-port", "0", "-config", file]).refused(&[file, said, "--lenient"]);
        let (server, api) = started(&sandbox, &["-config", file, "--lenient"]);
        assert_eq!(ask(&api, "GET", "/proxies", &Value::Null), json!({}));
        server.signal(Signal::TERM);
        let end = server.finish();
        assert_eq!((end.code(), end.stderr.contains(said) && end.stderr.contains(file)), (Some(0), true), "{end:?}");
    }
    sandbox.assert_nothing_left();
}

#[test]
fn a_strict_one_refuses_what_a_toxic_does_not_have() {
    // P64 P67
    let sandbox = Sandbox::new();
    for (more, status) in [(&[][..], &Value::Null), (&["--strict"], &json!(400))] {
        let (server, api) = started(&sandbox, more);
        ask(&api, "POST", "/proxies", &json!({"name": "p", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1"}));
        let toxic = json!({"type": "latency", "attributes": {"latancy": 5}});
        assert_eq!(&ask(&api, "POST", "/proxies/p/toxics", &toxic)["status"], status);
        server.signal(Signal::TERM);
        server.finish().ended_quietly(0);
    }
    sandbox.assert_nothing_left();
}

#[test]
fn a_seed_may_be_negative() {
    let sandbox = Sandbox::new();
    let (server, _) = started(&sandbox, &["-seed", "-1"]);
    server.signal(Signal::TERM);
    server.finish().ended_quietly(0);
    sandbox.assert_nothing_left();
}

#[test]
fn log_level_says_what_is_logged() {
    let sandbox = Sandbox::new();
    let told = |level: &str| {
        let mut command = sandbox.command(&["proxy", "-port", "0", "--json"]);
        command.env("LOG_LEVEL", level);
        let server = Running::start(command);
        let ready: Value = serde_json::from_str(&server.line()).unwrap();
        let api = ready["proxy-api"].as_str().unwrap().strip_prefix("http://").unwrap();
        ask(api, "POST", "/proxies", &json!({"name": "p", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1"}));
        body(api, "POST", "/populate", &json!([{}]));
        server.signal(Signal::TERM);
        let finished = server.finish();
        assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), ""), "{finished:?}");
        finished.stderr
    };
    let has = |text: &str, words: [&str; 5]| words.map(|word| text.contains(word));
    let words =
        ["answered method=POST path=\"/proxies\"", "started proxy", "terminated proxy", "populate failed", "loud"];
    assert_eq!(has(&told("debug"), words), [true, true, true, true, false]);
    assert_eq!(has(&told("INFO"), words), [false, true, true, true, false]);
    assert_eq!(has(&told(""), words), [false, false, false, true, false]);
    assert_eq!(told("error"), "");
    // As Toxiproxy: told, and no reason to stay down.
    assert_eq!(has(&told("loud"), words), [false, false, false, true, true]);
    sandbox.assert_nothing_left();
}
