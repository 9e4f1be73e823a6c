//! Jobs by name and their parameters, and what else of the user's code a coordinator calls.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::enricher::{FailureEnricher, LabelTaken, RegisteredEnricher};
use super::job::{JobGraph, JobGraphError};

/// A job's parameters: `-p key=value` of `stormproof submit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(pub BTreeMap<String, String>);

/// A parameter is missing or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// No value and no default.
    #[error("parameter `{0}` is missing; add `-p {0}=…`")]
    Missing(String),
    /// One that the job does not have.
    #[error("job `{job}` has no parameter `{key}`; it has: {}", known.join(", "))]
    Unknown {
        /// The job.
        job: String,
        /// The parameter.
        key: String,
        /// All that it has.
        known: &'static [&'static str],
    },
    /// A value that does not parse.
    #[error("parameter `{key}` has the value `{value}`, which is not {expected}")]
    Invalid {
        /// The parameter.
        key: String,
        /// Its text.
        value: String,
        /// What it should be, e.g. `u32`.
        expected: &'static str,
    },
}

impl Params {
    /// The value of `key`, if given.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// When it is missing.
    pub fn require(&self, key: &str) -> Result<&str, ParamError> {
        self.get(key).ok_or_else(|| ParamError::Missing(key.to_owned()))
    }

    /// The value of `key` as a `T`, or `default` when it is not given.
    ///
    /// # Errors
    /// When it is given and does not parse.
    pub fn parse_or<T: FromStr>(&self, key: &str, default: T) -> Result<T, ParamError> {
        match self.get(key) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| ParamError::Invalid {
                key: key.to_owned(),
                value: text.to_owned(),
                expected: std::any::type_name::<T>(),
            }),
        }
    }

    /// These parameters and one more.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.0.insert(key.into(), value.to_string());
        self
    }
}

/// Builds a job's graph. Must give the same graph for the same parameters in every process.
type JobFactory = Arc<dyn Fn(&Params) -> Result<JobGraph, JobGraphError> + Send + Sync>;

/// A job as it is registered.
#[derive(Clone)]
pub struct RegisteredJob {
    factory: JobFactory,
    params: Option<&'static [&'static str]>,
}

impl fmt::Debug for RegisteredJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredJob").field("params", &self.params).finish_non_exhaustive()
    }
}

impl RegisteredJob {
    /// Declares all parameters that the job has: any other is refused at submission. Without this nobody can tell a
    /// misspelt one, as tasks may ask for theirs when they run.
    pub fn has_params(&mut self, params: &'static [&'static str]) {
        self.params = Some(params);
    }

    fn check(&self, name: &str, given: &Params) -> Result<(), ParamError> {
        let Some(known) = self.params else { return Ok(()) };
        match given.0.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(ParamError::Unknown { job: name.to_owned(), key: key.clone(), known }),
        }
    }
}

/// The jobs that this binary knows, by name, and its failure enrichers.
#[derive(Clone, Default)]
pub struct JobRegistry {
    jobs: BTreeMap<String, RegisteredJob>,
    enrichers: Vec<RegisteredEnricher>,
}

impl JobRegistry {
    /// Adds a job. A second one of the same name replaces the first.
    ///
    /// ```
    /// use stormproof_coordinator::graph::{JobGraph, JobKind, JobRegistry, Params};
    ///
    /// let mut registry = JobRegistry::default();
    /// let job = |_: &Params| JobGraph::builder("nightly", JobKind::Batch).build();
    /// registry.register("nightly", job).has_params(&["day"]);
    /// let refused = registry.build("nightly", &Params::default().with("dya", "Monday")).unwrap_err();
    /// assert_eq!(refused.to_string(), "job `nightly` has no parameter `dya`; it has: day");
    /// ```
    pub fn register<F>(&mut self, name: impl Into<String>, factory: F) -> &mut RegisteredJob
    where
        F: Fn(&Params) -> Result<JobGraph, JobGraphError> + Send + Sync + 'static,
    {
        let job = RegisteredJob { factory: Arc::new(factory), params: None };
        self.jobs.entry(name.into()).insert_entry(job).into_mut()
    }

    /// Adds a failure enricher. It is asked about the failures of all jobs: being registered is what
    /// `jobmanager.failure-enrichers` is in Flink.
    ///
    /// # Errors
    /// When another enricher has declared one of its keys; then it is not added.
    pub fn enrich_failures(&mut self, enricher: impl FailureEnricher + 'static) -> Result<(), LabelTaken> {
        self.enrichers.push(RegisteredEnricher::new(Arc::new(enricher), &self.enrichers)?);
        Ok(())
    }

    pub(crate) fn enrichers(&self) -> &[RegisteredEnricher] {
        &self.enrichers
    }

    /// Names of all jobs, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.jobs.keys().map(String::as_str)
    }

    /// Builds job `name`.
    ///
    /// # Errors
    /// An unknown name or parameter (with the known ones), or whatever the job's own function refuses.
    pub fn build(&self, name: &str, params: &Params) -> Result<JobGraph, JobGraphError> {
        let job = self.jobs.get(name).ok_or_else(|| JobGraphError::UnknownJob {
            name: name.to_owned(),
            known: self.jobs.keys().cloned().collect(),
        })?;
        job.check(name, params)?;
        (job.factory)(params)
    }
}

impl fmt::Debug for JobRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.jobs.keys()).finish()
    }
}
