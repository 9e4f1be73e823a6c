//! How fast the bundled cluster comes up, notices and recovers. Prints medians of real clusters; asserts nothing.
//!
//! `cargo bench --package stormproof-suites --bench cluster`, with `STORMPROOF_BENCH_ROUNDS` for more rounds.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stormproof::flink::RestClient;
use stormproof::job::{JobRegistry, fault_file_name};
use stormproof::plan::{ClusterShape, JobCall};
use stormproof::target::Target as _;
use stormproof::target::bundled::{BundledCluster, BundledConfig};
use stormproof_suites::jobs;

type Failure = Box<dyn std::error::Error>;

/// How long anything may take before the bench gives up.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let mut registry = JobRegistry::default();
    jobs::register(&mut registry);
    if let Some(code) = stormproof::role::dispatch(&registry) {
        return code;
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// One cluster's figures, milliseconds, by name.
type Figures = BTreeMap<&'static str, f64>;

fn measure() -> Result<(), Failure> {
    let rounds = std::env::var("STORMPROOF_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut all: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for round in 0..rounds {
        let folder = std::env::temp_dir().join(format!("stormproof-bench-{}-{round}", std::process::id()));
        let figures = runtime.block_on(one_round(&folder));
        std::fs::remove_dir_all(&folder)?;
        figures?.into_iter().for_each(|(name, value)| all.entry(name).or_default().push(value));
    }
    println!("{:52} {:>8} {:>8} {:>8}", format!("{rounds} clusters"), "min", "median", "max");
    for (name, mut values) in all {
        values.sort_by(f64::total_cmp);
        let (first, last) = (values[0], values[values.len() - 1]);
        println!("{name:52} {first:>8.1} {:>8.1} {last:>8.1}", values[values.len() / 2]);
    }
    Ok(())
}

async fn one_round(folder: &Path) -> Result<Figures, Failure> {
    let config =
        BundledConfig { shape: ClusterShape::default(), run_dir: folder.join("run"), ..BundledConfig::default() };
    let cluster = BundledCluster::start(config).await?;
    let mut figures = Figures::new();
    figures.insert("cluster ready, ms", millis(cluster.timings().ready));
    let executor = cluster.processes().get("executor-1").ok_or("no executor-1")?;
    figures.insert("idle executor, resident MB", resident_mb(executor.pid)?.0);
    figures.insert("idle executor, private MB", resident_mb(executor.pid)?.1);
    let rest = cluster.rest().clone();
    let job = cluster.submit(&stream_job(folder)).await?;
    all_running(&rest, &job, 0).await?;

    let faults = cluster.faults_dir().ok_or("no folder for faults")?;
    std::fs::write(faults.join(fault_file_name("fail", "square", 0)), b"")?;
    let failed = failure_ms(&rest, &job, 0).await?;
    let running = all_running(&rest, &job, 1).await?;
    figures
        .insert("user failure to all tasks RUNNING, less delay, ms", running.saturating_sub(failed + DELAY_MS) as f64);

    let victim = victim(&rest, &job).await?;
    let process = cluster.processes().get(&victim).ok_or("the victim is no process of the cluster")?;
    let killed = now_ms();
    process.kill()?;
    let noticed = failure_ms(&rest, &job, failed).await?;
    figures.insert("SIGKILL of an executor until it is noticed, ms", noticed.saturating_sub(killed) as f64);
    rest.cancel(&job).await?;
    cluster.shutdown().await?;
    Ok(figures)
}

/// The restart delay that is configured.
const DELAY_MS: u64 = 10;

fn stream_job(folder: &Path) -> JobCall {
    let text =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    JobCall {
        name: jobs::stream::NAME.to_owned(),
        params: text(&[("output", &folder.join("output").display().to_string()), ("records", "1000000")]),
        settings: text(&[
            ("execution.checkpointing.interval", "50 ms"),
            ("restart-strategy.type", "fixed-delay"),
            ("restart-strategy.fixed-delay.attempts", "100"),
            ("restart-strategy.fixed-delay.delay", "10 ms"),
        ]),
    }
}

/// Waits until every task runs and one has been restarted at least `restarts` times; when the last of them began to
/// run, by the coordinator's clock.
async fn all_running(rest: &RestClient, job: &str, restarts: u32) -> Result<u64, Failure> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let detail = rest.job(job).await?;
        let (mut latest, mut newest, mut all) = (0, 0, !detail.vertices.is_empty());
        for vertex in &detail.vertices {
            for subtask in rest.vertex(job, &vertex.id).await?.subtasks {
                all &= subtask.status == "RUNNING";
                newest = newest.max(subtask.attempt);
                let path = format!("/jobs/{job}/vertices/{}/subtasktimes", vertex.id);
                let times: serde_json::Value = rest.get(&path).await?;
                let running = &times["subtasks"][subtask.subtask as usize]["timestamps"]["RUNNING"];
                latest = latest.max(running.as_u64().unwrap_or(0));
            }
        }
        if all && newest >= restarts {
            return Ok(latest);
        }
        if tokio::time::Instant::now() > deadline {
            return Err("the tasks did not run in time".into());
        }
    }
}

/// Waits for a failure later than `after`; when it happened, by the coordinator's clock.
async fn failure_ms(rest: &RestClient, job: &str, after: u64) -> Result<u64, Failure> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let newest = rest.exceptions(job).await?.history.entries.first().map_or(0, |entry| entry.timestamp);
        let newest = u64::try_from(newest).unwrap_or(0);
        if newest > after {
            return Ok(newest);
        }
        if tokio::time::Instant::now() > deadline {
            return Err("the failure was not noticed in time".into());
        }
    }
}

/// An executor that runs a task.
async fn victim(rest: &RestClient, job: &str) -> Result<String, Failure> {
    let detail = rest.job(job).await?;
    let vertex = detail.vertices.first().ok_or("the job has no vertices")?;
    let subtasks = rest.vertex(job, &vertex.id).await?.subtasks;
    let executor = subtasks.first().and_then(|subtask| subtask.executor().map(str::to_owned));
    Ok(executor.ok_or("the task runs nowhere")?)
}

/// Resident and private memory of a process, MB of 1,000,000 bytes.
fn resident_mb(pid: u32) -> Result<(f64, f64), Failure> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kilobytes = |name: &str| -> f64 {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.0)
    };
    Ok((kilobytes("VmRSS:") * 1.024 / 1000.0, kilobytes("RssAnon:") * 1.024 / 1000.0))
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
