//! `up` on real parts.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;

use crate::FLAGS;
use crate::support::Sandbox;

/// The answer to a plain request.
fn ask(url: &Value, path: &str) -> String {
    let address = url.as_str().unwrap().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Values of the variables of process `pid` that are secrets of MinIO.
fn keys(pid: u64) -> Vec<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let entries = environment.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    entries
        .filter_map(|entry| {
            Some(entry.split_once('=').filter(|(name, _)| name.starts_with("MINIO_ROOT_"))?.1.to_owned())
        })
        .collect()
}

pub(crate) fn both_are_named_keep_their_keys_and_end() {
    let sandbox = Sandbox::new();
    let mut command =
        sandbox.command(&[&["up", "--rest", "127.0.0.1:0", "--json", "--logs", "logs"], &FLAGS[..]].concat());
    // What a user has set for another server must not reach this one.
    command.env("MINIO_ROOT_PASSWORD", "short").env("MINIO_VOLUMES", "/nowhere");
    let up = crate::support::Running::start(command);
    let line = up.line();
    let ready: Value = serde_json::from_str(&line).unwrap();
    assert!(ask(&ready["proxy-api"], "/version").contains("X-Toxiproxy-Request-Id"));
    for store in ["store", "store-through-proxy"] {
        let answer = ask(&ready[store], "/");
        assert!(answer.contains("Server: MinIO") && answer.contains("AccessDenied"), "{store}: {answer}");
    }
    let (minio, toxiproxy) = (ready["processes"]["minio"].as_u64(), ready["processes"]["toxiproxy"].as_u64());
    assert!(toxiproxy.is_some());
    let keys = keys(minio.unwrap());
    assert_eq!(keys.len(), 2);
    let told = |text: &str| keys.iter().any(|key| text.contains(key.as_str()));
    assert!(!told(&line), "a key is on standard output");
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let command_line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        assert!(!told(&String::from_utf8_lossy(&command_line)), "a key is on a command line");
    }
    up.signal(Signal::TERM);
    up.finish().ended_quietly(0);
    sandbox.assert_nothing_left();
    let logs = sandbox.here().join("logs");
    for log in ["minio.log", "toxiproxy.log", "coordinator-1.log", "executor-1.log", "guardian.log", "faults.journal"] {
        // The journal is only there once there was a fault.
        let text = fs::read_to_string(logs.join(log)).unwrap_or_default();
        assert!(!told(&text), "a key is in {log}");
    }
    assert!(fs::read_to_string(logs.join("minio.log")).unwrap().contains("MinIO Object Storage Server"));
}

pub(crate) fn a_part_that_ends_at_once_is_told_with_its_log() {
    let sandbox = Sandbox::new();
    let program = sandbox.file("broken", "#!/bin/sh\necho cannot do this\n");
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (flag, name) in [("--store", "MinIO"), ("--proxy", "Toxiproxy")] {
        let finished = sandbox.run(&["up", "--rest", "127.0.0.1:0", "--logs", name, flag, "./broken"]);
        assert_eq!((finished.code(), finished.stdout.as_str()), (Some(6), ""), "{finished:?}");
        let parts = [&format!("{name} ended at its start"), "cannot do this"];
        assert!(parts.iter().all(|part| finished.stderr.contains(*part)), "{finished:?}");
        sandbox.assert_nothing_left();
    }
}
