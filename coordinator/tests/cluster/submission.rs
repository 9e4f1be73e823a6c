//! What is refused, and how.

use stormproof_coordinator::core::status::JobStatus;
use stormproof_coordinator::graph::JobId;
use stormproof_coordinator::rest::cluster::SubmitError;
use stormproof_coordinator::runtime::{Coordinator, CoordinatorError};

use crate::support::{Setup, registry, submission};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_cannot_run_are_refused_and_nothing_is_recorded() {
    let setup = Setup::new(registry(), &[]);
    let coordinator = setup.lead().await;
    for (job, config, part) in [
        ("two-stages", ("restart-strategy.type", "none"), "there is no job called `two-stages`; known: "),
        ("two-stage", ("restart-strategy.typ", "none"), "did you mean `restart-strategy.type`?"),
        ("two-stage", ("restart-strategy.type", "sometimes"), "one of none, fixed-delay"),
        ("two-stage", ("heartbeat.timeout", "1 s"), "belongs to the cluster"),
        ("panics", ("restart-strategy.type", "none"), "the job's own function panicked"),
        ("stream", ("execution.checkpointing.interval", "1 s"), "no checkpoint store"),
        ("hybrid", ("execution.checkpointing.interval", "1 s"), "a job with a hybrid_full edge (`source` to `sink`)"),
    ] {
        let error = coordinator.cluster.submit(submission(job, &[config])).await.unwrap_err().to_string();
        assert!(error.contains(part), "{job}: {error}");
    }
    assert!(coordinator.cluster.jobs().is_empty());
    let recorded = std::fs::read_dir(setup.ha_dir().join("jobs")).map_or(0, Iterator::count);
    assert_eq!(recorded, 0);
    coordinator.stop().await;
}

// P254
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identifier_is_used_once_even_by_simultaneous_submissions() {
    let setup = Setup::new(registry(), &[]);
    let coordinator = setup.lead().await;
    let id = JobId([7; 16]);
    let submit = || {
        let cluster = coordinator.cluster.clone();
        tokio::spawn(async move {
            let submission = submission("two-stage", &[]);
            cluster.submit(stormproof_coordinator::rest::cluster::Submission { id: Some(id), ..submission }).await
        })
    };
    let (first, second) = (submit(), submit());
    let results = [first.await.unwrap(), second.await.unwrap()];
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    assert!(results.iter().any(|result| matches!(result, Err(SubmitError::Duplicate(duplicate)) if *duplicate == id)));
    // Also once it has ended.
    coordinator.cluster.cancel(id).await.unwrap();
    coordinator.status(id, JobStatus::Canceled).await;
    assert!(matches!(submit().await.unwrap(), Err(SubmitError::Duplicate(_))));
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_with_a_wrong_configuration_does_not_start() {
    for (key, value) in [
        ("heartbeat.timout", "1 s"),
        ("heartbeat.timeout", "1 s"),
        ("restart-strategy.exponential-delay.backoff-multiplier", "0.5"),
    ] {
        let setup = Setup::new(registry(), &[(key, value), ("restart-strategy.type", "exponential-delay")]);
        let error = Coordinator::bind(setup.config("c"), setup.registry.clone()).await.err();
        assert!(matches!(error, Some(CoordinatorError::Config(_))), "{key}: {error:?}");
    }
    let setup = Setup::new(registry(), &[]);
    let first = setup.lead().await;
    let mut config = setup.config("coordinator-2");
    config.rpc_address = first.rpc().to_owned();
    let error = Coordinator::bind(config, setup.registry.clone()).await.err().unwrap();
    assert!(error.to_string().contains("choose another address"), "{error}");
    first.stop().await;
}
