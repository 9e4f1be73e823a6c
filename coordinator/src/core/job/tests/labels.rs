//! What failure enrichers are asked (reference 3.4).

use super::checkpoints;
use super::driver::*;
use super::failover::pairs;
use super::fixtures::*;
use crate::core::event::{FailureId, JobCommand};
use crate::core::job::JobSettings;
use crate::core::restart_strategy::RestartStrategyConfig;
use crate::core::status::JobStatus;
use crate::graph::{FailureReport, FailureScope};

/// The failures that enrichers were asked about since the last look.
fn asked(world: &mut World) -> Vec<(FailureId, FailureReport)> {
    let reports = world.log().into_iter().filter_map(|command| match command {
        JobCommand::LabelFailure(id, report) => Some((id, *report)),
        _ => None,
    });
    reports.collect()
}

fn running(settings: JobSettings) -> World {
    let mut world = World::start(spec(pairs(), settings), &[2]);
    world.run_all();
    world.log();
    world
}

// P057, P097
#[test]
fn each_handled_failure_is_asked_about_under_the_number_of_its_entry() {
    let mut world = running(restarting(0));
    world.fail("a", 0);
    world.pass(0);
    world.run_all();
    world.fail("b", 1);
    let asked = asked(&mut world);
    let told: Vec<_> = asked.iter().map(|(_, it)| (it.scope, it.name.as_str(), it.causes.as_slice())).collect();
    let boom = ["boom".to_owned()];
    assert_eq!(told, [(FailureScope::Task, "TaskException", boom.as_slice()); 2]);
    let picture = world.picture();
    let of_entries: Vec<_> = picture.exceptions.iter().map(|entry| (entry.id, entry.timestamp_ms)).collect();
    let expected: Vec<_> = asked.iter().rev().map(|(id, report)| (Some(*id), report.at_ms)).collect();
    assert_eq!(of_entries, expected, "newest first");
    assert_eq!((asked[0].1.job, &asked[0].1.job_name), (picture.id, &picture.name));
}

// P058
#[test]
fn a_failure_whose_restart_is_suppressed_is_asked_about_as_well() {
    let mut world = running(JobSettings { restart: RestartStrategyConfig::None, ..JobSettings::default() });
    world.fail("a", 0);
    assert_eq!(world.core.status(), JobStatus::Failed);
    let asked = asked(&mut world);
    let [(id, report)] = asked.as_slice() else { panic!("{asked:?}") };
    // The enricher hears the original cause; the entry tells what became of it.
    assert_eq!((report.scope, report.name.as_str()), (FailureScope::Task, "TaskException"));
    let entry = &world.picture().exceptions[0];
    assert_eq!((entry.id, entry.name.as_str()), (Some(*id), "JobException"));
}

// P062
#[test]
fn a_global_failure_is_asked_about_as_one() {
    let settings = JobSettings { checkpoint_timeout_ms: 50, tolerable_failed: 0, ..checkpoints::settings() };
    let mut world = checkpoints::running(settings);
    world.pass(100);
    world.pass(50);
    assert_eq!(world.core.status(), JobStatus::Restarting);
    let asked = asked(&mut world);
    let [(id, report)] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!((report.scope, report.name.as_str()), (FailureScope::Global, "CheckpointException"));
    assert_eq!(world.picture().exceptions[0].id, Some(*id));
}

// P097: one failure is one question, however many tasks it takes along; a merged one keeps its own number.
#[test]
fn a_merged_failure_has_a_number_and_a_bystander_has_none() {
    let restart = RestartStrategyConfig::ExponentialDelay {
        initial_ms: 100,
        max_ms: 60_000,
        multiplier: 2.0,
        reset_threshold_ms: 3_600_000,
        jitter: 0.0,
        attempts: None,
    };
    let mut world = running(JobSettings { restart, ..JobSettings::default() });
    world.fail("a", 0);
    world.pass(50);
    world.fail("b", 1);
    let ids: Vec<_> = asked(&mut world).into_iter().map(|(id, _)| Some(id)).collect();
    let picture = world.picture();
    let [root] = picture.exceptions.as_slice() else { panic!("{:?}", picture.exceptions) };
    let concurrent: Vec<_> = root.concurrent.iter().map(|entry| entry.id).collect();
    assert_eq!((root.id, concurrent), (ids[0], vec![ids[1]]));
}
