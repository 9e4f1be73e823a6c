//! Failure enrichers (FLIP-304, reference 3.4): labels that the user's own code puts on failures.
//!
//! An enricher is registered on the [`JobRegistry`](super::JobRegistry) and sees every failure that the scheduler
//! handles, the one that ends the job included. It runs beside the job's serial thread: labels appear on the entry of
//! the exception history when they are there, and never decide anything.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::ids::JobId;

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureScope {
    /// A task.
    Task,
    /// The job as a whole.
    Global,
}

/// A failure, as an enricher sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureReport {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub job_name: String,
    /// What failed.
    pub scope: FailureScope,
    /// Kind of failure, e.g. `PartitionNotFoundException`.
    pub name: String,
    /// Messages, outermost first.
    pub causes: Vec<String>,
    /// When, milliseconds since the epoch.
    pub at_ms: u64,
}

/// Labels, by key.
pub type FailureLabels = BTreeMap<String, String>;

/// Puts labels on failures.
///
/// It may take its time (up to ten seconds; what comes later is lost), and it may panic: then there are no labels.
pub trait FailureEnricher: Send + Sync {
    /// The keys of its labels. A label under any other key is dropped.
    fn output_keys(&self) -> BTreeSet<String>;

    /// Labels of one failure.
    fn labels(&self, failure: &FailureReport) -> FailureLabels;
}

/// Two enrichers want to set one label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("label `{0}` is set by another failure enricher; every key has one owner")]
pub struct LabelTaken(pub String);

/// An enricher and the keys that it has declared.
#[derive(Clone)]
pub(crate) struct RegisteredEnricher {
    keys: BTreeSet<String>,
    enricher: Arc<dyn FailureEnricher>,
}

impl RegisteredEnricher {
    /// Takes `enricher` if none of its keys is another's. Flink drops such an enricher and says so in its log.
    pub(crate) fn new(enricher: Arc<dyn FailureEnricher>, others: &[Self]) -> Result<Self, LabelTaken> {
        let keys = enricher.output_keys();
        match others.iter().find_map(|other| other.keys.intersection(&keys).next()) {
            Some(taken) => Err(LabelTaken(taken.clone())),
            None => Ok(Self { keys, enricher }),
        }
    }

    /// Its labels for `failure`: only declared ones, none if it panics.
    pub(crate) fn label(&self, failure: &FailureReport) -> FailureLabels {
        let asked = catch_unwind(AssertUnwindSafe(|| self.enricher.labels(failure)));
        let Ok(mut labels) = asked else {
            tracing::warn!(job = %failure.job, keys = ?self.keys, "a failure enricher panicked: no labels");
            return FailureLabels::new();
        };
        labels.retain(|key, _| {
            let declared = self.keys.contains(key);
            if !declared {
                tracing::warn!(job = %failure.job, key, "a failure enricher set a label that it had not declared");
            }
            declared
        });
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::JobRegistry;

    struct Fixed(&'static [&'static str], fn() -> FailureLabels);

    impl FailureEnricher for Fixed {
        fn output_keys(&self) -> BTreeSet<String> {
            self.0.iter().map(|key| (*key).to_owned()).collect()
        }

        fn labels(&self, _: &FailureReport) -> FailureLabels {
            self.1()
        }
    }

    fn labels_of(registry: &JobRegistry) -> Vec<FailureLabels> {
        let failure = FailureReport {
            job: JobId([7; 16]),
            job_name: "j".to_owned(),
            scope: FailureScope::Task,
            name: "TaskException".to_owned(),
            causes: vec!["no".to_owned()],
            at_ms: 1,
        };
        registry.enrichers().iter().map(|enricher| enricher.label(&failure)).collect()
    }

    // P097
    #[test]
    fn only_declared_labels_count_and_a_panic_costs_only_its_own() {
        let both = || FailureLabels::from(["type", "team"].map(|key| (key.to_owned(), "a".to_owned())));
        let mut registry = JobRegistry::default();
        registry.enrich_failures(Fixed(&["type"], both)).unwrap();
        registry.enrich_failures(Fixed(&["broken"], || panic!("told to"))).unwrap();
        registry.enrich_failures(Fixed(&["team"], both)).unwrap();
        let one = |key: &str| FailureLabels::from([(key.to_owned(), "a".to_owned())]);
        assert_eq!(labels_of(&registry), [one("type"), FailureLabels::new(), one("team")]);
    }

    #[test]
    fn a_key_has_one_owner() {
        let mut registry = JobRegistry::default();
        registry.enrich_failures(Fixed(&["a", "b"], FailureLabels::new)).unwrap();
        let refused = registry.enrich_failures(Fixed(&["c", "b"], FailureLabels::new));
        assert_eq!(refused, Err(LabelTaken("b".to_owned())));
        assert_eq!(labels_of(&registry).len(), 1, "the second was not taken");
    }
}
