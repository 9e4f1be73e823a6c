//! Paths and their answers.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::data_sets;
use super::error::ApiError;
use super::forward::{Forward, by_the_leader};
use super::json::{attempts, checkpoints, executors, job, overview, vertex};
use super::submit;
use crate::config::{Settings, options};
use crate::core::event::Millis;
use crate::core::snapshot::{CheckpointStats, JobSnapshot, SubtaskSnapshot, VertexSnapshot};
use crate::core::status::JobStatus;
use crate::graph::{FailureLabels, JobId, VertexId};

/// Flink's default of `maxExceptions`.
const MAX_EXCEPTIONS: usize = 20;

pub(super) type Shared = State<Arc<dyn Cluster>>;
pub(super) type Answer = Result<Json<Value>, ApiError>;
pub(super) type Segments<T> = Result<Path<T>, PathRejection>;
type Arguments = Query<BTreeMap<String, String>>;

/// All paths, with and without `/v1`.
pub(super) fn router(cluster: Arc<dyn Cluster>, forward: Forward) -> Router {
    let api = Router::new()
        .route("/overview", get(cluster_overview))
        .route("/config", get(cluster_config))
        .route("/jobs", get(jobs))
        .route("/jobs/overview", get(jobs_overview))
        .route("/taskmanagers", get(taskmanagers))
        .route("/taskmanagers/{executor}", get(taskmanager))
        .merge(data_sets::routes())
        .route("/jars", get(jars))
        .route("/jars/{jar}/run", post(run_jar))
        .merge(job_routes());
    Router::new()
        .nest("/v1", api.clone())
        .merge(api)
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_path)
        .layer(from_fn_with_state(Arc::new(forward), by_the_leader))
        .with_state(cluster)
}

fn job_routes() -> Router<Arc<dyn Cluster>> {
    Router::new()
        .route("/jobs/{job}", patch(cancel).get(of_job(|job, _| job::details(job, now()))))
        .route("/jobs/{job}/status", get(of_job(|job, _| json!({ "status": job.status.name() }))))
        .route("/jobs/{job}/plan", get(of_job(|job, _| job::plan(job))))
        .route("/jobs/{job}/config", get(of_job(|job, _| job::config(job))))
        .route("/jobs/{job}/accumulators", get(of_job(|_, _| no_accumulators())))
        .route("/jobs/{job}/execution-result", get(of_job(|job, _| job::execution_result(job, now()))))
        .route("/jobs/{job}/metrics", get(of_job(metrics)))
        .route("/jobs/{job}/exceptions", get(exceptions))
        .route("/jobs/{job}/checkpoints", get(job_checkpoints))
        .route("/jobs/{job}/checkpoints/config", get(checkpoints_config))
        .route("/jobs/{job}/checkpoints/details/{checkpoint}", get(checkpoint_details))
        .route("/jobs/{job}/vertices/{vertex}", get(of_vertex(vertex::details)))
        .route("/jobs/{job}/vertices/{vertex}/subtasktimes", get(of_vertex(vertex::subtask_times)))
        .route("/jobs/{job}/vertices/{vertex}/taskmanagers", get(of_vertex(vertex::taskmanagers)))
        .route("/jobs/{job}/vertices/{vertex}/subtasks/{subtask}", get(subtask))
        .route("/jobs/{job}/vertices/{vertex}/subtasks/{subtask}/attempts/{attempt}", get(attempt))
}

async fn unknown_path(method: Method, uri: Uri) -> ApiError {
    let message = match method {
        Method::GET => "Unable to load requested file".to_owned(),
        _ => "Not found".to_owned(),
    };
    ApiError::new(StatusCode::NOT_FOUND, format!("{message}: {}", uri.path()))
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Path segments; only broken percent-encoding can make this fail.
pub(super) fn segments<T>(path: Segments<T>) -> Result<T, ApiError> {
    path.map(|Path(segments)| segments).map_err(|rejection| ApiError::bad_request(rejection.body_text()))
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, ApiError> {
    text.parse().map_err(|_| ApiError::parameter("path", name, text))
}

fn job_id(text: &str) -> Result<JobId, ApiError> {
    text.parse().map_err(|_| ApiError::parameter("path", "jobid", text))
}

fn find_job(cluster: &dyn Cluster, text: &str) -> Result<Arc<JobSnapshot>, ApiError> {
    let id = job_id(text)?;
    cluster.job(id).ok_or_else(|| ApiError::not_found(format_args!("Job {id} not found")))
}

fn find_vertex<'a>(job: &'a JobSnapshot, text: &str) -> Result<&'a VertexSnapshot, ApiError> {
    let id: VertexId = text.parse().map_err(|_| ApiError::parameter("path", "vertexid", text))?;
    let found = job.vertices.iter().find(|vertex| vertex.id == id);
    found.ok_or_else(|| ApiError::not_found(format_args!("No vertex with ID '{id}' exists.")))
}

fn find_subtask<'a>(vertex: &'a VertexSnapshot, text: &str) -> Result<(usize, &'a SubtaskSnapshot), ApiError> {
    let index: usize = number("subtaskindex", text)?;
    let found = vertex.subtasks.get(index).map(|subtask| (index, subtask));
    found.ok_or_else(|| ApiError::not_found(format_args!("Invalid subtask index for vertex {}: {index}", vertex.id)))
}

/// A handler that shows a job.
fn of_job(
    show: fn(&JobSnapshot, &BTreeMap<String, String>) -> Value,
) -> impl Fn(Shared, Segments<String>, Arguments) -> std::future::Ready<Answer> + Clone + Send + Sync + 'static {
    move |State(cluster), path, Query(arguments)| {
        let answer = segments(path).and_then(|id| find_job(&*cluster, &id)).map(|job| Json(show(&job, &arguments)));
        std::future::ready(answer)
    }
}

/// A handler that shows a vertex.
fn of_vertex(
    show: fn(&VertexSnapshot, Millis) -> Value,
) -> impl Fn(Shared, Segments<(String, String)>) -> std::future::Ready<Answer> + Clone + Send + Sync + 'static {
    move |State(cluster), path| {
        let answer = segments(path).and_then(|(id, vertex)| {
            let job = find_job(&*cluster, &id)?;
            Ok(Json(show(find_vertex(&job, &vertex)?, now())))
        });
        std::future::ready(answer)
    }
}

async fn cluster_overview(State(cluster): Shared) -> Json<Value> {
    Json(overview::overview(&cluster.executors(), &cluster.jobs()))
}

async fn cluster_config(State(cluster): Shared) -> Json<Value> {
    Json(overview::config(&cluster.config()))
}

async fn jobs(State(cluster): Shared) -> Json<Value> {
    Json(overview::jobs(&cluster.jobs()))
}

async fn jobs_overview(State(cluster): Shared) -> Json<Value> {
    Json(overview::jobs_overview(&cluster.jobs(), now()))
}

fn no_accumulators() -> Value {
    json!({ "job-accumulators": [], "user-task-accumulators": [], "serialized-user-task-accumulators": {} })
}

fn metrics(job: &JobSnapshot, arguments: &BTreeMap<String, String>) -> Value {
    checkpoints::metrics(&checkpoints::job_metrics(job, now()), arguments.get("get").map(String::as_str))
}

/// `key:value`, several of them with commas between.
fn labels_of(text: &str) -> Option<FailureLabels> {
    let label = |label: &str| {
        let (key, value) = label.split_once(':')?;
        (!key.is_empty() && !value.is_empty()).then(|| (key.to_owned(), value.to_owned()))
    };
    text.split(',').map(label).collect()
}

async fn exceptions(State(cluster): Shared, path: Segments<String>, Query(arguments): Arguments) -> Answer {
    let job = find_job(&*cluster, &segments(path)?)?;
    let max = match arguments.get("maxExceptions") {
        None => MAX_EXCEPTIONS,
        Some(text) => text.parse().map_err(|_| ApiError::parameter("query", "maxExceptions", text))?,
    };
    let labels = match arguments.get("failureLabelFilter") {
        None => FailureLabels::new(),
        Some(text) => labels_of(text).ok_or_else(|| ApiError::parameter("query", "failureLabelFilter", text))?,
    };
    Ok(Json(job::exceptions(&job, max, &labels)))
}

/// What is known of the checkpoints of a job that takes some. While INITIALIZING there is nothing to know yet, which
/// is an answer, too (Flink from 1.18 on gives a 500).
fn checkpoint_stats(job: &JobSnapshot) -> Result<CheckpointStats, ApiError> {
    match &job.checkpoints {
        Some(stats) => Ok(stats.clone()),
        None if job.status == JobStatus::Initializing => Ok(CheckpointStats::default()),
        None => Err(ApiError::not_found(format_args!("Checkpointing is not enabled for this job ({}).", job.id))),
    }
}

async fn job_checkpoints(State(cluster): Shared, path: Segments<String>) -> Answer {
    let job = find_job(&*cluster, &segments(path)?)?;
    Ok(Json(checkpoints::checkpoints(&checkpoint_stats(&job)?)))
}

async fn checkpoints_config(State(cluster): Shared, path: Segments<String>) -> Answer {
    let job = find_job(&*cluster, &segments(path)?)?;
    checkpoint_stats(&job)?;
    Ok(Json(checkpoints::config(&job)))
}

async fn checkpoint_details(State(cluster): Shared, path: Segments<(String, String)>) -> Answer {
    let (job, checkpoint) = segments(path)?;
    let job = find_job(&*cluster, &job)?;
    let id: u64 = number("checkpointid", &checkpoint)?;
    let stats = checkpoint_stats(&job)?;
    let found = stats.history.iter().find(|entry| entry.id == id);
    let entry = found.ok_or_else(|| {
        ApiError::not_found(format_args!("Could not find checkpointing statistics for checkpoint {id}."))
    })?;
    Ok(Json(checkpoints::entry(entry)))
}

async fn subtask(State(cluster): Shared, path: Segments<(String, String, String)>) -> Answer {
    let (job, vertex, subtask) = segments(path)?;
    let job = find_job(&*cluster, &job)?;
    let (index, subtask) = find_subtask(find_vertex(&job, &vertex)?, &subtask)?;
    Ok(Json(attempts::details(index, &subtask.current, now())))
}

async fn attempt(State(cluster): Shared, path: Segments<(String, String, String, String)>) -> Answer {
    let (job, vertex, subtask, attempt) = segments(path)?;
    let job = find_job(&*cluster, &job)?;
    let (index, subtask) = find_subtask(find_vertex(&job, &vertex)?, &subtask)?;
    let wanted: u32 = number("attempt", &attempt)?;
    let mut all = subtask.earlier.iter().chain([&subtask.current]);
    let found = all.find(|attempt| attempt.attempt == wanted);
    let attempt = found
        .ok_or_else(|| ApiError::not_found(format_args!("Could not find attempt {wanted} of subtask {index}.")))?;
    Ok(Json(attempts::details(index, attempt, now())))
}

async fn taskmanagers(State(cluster): Shared) -> Json<Value> {
    Json(executors::list(&cluster.executors(), &cluster.jobs()))
}

async fn taskmanager(State(cluster): Shared, path: Segments<String>) -> Answer {
    let id = segments(path)?;
    let executors = cluster.executors();
    let found = executors.iter().find(|executor| executor.id.0 == id);
    let executor =
        found.ok_or_else(|| ApiError::not_found(format_args!("Could not find TaskExecutor with id {id}.")))?;
    Ok(Json(executors::details(executor, &cluster.jobs())))
}

async fn jars(State(cluster): Shared, headers: HeaderMap) -> Json<Value> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    Json(overview::jars(&format!("http://{host}"), &cluster.job_names()))
}

async fn run_jar(State(cluster): Shared, path: Segments<String>, body: Result<Bytes, BytesRejection>) -> Answer {
    let body = body.map_err(|rejection| ApiError::new(rejection.status(), rejection.body_text()))?;
    let submission = submit::parse(&segments(path)?, &body)?;
    let id = detached(write_timeout(&*cluster), async move { cluster.submit(submission).await }).await??;
    Ok(Json(json!({ "jobid": id, "applicationId": id })))
}

async fn cancel(
    State(cluster): Shared,
    path: Segments<String>,
    Query(arguments): Arguments,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let id = job_id(&segments(path)?)?;
    match arguments.get("mode").map(String::as_str) {
        None | Some("cancel") => {}
        Some("stop") => {
            let message =
                "The termination mode \"stop\" has been removed. Use POST /jobs/:jobid/stop, where it exists.";
            return Err(ApiError::new(StatusCode::PERMANENT_REDIRECT, message));
        }
        Some(other) => return Err(ApiError::parameter("query", "mode", other)),
    }
    detached(write_timeout(&*cluster), async move { cluster.cancel(id).await }).await??;
    Ok((StatusCode::ACCEPTED, Json(json!({}))))
}

/// How long a submission or a cancellation may take before the client is told 408: `web.timeout`.
fn write_timeout(cluster: &dyn Cluster) -> Duration {
    let settings = Settings::from_map(&cluster.config()).ok();
    Duration::from_millis(settings.and_then(|settings| settings.millis(&options::WEB_TIMEOUT)).unwrap_or(600_000))
}

/// Runs a change in a task of its own, so that it is not cut short when the client goes away or stops waiting.
async fn detached<T: Send + 'static>(
    timeout: Duration,
    change: impl Future<Output = T> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::time::timeout(timeout, tokio::spawn(change)).await {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(_)) => Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error.")),
        Err(_) => Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "still being worked on; look again later")),
    }
}
