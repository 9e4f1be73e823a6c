//! What an idle executor costs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use stormproof_coordinator::config::{ExecutorConfig, StoreConfig};
use stormproof_coordinator::executor::{run, runtime};
use stormproof_coordinator::graph::JobRegistry;

/// Set in the process that is measured.
const CHILD: &str = "STORMPROOF_TEST_IDLE_EXECUTOR";

/// The budget of an idle executor, bytes resident.
const BUDGET: u64 = 20 * 1024 * 1024;

/// Not a test by itself: becomes an executor when the test below runs this binary again.
#[test]
fn idle_executor_child() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let folder = std::path::PathBuf::from(folder);
    let config = ExecutorConfig {
        name: "executor-1".into(),
        slots: 4,
        ha_dir: folder.join("ha"),
        work_dir: folder.join("work"),
        data_address: "127.0.0.1:0".into(),
        store: Some(StoreConfig {
            endpoint: "http://127.0.0.1:1".into(),
            bucket: "checkpoints".into(),
            access_key: "key".into(),
            secret_key: "secret".into(),
        }),
        chaos_dir: None,
        routes: None,
        settings: BTreeMap::new(),
    };
    // Ends when the parent closes our input.
    let (sender, asked) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        drop(sender);
    });
    let ready = |ready| println!("ready {ready:?}");
    let ended = run(config, JobRegistry::default(), ready, async { drop(asked.await) });
    runtime().unwrap().block_on(ended).unwrap();
}

#[test]
fn an_idle_executor_stays_below_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::idle_executor_child", "--nocapture", "--test-threads=1"])
        .env(CHILD, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("ready Ready")), "the executor never became ready");
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", child.id())).unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    let resident = pages * 4096;
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    println!("resident: {resident} bytes");
    assert!(resident < BUDGET, "{resident} bytes resident");
}
