use super::*;
use crate::target::Capability;
use crate::timeline::{Losses, ObservedPlan, ObservedVertex};

fn facts(kinds: impl IntoIterator<Item = RecordKind>) -> Facts {
    let mut facts = Facts::default();
    for (seq, kind) in kinds.into_iter().enumerate() {
        facts.take(&Record { seq: seq as u64, at_ms: 10 * seq as u64, wall_ms: 0, kind });
    }
    facts
}

fn plan(parallelism: u32) -> RecordKind {
    let vertices = vec![ObservedVertex { name: "count".into(), parallelism }];
    RecordKind::Plan { job: "j".into(), plan: ObservedPlan { vertices, edges: vec![] } }
}

fn status(status: &str) -> RecordKind {
    RecordKind::JobStatus { job: "j".into(), status: status.into() }
}

fn task(subtask: u32, attempt: u32, state: &str) -> RecordKind {
    let task = TaskName::new("count", subtask);
    RecordKind::TaskState { job: "j".into(), task, attempt, state: state.into(), executor: None }
}

#[test]
fn a_vertex_waits_for_all_its_subtasks() {
    let running = Trigger::vertex("count", "RUNNING");
    let one = [plan(2), task(0, 0, "RUNNING")];
    assert!(!running.holds(&facts(one.clone())), "only one of two");
    assert!(Trigger::task("count", 0, "RUNNING").holds(&facts(one.clone())));
    assert!(running.holds(&facts(one.into_iter().chain([task(1, 0, "RUNNING")]))));
    assert!(!running.holds(&facts([task(0, 0, "RUNNING")])), "the plan is not known");
}

#[test]
fn recovered_needs_a_restart() {
    let before = [plan(1), status("RUNNING"), task(0, 0, "RUNNING")];
    assert!(Trigger::AllTasksRunning.holds(&facts(before.clone())));
    assert!(!Trigger::Recovered.holds(&facts(before.clone())));
    let failed = before.into_iter().chain([task(0, 0, "FAILED"), status("RESTARTING")]);
    assert!(!Trigger::Recovered.holds(&facts(failed.clone())));
    let again = failed.chain([status("RUNNING"), task(0, 1, "RUNNING")]);
    assert!(Trigger::Recovered.holds(&facts(again)));
}

#[test]
fn checkpoints_are_counted_from_the_heal() {
    let completed = |id| RecordKind::Checkpoint { job: "j".into(), id, event: CheckpointEvent::Completed { bytes: 0 } };
    let healed = RecordKind::Fault { fault: "hole".into(), event: FaultEvent::HealVerified };
    let trigger = Trigger::CheckpointsSinceHealed { fault: "hole".into(), count: 1 };
    assert!(!trigger.holds(&facts([completed(1), healed.clone()])));
    assert!(trigger.holds(&facts([completed(1), healed, completed(2)])));
}

#[test]
fn time_counts_from_the_submission() {
    let submitted = RecordKind::JobSubmitted { job: "j".into(), name: "n".into() };
    let mut facts = facts([status("RUNNING"), submitted]);
    assert!(!Trigger::AfterMs(5).holds(&facts));
    facts.at(15);
    assert!(Trigger::AfterMs(5).holds(&facts));
}

#[test]
fn all_means_all() {
    let acts = RecordKind::Fault { fault: "kill".into(), event: FaultEvent::Effective { losses: Losses::default() } };
    let both = Trigger::All(vec![Trigger::fault_effective("kill"), Trigger::JobStatus("RESTARTING".into())]);
    assert!(!both.holds(&facts([acts.clone()])));
    assert!(both.holds(&facts([acts, status("RESTARTING")])));
    assert_eq!(both.to_string(), "when `kill` acts and when the job is RESTARTING");
}

fn at(seq: u64, at_ms: u64, kind: RecordKind) -> Record {
    Record { seq, at_ms, wall_ms: 0, kind }
}

fn request(operation: &str, key: &str) -> RecordKind {
    RecordKind::StoreRequest { op: operation.into(), key: key.into(), status: 200, bytes: 1 }
}

#[test]
fn a_checkpoint_is_in_progress_from_its_trigger_to_its_end() {
    let event = |id, event| RecordKind::Checkpoint { job: "j".into(), id, event };
    let failed = CheckpointEvent::Failed { message: String::new() };
    let first = [event(1, CheckpointEvent::Triggered)];
    let second = [event(1, CheckpointEvent::Completed { bytes: 0 }), event(2, CheckpointEvent::Triggered)];
    let both: Vec<_> = first.iter().chain(&second).cloned().collect();
    assert!(Trigger::CheckpointInProgress.holds(&facts(first)));
    assert!(Trigger::CheckpointInProgress.holds(&facts(both.clone())), "the second is");
    assert!(Trigger::CheckpointsTriggered(2).holds(&facts(both.clone())));
    assert!(!Trigger::CheckpointsTriggered(3).holds(&facts(both.clone())));
    let over = both.into_iter().chain([event(2, failed)]);
    assert!(!Trigger::CheckpointInProgress.holds(&facts(over)));
}

#[test]
fn the_nth_store_request_of_a_kind_is_counted_by_operation_and_key() {
    let third = Trigger::store_requests("PutObject", "*/chk-*", 3);
    let records = [
        request("PutObject", "j/chk-1/a"),
        request("PutObject", "j/shared/a"),
        request("GetObject", "j/chk-1/a"),
        request("PutObject", "j/chk-1/b"),
    ];
    let mut facts = Facts::watching([&third]);
    records.into_iter().zip(0..).for_each(|(kind, seq)| facts.take(&at(seq, seq, kind)));
    assert!(!third.holds(&facts));
    facts.take(&at(4, 4, request("PutObject", "j/chk-1/a")));
    assert!(third.holds(&facts));
    assert_eq!(third.needs(), [Capability::StoreRequests]);
}

#[test]
fn the_newest_answer_of_a_probe_counts() {
    let probe = |answer| RecordKind::Probe { probe: "job".into(), due_ms: 0, latency_us: 1, answer };
    let saw = |saw: &str| probe(ProbeAnswer::Answered { saw: saw.into() });
    let initializing = Trigger::ProbeAnswer("INITIALIZING".into());
    assert!(initializing.holds(&facts([saw("RUNNING"), saw("INITIALIZING")])));
    assert!(!initializing.holds(&facts([saw("INITIALIZING"), saw("RUNNING")])));
    let unavailable = probe(ProbeAnswer::Unavailable { error: "503".into() });
    assert!(!initializing.holds(&facts([saw("INITIALIZING"), unavailable])));
}

#[test]
fn bytes_through_the_link_are_taken_as_they_come() {
    let traffic = |bytes| RecordKind::LinkTraffic { bytes };
    assert!(!Trigger::LinkBytes(100).holds(&facts([traffic(99)])));
    assert!(Trigger::LinkBytes(100).holds(&facts([traffic(99), traffic(130)])));
    assert_eq!(Trigger::LinkBytes(1).not().needs(), [Capability::LinkTraffic], "parts count");
}

#[test]
fn after_counts_from_the_record_that_made_the_other_true_even_if_it_is_so_no_more() {
    let restarting = Trigger::JobStatus("RESTARTING".into());
    let after = restarting.clone().after_ms(50);
    let mut facts = Facts::watching([&after]);
    facts.take(&at(0, 100, status("RESTARTING")));
    facts.take(&at(1, 120, status("RUNNING")));
    assert!(!restarting.holds(&facts) && !after.holds(&facts));
    facts.at(149);
    assert!(!after.holds(&facts));
    facts.at(150);
    assert!(after.holds(&facts));
    assert_eq!((facts.held_since(&restarting), facts.held_since(&after)), (Some(100), Some(150)));
    assert_eq!(facts.held_since(&Trigger::Never), None, "nobody waits for it");
}

#[test]
fn a_moment_between_two_looks_is_not_missed() {
    let none = Trigger::CheckpointInProgress.not();
    let event = |id, event| RecordKind::Checkpoint { job: "j".into(), id, event };
    let mut facts = Facts::watching([&none]);
    facts.take(&at(0, 5, event(1, CheckpointEvent::Triggered)));
    let look = facts.looks();
    assert!(!facts.held_after(&none, look));
    facts.take(&at(1, 9, event(1, CheckpointEvent::Failed { message: String::new() })));
    facts.take(&at(2, 9, event(2, CheckpointEvent::Triggered)));
    assert!(!none.holds(&facts), "the next one is under way");
    assert!(facts.held_after(&none, look));
    assert!(!facts.held_after(&none, facts.looks()));
}

#[test]
fn any_and_not_combine() {
    let either = Trigger::Any(vec![Trigger::fault_injected("a"), Trigger::JobStatus("FAILED".into())]);
    assert_eq!(either.to_string(), "when `a` is in place or when the job is FAILED");
    assert!(!either.holds(&facts([status("RUNNING")])));
    assert!(either.clone().not().holds(&facts([status("RUNNING")])));
    assert!(either.holds(&facts([status("FAILED")])));
    assert_eq!(either.not().faults(), ["a"]);
}
