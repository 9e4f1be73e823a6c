//! The REST client against answers of four Flink versions, and against changing leaders.

#[path = "rest/server.rs"]
mod server;

use std::path::Path;
use std::time::Duration;

use server::Server;
use stormproof::flink::job::JobDetail;
use stormproof::flink::{RestClient, RestError, RunRequest};
use stormproof::timeline::ObservedEdge;

const JOB: &str = "00000000000000000000000000c0ffee";

/// A sample as (status, body). Files of calls that may fail are wrapped with their status.
fn sample(version: &str, name: &str) -> (u16, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flink-rest");
    let text = std::fs::read_to_string(folder.join(version).join(format!("{name}.json"))).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    match json.get("http_status") {
        Some(status) => (u16::try_from(status.as_u64().unwrap()).unwrap(), json["body"].to_string()),
        None => (200, text),
    }
}

async fn serving(routes: &[(&str, (u16, String))]) -> (Server, RestClient) {
    let server = Server::start().await;
    for (call, (status, body)) in routes {
        server.answer(call, *status, body);
    }
    let client = RestClient::new(vec![server.url.clone()]).unwrap();
    (server, client)
}

async fn job(version: &str, name: &str) -> JobDetail {
    let (_server, client) = serving(&[("GET /jobs/j", sample(version, name))]).await;
    client.job("j").await.unwrap()
}

#[tokio::test]
async fn the_plan_of_a_batch_job_reads_alike_in_every_version() {
    let edge = |from: &str, to: &str| ObservedEdge {
        from: from.into(),
        to: to.into(),
        exchange: "blocking".into(),
        ship_strategy: "REBALANCE".into(),
        data_set: None,
    };
    for version in ["1.13.6", "1.14.6", "1.20.5", "2.3.0"] {
        let job = job(version, "batch_finished_after_tm_kill_job").await;
        let plan = job.observed_plan();
        let vertices: Vec<_> = plan.vertices.iter().map(|vertex| (vertex.name.as_str(), vertex.parallelism)).collect();
        assert_eq!(vertices, [("Source: src -> gen", 2), ("mid", 2), ("out -> sink", 2)], "{version}");
        assert_eq!(plan.edges, [edge("Source: src -> gen", "mid"), edge("mid", "out -> sink")], "{version}");
        assert_eq!(job.state, "FINISHED");
        assert!(job.is_globally_terminal());
        assert!(job.entered("RESTARTING") > job.entered("INITIALIZING"), "{version}");
        assert_eq!(job.entered("FAILED"), None);
        assert_eq!(job.vertices[1].metrics.read_records, 1000);
    }
}

#[tokio::test]
async fn a_streaming_plan_has_its_edges() {
    for version in ["1.13.6", "2.3.0"] {
        let plan = job(version, "stream_before_failure_job").await.observed_plan();
        let edges: Vec<_> =
            plan.edges.iter().map(|edge| (edge.exchange.as_str(), edge.ship_strategy.as_str())).collect();
        assert_eq!(edges, [("pipelined_bounded", "FORWARD"); 2], "{version}");
    }
}

#[tokio::test]
async fn an_initializing_job_has_no_vertices_and_no_plan() {
    for version in ["1.13.6", "2.3.0"] {
        let job = job(version, "ha_job_INITIALIZING").await;
        assert_eq!((job.state.as_str(), job.vertices.len(), job.plan.nodes.len()), ("INITIALIZING", 0, 0), "{version}");
        assert!(job.entered("INITIALIZING").is_some());
    }
}

#[tokio::test]
async fn attempts_and_their_executors_are_read() {
    for (version, executors) in [("1.13.6", ["tm1", "tm4"]), ("2.3.0", ["tm4", "tm3"])] {
        let (_server, client) = serving(&[
            ("GET /jobs/j/vertices/v", sample(version, "batch_finished_after_tm_kill_vertex1")),
            ("GET /jobs/j/vertices/v/subtasks/0/attempts/0", sample(version, "stream_end_vertex1_subtasks_0")),
        ])
        .await;
        let vertex = client.vertex("j", "v").await.unwrap();
        assert_eq!(vertex.name, "mid");
        let attempts: Vec<_> =
            vertex.subtasks.iter().map(|task| (task.subtask, task.attempt, task.executor())).collect();
        assert_eq!(attempts, [(0, 1, Some(executors[0])), (1, 2, Some(executors[1]))], "{version}");
        let history = client.attempt_history("j", "v", 0, 1).await.unwrap();
        assert_eq!(history.len(), 1, "attempt 1 is 404: evicted");
        assert_eq!((history[0].attempt, history[0].end_time), (0, -1));
    }
}

#[tokio::test]
async fn exceptions_name_their_task() {
    for (version, count) in [("1.13.6", 2), ("2.3.0", 5)] {
        let route = ("GET /jobs/j/exceptions", sample(version, "batch_finished_after_tm_kill_job_exceptions"));
        let (_server, client) = serving(&[route]).await;
        let entries = client.exceptions("j").await.unwrap().history.entries;
        assert_eq!(entries.len(), count, "{version}");
        let oldest = entries.last().unwrap();
        assert_eq!(oldest.task_name.as_deref(), Some("mid (2/2) - execution #0"));
        assert!(oldest.exception_name.ends_with("RemoteTransportException"));
    }
}

#[tokio::test]
async fn the_cluster_is_read() {
    let (_server, client) = serving(&[
        ("GET /overview", sample("2.3.0", "cluster_overview")),
        ("GET /jobs/overview", sample("2.3.0", "cluster_jobs_overview")),
        ("GET /taskmanagers", sample("1.13.6", "cluster_taskmanagers")),
        ("GET /jars", sample("2.3.0", "cluster_jars")),
        ("GET /jobs/j/metrics", sample("2.3.0", "stream_end_job_metrics_Q")),
    ])
    .await;
    let overview = client.overview().await.unwrap();
    assert_eq!((overview.taskmanagers, overview.slots_total, overview.flink_version.as_str()), (2, 2, "2.3.0"));
    let jobs = client.jobs_overview().await.unwrap().jobs;
    assert_eq!((jobs[0].jid.as_str(), jobs[0].state.as_str(), jobs[0].tasks["running"]), (JOB, "RUNNING", 6));
    let executors = client.taskmanagers().await.unwrap().taskmanagers;
    let names: Vec<_> = executors.iter().map(|executor| (executor.id.as_str(), executor.slots_number)).collect();
    assert_eq!(names, [("tm2", 1), ("tm1", 1)]);
    assert!(executors[0].stormproof.is_none());
    assert!(client.jars().await.unwrap().files[0].id.ends_with("_job.jar"));
    let metrics = client.job_metrics("j", &["numRestarts", "uptime"]).await.unwrap();
    assert_eq!(metrics["numRestarts"], 2.0);
}

#[tokio::test]
async fn the_bundled_coordinators_extras_are_read() {
    let executors = r#"{"taskmanagers":[{"id":"executor-1","stormproof":{"pid":4242,"partitions":3}}]}"#;
    let vertex = r#"{"subtasks":[{"attempt":1,"taskmanager-id":"(unassigned)","stormproof":{"failure":"boom"}}]}"#;
    let job = r#"{"vertices":[{"id":"a","name":"read"},{"id":"b","name":"count"}],"plan":{"nodes":[{"id":"b","inputs":
        [{"id":"a","num":0,"exchange":"blocking","ship_strategy":"HASH","stormproof":{"data-set":2}}]}]}}"#;
    let (_server, client) = serving(&[
        ("GET /taskmanagers", (200, executors.into())),
        ("GET /jobs/j/vertices/v", (200, vertex.into())),
        ("GET /jobs/j", (200, job.into())),
    ])
    .await;
    let extra = client.taskmanagers().await.unwrap().taskmanagers.remove(0).stormproof.unwrap();
    assert_eq!((extra.pid, extra.partitions), (Some(4242), Some(3)));
    let attempt = client.vertex("j", "v").await.unwrap().subtasks.remove(0);
    assert_eq!(attempt.executor(), None);
    assert_eq!(attempt.stormproof.unwrap().failure.as_deref(), Some("boom"));
    assert_eq!(client.job("j").await.unwrap().observed_plan().edges[0].data_set, Some(2));
}

#[tokio::test]
async fn checkpoints_are_read_or_not_there_yet() {
    for version in ["1.13.6", "2.3.0"] {
        let route = ("GET /jobs/j/checkpoints", sample(version, "ha_job_checkpoints_after_jm_restart"));
        let (_server, client) = serving(&[route]).await;
        let checkpoints = client.checkpoints("j").await.unwrap();
        assert_eq!(checkpoints.counts.restored, 1, "{version}");
        let restored = checkpoints.latest.restored.unwrap();
        assert!(checkpoints.history.iter().all(|entry| entry.id > restored.id && entry.status == "COMPLETED"));
    }
    let route = ("GET /jobs/j/checkpoints", sample("1.14.6", "ha_job_checkpoints_INITIALIZING"));
    let (_server, client) = serving(&[route]).await;
    assert_eq!(client.checkpoints("j").await.unwrap().summary.state_size.p99, None, "\"NaN\" is no number");
    let route = ("GET /jobs/j/checkpoints", sample("1.20.5", "ha_job_checkpoints_INITIALIZING"));
    let (_server, client) = serving(&[route]).await;
    let error = client.checkpoints("j").await.unwrap_err();
    assert!(matches!(error, RestError::Initializing { .. }) && error.is_transient(), "{error}");
}

#[tokio::test]
async fn the_state_is_found_without_its_own_path() {
    let status_call = format!("GET /jobs/{JOB}/status");
    for version in ["1.13.6", "2.3.0"] {
        let (_server, client) = serving(&[
            (&status_call, sample(version, "stream_end_job_status")),
            ("GET /jobs/overview", sample(version, "cluster_jobs_overview")),
        ])
        .await;
        assert_eq!(client.status(JOB).await.unwrap(), "RUNNING", "{version}");
    }
}

#[tokio::test]
async fn a_job_is_run_and_cancelled() {
    let (server, client) = serving(&[
        ("POST /jars/word-count/run", sample("2.3.0", "post_jars_run")),
        ("PATCH /jobs/j", sample("2.3.0", "patch_job_cancel")),
    ])
    .await;
    let request = RunRequest {
        program_args_list: vec!["--lines".into(), "10".into()],
        flink_configuration: [("restart-strategy.type".to_owned(), "none".to_owned())].into(),
        job_id: Some(JOB.into()),
    };
    assert_eq!(client.run_jar("word-count", &request).await.unwrap(), JOB);
    client.cancel("j").await.unwrap();
    let body = r#"{"programArgsList":["--lines","10"],"flinkConfiguration":{"restart-strategy.type":"none"},"jobId":"00000000000000000000000000c0ffee"}"#;
    assert_eq!(server.asked(), [format!("POST /jars/word-count/run {body}"), "PATCH /jobs/j?mode=cancel".into()]);
}

#[tokio::test]
async fn refusals_are_lasting() {
    let again = sample("2.3.0", "post_jars_run_same_jobid_again");
    let (_server, client) =
        serving(&[("POST /jars/x/run", again), ("GET /jobs/f", sample("2.3.0", "job_unknown"))]).await;
    let error = client.run_jar("x", &RunRequest::default()).await.unwrap_err();
    assert!(matches!(error, RestError::Status { status: 400, .. }) && !error.is_transient(), "{error}");
    let error = client.job("f").await.unwrap_err();
    assert!(matches!(error, RestError::NotFound { electing: false, .. }), "{error}");
    assert!(error.to_string().ends_with("Job ffffffffffffffffffffffffffffffff not found"), "{error}");
}

/// An address where nobody listens.
async fn nowhere() -> String {
    let server = Server::start().await;
    server.url.clone()
}

#[tokio::test]
async fn the_leader_is_found_and_kept() {
    let (standby, leader) = (Server::start().await, Server::start().await);
    let election = sample("2.3.0", "ha_jm_restart_503_leader_election");
    standby.answer("GET /overview", election.0, &election.1);
    leader.answer("GET /overview", 200, "{}");
    let client = RestClient::new(vec![nowhere().await, standby.url.clone(), leader.url.clone()]).unwrap();
    client.overview().await.unwrap();
    client.overview().await.unwrap();
    assert_eq!(client.leader(), leader.url);
    assert_eq!((standby.asked().len(), leader.asked().len()), (1, 2), "it does not ask the standby again");

    leader.answer("GET /overview", 503, "");
    standby.answer("GET /overview", 200, "{}");
    client.overview().await.unwrap();
    assert_eq!(client.leader(), standby.url, "the other one leads now");
}

#[tokio::test]
async fn while_nobody_leads_the_error_is_transient_and_a_404_is_not_believed() {
    let (one, two) = (Server::start().await, Server::start().await);
    let election = sample("2.3.0", "ha_jm_restart_503_leader_election");
    one.answer("GET /jobs/j", election.0, &election.1);
    let client = RestClient::new(vec![one.url.clone(), two.url.clone()]).unwrap();
    // `two` leads already but has not recovered the job: 404.
    let error = client.job("j").await.unwrap_err();
    assert!(matches!(error, RestError::NotFound { electing: true, .. }) && error.is_transient(), "{error}");
    two.answer("GET /jobs/j", 503, "");
    let error = client.job("j").await.unwrap_err();
    assert!(matches!(error, RestError::NoLeader { .. }), "{error}");
    let client = RestClient::new(vec![nowhere().await, nowhere().await]).unwrap();
    let error = client.job("j").await.unwrap_err();
    assert!(matches!(error, RestError::Unreachable { .. }) && error.is_transient(), "{error}");
}

#[tokio::test]
async fn a_submission_that_may_have_worked_is_not_sent_twice() {
    let (breaks, other) = (Server::start().await, Server::start().await);
    breaks.answer("POST /jars/x/run", 0, "");
    other.answer("POST /jars/x/run", 200, r#"{"jobid":"1"}"#);
    let client = RestClient::new(vec![breaks.url.clone(), other.url.clone()]).unwrap();
    let error = client.run_jar("x", &RunRequest::default()).await.unwrap_err();
    assert!(matches!(error, RestError::Broken { .. }) && !error.is_certainly_undone(), "{error}");
    assert_eq!(other.asked().len(), 0);
    breaks.answer("POST /jars/x/run", 503, "");
    assert_eq!(client.run_jar("x", &RunRequest::default()).await.unwrap(), "1", "a standby certainly did nothing");
}

#[tokio::test]
async fn patience_waits_for_transient_errors_only() {
    let server = Server::start().await;
    server.answer("GET /overview", 503, "");
    let client = RestClient::new(vec![server.url.clone()]).unwrap();
    let limit = Duration::from_secs(20);
    let patient = client.patiently(limit, async |client| client.overview().await);
    let (result, ()) = tokio::join!(patient, async {
        while server.asked().len() < 3 {
            tokio::task::yield_now().await;
        }
        server.answer("GET /overview", 200, r#"{"taskmanagers":7}"#);
    });
    assert_eq!(result.unwrap().taskmanagers, 7);
    server.answer("GET /overview", 400, "");
    let asked = server.asked().len();
    client.patiently(limit, async |client| client.overview().await).await.unwrap_err();
    assert_eq!(server.asked().len(), asked + 1);
}

#[test]
fn addresses_are_checked() {
    for bad in ["", "localhost:8081", "ftp://x", "https://x:1"] {
        let error = RestClient::new(vec![bad.to_owned()]).unwrap_err();
        assert_eq!(error, RestError::Address(bad.into()));
    }
    assert!(RestClient::new(vec![]).is_err());
    assert_eq!(RestClient::new(vec!["http://h:1/".into()]).unwrap().leader(), "http://h:1");
}
