//! Everything a suite of one's own is written with.
//!
//! A fault by rule, which begins once the store has had the metadata of a second checkpoint, within a budget:
//!
//! ```
//! # use stormproof::prelude::*;
//! # fn suite(plan: Plan) -> Plan {
//! let rule = UserCodeRule { after_records: 100, times: 2, ..UserCodeRule::default() };
//! let fail = FaultSpec::FailUserCodeByRule { vertex: "count".into(), subtask: 0, rule };
//! let second = Trigger::StoreRequests { operation: "PutObject".into(), key: "*/_metadata".into(), count: 2 };
//! plan.budget(Budget { targets: 1, ..Budget::default() })
//!     .fault("fail", fail, second)
//!     .expect(Expectation::RestartCount(RestartCount { min: 1, max: Some(2), ..RestartCount::default() }))
//! # }
//! # assert_eq!(suite(Plan::new("a::suite", "", "job")).check(), Ok(()));
//! ```

pub use crate::job::{
    Collector, JobGraph, JobGraphError, JobKind, Operator, Params, Record, ResultPartitionType, ShipStrategy, Source,
    SourceStatus, TaskContext, TaskError,
};
pub use crate::oracle::Expectation;
pub use crate::oracle::expectation::RestartCount;
pub use crate::plan::{Budget, FaultSpec, OutputFacts, Party, Plan, Trigger, UserCodeFailure, UserCodeRule};

#[cfg(test)]
mod tests {
    #[test]
    fn the_readme_shows_the_example_that_the_tests_run() {
        let (readme, example) = (include_str!("../../README.md"), include_str!("../tests/first_suite.rs"));
        assert!(readme.contains(example), "copy harness/tests/first_suite.rs into README.md");
        let shown = |line: &&str| !line.starts_with("# ") && !line.is_empty();
        let lines = include_str!("prelude.rs").lines().filter_map(|line| line.strip_prefix("//! "));
        let block = lines.skip_while(|line| *line != "```").skip(1).take_while(|line| *line != "```");
        let block: Vec<&str> = block.filter(shown).collect();
        assert!(
            block.len() > 5 && readme.contains(&block.join("\n")),
            "copy the example of the prelude into README.md"
        );
    }
}
