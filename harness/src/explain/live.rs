//! Pictures of live jobs.

use serde_json::Value;

use super::error::ExplainError;
use super::picture::Picture;
use super::rest::{Saved, text, whole};
use crate::flink::RestClient;
use crate::flink::job::JobSummary;

/// The job as it stands: `id`, or the one that runs if none is named.
///
/// # Errors
/// If the cluster does not answer, there is no such job, or not exactly one runs.
pub async fn look(client: &RestClient, id: Option<&str>) -> Result<Picture, ExplainError> {
    let id = match id {
        Some(id) => id.to_owned(),
        None => the_one(&client.jobs_overview().await?.jobs)?,
    };
    let call = format!("/jobs/{id}");
    let job = Saved { value: client.get(&call).await?, place: call };
    let mut details = vec![];
    for vertex in job.value.get("vertices").and_then(Value::as_array).into_iter().flatten() {
        let is_undecided = vertex.get("parallelism").and_then(whole) == Some(-1);
        if let Some(vertex) = text(vertex, "id").filter(|_| !is_undecided) {
            let call = format!("/jobs/{id}/vertices/{vertex}");
            details.push(Saved { value: client.get(&call).await?, place: call });
        }
    }
    Picture::of_rest(&job, &details)
}

/// The only job that has not ended.
fn the_one(jobs: &[JobSummary]) -> Result<String, ExplainError> {
    let is_over = |job: &&JobSummary| matches!(job.state.as_str(), "FINISHED" | "FAILED" | "CANCELED");
    let listed = |jobs: &[&JobSummary]| {
        jobs.iter().map(|job| format!("{} ({}, {})", job.jid, job.name, job.state)).collect::<Vec<_>>().join(", ")
    };
    let (over, open): (Vec<_>, Vec<_>) = jobs.iter().partition(is_over);
    match open[..] {
        [job] => Ok(job.jid.clone()),
        [] if over.is_empty() => Err(ExplainError::WhichJob("the cluster has no job".to_owned())),
        [] => Err(ExplainError::WhichJob(format!("no job is running; name one with --job: {}", listed(&over)))),
        _ => Err(ExplainError::WhichJob(format!("several jobs are running; name one with --job: {}", listed(&open)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_chosen_only_if_there_is_no_choice() {
        let job = |jid: &str, state: &str| JobSummary { jid: jid.into(), state: state.into(), ..JobSummary::default() };
        let choose = |jobs: &[JobSummary]| the_one(jobs).map_err(|error| error.to_string());
        assert_eq!(choose(&[job("a", "FINISHED"), job("b", "RESTARTING")]), Ok("b".to_owned()));
        assert_eq!(choose(&[]), Err("the cluster has no job".to_owned()));
        assert!(choose(&[job("a", "FAILED")]).unwrap_err().contains("--job: a"));
        assert!(choose(&[job("a", "RUNNING"), job("b", "CREATED")]).unwrap_err().contains("a (, RUNNING), b"));
    }
}
