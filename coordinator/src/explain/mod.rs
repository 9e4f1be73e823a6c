//! Answers "what restarts if this fails?" for graphs written down as JSON Lines: one case a line in, one answer a
//! line out, exactly as Flink 2.3 answers (`stormproof explain --cases FILE`).
//!
//! Reading a file format is not a decision, so it lives outside [`crate::core`], which it asks.
//!
//! A case:
//!
//! ```json
//! {"id":"join","vertices":[{"name":"a","parallelism":1},{"name":"b","parallelism":1}],
//!  "edges":[{"from":"a","data":0,"type":"BLOCKING","to":"b","pattern":"POINTWISE"}],
//!  "states":{"a":["FINISHED"],"b":["RUNNING"]},"lost":["a.0/0"],"fail":"b/0","cause":[]}
//! ```
//!
//! | field | meaning |
//! | --- | --- |
//! | `vertices` | in any order |
//! | `edges` | `data` numbers the producer's data sets; edges with the same `from` and `data` share one |
//! | `states` | for each vertex, the state of each subtask |
//! | `lost` | partitions (`vertex.data/subtask`) that are not tracked; all others are. Unknown ones have no effect |
//! | `fail` | the failing task (`vertex/subtask`) |
//! | `cause` | the exception chain, outermost first: `Exception`, or `PartitionNotFoundException` and `PartitionConnectionException` with `partition` and `attempt` (`current` or `stale`) |
//!
//! Other fields are ignored. The answer has `regions` and `restart`, or an `error` that Flink would raise
//! ([`Refusal`]). What Flink could not even be asked, because the line is not a case, is a [`CaseError`].

mod answer;
mod case;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Refusal, RefusalKind, Stage, answer};
pub use case::{AttemptRef, Case, CaseEdge, CaseError, CaseVertex, Cause};

/// Answers one line, as a line of JSON without the line feed.
///
/// # Errors
/// When the line is not a case; see [`CaseError`].
pub fn answer_case(line: &str) -> Result<String, CaseError> {
    let answer = answer(&Case::from_json(line)?)?;
    serde_json::to_string(&answer).map_err(CaseError::Json)
}
