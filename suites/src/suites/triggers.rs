//! Suites of which the point is the moment: faults that begin and end at facts other than the job's own states.

use stormproof::oracle::Expectation;
use stormproof::oracle::expectation::RestartCount;
use stormproof::plan::{FaultSpec, Plan, Trigger};

use super::stream::{held, recovers, streams};

pub(super) fn plans() -> Vec<Plan> {
    vec![nth_store_request(), bytes_through_the_link(), checkpoint_under_way()]
}

/// User code of `square[1]` fails at `moment`; the sources are held from their end until then.
fn failing(plan: Plan, moment: Trigger) -> Plan {
    let fail = FaultSpec::FailUserCode { vertex: "square".into(), subtask: 1 };
    let moment = Trigger::All(vec![Trigger::AllTasksRunning, moment]);
    recovers(held(plan, "numbers", Trigger::fault_injected("fail")).fault("fail", fail, moment))
}

fn nth_store_request() -> Plan {
    let about = "User code fails when the store has taken the metadata of a third checkpoint: one region restarts.";
    failing(streams("trigger::nth_store_request", about), Trigger::store_requests("PutObject", "*/_metadata", 3))
}

fn bytes_through_the_link() -> Plan {
    let about = "User code fails 50 ms after 20 kB have passed the store's link, or at the 500th checkpoint: one region restarts.";
    let moment = Trigger::Any(vec![Trigger::LinkBytes(20_000).after_ms(50), Trigger::CheckpointsTriggered(500)]);
    failing(streams("trigger::bytes_through_the_link", about), moment)
}

fn checkpoint_under_way() -> Plan {
    let about = "The store is a black hole from the middle of a checkpoint until that has failed: nothing restarts, and the output is whole.";
    let plan = streams("trigger::checkpoint_under_way", about).setting("execution.checkpointing.timeout", "500 ms");
    // A barrier waits behind the records that a held task does not take, so that a checkpoint is found under way.
    let stall = FaultSpec::HoldUserCode { vertex: "tally".into(), subtasks: vec![0] };
    let under_way = Trigger::All(vec![Trigger::fault_effective("stall"), Trigger::CheckpointInProgress]);
    held(plan, "numbers", Trigger::fault_healed("blackhole"))
        .fault_until("stall", stall, Trigger::CheckpointsCompleted(1), Trigger::fault_effective("blackhole"))
        .fault_while("blackhole", FaultSpec::BlackholeStore, under_way)
        .expect(Expectation::RestartCount(RestartCount { max: Some(0), ..RestartCount::default() }))
}
