//! Flink's own tests of failover (reference 8.1), and where we part from it.

use crate::core::failover::{FailoverStrategy, Failure, NamedPartition, StalePolicy, restart_all, restart_set};
use crate::core::regions::Regions;
use crate::core::status::ExecutionState;
use crate::core::testing::{names, partition, partitions, task, topology};
use crate::core::topology::Topology;

fn running(_: crate::core::topology::TaskIndex) -> ExecutionState {
    ExecutionState::Running
}

fn restarts(topology: &Topology, fails: &str, lost: &str, named: Option<(&str, bool)>, stale: StalePolicy) -> String {
    let lost = partitions(topology, lost);
    let named = named
        .map(|(name, is_current_attempt)| NamedPartition { partition: partition(topology, name), is_current_attempt });
    let failure = Failure { task: task(topology, fails), named };
    let regions = Regions::build(topology);
    let set = restart_set(topology, &regions, &failure, stale, running, |partition| !lost.contains(&partition));
    names(topology, &set)
}

fn named(topology: &Topology, fails: &str, named: &str) -> String {
    restarts(topology, fails, "", Some((named, true)), StalePolicy::Honour)
}

// P001 P002
#[test]
fn internal_errors_and_data_consumption_errors() {
    let six = topology("a b c d e f", "a-d:B a-e:B b-d:B b-e:B c-f:B");
    for (fails, expected) in [("a", "a d e"), ("b", "b d e"), ("c", "c f"), ("d", "d"), ("e", "e"), ("f", "f")] {
        assert_eq!(restarts(&six, fails, "", None, StalePolicy::Honour), expected);
    }
    assert_eq!(named(&six, "d", "a->d"), "a d e");
    assert_eq!(named(&six, "e", "a->e"), "a d e");
    assert_eq!(named(&six, "d", "b->d"), "b d e");
    assert_eq!(named(&six, "e", "b->e"), "b d e");
    assert_eq!(named(&six, "f", "c"), "c f");
}

// P003
#[test]
fn all_combinations_of_availability_in_a_join() {
    let join = topology("a b c", "a-c:B b-c:B");
    let expected = [("", "a c", "b c", "c"), ("b", "a b c", "b c", "b c"), ("a", "a c", "a b c", "a c")];
    for (lost, by_a, by_b, by_c) in expected.into_iter().chain([("a b", "a b c", "a b c", "a b c")]) {
        let sets = ["a", "b", "c"].map(|fails| restarts(&join, fails, lost, None, StalePolicy::Honour));
        assert_eq!(sets, [by_a, by_b, by_c], "lost {lost}");
    }
}

// P004
#[test]
fn regions_of_several_tasks() {
    let chain = topology("a b c d e f", "a-b:P b-c:B c-d:P d-e:B e-f:P");
    assert_eq!(restarts(&chain, "c", "", None, StalePolicy::Honour), "c d e f");
    assert_eq!(named(&chain, "c", "b"), "a b c d e f");
}

// P001, P004
#[test]
fn whatever_has_begun_restarts_in_whatever_state_it_is() {
    let chain = topology("a b c d e f", "a-b:P b-c:B c-d:P d-e:B e-f:P");
    let regions = Regions::build(&chain);
    let failure = Failure { task: task(&chain, "c"), named: None };
    let begun = ExecutionState::ALL.into_iter().filter(|&state| state != ExecutionState::Created);
    for state in begun {
        let set = restart_set(&chain, &regions, &failure, StalePolicy::Honour, |_| state, |_| true);
        assert_eq!(names(&chain, &set), "c d e f", "{state:?}");
    }
}

// P005
#[test]
fn created_tasks_do_not_restart() {
    let pair = topology("a b", "a-b:B");
    let regions = Regions::build(&pair);
    let lost = NamedPartition { partition: partition(&pair, "a"), is_current_attempt: true };
    for named in [None, Some(lost)] {
        for fails in ["a", "b"] {
            let failure = Failure { task: task(&pair, fails), named };
            let created = |_| ExecutionState::Created;
            assert!(restart_set(&pair, &regions, &failure, StalePolicy::Honour, created, |_| true).is_empty());
        }
    }
}

// P006
#[test]
fn approximate_edges_restart_downstream_only() {
    let diamond = topology("a b c d", "a-b:PA a-c:PA b-d:PA c-d:PA");
    for (fails, expected) in [("a", "a b c d"), ("b", "b d"), ("c", "c d"), ("d", "d")] {
        assert_eq!(restarts(&diamond, fails, "", None, StalePolicy::Honour), expected);
    }
}

// P007
#[test]
fn hybrid_selective_producers_restart_and_hybrid_full_ones_do_not() {
    let six = topology("a b c d e f", "a-e:HF b-e:B c-e:HS d-e:P e-f:HF");
    assert_eq!(restarts(&six, "e", "", None, StalePolicy::Honour), "c d e f");
    assert_eq!(restarts(&six, "f", "", None, StalePolicy::Honour), "f");
}

// P008
#[test]
fn the_full_strategy_restarts_everything() {
    let two = topology("a*2 b*2 u", "a-b:B");
    assert_eq!(names(&two, &restart_all(&two)), "a1 a2 b1 b2 u");
}

// P165
#[test]
fn a_partition_is_available_only_while_it_is_tracked() {
    let pair = topology("a b", "a-b:B");
    assert_eq!(restarts(&pair, "b", "", None, StalePolicy::Ignore), "b");
    assert_eq!(restarts(&pair, "b", "a", None, StalePolicy::Ignore), "a b");
}

/// Reference 2.9: Flink restarts the healthy new producer; we restart the consumer alone.
#[test]
fn a_stale_partition_exception_condemns_the_new_attempt_only_when_asked_to() {
    let pair = topology("a b", "a-b:B");
    let set = |is_current, policy| restarts(&pair, "b", "", Some(("a", is_current)), policy);
    assert_eq!(set(false, StalePolicy::Honour), "a b");
    assert_eq!(set(false, StalePolicy::Ignore), "b");
    assert_eq!(set(true, StalePolicy::Ignore), "a b");
    // What the tracker knows is not forgotten because the exception is old.
    assert_eq!(restarts(&pair, "b", "a", Some(("a", false)), StalePolicy::Ignore), "a b");
}

// P036 P037 P038
#[test]
fn strategies_have_flinks_names() {
    assert_eq!("full".parse(), Ok(FailoverStrategy::Full));
    assert_eq!("region".parse(), Ok(FailoverStrategy::Region));
    assert_eq!(FailoverStrategy::default(), FailoverStrategy::Region);
    let error = "individual".parse::<FailoverStrategy>().unwrap_err();
    assert_eq!(error.to_string(), "`individual` is not a failover strategy; use `region` or `full`");
}
