//! Suites on user code that fails by a rule.

use std::ops::RangeInclusive;
use std::path::Path;

use stormproof::oracle::Expectation;
use stormproof::oracle::expectation::RestartCount;
use stormproof::plan::{FaultSpec, Plan, Trigger, UserCodeFailure, UserCodeRule};

use super::batch::{Input, counts, is_undisturbed, recovers, word_count};

pub(super) fn plans(folder: &Path) -> Vec<Plan> {
    let input = Input::of(folder);
    vec![after_records(&input), by_chance(&input), panics(&input), for_good(&input)]
}

/// User code of `count[1]` fails by `rule`.
fn failing(plan: Plan, rule: UserCodeRule) -> Plan {
    let fail = FaultSpec::FailUserCodeByRule { vertex: "count".into(), subtask: 1, rule };
    plan.fault("fail", fail, Trigger::BeforeSubmission)
}

fn restarts(plan: Plan, times: RangeInclusive<u64>) -> Plan {
    let (min, max) = (*times.start(), Some(*times.end()));
    plan.expect(Expectation::RestartCount(RestartCount { min, max, ..RestartCount::default() }))
}

fn after_records(input: &Input) -> Plan {
    let rule = UserCodeRule { after_records: 100, times: 3, ..UserCodeRule::default() };
    let about =
        "Three attempts of count[1] fail after 100 records each: count[1] runs a fourth time, and nothing upstream.";
    recovers(restarts(failing(counts("user_code::after_records", about, input), rule), 3..=3))
}

fn by_chance(input: &Input) -> Plan {
    let rule = UserCodeRule { per_million: 20_000, seed: 3, times: 2, ..UserCodeRule::default() };
    // A short text may be over before the second one.
    let about = "count[1] fails before one record in fifty, at most twice: the word count is right all the same.";
    recovers(restarts(failing(counts("user_code::by_chance", about, input), rule), 1..=2))
}

fn panics(input: &Input) -> Plan {
    let rule = UserCodeRule { after_records: 10, kind: UserCodeFailure::Panic, ..UserCodeRule::default() };
    let about = "User code of count[1] panics: its executor lives on, and count[1] runs again.";
    recovers(restarts(failing(counts("user_code::panics", about, input), rule), 1..=1))
}

fn for_good(input: &Input) -> Plan {
    let rule = UserCodeRule { after_records: 10, kind: UserCodeFailure::NonRecoverable, ..UserCodeRule::default() };
    let about = "User code of count[1] fails for good: the job fails at once, although it has restarts left.";
    let plan = word_count("user_code::for_good", about, input).expect(Expectation::job_ends("FAILED"));
    is_undisturbed(failing(plan, rule))
}
