//! Failure enrichers (FLIP-304): labels on the exception history, whatever an enricher does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use stormproof_coordinator::core::status::JobStatus;
use stormproof_coordinator::graph::{FailureEnricher, FailureLabels, FailureReport, FailureScope};

use crate::fake::{FakeExecutor, Step, script};
use crate::support::{Setup, registry};

/// Sets `scope`, once it may.
struct Slow(Arc<AtomicBool>);

impl FailureEnricher for Slow {
    fn output_keys(&self) -> BTreeSet<String> {
        BTreeSet::from(["scope".to_owned()])
    }

    fn labels(&self, failure: &FailureReport) -> FailureLabels {
        while !self.0.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let scope = if failure.scope == FailureScope::Task { "task" } else { "global" };
        FailureLabels::from([("scope".to_owned(), scope.to_owned())])
    }
}

/// Sets `cause` to the innermost one.
struct Cause;

impl FailureEnricher for Cause {
    fn output_keys(&self) -> BTreeSet<String> {
        BTreeSet::from(["cause".to_owned()])
    }

    fn labels(&self, failure: &FailureReport) -> FailureLabels {
        FailureLabels::from([("cause".to_owned(), failure.causes.last().expect("a cause").clone())])
    }
}

// P058, P097: the enricher is still at work when the job has ended already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_appear_when_they_are_there_and_hold_nothing_up() {
    let go_on = Arc::new(AtomicBool::new(false));
    let mut registry = registry();
    registry.enrich_failures(Slow(Arc::clone(&go_on))).expect("keys are free");
    registry.enrich_failures(Cause).expect("keys are free");
    let settings = [
        ("restart-strategy.type", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "1"),
        ("restart-strategy.fixed-delay.delay", "0 ms"),
    ];
    let setup = Setup::new(registry, &settings);
    let coordinator = setup.lead().await;
    let fail = script(|vertex, _, _| if vertex == "reduce" { Step::Fail } else { Step::Finish });
    let _executor = FakeExecutor::start(coordinator.rpc(), "e1", 1, fail).await;
    let id = coordinator.submit("two-stage", &[]).await;
    coordinator.status(id, JobStatus::Failed).await;
    let cause = FailureLabels::from([("cause".to_owned(), "scripted failure".to_owned())]);
    let job = coordinator
        .fact(id, "one enricher has answered", |job| job.exceptions.iter().all(|entry| !entry.labels.is_empty()));
    let labels: Vec<_> = job.await.exceptions.iter().map(|entry| entry.labels.clone()).collect();
    assert_eq!(labels, [cause.clone(), cause], "the failure that was survived, and the one that was not");
    go_on.store(true, Ordering::SeqCst);
    coordinator
        .fact(id, "the other has answered", |job| job.exceptions.iter().all(|entry| entry.labels.len() == 2))
        .await;
    let (status, body) = coordinator.get(&format!("/jobs/{id}/exceptions?failureLabelFilter=scope:task")).await;
    let entries = body["exceptionHistory"]["entries"].as_array().expect("entries").clone();
    assert_eq!((status, entries.len()), (200, 2), "{body}");
    assert_eq!(entries[0]["failureLabels"], json!({ "cause": "scripted failure", "scope": "task" }));
    coordinator.stop().await;
}
