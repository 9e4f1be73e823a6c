//! The worked examples of reference 2.6, row by row.

use std::collections::BTreeSet;

use crate::core::failover::{Failure, NamedPartition, StalePolicy, restart_set};
use crate::core::regions::Regions;
use crate::core::status::ExecutionState;
use crate::core::testing::{names, partition, partitions, task, tasks, topology};

/// What a row says: which task fails, what is lost, what the cause names, which tasks are CREATED, what restarts.
struct Row {
    id: &'static str,
    fails: &'static str,
    lost: &'static str,
    named: &'static str,
    created: &'static str,
    restarts: &'static str,
}

/// `id: fails [lost …] [named …] [created …] => restarts`.
fn row(text: &'static str) -> Row {
    let (question, restarts) = text.split_once("=>").unwrap();
    let (id, question) = question.split_once(':').unwrap();
    let mut row = Row { id, fails: "", lost: "", named: "", created: "", restarts: restarts.trim() };
    for (at, part) in question.split('|').map(str::trim).enumerate() {
        match part.split_once(' ') {
            _ if at == 0 => row.fails = part,
            Some(("lost", rest)) => row.lost = rest,
            Some(("named", rest)) => row.named = rest,
            Some(("created", rest)) => row.created = rest,
            _ => panic!("{id}: `{part}`"),
        }
    }
    row
}

fn check(vertices: &str, edges: &str, rows: &[&'static str]) {
    let topology = topology(vertices, edges);
    let regions = Regions::build(&topology);
    for Row { id, fails, lost, named, created, restarts } in rows.iter().copied().map(row) {
        let lost: BTreeSet<_> = partitions(&topology, lost).into_iter().collect();
        let created = tasks(&topology, created);
        let named = (!named.is_empty())
            .then(|| NamedPartition { partition: partition(&topology, named), is_current_attempt: true });
        let failure = Failure { task: task(&topology, fails), named };
        let state = |task| if created.contains(&task) { ExecutionState::Created } else { ExecutionState::Running };
        let set = restart_set(&topology, &regions, &failure, StalePolicy::Honour, state, |partition| {
            !lost.contains(&partition)
        });
        assert_eq!(names(&topology, &set), restarts, "row {id}");
    }
}

#[test]
fn rows_1_to_3_pipelined() {
    check("a", "", &["1: a => a"]);
    check("a*2 b*2", "a-b:P", &["2: a1 => a1 b1", "2b: b2 => a2 b2"]);
    check("a*2 b*2", "a=b:P", &["3: b1 => a1 a2 b1 b2"]);
}

#[test]
fn rows_4_chain() {
    let rows = [
        "4: c => c",
        "4b: b => b c",
        "4c: a => a b c",
        "4d: c | lost b => b c",
        "4e: c | lost a => c",
        "4f: c | lost a b => a b c",
        "4g: c | named b => b c",
        "4h: c | lost a | named b => a b c",
        "4i: b | lost a => a b c",
    ];
    check("a b c", "a-b:B b-c:B", &rows);
}

#[test]
fn rows_5_and_6_pointwise_and_all_to_all() {
    let rows = ["5: b1 => b1", "5b: b1 | lost a2 => b1", "5c: b1 | lost a1 => a1 b1", "5d: a1 => a1 b1"];
    check("a*2 b*2", "a-b:B", &rows);
    let rows = [
        "6: b1 => b1",
        "6b: b1 | lost a1 => a1 b1 b2",
        "6c: b1 | named a2 => a2 b1 b2",
        "6d: a1 => a1 b1 b2",
        "6e: a1 | lost a2 => a1 a2 b1 b2",
        "6f: b2 | lost a1 a2 => a1 a2 b1 b2",
    ];
    check("a*2 b*2", "a=b:B", &rows);
}

#[test]
fn rows_7_and_8_join_and_fan_out() {
    check("a b c", "a-c:B b-c:B", &["7: a => a c", "7b: a | lost b => a b c", "7c: c | lost a => a c"]);
    let rows = ["8: b => b", "8b: b | lost a->b => a b c", "8c: b | lost a->c => b", "8d: c | named a->c => a b c"];
    check("a b c", "a-b:B a-c:B", &rows);
}

#[test]
fn rows_9_alternating() {
    let rows = [
        "9: c => c d e f",
        "9: d => c d e f",
        "9b: e => e f",
        "9c: e | lost d => c d e f",
        "9d: c | named b => a b c d e f",
        "9e: f | lost b d => a b c d e f",
    ];
    check("a b c d e f", "a-b:P b-c:B c-d:P d-e:B e-f:P", &rows);
}

#[test]
fn rows_10_created_tasks_are_skipped() {
    let rows = [
        "10: b | created c => b",
        "10b: b | lost a | created c => a b",
        "10c: c | created c =>",
        "10d: c | lost b | created c => b",
    ];
    check("a b c", "a-b:B b-c:B", &rows);
}

#[test]
fn rows_11_to_14_diamonds() {
    let rows = [
        "11: d => d",
        "11b: d | lost b => b d",
        "11c: d | lost b a->b => a b c d",
        "11d: b => b d",
        "11e: b | lost a->b => a b c d",
        "11f: d | lost b c => b c d",
    ];
    check("a b c d", "a-b:B a-c:B b-d:B c-d:B", &rows);
    check("a b c d", "a-b:B a-c:P b-d:P c-d:P", &["12: a | created b => a c d"]);
    check("a b c d", "a-b:B a-c:P b-d:B c-d:P", &["13: b => a b c d"]);
    let rows = ["14: a => a b c d", "14b: b => b d", "14c: d => d", "14d: d | lost b => b d"];
    check("a b c d", "a-b:PA a-c:PA b-d:PA c-d:PA", &rows);
}

#[test]
fn rows_15_to_18_hybrid_and_persistent() {
    let rows = [
        "15: e => c d e f",
        "15b: f => f",
        "15c: d => c d e f",
        "15d: f | lost e => c d e f",
        "15e: e | lost a => a c d e f",
    ];
    check("a b c d e f", "a-e:HF b-e:B c-e:HS d-e:P e-f:HF", &rows);
    check("a b c", "a-b:HS b-c:HS", &["16: c => a b c"]);
    let rows = ["17: c => c", "17: b => b c", "17: a => a b c", "17b: b | lost a => a b c"];
    check("a b c", "a-b:HF b-c:HF", &rows);
    check("a b", "a-b:BP", &["18: b => b", "18: a => a b"]);
}

#[test]
fn rows_19_and_20_shared_data_set_and_skip_level() {
    check("a b c", "a-b,c:B", &["19: b => b", "19b: b | lost a => a b c"]);
    let rows = ["20: c | lost a->c => a b c", "20b: c | lost b => b c", "20c: b | lost a->b => a b c"];
    check("a b c", "a-b:B a-c:B b-c:B", &rows);
}

#[test]
fn rows_21_and_22_side_inputs() {
    let rows = ["21: d | lost a => c d", "21b: d | lost b => b c d", "21c: c | lost a b => a b c d"];
    check("a b c d", "a-b:B b-c:B d-c:P", &rows);
    let rows = [
        "22: y | lost a->y => a y z",
        "22b: y | lost a->y b => a b y z",
        "22c: y | lost b => y",
        "22d: z | lost a->z b x => a b x y z",
    ];
    check("a b x y z", "a-y:B a-z:B b-z:B x-y:B", &rows);
}

#[test]
fn rows_23_to_26() {
    let rows = ["23: m | created s => m", "23b: m | lost k l src | created s => src k l m"];
    check("src k l m s", "src-k:B k-l:B l-m:B m-s:B", &rows);
    check("x y u w", "x-y:P u-w:P", &["24: x => x y"]);
    check("a*2 c*2 p*2", "a=c:B p-c:P", &["25: p1 => c1 p1", "25b: c2 | lost a1 => a1 c1 c2 p1 p2"]);
    let rows = ["26: b1 | lost a1 => a1 b1", "26b: b1 | lost a3 => b1", "26c: a4 => a4 b2"];
    check("a*4 b*2", "a-b:B", &rows);
}
