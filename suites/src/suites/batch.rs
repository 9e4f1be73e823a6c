//! Suites on the batch word count: `read` → `count` → `write`, all edges blocking, three subtasks each.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use stormproof::oracle::Expectation;
use stormproof::oracle::expectation::{RecoveryTime, Responsive, RestartCount};
use stormproof::plan::{FAULTS_PLACEHOLDER, FaultSpec, OUTPUT_PLACEHOLDER, OutputFacts, Plan, Trigger};

use super::check;
use crate::jobs::word_count::NAME;

/// Most milliseconds without any answer of the control plane; a loaded machine included.
const MAX_GAP_MS: u64 = 2_000;

/// The folder that is counted, and what the count must come to: worked out once, when first asked for.
#[derive(Clone)]
pub(super) struct Input {
    folder: PathBuf,
    expected: Arc<OnceLock<BTreeMap<String, u64>>>,
}

impl Input {
    pub(super) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), expected: Arc::default() }
    }

    fn check(&self, output: &Path) -> io::Result<OutputFacts> {
        let expected = match self.expected.get() {
            Some(expected) => expected,
            None => {
                let counted = check::expected_words(&self.folder)?;
                self.expected.get_or_init(|| counted)
            }
        };
        check::word_count(expected, output)
    }
}

pub(super) fn plans(folder: &Path) -> Vec<Plan> {
    let input = Input::of(folder);
    [control, user_failure, executor_killed, partition_dropped, coordinator_killed].map(|plan| plan(&input)).to_vec()
}

fn plan(name: &str, about: &str, input: &Input) -> Plan {
    counts(&format!("batch::{name}"), about, input)
}

/// A word count whose output must be whole.
pub(super) fn counts(name: &str, about: &str, input: &Input) -> Plan {
    let checked = input.clone();
    word_count(name, about, input)
        .expect(Expectation::job_ends("FINISHED"))
        .expect(Expectation::exactly_once())
        .output(move |output| checked.check(output))
}

/// A word count that leaves nothing behind, however it ends.
pub(super) fn word_count(name: &str, about: &str, input: &Input) -> Plan {
    Plan::new(name, about, NAME)
        .param("input", input.folder.display())
        .param("output", OUTPUT_PLACEHOLDER)
        .param("faults", FAULTS_PLACEHOLDER)
        .setting("restart-strategy.type", "fixed-delay")
        .setting("restart-strategy.fixed-delay.attempts", 5)
        .setting("restart-strategy.fixed-delay.delay", "10 ms")
        .expect(Expectation::no_leftovers(["processes", "partitions", "uploads"]))
}

/// Expects no restart, and answers all the while.
pub(super) fn is_undisturbed(plan: Plan) -> Plan {
    plan.expect(Expectation::RestartCount(RestartCount { max: Some(0), ..RestartCount::default() }))
        .expect(Expectation::answers_within(MAX_GAP_MS))
}

/// Expects exactly the restarts that the rule names, and answers all the while.
pub(super) fn recovers(plan: Plan) -> Plan {
    plan.expect(Expectation::restart_set())
        .expect(Expectation::RecoveryTime(RecoveryTime::default()))
        .expect(Expectation::answers_within(MAX_GAP_MS))
}

pub(super) fn all_of(vertex: &str) -> FaultSpec {
    FaultSpec::HoldUserCode { vertex: vertex.to_owned(), subtasks: vec![0, 1, 2] }
}

fn control(input: &Input) -> Plan {
    is_undisturbed(plan("control", "Nothing is broken: whatever is red here is not recovery's fault.", input))
}

fn user_failure(input: &Input) -> Plan {
    let fail = FaultSpec::FailUserCode { vertex: "count".into(), subtask: 1 };
    recovers(
        plan("user_failure", "User code of count[1] fails: count[1] runs again, and nothing upstream.", input)
            .fault_until("hold", all_of("count"), Trigger::BeforeSubmission, Trigger::fault_injected("fail"))
            .fault("fail", fail, Trigger::vertex("count", "RUNNING")),
    )
}

fn executor_killed(input: &Input) -> Plan {
    let kill = FaultSpec::KillExecutorOf { vertex: "count".into(), subtask: 0 };
    recovers(
        plan(
            "executor_killed",
            "The executor of count[0] is killed: its tasks run again, and so does every producer whose partition died with it.",
            input,
        )
        .fault_until("hold", all_of("count"), Trigger::BeforeSubmission, Trigger::fault_effective("kill"))
        .fault("kill", kill, Trigger::vertex("count", "RUNNING")),
    )
}

fn partition_dropped(input: &Input) -> Plan {
    let last = FaultSpec::HoldUserCode { vertex: "read".into(), subtasks: vec![2] };
    let drop = FaultSpec::DropPartitionOf { vertex: "read".into(), subtask: 0 };
    recovers(
        plan(
            "partition_dropped",
            "The output of read[0] vanishes before it is consumed: read[0] runs again, found by the consumers' failure.",
            input,
        )
        .fault_until("hold", last, Trigger::BeforeSubmission, Trigger::fault_effective("drop"))
        .fault("drop", drop, Trigger::task("read", 0, "FINISHED")),
    )
}

fn coordinator_killed(input: &Input) -> Plan {
    plan(
        "coordinator_killed",
        "The coordinator is killed while count runs: the standby runs the job again and its output is whole.",
        input,
    )
    .standbys(1)
    .fault_until("hold", all_of("count"), Trigger::BeforeSubmission, Trigger::fault_effective("kill"))
    .fault("kill", FaultSpec::KillCoordinator, Trigger::vertex("count", "RUNNING"))
    .expect(Expectation::Responsive(Responsive {
        max_gap_ms: Some(MAX_GAP_MS),
        allow_unanswered: true,
        min_probes: 1,
        ..Responsive::default()
    }))
}
