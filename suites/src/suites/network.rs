//! Suites on a network that is cut: between executors, and between them and the coordinator.

use stormproof::plan::{FaultSpec, Party, Plan, Trigger};

use super::batch::is_undisturbed;
use super::stream::{checkpointed, held, recovers, streams};

/// The executors and the coordinator give each other up after this silence. A loaded machine can keep a process waiting
/// for three seconds that was not broken at all.
const HEARTBEAT_TIMEOUT: &str = "6 s";

/// Answers of the control plane for which data is silent: a second, in which no checkpoint can be completed.
const SILENT_PROBES: u64 = 50;

pub(super) fn plans() -> Vec<Plan> {
    vec![executor_cut_off(), executor_unheard(), one_way(), coordinator_isolated()]
}

/// What is silent in `plan` is given up before it ends by itself.
pub(super) fn soon_given_up(mut plan: Plan) -> Plan {
    plan.cluster.settings.insert("heartbeat.timeout".to_owned(), HEARTBEAT_TIMEOUT.to_owned());
    plan
}

/// The executor of `tally[0]` is cut off from the coordinator until its tasks run elsewhere.
fn gives_up_executor(name: &str, about: &str, both_ways: bool) -> Plan {
    let (from, to) = (Party::executor_of("tally", 0), Party::LeadingCoordinator);
    let cut = FaultSpec::PartitionNetwork { from, to, both_ways };
    let recovered = || Trigger::All(vec![Trigger::fault_effective("cut"), Trigger::Recovered]);
    let plan = held(soon_given_up(streams(name, about)), "events", recovered());
    recovers(plan.fault_until("cut", cut, checkpointed(), recovered()))
}

fn executor_cut_off() -> Plan {
    let about = "The executor of tally[0] and the coordinator cannot reach each other, though both live: each gives the other up, its tasks run again elsewhere, and it joins again later.";
    gives_up_executor("network::executor_cut_off", about, true)
}

fn executor_unheard() -> Plan {
    let about = "What the executor of tally[0] says does not reach the coordinator, which it hears well: it is given up and told so, and its tasks run again elsewhere.";
    gives_up_executor("network::executor_unheard", about, false)
}

fn one_way() -> Plan {
    let cut = FaultSpec::PartitionNetwork {
        from: Party::executor_of("events", 0),
        to: Party::AllExecutors,
        both_ways: false,
    };
    let plan = streams(
        "network::one_way",
        "What the executor of events[0] sends to other executors does not arrive for a while, what they send does: nothing restarts, and nothing is lost or doubled.",
    );
    let long_enough = Trigger::ProbesSince { fault: "cut".to_owned(), count: SILENT_PROBES };
    let plan = held(plan, "events", Trigger::fault_healed("cut"));
    is_undisturbed(plan.fault_until("cut", cut, checkpointed(), long_enough))
}

fn coordinator_isolated() -> Plan {
    let plan = streams(
        "network::coordinator_isolated",
        "No executor and the coordinator can reach each other: it gives them up and answers every call; when they are back the job goes on from its last checkpoint.",
    );
    // None of those that ran there runs again before the network is whole.
    let given_up = Trigger::AllTasksRunning.not();
    let plan = held(soon_given_up(plan), "events", Trigger::fault_healed("isolate"));
    recovers(plan.fault_until("isolate", FaultSpec::IsolateCoordinator, checkpointed(), given_up))
}
