//! The REST server over real sockets, before a cluster of fixed snapshots.

mod fixture;
mod forward;
mod shapes;

use std::sync::Arc;

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;

use self::fixture::{DATA_SET, FakeCluster, INIT, JOB, RELEASING};
use super::{RestError, RestServer};
use crate::graph::{JobId, Params, VertexId};

struct Running {
    server: RestServer,
    cluster: Arc<FakeCluster>,
    client: Client,
}

impl Running {
    async fn start() -> Self {
        let cluster = Arc::new(FakeCluster::new());
        let server = RestServer::start("127.0.0.1:0", cluster.clone(), watch::channel(None).1).await.unwrap();
        Self { server, cluster, client: Client::builder().no_proxy().build().unwrap() }
    }

    async fn call(&self, method: Method, path: &str, body: &str) -> (StatusCode, Value) {
        let path = path
            .replace("VERTEX", &VertexId::of_name("map").to_string())
            .replace("JOB", &JOB.to_string())
            .replace("INIT", &INIT.to_string());
        let url = format!("http://{}{path}", self.server.address());
        let answer = self.client.request(method, &url).body(body.to_owned()).send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error} in `{text}`")))
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.call(Method::GET, path, "").await
    }
}

fn error_of(answer: &Value) -> &str {
    answer["errors"][0].as_str().unwrap_or_else(|| panic!("no error in {answer}"))
}

#[tokio::test]
async fn answers_have_the_shape_of_flinks() {
    let running = Running::start().await;
    for (path, expected) in shapes::recorded() {
        let (status, answer) = running.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {answer}");
        assert_eq!(shapes::of(&answer), expected, "{path}");
        let (_, prefixed) = running.get(&format!("/v1{path}")).await;
        assert_eq!(shapes::of(&prefixed), expected, "/v1{path}");
    }
}

// P237, P249: while INITIALIZING every reading call answers at once, and says so.
#[tokio::test]
async fn a_job_that_initializes_reads_so_everywhere() {
    let running = Running::start().await;
    assert_eq!(running.get("/jobs/INIT/status").await.1, json!({ "status": "INITIALIZING" }));
    let (_, details) = running.get("/jobs/INIT").await;
    assert_eq!((&details["state"], &details["end-time"]), (&json!("INITIALIZING"), &json!(-1)));
    let entered = details["timestamps"].as_object().unwrap();
    let nonzero: Vec<_> = entered.iter().filter(|(_, at)| **at != 0).map(|(status, _)| status.as_str()).collect();
    assert_eq!(nonzero, ["INITIALIZING"]);
    let (_, overview) = running.get("/jobs/overview").await;
    let job = overview["jobs"].as_array().unwrap().iter().find(|job| job["jid"] == json!(INIT)).unwrap();
    assert_eq!((&job["last-modification"], &job["tasks"]["total"]), (&json!(0), &json!(0)));
    assert_eq!(running.get("/overview").await.1["jobs-running"], 2);
    assert_eq!(running.get("/jobs/INIT/checkpoints").await.0, StatusCode::OK);
    assert_eq!(running.get("/jobs/INIT/checkpoints/config").await.1["state_backend"], "Unknown");
    assert_eq!(running.get("/jobs/INIT/vertices/VERTEX").await.0, StatusCode::NOT_FOUND);
    assert_eq!(running.get("/jobs/INIT/checkpoints/details/1").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn values_come_from_the_snapshot() {
    let running = Running::start().await;
    let (_, vertex) = running.get("/jobs/JOB/vertices/VERTEX").await;
    let attempts: Vec<_> = vertex["subtasks"].as_array().unwrap().iter().map(|subtask| &subtask["attempt"]).collect();
    assert_eq!(attempts, [&json!(1), &json!(0)]);
    let (_, subtask) = running.get("/jobs/JOB/vertices/VERTEX/subtasks/0/attempts/0").await;
    assert_eq!((&subtask["status"], &subtask["stormproof"]["failure"]), (&json!("FAILED"), &json!("boom")));
    assert_eq!(
        (&subtask["start-time"], &subtask["end-time"], &subtask["duration"]),
        (&json!(120), &json!(150), &json!(30))
    );
    let durations = json!({ "CREATED": 10, "SCHEDULED": 10, "DEPLOYING": 10, "INITIALIZING": -1, "RUNNING": 20 });
    assert_eq!(subtask["status-duration"], durations);
    let (_, queued) = running.get("/jobs/JOB/vertices/VERTEX/subtasks/1").await;
    assert_eq!((&queued["taskmanager-id"], &queued["start-time"]), (&json!("(unassigned)"), &json!(-1)));
    let (_, times) = running.get("/jobs/JOB/vertices/VERTEX/subtasktimes").await;
    let (ran, queued) = (&times["subtasks"][0], &times["subtasks"][1]);
    assert_eq!(ran["duration"].as_u64().unwrap(), times["now"].as_u64().unwrap() - 201, "{ran}");
    assert_eq!((&queued["duration"], &queued["timestamps"]["CREATED"]), (&json!(-1), &json!(200)));
    let (_, metrics) = running.get("/jobs/JOB/metrics?get=numRestarts,nothing,numberOfCompletedCheckpoints").await;
    let expected = json!([
        { "id": "numRestarts", "value": "3" },
        { "id": "numberOfCompletedCheckpoints", "value": "40" },
    ]);
    assert_eq!(metrics, expected);
    let (_, plan) = running.get("/jobs/JOB/plan").await;
    let input = &plan["plan"]["nodes"][1]["inputs"][0];
    assert_eq!((&input["exchange"], &input["ship_strategy"]), (&json!("pipelined_bounded"), &json!("HASH")));
    assert_eq!(input["stormproof"]["data-set"], json!(0));
    let (_, config) = running.get("/jobs/JOB/config").await;
    let text = "Restart with fixed delay (";
    assert!(config["execution-config"]["restart-strategy"].as_str().unwrap().starts_with(text), "{config}");
    let (_, executor) = running.get("/taskmanagers/executor-1").await;
    assert_eq!((&executor["stormproof"]["pid"], &executor["assignedTasks"]), (&json!(4711), &json!(2)));
    assert_eq!(executor["allocatedSlots"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn exceptions_are_cut_as_asked() {
    let running = Running::start().await;
    let (_, all) = running.get("/jobs/JOB/exceptions").await;
    assert_eq!(all["exceptionHistory"]["entries"].as_array().unwrap().len(), 2);
    assert_eq!(all["exceptionHistory"]["truncated"], false);
    // The second one is global: it names no task.
    assert_eq!(all["exceptionHistory"]["entries"][1].get("taskName"), None);
    let (_, one) = running.get("/jobs/JOB/exceptions?maxExceptions=1").await;
    assert_eq!(one["exceptionHistory"]["entries"].as_array().unwrap().len(), 1);
    assert_eq!(one["exceptionHistory"]["truncated"], true);
}

// P119
#[tokio::test]
async fn exceptions_are_chosen_by_their_labels() {
    let running = Running::start().await;
    let done = "00000000000000000000000000000003";
    let labelled = vec![json!({ "type": "system", "team": "maps" })];
    for (filter, entries, truncated) in [
        ("failureLabelFilter=type:system", labelled.clone(), false),
        ("failureLabelFilter=type:system,team:maps", labelled.clone(), false),
        ("failureLabelFilter=type:system,team:streets", vec![], false),
        // What is filtered out is not what was cut off.
        ("maxExceptions=1&failureLabelFilter=type:system", labelled, false),
        ("maxExceptions=0&failureLabelFilter=type:system", vec![], true),
    ] {
        let (_, chosen) = running.get(&format!("/jobs/{done}/exceptions?{filter}")).await;
        let chosen = &chosen["exceptionHistory"];
        let found: Vec<_> =
            chosen["entries"].as_array().unwrap().iter().map(|it| it["failureLabels"].clone()).collect();
        assert_eq!((found, chosen["truncated"].as_bool()), (entries, Some(truncated)), "{filter}");
    }
}

#[tokio::test]
async fn errors_have_flinks_status() {
    let running = Running::start().await;
    let unknown = "f".repeat(32);
    for (path, status, text) in [
        (format!("/jobs/{unknown}"), 404, format!("NotFoundException: Job {unknown} not found")),
        (format!("/v1/jobs/{unknown}/status"), 404, "not found".into()),
        ("/jobs/coffee".into(), 400, "Cannot resolve path parameter (jobid) from value \"coffee\".".into()),
        ("/jobs/JOB/vertices/x".into(), 400, "vertexid".into()),
        (format!("/jobs/JOB/vertices/{unknown}"), 404, "No vertex".into()),
        ("/jobs/JOB/vertices/VERTEX/subtasks/9".into(), 404, "subtask index".into()),
        ("/jobs/JOB/vertices/VERTEX/subtasks/-1".into(), 400, "subtaskindex".into()),
        ("/jobs/JOB/vertices/VERTEX/subtasks/0/attempts/7".into(), 404, "attempt 7".into()),
        ("/jobs/JOB/checkpoints/details/1".into(), 404, "checkpoint 1".into()),
        ("/jobs/JOB/exceptions?maxExceptions=some".into(), 400, "maxExceptions".into()),
        ("/jobs/JOB/exceptions?failureLabelFilter=user".into(), 400, "failureLabelFilter".into()),
        ("/jobs/JOB/exceptions?failureLabelFilter=type:".into(), 400, "failureLabelFilter".into()),
        ("/jobs/00000000000000000000000000000003/checkpoints".into(), 404, "Checkpointing is not enabled".into()),
        ("/taskmanagers/nobody".into(), 404, "nobody".into()),
        ("/no/such/path".into(), 404, "Unable to load requested file".into()),
    ] {
        let (found, answer) = running.get(&path).await;
        assert_eq!(found.as_u16(), status, "{path}: {answer}");
        assert!(error_of(&answer).contains(&text), "{path}: {answer}");
    }
    let (status, answer) = running.call(Method::DELETE, "/jobs", "").await;
    assert_eq!((status, error_of(&answer)), (StatusCode::NOT_FOUND, "Not found: /jobs"));
}

#[tokio::test]
async fn nothing_is_answered_while_another_leads() {
    let running = Running::start().await;
    running.cluster.lead(false);
    for path in ["/overview", "/v1/jobs", "/jobs/JOB", "/jobs/JOB/checkpoints", "/config"] {
        let (status, answer) = running.get(path).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        let text = "Service temporarily unavailable due to an ongoing leader election. Please refresh.";
        assert_eq!(answer, json!({ "errors": [text] }), "{path}");
    }
    running.cluster.lead(true);
    assert_eq!(running.get("/overview").await.0, StatusCode::OK);
}

// P184
#[tokio::test]
async fn data_sets_are_listed_and_released() {
    let running = Running::start().await;
    let listed = json!([{ "id": DATA_SET, "isComplete": true }, { "id": RELEASING, "isComplete": false }]);
    assert_eq!(running.get("/datasets").await, (StatusCode::OK, json!({ "dataSets": listed })));
    let release = async |id: &str| running.call(Method::DELETE, &format!("/datasets/{id}"), "").await;
    let (status, answer) = release(&DATA_SET.to_string()).await;
    assert_eq!((status, answer), (StatusCode::ACCEPTED, json!({ "request-id": DATA_SET })));
    assert_eq!(running.cluster.released(), [DATA_SET]);
    assert_eq!(release("coffee").await.0, StatusCode::BAD_REQUEST);
    for (id, status, state) in [
        (RELEASING.to_string(), StatusCode::OK, json!("IN_PROGRESS")),
        ("7".repeat(32), StatusCode::OK, json!("COMPLETED")),
        (DATA_SET.to_string(), StatusCode::NOT_FOUND, Value::Null),
    ] {
        let (answered, answer) = running.get(&format!("/datasets/delete/{id}")).await;
        assert_eq!((answered, &answer["status"]["id"]), (status, &state), "{id}: {answer}");
    }
}

// P252
#[tokio::test]
async fn cancelling_answers_as_flink() {
    let running = Running::start().await;
    let cancel = async |path: &str| running.call(Method::PATCH, path, "").await;
    assert_eq!(cancel("/jobs/JOB?mode=cancel").await, (StatusCode::ACCEPTED, json!({})));
    assert_eq!(cancel("/v1/jobs/JOB").await.0, StatusCode::ACCEPTED);
    assert_eq!(running.cluster.cancelled(), [JOB, JOB]);
    let finished = "/jobs/00000000000000000000000000000003?mode=cancel";
    let (status, answer) = cancel(finished).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(error_of(&answer).contains("another terminal state (FINISHED)"), "{answer}");
    assert_eq!(cancel(&format!("/jobs/{}?mode=cancel", "f".repeat(32))).await.0, StatusCode::NOT_FOUND);
    assert_eq!(cancel("/jobs/JOB?mode=stop").await.0, StatusCode::PERMANENT_REDIRECT);
    assert_eq!(cancel("/jobs/JOB?mode=kill").await.0, StatusCode::BAD_REQUEST);
}

// P254
#[tokio::test]
async fn jobs_are_submitted_as_flinks_jars() {
    let running = Running::start().await;
    let run = async |jar: &str, body: &str| running.call(Method::POST, &format!("/jars/{jar}/run"), body).await;
    let body = r#"{"programArgsList": ["--records", "7"], "flinkConfiguration": {"a": "b"},
        "jobId": "00000000000000000000000000c0ffee"}"#;
    let (status, answer) = run("word%20count", body).await;
    let id: JobId = "00000000000000000000000000c0ffee".parse().unwrap();
    assert_eq!((status, &answer), (StatusCode::OK, &json!({ "jobid": id, "applicationId": id })));
    let submitted = running.cluster.submitted();
    assert_eq!(submitted[0].job, "word count");
    assert_eq!(submitted[0].params, Params::default().with("records", 7));
    let (status, answer) = run("word%20count", body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(error_of(&answer).contains("already been submitted"), "{answer}");
    let (status, answer) = run("nothing", "").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(error_of(&answer), "there is no job called `nothing`; known: word count");
    assert_eq!(run("word%20count", "{").await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_taken_port_is_one_clear_sentence() {
    let running = Running::start().await;
    let address = running.server.address().to_string();
    let error = RestServer::start(&address, running.cluster.clone(), watch::channel(None).1).await.unwrap_err();
    assert!(matches!(error, RestError::InUse(_)));
    let sentence = "is in use; stop what listens there, or use port 0 to have a free one chosen";
    assert_eq!(error.to_string(), format!("REST address {address} {sentence}"));
}

#[tokio::test]
async fn after_a_shutdown_nobody_listens() {
    let running = Running::start().await;
    assert_eq!(running.get("/overview").await.0, StatusCode::OK);
    let address = running.server.address();
    running.server.shutdown().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
