//! Suites on a checkpoint store that hurts some requests and not others.

use stormproof::plan::{FaultSpec, Nth, Plan, StoreEffect, StoreOperation, StoreRule, Trigger};

use super::batch::is_undisturbed;
use super::stream::{checkpointed, held, streams};

pub(super) fn plans() -> Vec<Plan> {
    vec![acknowledgements_lost(), recovery_refused()]
}

fn acknowledgements_lost() -> Plan {
    let rule = StoreRule::new("acknowledgements are lost", StoreEffect::ResetAfter)
        .on(StoreOperation::PutObject)
        .nth(Nth { every: 3, count: Some(4), ..Nth::default() });
    let lost = FaultSpec::HurtStoreRequests { rule };
    let plan = streams(
        "store::acknowledgements_lost",
        "Every third checkpoint file is stored, but the connection breaks before the answer: it is written again, nothing restarts, and nothing is left behind.",
    );
    is_undisturbed(held(plan, "numbers", Trigger::fault_effective("lost")).fault("lost", lost, checkpointed()))
}

fn recovery_refused() -> Plan {
    let rule = StoreRule::new("reads fail", StoreEffect::InternalError)
        .on(StoreOperation::GetObject)
        .key("*/_metadata")
        .nth(Nth::first(3));
    let refuse = FaultSpec::HurtStoreRequests { rule };
    let plan = streams(
        "store::recovery_refused",
        "The coordinator is killed, and the store answers the first reads of the checkpoint's metadata with errors: the standby reads again, and the job goes on from the checkpoint.",
    );
    held(plan, "numbers", Trigger::fault_effective("refuse")).standbys(1).fault("refuse", refuse, checkpointed()).fault(
        "kill",
        FaultSpec::KillCoordinator,
        Trigger::fault_injected("refuse"),
    )
}
