//! FLINK-4256, fine-grained recovery: its 22 sub-tasks, and where each of them is here.
//!
//! # The three rules
//!
//! 1. The **region** of the failed task restarts: all tasks that exchange data while it is produced.
//! 2. So does every region that **produces an input that is lost** of a region that restarts.
//! 3. So does every region that **consumes anything** of a region that restarts, whatever state it is in: data that is
//!    made again may be other data.
//!
//! Tasks that have not begun (CREATED) have nothing to restart. The rules are one pure function:
//!
//! ```
//! use stormproof_coordinator::core::failover::{Failure, StalePolicy, restart_set};
//! use stormproof_coordinator::core::regions::Regions;
//! use stormproof_coordinator::core::status::ExecutionState;
//! use stormproof_coordinator::core::topology::{LogicalEdge, LogicalGraph, LogicalVertex, Topology};
//! use stormproof_coordinator::graph::DistributionPattern::Pointwise;
//! use stormproof_coordinator::graph::ResultPartitionType::{Blocking, Pipelined};
//!
//! // read → parse ⇒ count → write: two pipelined pairs with a result on disk between them.
//! let vertices = ["read", "parse", "count", "write"];
//! let edge = |from, partition_type| LogicalEdge { from, data_set: 0, to: from + 1, partition_type, pattern: Pointwise };
//! let topology = Topology::build(LogicalGraph {
//!     vertices: vertices.map(|name| LogicalVertex { name: name.to_owned(), parallelism: 1 }).to_vec(),
//!     edges: vec![edge(0, Pipelined), edge(1, Blocking), edge(2, Pipelined)],
//! })?;
//! let regions = Regions::build(&topology);
//! let restarts = |vertex, result_is_there: bool| -> Vec<&str> {
//!     let failure = Failure { task: topology.task(vertex, 0).expect("it exists"), named: None };
//!     let running = |_| ExecutionState::Running;
//!     let set = restart_set(&topology, &regions, &failure, StalePolicy::Ignore, running, |_| result_is_there);
//!     set.into_iter().map(|task| vertices[topology.location(task).0]).collect()
//! };
//! assert_eq!(restarts(3, true), ["count", "write"]); // rule 1
//! assert_eq!(restarts(3, false), ["read", "parse", "count", "write"]); // rule 2
//! assert_eq!(restarts(0, true), ["read", "parse", "count", "write"]); // rule 3
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The sub-tasks
//!
//! Numbers are those of the reference's section 5. A name with `::` is a suite of `stormproof run`; any other is a
//! test of this crate.
//!
//! | # | sub-task | here | where | proved by |
//! | --- | --- | --- | --- | --- |
//! | 1 | ExecutionGraph need not be serialisable | the live job never leaves its thread and cannot be serialised; everybody else reads snapshots made on that thread | [`JobCore`], [`JobSnapshot`] | `values_come_from_the_snapshot`, `what_restarts_is_what_the_definition_says_of_what_was_observed` |
//! | 2 | misleading schedule modes | there is no mode: what waits for what follows from the types of partitions | [`can_be_pipelined_consumed`], [`is_blocking_or_blocking_persistent`] | `a_batch_chain_runs_stage_by_stage_to_its_end`, `a_hybrid_consumer_starts_with_its_producer_and_not_again_when_that_finishes` |
//! | 3 | executions start with their state | state travels in the deployment; no message sets it later, and no attempt keeps it | [`TaskDeployment::restore`] | `a_regional_failover_aborts_the_pending_checkpoint_and_restores_from_memory`, `restored_attempts_go_on_exactly_where_the_checkpoint_was` |
//! | 4 | FailoverRegion | an immutable set of tasks without any state of its own | [`Regions`] | `cyclic_merge_examples`, `only_edges_that_must_be_pipelined_tie`, `equal_to_the_naive_model` |
//! | 5 | RestartPipelinedRegionStrategy | the three rules above | [`restart_set`] | `rows_9_alternating`, `rows_11_to_14_diamonds`, `internal_errors_and_data_consumption_errors` |
//! | 6 | restart strategy for regions | counts and delays, asked once per failure and told which failures belong together | [`RestartStrategy`] | `fixed_delay_counts_attempts`, `failures_until_the_planned_restart_are_one_attempt`, `exponential_delay_allows_its_attempts_and_no_more` |
//! | 7 | FailoverCoordinator | one handler owns classification, strategy, counters and versions; a failure of a task never takes the way of a failure of the job, which overrides it | [`JobCore::handle`] | `c4_a_global_failure_takes_a_pending_restart_over`, `c5_a_failure_within_a_global_failover_changes_nothing`, `each_decision_outdates_the_earlier_ones_about_its_tasks_only` |
//! | 8 | termination future of an execution | a restart is due when its delay is over *and* all old attempts have ended; the driver of the tests refuses attempts that overlap | [`JobCore::handle`] | `c3_a_failure_while_canceling_is_a_cancellation`, `a_slot_is_back_before_the_next_attempt_asks_for_one`, `a_job_without_checkpoints_survives_any_order_of_events_and_ends` |
//! | 9 | abstract PartitionException | a kind of failure that carries partition and attempt beside the cause chain, so that no wrapping hides it | [`FailureKind::PartitionNotFound`], [`NamedPartition`] | `a_partition_that_the_failure_names_is_produced_again`, `a_missing_or_damaged_file_names_its_partition` |
//! | 10 | fault tolerance of input splits | splits come back when their subtask is reset, and go to whoever asks next | [`SplitAssigner`] | `only_the_splits_of_the_reset_subtask_come_back`, `a_killed_executor_costs_its_partitions_and_no_data`, `batch::executor_killed` |
//! | 11 | backtracking to lost results | rule 2, as far up as results are lost | [`restart_set`] | `rows_4_chain`, `rows_21_and_22_side_inputs`, `producers_of_lost_inputs_restart` |
//! | 12 | resetting a vertex leaves result status consistent | one flag per partition; counts of groups follow the flags and change by one | [`GroupStatus`] | `counts_follow_flags`, `finishing_twice_and_finishing_a_pipelined_partition_are_errors` |
//! | 13 | region strategy on new interfaces | a function from failure, topology and tracker to a set of tasks, which does nothing; the command `explain` is made of it | [`restart_set`], [`explain`](crate::explain) | `all_sample_cases_are_answered_as_flink_answers_them` |
//! | 14 | PartitionConnectionException | a refused connection to a producer's executor names the partition | [`FailureKind::PartitionConnection`] | `an_unreachable_executor_names_the_producer`, `a_partition_that_the_failure_names_is_produced_again` |
//! | 15 | topology adapter for failover | one topology for scheduling, failover and release; states are asked for, never copied into it | [`Topology`] | `an_all_to_all_edge_is_one_group`, `edges_that_share_a_data_set_have_groups_of_their_own` |
//! | 16 | adapter for the legacy scheduler | nothing: there is one scheduler. The order in which Flink notices a lost executor can be chosen | [`JobSettings::untrack_before_slots_fail`] | `a_lost_executor_is_one_failover_here_and_two_in_flinks_order` |
//! | 17 | integration test: user code fails | one stage's attempts grow by one, and the result is right | [`FailureKind::Task`] | `a_failing_reducer_restarts_alone`, `batch::user_failure`, `stream::user_failure` |
//! | 18 | partition state of the JobMaster decides | what the tracker does not hold for the current attempt is lost, whatever the failure names | [`PartitionTracker`] | `a_partition_is_available_only_while_it_is_tracked`, `a_lost_executor_is_one_failover_here_and_two_in_flinks_order` |
//! | 19 | integration test: executors fail | three mappers fail once and lose their executor once: 5, 4 and 3 attempts in Flink's order, one less each in ours | [`JobCore::handle`] | `each_mapper_fails_once_and_then_loses_its_executor`, `batch::executor_killed`, `stream::executor_killed` |
//! | 20 | end-to-end test with leader changes | leader changes and lost executors are each proved by themselves; the script that combines them (P350) is a later suite | [`leadership`](crate::leadership) | `a_standby_takes_over_and_runs_the_jobs_again`, `a_restarted_coordinator_goes_on_from_the_newest_checkpoint`, `batch::coordinator_killed` |
//! | 21 | documentation | this page; its example is run with the tests | [`failover`](super::failover) | the example above |
//! | 22 | `region` is the default | an empty configuration means `region` | [`FailoverStrategy`] | `strategies_have_flinks_names`, `defaults_are_flinks` |
//!
//! [`can_be_pipelined_consumed`]: crate::graph::ResultPartitionType::can_be_pipelined_consumed
//! [`FailoverStrategy`]: super::failover::FailoverStrategy
//! [`FailureKind::PartitionConnection`]: crate::runtime::protocol::FailureKind::PartitionConnection
//! [`FailureKind::PartitionNotFound`]: crate::runtime::protocol::FailureKind::PartitionNotFound
//! [`FailureKind::Task`]: crate::runtime::protocol::FailureKind::Task
//! [`GroupStatus`]: super::consumable::GroupStatus
//! [`is_blocking_or_blocking_persistent`]: crate::graph::ResultPartitionType::is_blocking_or_blocking_persistent
//! [`JobCore`]: super::job::JobCore
//! [`JobCore::handle`]: super::job::JobCore::handle
//! [`JobSettings::untrack_before_slots_fail`]: super::job::JobSettings::untrack_before_slots_fail
//! [`JobSnapshot`]: super::snapshot::JobSnapshot
//! [`NamedPartition`]: super::failover::NamedPartition
//! [`PartitionTracker`]: super::partition_tracker::PartitionTracker
//! [`Regions`]: super::regions::Regions
//! [`restart_set`]: super::failover::restart_set
//! [`RestartStrategy`]: super::restart_strategy::RestartStrategy
//! [`SplitAssigner`]: super::input_splits::SplitAssigner
//! [`TaskDeployment::restore`]: crate::runtime::protocol::TaskDeployment::restore
//! [`Topology`]: super::topology::Topology

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    fn sources(folder: &Path) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                text += &sources(&path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text += &fs::read_to_string(&path).unwrap();
            }
        }
        text
    }

    /// Cells of the rows of the table above.
    fn rows() -> Vec<Vec<&'static str>> {
        let rows = include_str!("fine_grained_recovery.rs").lines().filter_map(|line| line.strip_prefix("//! | "));
        let cells = rows.map(|row| row.trim_end_matches(" |").split(" | ").collect::<Vec<_>>());
        cells.filter(|cells| cells[0].parse::<u32>().is_ok()).collect()
    }

    #[test]
    fn each_sub_task_has_a_row_and_the_tests_it_names_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let tests = sources(&root.join("src")) + &sources(&root.join("tests"));
        let suites = |name: &str| fs::read_to_string(root.join(format!("../suites/src/suites/{name}.rs"))).unwrap();
        let suites = [("batch", suites("batch")), ("stream", suites("stream"))];
        let rows = rows();
        assert_eq!(
            rows.iter().map(|cells| cells[0].parse().unwrap()).collect::<Vec<u32>>(),
            (1..=22).collect::<Vec<_>>()
        );
        for cells in rows {
            let [number, .., proofs] = cells[..] else { panic!("{cells:?}") };
            let named: Vec<&str> = proofs.split('`').skip(1).step_by(2).collect();
            assert!(!named.is_empty() || number == "21", "row {number} names no test");
            for name in named {
                let exists = match name.split_once("::") {
                    None => tests.contains(&format!("fn {name}(")),
                    Some((kind, plan)) => {
                        suites.iter().any(|(name, text)| *name == kind && text.contains(&format!("\"{plan}\"")))
                    }
                };
                assert!(exists, "row {number}: there is no `{name}`");
            }
        }
    }
}
