//! What is to be run, broken and expected.
//!
//! A plan is data: the same one runs on every target that has what it needs.

mod budget;
mod facts;
mod fault_spec;
mod hosts;
mod in_graph;
mod party;
mod trigger;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use budget::{Budget, Hurt, OverBudget};
pub use facts::Facts;
pub use fault_spec::FaultSpec;
pub use hosts::{ALLOW_REMOTE, HostNotAllowed, admit_host, is_remote_allowed};
pub use in_graph::NotInGraph;
pub use party::Party;
pub use stormproof_chaos::fault::{FailureKind as UserCodeFailure, UserCodeRule};
pub use stormproof_store::{Effect as StoreEffect, Nth, Operation as StoreOperation, Rule as StoreRule};
pub use trigger::Trigger;

use crate::oracle::Expectation;
use crate::target::Capability;

/// In a job's parameters: the folder that the run gives the job for its output.
pub const OUTPUT_PLACEHOLDER: &str = "{output}";

/// In a job's parameters: the folder in which the job looks for fault files.
pub const FAULTS_PLACEHOLDER: &str = "{faults}";

/// A job to run, by registered name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobCall {
    /// Registered name (for Flink: the jar).
    pub name: String,
    /// Its parameters; [`OUTPUT_PLACEHOLDER`] and [`FAULTS_PLACEHOLDER`] are filled in by the run.
    pub params: BTreeMap<String, String>,
    /// Configuration by Flink's keys.
    pub settings: BTreeMap<String, String>,
}

/// A fault and when it lasts.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedFault {
    /// Unique within the plan; triggers and expectations speak of it by this name.
    pub name: String,
    /// What is broken.
    pub spec: FaultSpec,
    /// When it begins.
    pub begin: Trigger,
    /// When it is healed; at the end of the run if never before.
    pub heal: Trigger,
}

impl PlannedFault {
    /// True if nothing takes it back: what it did stays done.
    #[must_use]
    pub fn is_for_good(&self) -> bool {
        matches!(
            self.spec,
            FaultSpec::KillExecutorOf { .. }
                | FaultSpec::ExitExecutorOf { .. }
                | FaultSpec::KillCoordinator
                | FaultSpec::DropPartitionOf { .. }
        )
    }
}

/// What a job's output was found to be, compared with what it must be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputFacts {
    /// Records that must be there.
    pub expected: u64,
    /// Distinct expected records that are there.
    pub seen: u64,
    /// Expected records that are not.
    pub lost: u64,
    /// Surplus copies.
    pub doubled: u64,
    /// Records that should not exist.
    pub alien: u64,
    /// A few of the lost, doubled or alien ones.
    pub examples: Vec<String>,
}

impl OutputFacts {
    /// The facts of an output of which only the number of records is known.
    #[must_use]
    pub fn counted(expected: u64, seen: u64) -> Self {
        let (lost, doubled) = (expected.saturating_sub(seen), seen.saturating_sub(expected));
        Self { expected, seen: seen.min(expected), lost, doubled, ..Self::default() }
    }
}

/// Compares a job's output folder with what it must hold.
pub type OutputCheck = Arc<dyn Fn(&Path) -> std::io::Result<OutputFacts> + Send + Sync>;

/// The cluster that a plan wants where the target makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterShape {
    /// Number of executors.
    pub executors: u32,
    /// Slots of each.
    pub slots: u32,
    /// Coordinators that wait to take over.
    pub standbys: u32,
    /// Cluster configuration by Flink's keys.
    pub settings: BTreeMap<String, String>,
}

impl Default for ClusterShape {
    fn default() -> Self {
        Self { executors: 3, slots: 2, standbys: 0, settings: BTreeMap::new() }
    }
}

/// A suite: workload, faults, expectations, budget.
#[derive(Clone)]
pub struct Plan {
    /// Unique name, e.g. `batch::executor_killed`.
    pub name: String,
    /// What it does, one sentence.
    pub about: String,
    /// The workload.
    pub job: JobCall,
    /// What is broken.
    pub faults: Vec<PlannedFault>,
    /// What must hold.
    pub expectations: Vec<Expectation>,
    /// The cluster it wants.
    pub cluster: ClusterShape,
    /// How much may be hurt.
    pub budget: Budget,
    /// How the job's output is checked.
    pub output: Option<OutputCheck>,
    /// The whole run must be over by then.
    pub deadline: Duration,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("name", &self.name)
            .field("job", &self.job)
            .field("faults", &self.faults)
            .field("expectations", &self.expectations)
            .field("cluster", &self.cluster)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

/// A plan contradicts itself; nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Two faults of one name.
    #[error("plan `{plan}` has two faults called `{fault}`")]
    DuplicateFault {
        /// The plan.
        plan: String,
        /// The name.
        fault: String,
    },
    /// A trigger waits for a fault that is not in the plan.
    #[error("plan `{plan}`: fault `{fault}` waits for `{unknown}`, which is no fault of the plan")]
    UnknownFault {
        /// The plan.
        plan: String,
        /// The waiting fault.
        fault: String,
        /// What it waits for.
        unknown: String,
    },
    /// A fault with a number that makes no sense.
    #[error("plan `{plan}`: fault `{fault}` cannot {spec}: {problem}")]
    BadFault {
        /// The plan.
        plan: String,
        /// The fault.
        fault: String,
        /// What it is to do.
        spec: String,
        /// Which number, and what it must be.
        problem: String,
    },
    /// No slots at all.
    #[error("plan `{plan}` asks for {executors} executors with {slots} slots; both must be at least 1")]
    NoSlots {
        /// The plan.
        plan: String,
        /// Executors.
        executors: u32,
        /// Slots of each.
        slots: u32,
    },
}

impl Plan {
    /// A plan that runs job `job`, breaks nothing and expects nothing yet.
    #[must_use]
    pub fn new(name: impl Into<String>, about: impl Into<String>, job: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            about: about.into(),
            job: JobCall { name: job.into(), ..JobCall::default() },
            faults: vec![],
            expectations: vec![],
            cluster: ClusterShape::default(),
            budget: Budget::default(),
            output: None,
            deadline: Duration::from_secs(120),
        }
    }

    /// Sets a parameter of the job.
    #[must_use]
    pub fn param(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.job.params.insert(key.into(), value.to_string());
        self
    }

    /// Sets a configuration value of the job (Flink's key).
    #[must_use]
    pub fn setting(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.job.settings.insert(key.into(), value.to_string());
        self
    }

    /// Asks for coordinators that wait to take over.
    #[must_use]
    pub fn standbys(mut self, standbys: u32) -> Self {
        self.cluster.standbys = standbys;
        self
    }

    /// Breaks something from `begin` to the end of the run.
    #[must_use]
    pub fn fault(self, name: impl Into<String>, spec: FaultSpec, begin: Trigger) -> Self {
        self.fault_until(name, spec, begin, Trigger::Never)
    }

    /// Breaks something from `begin` to `heal`.
    #[must_use]
    pub fn fault_until(mut self, name: impl Into<String>, spec: FaultSpec, begin: Trigger, heal: Trigger) -> Self {
        self.faults.push(PlannedFault { name: name.into(), spec, begin, heal });
        self
    }

    /// Breaks something as soon as `condition` holds, until it does not hold any more.
    #[must_use]
    pub fn fault_while(self, name: impl Into<String>, spec: FaultSpec, condition: Trigger) -> Self {
        self.fault_until(name, spec, condition.clone(), condition.not())
    }

    /// Adds an expectation.
    #[must_use]
    pub fn expect(mut self, expectation: Expectation) -> Self {
        self.expectations.push(expectation);
        self
    }

    /// Limits what may be hurt; what would go beyond it is refused.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Says how the job's output is checked.
    #[must_use]
    pub fn output<F>(mut self, check: F) -> Self
    where
        F: Fn(&Path) -> std::io::Result<OutputFacts> + Send + Sync + 'static,
    {
        self.output = Some(Arc::new(check));
        self
    }

    /// What a target must be able to do for this plan.
    #[must_use]
    pub fn needs(&self) -> BTreeSet<Capability> {
        let of = |fault: &PlannedFault| [vec![fault.spec.needs()], fault.begin.needs(), fault.heal.needs()].concat();
        self.faults.iter().flat_map(of).collect()
    }

    /// Checks the plan against itself.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), PlanError> {
        let ClusterShape { executors, slots, .. } = self.cluster;
        if executors == 0 || slots == 0 {
            return Err(PlanError::NoSlots { plan: self.name.clone(), executors, slots });
        }
        let mut names = BTreeSet::new();
        for fault in &self.faults {
            if !names.insert(fault.name.as_str()) {
                return Err(PlanError::DuplicateFault { plan: self.name.clone(), fault: fault.name.clone() });
            }
            if let Err(problem) = fault.spec.check() {
                let (plan, fault, spec) = (self.name.clone(), fault.name.clone(), fault.spec.to_string());
                return Err(PlanError::BadFault { plan, fault, spec, problem });
            }
        }
        for fault in &self.faults {
            let unknown = [&fault.begin, &fault.heal]
                .into_iter()
                .flat_map(Trigger::faults)
                .find(|waited_for| !names.contains(waited_for));
            if let Some(unknown) = unknown {
                return Err(PlanError::UnknownFault {
                    plan: self.name.clone(),
                    fault: fault.name.clone(),
                    unknown: unknown.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// A hash of everything that decides what the run does: two runs of one hash and seed are the same experiment.
    #[must_use]
    pub fn hash(&self) -> String {
        let text = format!("{self:?}");
        let round = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        format!("{round:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::new("test", "a test", "word-count")
    }

    #[test]
    fn a_trigger_on_an_unknown_fault_is_refused_by_name() {
        let plan = plan().fault("kill", FaultSpec::BlackholeStore, Trigger::fault_effective("blackhole"));
        let error = plan.check().expect_err("refused").to_string();
        assert!(error.contains("`kill`") && error.contains("`blackhole`"), "{error}");
    }

    #[test]
    fn two_faults_of_one_name_are_refused() {
        let plan = plan().fault("kill", FaultSpec::BlackholeStore, Trigger::BeforeSubmission).fault(
            "kill",
            FaultSpec::RefuseStore,
            Trigger::BeforeSubmission,
        );
        assert!(matches!(plan.check(), Err(PlanError::DuplicateFault { .. })));
    }

    #[test]
    fn a_fault_that_makes_no_sense_is_refused_before_anything_starts() {
        let error = |rule: UserCodeRule| {
            let fail = FaultSpec::FailUserCodeByRule { vertex: "count".into(), subtask: 1, rule };
            plan().fault("fail", fail, Trigger::BeforeSubmission).check().expect_err("refused").to_string()
        };
        let never = error(UserCodeRule { times: 0, ..UserCodeRule::default() });
        assert!(never.contains("`fail`") && never.contains("count[1]") && never.contains("at least 1"), "{never}");
        let too_often = error(UserCodeRule { per_million: 1_000_001, ..UserCodeRule::default() });
        let slow = FaultSpec::SlowExecutorOf { vertex: "count".into(), subtask: 1, percent: 100 };
        let slow = plan().fault("slow", slow, Trigger::BeforeSubmission).check().expect_err("refused").to_string();
        assert!(slow.contains("from 1 to 99"), "{slow}");
        let alone = FaultSpec::PartitionNetwork {
            from: Party::LeadingCoordinator,
            to: Party::LeadingCoordinator,
            both_ways: true,
        };
        let alone = plan().fault("cut", alone, Trigger::BeforeSubmission).check().expect_err("refused").to_string();
        assert!(alone.contains("`cut`") && alone.contains("two different ones"), "{alone}");
        let rule = StoreRule::new("reads fail", StoreEffect::InternalError).nth(Nth::only(0));
        let hurt = plan().fault("hurt", FaultSpec::HurtStoreRequests { rule }, Trigger::BeforeSubmission);
        let hurt = hurt.check().expect_err("refused").to_string();
        assert!(hurt.contains("nth.first is 0"), "{hurt}");
        assert!(too_often.contains("`per_million` must be from 1 to 1000000"), "{too_often}");
    }

    #[test]
    fn the_hash_follows_the_plan() {
        assert_eq!(plan().hash(), plan().hash());
        assert_ne!(plan().hash(), plan().param("records", 5).hash());
    }

    #[test]
    fn needs_are_those_of_the_faults() {
        let plan = plan()
            .fault("kill", FaultSpec::KillExecutorOf { vertex: "count".into(), subtask: 0 }, Trigger::BeforeSubmission)
            .fault("hole", FaultSpec::BlackholeStore, Trigger::BeforeSubmission);
        assert_eq!(plan.needs(), BTreeSet::from([Capability::ExecutorProcesses, Capability::StoreLink]));
    }
}
