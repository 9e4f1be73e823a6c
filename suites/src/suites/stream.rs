//! Suites on the streaming job: regions `numbers[i] → square[i] → squares[i]`, and one of `events`, `tally`,
//! `tallies`.

use stormproof::oracle::Expectation;
use stormproof::oracle::expectation::{ExactlyOnce, RecoveryTime, Responsive, RestartCount, StoreTraffic};
use stormproof::plan::{FAULTS_PLACEHOLDER, FaultSpec, OUTPUT_PLACEHOLDER, Plan, Trigger};
use stormproof::timeline::{Mark, Window};

use super::check;
use crate::jobs::stream::{NAME, PARALLELISM, Shape};

/// Most milliseconds without any answer of the control plane; a loaded machine included.
const MAX_GAP_MS: u64 = 2_000;

const SHAPE: Shape = Shape { records: 600, rate: 1000, keys: 7 };

pub(super) fn plans() -> Vec<Plan> {
    vec![control(), user_failure(), executor_killed(), failover_without_store(), recovery_blocked()]
}

fn plan(name: &str, about: &str) -> Plan {
    streams(&format!("stream::{name}"), about)
}

/// A streaming job whose output must be whole, under the suite `name`.
pub(super) fn streams(name: &str, about: &str) -> Plan {
    Plan::new(name, about, NAME)
        .param("output", OUTPUT_PLACEHOLDER)
        .param("faults", FAULTS_PLACEHOLDER)
        .param("records", SHAPE.records)
        .param("rate", SHAPE.rate)
        .param("keys", SHAPE.keys)
        .setting("execution.checkpointing.interval", "50 ms")
        .setting("execution.checkpointing.timeout", "5 s")
        .setting("execution.checkpointing.tolerable-failed-checkpoints", 1_000)
        .setting("restart-strategy.type", "fixed-delay")
        .setting("restart-strategy.fixed-delay.attempts", 5)
        .setting("restart-strategy.fixed-delay.delay", "10 ms")
        .expect(Expectation::job_ends("FINISHED"))
        .expect(Expectation::ExactlyOnce(ExactlyOnce { allow_doubled: false, min_expected: 2 * SHAPE.records }))
        .expect(Expectation::no_leftovers(["processes", "partitions", "objects", "uploads"]))
        .output(|output| check::stream(SHAPE, output))
}

pub(super) fn recovers(plan: Plan) -> Plan {
    plan.expect(Expectation::restart_set())
        .expect(Expectation::RecoveryTime(RecoveryTime::default()))
        .expect(Expectation::answers_within(MAX_GAP_MS))
}

/// Keeps the sources of a region from their end, so that a fault meets a job that is at work.
pub(super) fn held(plan: Plan, source: &str, until: Trigger) -> Plan {
    let hold = FaultSpec::HoldUserCode { vertex: source.to_owned(), subtasks: (0..PARALLELISM).collect() };
    plan.fault_until("hold", hold, Trigger::BeforeSubmission, until)
}

/// Records that are not in a checkpoint yet are at stake only once there is a checkpoint.
pub(super) fn checkpointed() -> Trigger {
    Trigger::All(vec![Trigger::AllTasksRunning, Trigger::CheckpointsCompleted(2)])
}

fn control() -> Plan {
    plan("control", "Nothing is broken: whatever is red here is not recovery's fault.")
        .expect(Expectation::RestartCount(RestartCount { max: Some(0), ..RestartCount::default() }))
        .expect(Expectation::answers_within(MAX_GAP_MS))
}

fn user_failure() -> Plan {
    let fail = FaultSpec::FailUserCode { vertex: "square".into(), subtask: 1 };
    let plan =
        plan("user_failure", "User code of square[1] fails: its region of three tasks restarts, the other two run on.");
    recovers(held(plan, "numbers", Trigger::fault_injected("fail")).fault("fail", fail, checkpointed()))
}

fn executor_killed() -> Plan {
    let kill = FaultSpec::KillExecutorOf { vertex: "tally".into(), subtask: 0 };
    let plan = plan(
        "executor_killed",
        "The executor of tally[0] is killed: every region that had a task there restarts from the last checkpoint, and no other.",
    );
    recovers(held(plan, "events", Trigger::fault_effective("kill")).fault("kill", kill, checkpointed()))
}

fn failover_without_store() -> Plan {
    let fail = FaultSpec::FailUserCode { vertex: "square".into(), subtask: 0 };
    let plan = plan(
        "failover_without_store",
        "User code fails while the checkpoint store is a black hole: the region restarts from memory, without one read of its checkpoint's metadata.",
    );
    let recovered = Trigger::All(vec![Trigger::fault_effective("fail"), Trigger::Recovered]);
    recovers(
        held(plan, "numbers", Trigger::fault_injected("fail"))
            .fault_until("blackhole", FaultSpec::BlackholeStore, checkpointed(), recovered)
            .fault("fail", fail, Trigger::fault_effective("blackhole")),
    )
    .expect(Expectation::StoreTraffic(StoreTraffic {
        op: Some("GetObject".to_owned()),
        key_contains: "_metadata".to_owned(),
        // A checkpoint that was being written when the store vanished may be read back, to learn whether it was.
        of_restored: true,
        max: Some(0),
        ..StoreTraffic::default()
    }))
}

fn recovery_blocked() -> Plan {
    let initializing = Trigger::All(vec![
        Trigger::fault_effective("kill"),
        Trigger::JobStatus("INITIALIZING".to_owned()),
        Trigger::ProbesSince { fault: "kill".to_owned(), count: 20 },
    ]);
    let after_kill =
        Window { from: Mark::FaultEffective("kill".to_owned()), to: Mark::FaultHealed("blackhole".to_owned()) };
    let plan = plan(
        "recovery_blocked",
        "The coordinator is killed while the checkpoint store is a black hole: the standby answers every call and says INITIALIZING until the store is back, then the job goes on from its newest checkpoint (FLINK-22483).",
    );
    held(plan, "numbers", Trigger::fault_effective("kill"))
        .standbys(1)
        .fault_until("blackhole", FaultSpec::BlackholeStore, checkpointed(), initializing)
        .fault("kill", FaultSpec::KillCoordinator, Trigger::fault_effective("blackhole"))
        .expect(Expectation::Responsive(Responsive {
            window: after_kill,
            max_gap_ms: Some(MAX_GAP_MS),
            allow_unanswered: true,
            must_see: vec!["INITIALIZING".to_owned()],
            ..Responsive::default()
        }))
        .expect(Expectation::StoreTraffic(StoreTraffic {
            op: Some("GetObject".to_owned()),
            key_contains: "_metadata".to_owned(),
            window: Window { from: Mark::FaultHealed("blackhole".to_owned()), to: Mark::End },
            min: 1,
            ..StoreTraffic::default()
        }))
}
