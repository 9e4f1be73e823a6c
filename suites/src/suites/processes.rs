//! Suites on processes that are slow, silent for a while, or end by themselves.

use std::path::Path;

use stormproof::oracle::Expectation;
use stormproof::oracle::expectation::RestartCount;
use stormproof::plan::{FaultSpec, Plan, Trigger};

use super::batch::{Input, all_of, counts, is_undisturbed, recovers};
use super::network::soon_given_up;
use super::stream::{self, checkpointed, streams};

/// Milliseconds after the submission: well before the executors give the coordinator up.
const HUNG_UNTIL_MS: u64 = 2_000;

pub(super) fn plans(folder: &Path) -> Vec<Plan> {
    let input = Input::of(folder);
    vec![executor_slow(&input), executor_hangs(), executor_exits(&input), coordinator_hangs(&input)]
}

/// `count` is held until `until`.
fn held(plan: Plan, until: Trigger) -> Plan {
    plan.fault_until("hold", all_of("count"), Trigger::BeforeSubmission, until)
}

fn executor_slow(input: &Input) -> Plan {
    let slow = FaultSpec::SlowExecutorOf { vertex: "count".into(), subtask: 0, percent: 20 };
    let about =
        "An executor gets a fifth of its time until the job has ended: that takes longer, and nothing runs again.";
    let plan = held(counts("executor::slow", about, input), Trigger::fault_effective("slow"));
    is_undisturbed(plan.fault("slow", slow, Trigger::vertex("count", "RUNNING")))
}

fn executor_hangs() -> Plan {
    let hang = FaultSpec::HangExecutorOf { vertex: "tally".into(), subtask: 0 };
    let about = "The executor of tally[0] falls silent: its tasks run again elsewhere, and what it goes on with later does no harm.";
    // By then it has been missed, and what it ran runs elsewhere.
    let recovered = || Trigger::All(vec![Trigger::fault_effective("hang"), Trigger::Recovered]);
    let plan = soon_given_up(stream::held(streams("executor::hangs", about), "events", recovered()));
    recovers(plan.fault_until("hang", hang, checkpointed(), recovered()))
}

fn executor_exits(input: &Input) -> Plan {
    let exit = FaultSpec::ExitExecutorOf { vertex: "count".into(), subtask: 0, code: 137 };
    let about = "The executor of count[0] exits by itself as if out of memory: what died with it runs again.";
    let plan = held(counts("executor::exits", about, input), Trigger::fault_effective("exit"));
    recovers(plan.fault("exit", exit, Trigger::vertex("count", "RUNNING")))
}

fn coordinator_hangs(input: &Input) -> Plan {
    let about =
        "The coordinator is silent for a while: it keeps its leadership, nothing runs again, and the output is whole.";
    let plan = held(counts("coordinator::hangs", about, input), Trigger::fault_healed("hang")).standbys(1);
    let running = Trigger::vertex("count", "RUNNING");
    plan.fault_until("hang", FaultSpec::HangCoordinator, running, Trigger::AfterMs(HUNG_UNTIL_MS))
        .expect(Expectation::RestartCount(RestartCount { max: Some(0), ..RestartCount::default() }))
}
