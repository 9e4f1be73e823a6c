use super::*;

fn job(number: u8) -> JobId {
    JobId([number; 16])
}

fn executor(name: &str) -> ExecutorId {
    ExecutorId(name.to_owned())
}

fn slot(name: &str, index: u32) -> SlotId {
    SlotId { executor: executor(name), index }
}

fn wishes(count: usize) -> Vec<SlotWish> {
    vec![SlotWish::default(); count]
}

/// Executors by name, with their slots.
fn cluster(executors: &[(&str, u32)]) -> SlotManager {
    let mut manager = SlotManager::new();
    for &(name, slots) in executors {
        assert_eq!(manager.executor_added(executor(name), slots, format!("{name}:1")), []);
    }
    manager
}

/// `job request: slots …` for each grant.
fn show(grants: &[Grant]) -> Vec<String> {
    let slots = |grant: &Grant| {
        let slots = grant.slots.iter().map(|slot| format!("{}/{}", slot.slot.executor, slot.slot.index));
        slots.collect::<Vec<_>>().join(" ")
    };
    grants.iter().map(|grant| format!("{} {}: {}", grant.job.0[0], grant.request.0, slots(grant))).collect()
}

fn ask(manager: &mut SlotManager, owner: u8, request: u64, count: usize) -> Vec<String> {
    show(&manager.request(job(owner), JobKind::Batch, SlotRequestId(request), wishes(count)))
}

#[test]
fn slots_are_spread_evenly() {
    let mut manager = cluster(&[("a", 2), ("b", 3), ("c", 2)]);
    assert_eq!(ask(&mut manager, 1, 0, 4), ["1 0: a/0 b/0 c/0 a/1"]);
    assert_eq!(ask(&mut manager, 1, 1, 2), ["1 1: b/1 c/1"]);
    let used: Vec<_> = manager.counts().into_iter().map(|(id, counts)| (id.0, counts.total, counts.used)).collect();
    assert_eq!(used, [("a".to_owned(), 2, 2), ("b".to_owned(), 3, 2), ("c".to_owned(), 2, 2)]);
}

#[test]
fn a_grant_carries_the_data_address() {
    let mut manager = cluster(&[("a", 1)]);
    let grants = manager.request(job(1), JobKind::Batch, SlotRequestId(0), wishes(1));
    assert_eq!(grants[0].slots, [AllocatedSlot { slot: slot("a", 0), data_address: "a:1".to_owned() }]);
}

#[test]
fn a_request_is_served_whole_or_not_at_all() {
    let mut manager = cluster(&[("a", 2)]);
    assert_eq!(ask(&mut manager, 1, 0, 3), [""; 0]);
    assert_eq!(manager.counts()[&executor("a")].used, 0);
    assert_eq!(show(&manager.executor_added(executor("b"), 1, String::new())), ["1 0: a/0 b/0 a/1"]);
    assert_eq!(ask(&mut manager, 1, 1, 0), ["1 1: "]);
}

#[test]
fn waiting_requests_are_served_in_order_of_arrival() {
    let mut manager = cluster(&[("a", 2)]);
    assert_eq!(ask(&mut manager, 1, 0, 2).len(), 1);
    for request in 1..4 {
        assert_eq!(ask(&mut manager, 2, request, 1), [""; 0]);
    }
    assert_eq!(show(&manager.free(job(1), &slot("a", 1))), ["2 1: a/1"]);
    assert_eq!(show(&manager.free(job(1), &slot("a", 0))), ["2 2: a/0"]);
    assert_eq!(manager.waiting(), 1);
}

#[test]
fn executors_to_avoid_are_used_last() {
    let mut manager = cluster(&[("a", 2), ("b", 2)]);
    let picky = || SlotWish { avoid: vec![executor("a")] };
    // The second wish comes first, or the first might take what it needs.
    let grants = manager.request(job(1), JobKind::Batch, SlotRequestId(0), vec![SlotWish::default(), picky(), picky()]);
    assert_eq!(show(&grants), ["1 0: a/0 b/0 b/1"]);
    let grants = manager.request(job(1), JobKind::Batch, SlotRequestId(1), vec![picky()]);
    assert_eq!(show(&grants), ["1 1: a/1"], "an executor to avoid is better than none");
}

#[test]
fn a_request_beyond_the_cluster_blocks_nobody() {
    let mut manager = cluster(&[("a", 1)]);
    assert_eq!(ask(&mut manager, 1, 0, 9), [""; 0]);
    for request in 0..u64::from(MAX_OVERTAKEN) * 2 {
        assert_eq!(ask(&mut manager, 2, request, 1).len(), 1, "request {request}");
        manager.free(job(2), &slot("a", 0));
    }
}

#[test]
fn small_requests_cannot_starve_a_large_one() {
    let mut manager = cluster(&[("a", 2)]);
    ask(&mut manager, 1, 0, 1);
    assert_eq!(ask(&mut manager, 2, 0, 2), [""; 0]);
    for request in 1..=u64::from(MAX_OVERTAKEN) {
        assert_eq!(ask(&mut manager, 1, request, 1).len(), 1, "request {request} may pass");
        manager.free(job(1), &slot("a", 1));
    }
    assert_eq!(ask(&mut manager, 1, 99, 1), [""; 0], "no more");
    assert_eq!(show(&manager.free(job(1), &slot("a", 0))), ["2 0: a/0 a/1"]);
}

#[test]
fn a_removed_executor_names_its_holders() {
    let mut manager = cluster(&[("a", 2), ("b", 1)]);
    ask(&mut manager, 1, 0, 1);
    ask(&mut manager, 2, 0, 2);
    assert_eq!(manager.executor_removed(&executor("a")), [(job(1), slot("a", 0)), (job(2), slot("a", 1))]);
    assert_eq!(manager.executor_removed(&executor("a")), []);
    // What is gone cannot be freed; another executor under the same name starts empty.
    assert_eq!(manager.free(job(1), &slot("a", 0)), []);
    assert_eq!(manager.executor_added(executor("a"), 1, String::new()), []);
    assert_eq!(manager.counts()[&executor("a")], SlotCounts { total: 1, used: 0 });
}

#[test]
fn only_the_holder_can_free_a_slot() {
    let mut manager = cluster(&[("a", 1)]);
    ask(&mut manager, 1, 0, 1);
    ask(&mut manager, 2, 0, 1);
    assert_eq!(manager.free(job(2), &slot("a", 0)), []);
    assert_eq!(manager.free(job(1), &slot("a", 7)), []);
    assert_eq!(show(&manager.free(job(1), &slot("a", 0))), ["2 0: a/0"]);
    assert_eq!(manager.free(job(1), &slot("a", 0)), [], "it is another job's by now");
    assert_eq!(manager.counts()[&executor("a")].used, 1);
}

#[test]
fn cancelling_gives_back_what_was_granted_by_that_request_only() {
    let mut manager = cluster(&[("a", 3)]);
    ask(&mut manager, 1, 0, 1);
    ask(&mut manager, 1, 1, 2);
    assert_eq!(ask(&mut manager, 2, 0, 2), [""; 0]);
    assert_eq!(show(&manager.cancel(job(1), SlotRequestId(1))), ["2 0: a/1 a/2"]);
    // A waiting request is forgotten.
    assert_eq!(ask(&mut manager, 3, 0, 1), [""; 0]);
    assert_eq!(manager.cancel(job(3), SlotRequestId(0)), []);
    assert_eq!(manager.waiting(), 0);
}

#[test]
fn a_blocking_request_that_is_cancelled_lets_the_others_pass() {
    let mut manager = cluster(&[("a", 2)]);
    ask(&mut manager, 1, 0, 1);
    ask(&mut manager, 2, 0, 2);
    for request in 1..=u64::from(MAX_OVERTAKEN) {
        ask(&mut manager, 1, request, 1);
        manager.free(job(1), &slot("a", 1));
    }
    assert_eq!(ask(&mut manager, 3, 0, 1), [""; 0]);
    assert_eq!(show(&manager.cancel(job(2), SlotRequestId(0))), ["3 0: a/1"]);
}

#[test]
fn a_job_that_ends_leaves_nothing() {
    let mut manager = cluster(&[("a", 2)]);
    ask(&mut manager, 1, 0, 2);
    ask(&mut manager, 1, 1, 1);
    ask(&mut manager, 2, 0, 1);
    assert_eq!(show(&manager.job_removed(job(1))), ["2 0: a/0"]);
    assert_eq!((manager.waiting(), manager.counts()[&executor("a")].used), (0, 1));
}

#[test]
fn a_repeated_request_replaces_the_waiting_one() {
    let mut manager = cluster(&[("a", 1)]);
    assert_eq!(ask(&mut manager, 1, 0, 2), [""; 0]);
    assert_eq!(ask(&mut manager, 1, 0, 1), ["1 0: a/0"]);
    assert_eq!(manager.waiting(), 0);
}

#[test]
fn a_batch_request_is_given_up_only_if_its_slots_are_and_stay_out_of_reach() {
    let mut manager = cluster(&[("a", 2)]);
    let stream = manager.request(job(3), JobKind::Streaming, SlotRequestId(0), wishes(1));
    assert_eq!(ask(&mut manager, 1, 0, 1), ["1 0: a/1"]);
    assert_eq!(ask(&mut manager, 2, 0, 1), [""; 0]);
    let time_out = |manager: &mut SlotManager, request| manager.time_out(job(2), SlotRequestId(request));
    for _ in 0..5 {
        assert_eq!(time_out(&mut manager, 0), TimedOut::Extended, "the other batch job's task will end");
    }
    // Two are beyond reach: one slot is a streaming job's, which may keep it for ever.
    assert_eq!(ask(&mut manager, 2, 1, 2), [""; 0]);
    assert_eq!(time_out(&mut manager, 1), TimedOut::GivenUp);
    // Out of reach since the last look, perhaps only now: it has the whole time once more.
    manager.executor_removed(&executor("a"));
    assert_eq!(time_out(&mut manager, 0), TimedOut::Extended);
    manager.executor_added(executor("b"), 1, String::new());
    assert_eq!(time_out(&mut manager, 0), TimedOut::Over, "it was served");
    assert_eq!(manager.cancel(job(2), SlotRequestId(0)).len(), 0, "request 1 needs two");
    manager.executor_removed(&executor("b"));
    assert_eq!(ask(&mut manager, 2, 2, 1), [""; 0]);
    assert_eq!(time_out(&mut manager, 2), TimedOut::GivenUp, "there is no slot at all");
    assert_eq!(stream.len(), 1);
}

#[test]
fn a_streaming_request_is_given_up_whoever_holds_the_slots() {
    let mut manager = cluster(&[("a", 1)]);
    ask(&mut manager, 1, 0, 1);
    manager.request(job(2), JobKind::Streaming, SlotRequestId(0), wishes(1));
    assert_eq!(manager.time_out(job(2), SlotRequestId(0)), TimedOut::GivenUp);
}
