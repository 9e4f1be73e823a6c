//! The REST client: several coordinators, one of which leads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Client, Method};
use serde::Serialize;
use serde::de::DeserializeOwned;
use stormproof_coordinator::rest::ANSWERED_BY;
use tokio::time::Instant;

use super::checkpoints::Checkpoints;
use super::cluster::{Jars, Metric, Overview, Started, TaskManagers};
use super::error::RestError;
use super::job::{Attempt, Exceptions, JobDetail, JobStatusAnswer, JobsOverview, VertexDetail};

/// Longest time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time for one call to one coordinator, unless [`RestClient::with_timeout`] says otherwise.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// So long after a sign of changing leadership, an unknown job is not believed to be gone.
const SETTLE: Duration = Duration::from_secs(15);

/// Pause between tries of [`RestClient::patiently`].
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A client of one cluster. Clones share connections and the memory of who leads.
#[derive(Debug, Clone)]
pub struct RestClient {
    shared: Arc<Shared>,
    timeout: Duration,
}

#[derive(Debug)]
struct Shared {
    http: Client,
    coordinators: Vec<String>,
    /// Index of the coordinator that answered last.
    leader: AtomicUsize,
    disturbed: Mutex<Option<Instant>>,
}

/// A good answer.
struct Answer {
    bytes: Bytes,
    /// Index of the coordinator that gave it: one that does not lead may have asked another.
    by: usize,
}

/// What to run: the body of `POST /jars/:id/run`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRequest {
    /// Arguments of the program, e.g. `--parallelism`, `3`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub program_args_list: Vec<String>,
    /// Configuration by Flink's keys (1.17 and later).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub flink_configuration: BTreeMap<String, String>,
    /// Identifier to use: with it, a submission whose answer was lost can be told from one that never arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
}

impl RestClient {
    /// A client of the cluster with these coordinators, e.g. `http://127.0.0.1:8081`.
    ///
    /// # Errors
    /// If there is none, or one is not an `http` address.
    pub fn new(base_urls: Vec<String>) -> Result<Self, RestError> {
        if base_urls.is_empty() {
            return Err(RestError::Address(String::new()));
        }
        let mut coordinators = vec![];
        for url in base_urls {
            let plain = url.trim_end_matches('/');
            if reqwest::Url::parse(plain).is_ok_and(|parsed| parsed.scheme() == "http" && parsed.has_host()) {
                coordinators.push(plain.to_owned());
            } else {
                return Err(RestError::Address(url));
            }
        }
        let http = Client::builder().connect_timeout(CONNECT_TIMEOUT).no_proxy().build();
        let http = http.map_err(|error| RestError::Address(format!("{} ({error})", coordinators.join(", "))))?;
        let (leader, disturbed) = (AtomicUsize::new(0), Mutex::new(None));
        Ok(Self { shared: Arc::new(Shared { http, coordinators, leader, disturbed }), timeout: CALL_TIMEOUT })
    }

    /// The same client with another limit for one call to one coordinator.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { shared: Arc::clone(&self.shared), timeout }
    }

    /// Address of the coordinator that answered last; of the bundled ones, the one that leads.
    #[must_use]
    pub fn leader(&self) -> &str {
        &self.shared.coordinators[self.shared.leader.load(Ordering::Relaxed) % self.shared.coordinators.len()]
    }

    /// `GET /overview`.
    ///
    /// # Errors
    /// See [`RestError`]; so for every call below.
    pub async fn overview(&self) -> Result<Overview, RestError> {
        self.get("/overview").await
    }

    /// `GET /jobs/overview`.
    ///
    /// # Errors
    /// See [`RestError`].
    pub async fn jobs_overview(&self) -> Result<JobsOverview, RestError> {
        self.get("/jobs/overview").await
    }

    /// `GET /jobs/:id`.
    ///
    /// # Errors
    /// See [`RestError`].
    pub async fn job(&self, id: &str) -> Result<JobDetail, RestError> {
        self.get(&format!("/jobs/{id}")).await
    }

    /// The job's state: `GET /jobs/:id/status`, or `/jobs/overview` where that path does not exist (before 1.16).
    ///
    /// # Errors
    /// See [`RestError`].
    pub async fn status(&self, id: &str) -> Result<String, RestError> {
        let direct: Result<JobStatusAnswer, _> = self.get(&format!("/jobs/{id}/status")).await;
        match direct {
            Err(RestError::NotFound { path, message, electing }) if message.starts_with("Unable to load requested") => {
                let jobs = self.jobs_overview().await?.jobs;
                let found = jobs.into_iter().find(|job| job.jid == id).map(|job| job.state);
                found.ok_or(RestError::NotFound { path, message: format!("job {id} not found"), electing })
            }
            other => other.map(|answer| answer.status),
        }
    }

    /// `GET /jobs/:id/vertices/:vid`: the current attempt of each subtask.
    ///
    /// # Errors
    /// See [`RestError`].
    pub async fn vertex(&self, id: &str, vertex: &str) -> Result<VertexDetail, RestError> {
        self.get(&format!("/jobs/{id}/vertices/{vertex}")).await
    }

    /// One attempt, current or past (the coordinator keeps 16 past ones). `None` if it is not known (any more).
    ///
    /// # Errors
    /// See [`RestError`].
    pub async fn attempt(
        &self,
        id: &str,
        vertex: &str,
        subtask: u32,
        number: u32,
    ) -> Result<Option<Attempt>, RestError> {
        let path = format!("/jobs/{id}/vertices/{vertex}/subtasks/{subtask}/attempts/{number}");
        match self.get(&path).await {
            Ok(attempt) => Ok(Some(attempt)),
            Err(RestError::NotFound { electing: false, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Every attempt of one subtask that the coordinator still knows, oldest first, up to number `current`.
    ///
    /// # Errors
    /// See [`RestError`].
    pub async fn attempt_history(
        &self,
        id: &str,
        vertex: &str,
        subtask: u32,
        current: u32,
    ) -> Result<Vec<Attempt>, RestError> {
        let mut attempts = vec![];
        for number in 0..=current {
            attempts.extend(self.attempt(id, vertex, subtask, number).await?);
        }
        Ok(attempts)
    }

    /// `GET /jobs/:id/exceptions`.
    ///
    /// # Errors
    /// See [`RestError`].
    pub async fn exceptions(&self, id: &str) -> Result<Exceptions, RestError> {
        self.get(&format!("/jobs/{id}/exceptions?maxExceptions=100")).await
    }

    /// `GET /jobs/:id/checkpoints`.
    ///
    /// # Errors
    /// [`RestError::Initializing`] while the job is INITIALIZING on Flink 1.18 and later, and some seconds after.
    pub async fn checkpoints(&self, id: &str) -> Result<Checkpoints, RestError> {
        self.get(&format!("/jobs/{id}/checkpoints")).await
    }

    /// `GET /taskmanagers`.
    ///
    /// # Errors
    /// See [`RestError`].
    pub async fn taskmanagers(&self) -> Result<TaskManagers, RestError> {
        self.get("/taskmanagers").await
    }

    /// `GET /jars`.
    ///
    /// # Errors
    /// See [`RestError`].
    pub async fn jars(&self) -> Result<Jars, RestError> {
        self.get("/jars").await
    }

    /// Metrics of a job by name, e.g. `numRestarts`. Unknown ones are left out.
    ///
    /// # Errors
    /// See [`RestError`].
    pub async fn job_metrics(&self, id: &str, names: &[&str]) -> Result<BTreeMap<String, f64>, RestError> {
        let metrics: Vec<Metric> = self.get(&format!("/jobs/{id}/metrics?get={}", names.join(","))).await?;
        Ok(metrics.into_iter().filter_map(|metric| Some((metric.id, metric.value?))).collect())
    }

    /// `POST /jars/:id/run`; gives the job's identifier. It is sent again to another coordinator only if it certainly
    /// did nothing.
    ///
    /// # Errors
    /// See [`RestError`].
    pub async fn run_jar(&self, jar: &str, request: &RunRequest) -> Result<String, RestError> {
        let path = format!("/jars/{jar}/run");
        let body = serde_json::to_vec(request)
            .map_err(|error| RestError::Malformed { path: path.clone(), reason: error.to_string() })?;
        let answer = self.call(Method::POST, &path, Some(body.into())).await?;
        parse::<Started>(&path, &answer).map(|started| started.jobid)
    }

    /// `PATCH /jobs/:id?mode=cancel`. Returns once the request was taken, not once the job is CANCELED.
    ///
    /// # Errors
    /// [`RestError::Conflict`] if the job ended otherwise.
    pub async fn cancel(&self, id: &str) -> Result<(), RestError> {
        self.call(Method::PATCH, &format!("/jobs/{id}?mode=cancel"), None).await.map(drop)
    }

    /// Makes a call again and again while it fails for a reason that passes by itself, until `limit` is over.
    ///
    /// # Errors
    /// The first lasting error, or the last transient one.
    pub async fn patiently<T>(
        &self,
        limit: Duration,
        call: impl AsyncFn(&Self) -> Result<T, RestError>,
    ) -> Result<T, RestError> {
        let deadline = Instant::now() + limit;
        loop {
            match call(self).await {
                Err(error) if error.is_transient() && Instant::now() + RETRY_PAUSE < deadline => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                done => return done,
            }
        }
    }

    /// Any `GET` whose answer is JSON.
    ///
    /// # Errors
    /// See [`RestError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, RestError> {
        let answer = self.call(Method::GET, path, None).await?;
        parse(path, &answer)
    }

    /// Asks the coordinator that answered last; if it is gone or does not lead, the others in turn, each once.
    async fn call(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Bytes, RestError> {
        let count = self.shared.coordinators.len();
        let first = self.shared.leader.load(Ordering::Relaxed);
        let mut failures = vec![];
        for index in (0..count).map(|offset| (first + offset) % count) {
            let outcome = self.call_one(index, method.clone(), path, body.clone()).await;
            let repeatable = method != Method::POST;
            match outcome {
                Err(error) if self.is_about_leadership(&error) && (repeatable || error.is_certainly_undone()) => {
                    self.disturb();
                    failures.push((index, error));
                }
                outcome => {
                    let Answer { bytes, by } = outcome?;
                    if self.shared.leader.swap(by, Ordering::Relaxed) != by {
                        self.disturb();
                    }
                    return Ok(bytes);
                }
            }
        }
        Err(self.summary(path, failures))
    }

    async fn call_one(
        &self,
        index: usize,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Answer, RestError> {
        let url = format!("{}{path}", self.shared.coordinators[index]);
        let mut request = self.shared.http.request(method, url).timeout(self.timeout);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let exchange = async {
            let response = request.send().await?;
            let by = response.headers().get(ANSWERED_BY).and_then(|by| self.index_of(by.to_str().ok()?));
            Ok::<_, reqwest::Error>((response.status(), by, response.bytes().await?))
        };
        let (status, by, bytes) = exchange.await.map_err(|error| self.transport_error(path, &error))?;
        if status.is_success() {
            return Ok(Answer { bytes, by: by.unwrap_or(index) });
        }
        Err(RestError::of_status(path, status.as_u16(), &bytes, self.is_electing()))
    }

    /// The coordinator at `address`, `host:port`.
    fn index_of(&self, address: &str) -> Option<usize> {
        self.shared.coordinators.iter().position(|url| url.trim_start_matches("http://") == address)
    }

    fn transport_error(&self, path: &str, error: &reqwest::Error) -> RestError {
        let path = path.to_owned();
        if error.is_connect() {
            return RestError::Unreachable { path, reason: root_cause(error) };
        }
        if error.is_timeout() {
            return RestError::TimedOut { path, limit: self.timeout };
        }
        RestError::Broken { path, reason: root_cause(error) }
    }

    fn is_about_leadership(&self, error: &RestError) -> bool {
        match error {
            RestError::Unreachable { .. } | RestError::NoLeader { .. } | RestError::Broken { .. } => true,
            // A coordinator that hangs must not hide one that works.
            RestError::TimedOut { .. } => self.shared.coordinators.len() > 1,
            _ => false,
        }
    }

    /// One coordinator: its own error. Several: "no leader" if any of them said so, else the list.
    fn summary(&self, path: &str, mut failures: Vec<(usize, RestError)>) -> RestError {
        if let Some(position) = failures.iter().position(|(_, error)| matches!(error, RestError::NoLeader { .. })) {
            return failures.swap_remove(position).1;
        }
        if failures.len() == 1 {
            return failures.swap_remove(0).1;
        }
        let each = failures.iter().map(|(index, error)| format!("{}: {error}", self.shared.coordinators[*index]));
        RestError::Unreachable { path: path.to_owned(), reason: each.collect::<Vec<_>>().join("; ") }
    }

    fn disturb(&self) {
        *self.shared.disturbed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_electing(&self) -> bool {
        let disturbed = *self.shared.disturbed.lock().unwrap_or_else(PoisonError::into_inner);
        disturbed.is_some_and(|at| at.elapsed() < SETTLE)
    }
}

fn parse<T: DeserializeOwned>(path: &str, answer: &[u8]) -> Result<T, RestError> {
    serde_json::from_slice(answer)
        .map_err(|error| RestError::Malformed { path: path.to_owned(), reason: error.to_string() })
}

fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
