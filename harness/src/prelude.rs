//! Everything a suite of one's own is written with.

pub use crate::job::{
    Collector, JobGraph, JobGraphError, JobKind, Operator, Params, Record, ResultPartitionType, ShipStrategy, Source,
    SourceStatus, TaskContext, TaskError,
};
pub use crate::oracle::Expectation;
pub use crate::plan::{FaultSpec, OutputFacts, Party, Plan, Trigger, UserCodeFailure, UserCodeRule};

#[cfg(test)]
mod tests {
    #[test]
    fn the_readme_shows_the_example_that_the_tests_run() {
        let (readme, example) = (include_str!("../../README.md"), include_str!("../tests/first_suite.rs"));
        assert!(readme.contains(example), "copy harness/tests/first_suite.rs into README.md");
    }
}
