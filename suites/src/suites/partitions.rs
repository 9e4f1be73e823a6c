//! Suites on result partitions that are not what they should be: hidden, corrupt, not written.

use std::path::Path;

use stormproof::plan::{FaultSpec, Plan, Trigger};

use super::batch::{Input, all_of, counts, is_undisturbed, recovers};

/// More than an executor's log, less than a third of the counted words, bytes.
const MOST_BYTES: u64 = 16 << 10;

pub(super) fn plans(folder: &Path) -> Vec<Plan> {
    let input = Input::of(folder);
    vec![hidden(&input), hidden_for_a_while(&input), corrupt(&input), disk_full(&input)]
}

/// `read[2]` is held, so nobody has read what `read[0]` has finished, until `until`.
fn unread(plan: Plan, until: Trigger) -> Plan {
    let last = FaultSpec::HoldUserCode { vertex: "read".into(), subtasks: vec![2] };
    plan.fault_until("hold", last, Trigger::BeforeSubmission, until)
}

fn hide() -> FaultSpec {
    FaultSpec::HidePartitionOf { vertex: "read".into(), subtask: 0 }
}

fn finished() -> Trigger {
    Trigger::task("read", 0, "FINISHED")
}

fn hidden(input: &Input) -> Plan {
    let about = "The output of read[0] cannot be reached when it is to be consumed: read[0] runs again.";
    let plan = counts("partition::hidden", about, input);
    recovers(unread(plan, Trigger::fault_effective("hide")).fault("hide", hide(), finished()))
}

fn hidden_for_a_while(input: &Input) -> Plan {
    let about = "The output of read[0] cannot be reached for a while, in which nobody asks for it: nothing runs again.";
    let plan = counts("partition::hidden_for_a_while", about, input);
    let back = Trigger::fault_effective("hide");
    is_undisturbed(unread(plan, Trigger::fault_healed("hide")).fault_until("hide", hide(), finished(), back))
}

fn corrupt(input: &Input) -> Plan {
    let corrupt = FaultSpec::CorruptPartitionOf { vertex: "read".into(), subtask: 0 };
    let about = "Bytes of the output of read[0] are changed on the disk: that is noticed, no wrong count is made of it, and read[0] runs again.";
    let plan = counts("partition::corrupt", about, input);
    recovers(unread(plan, Trigger::fault_effective("corrupt")).fault("corrupt", corrupt, finished()))
}

fn disk_full(input: &Input) -> Plan {
    let limit = FaultSpec::LimitFilesOf { vertex: "count".into(), subtask: 0, bytes: MOST_BYTES };
    let about =
        "An executor cannot write what count[0] has counted: count[0] fails, and runs again until there is room.";
    let plan = counts("partition::disk_full", about, input)
        // Long enough for its failure to be seen before it runs again.
        .setting("restart-strategy.fixed-delay.delay", "300 ms")
        .fault_until("hold", all_of("count"), Trigger::BeforeSubmission, Trigger::fault_injected("limit"))
        .fault_until("limit", limit, Trigger::vertex("count", "RUNNING"), Trigger::task("count", 0, "FAILED"));
    recovers(plan)
}
