//! A cluster that is asked over REST.

use stormproof::explain::{ExplainError, Question, look};
use stormproof::flink::RestClient;

use super::samples::{details, sample};

#[path = "../rest/server.rs"]
mod server;

use server::Server;

async fn cluster() -> (Server, RestClient) {
    let server = Server::start().await;
    let job = sample("1.20.5", "batch_before_tm_kill_job").value;
    let id = job["jid"].as_str().unwrap();
    server.answer(&format!("GET /jobs/{id}"), 200, &job.to_string());
    for detail in details("1.20.5", "batch_before_tm_kill", 3) {
        let vertex = detail.value["id"].as_str().unwrap();
        server.answer(&format!("GET /jobs/{id}/vertices/{vertex}"), 200, &detail.value.to_string());
    }
    let overview = format!(r#"{{"jobs":[{{"jid":"old","state":"FINISHED"}},{{"jid":"{id}","state":"RUNNING"}}]}}"#);
    server.answer("GET /jobs/overview", 200, &overview);
    let client = RestClient::new(vec![server.url.clone()]).unwrap();
    (server, client)
}

#[tokio::test]
async fn the_job_that_runs_is_found_with_the_place_of_its_tasks() {
    let (server, client) = cluster().await;
    let picture = look(&client, None).await.unwrap();
    assert_eq!((picture.head().name.as_str(), picture.head().state.as_str()), ("chaos-batch", "RUNNING"));
    let lost = Question { executors: vec!["tm4".into()], ..Question::default() };
    assert_eq!(picture.explain(&lost).unwrap().certain().len(), 3);
    assert_eq!(server.asked().len(), 5, "{:?}", server.asked());
    let error = picture.explain(&Question { executors: vec!["tm7".into()], ..Question::default() }).unwrap_err();
    assert_eq!(error.to_string(), "no task is on executor `tm7`; did you mean `tm2`?");
}

#[tokio::test]
async fn a_job_that_is_not_there_is_named() {
    let (_server, client) = cluster().await;
    let error = look(&client, Some("c0ffee")).await.map(drop).unwrap_err();
    let ExplainError::Rest(error) = error else { panic!("{error}") };
    assert!(error.to_string().contains("/jobs/c0ffee"), "{error}");
}
