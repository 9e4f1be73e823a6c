//! Flink's tests of region building (reference 8.1) and the examples of 1.5.

use super::*;
use crate::core::testing::{dynamic_topology, graph, grow, names, task, topology};

/// Regions as lists of tasks, by their first task.
fn regions(vertices: &str, edges: &str) -> Vec<String> {
    let topology = topology(vertices, edges);
    let regions = Regions::build(&topology);
    for region in regions.all() {
        assert!(regions.tasks(region).iter().all(|&task| regions.region_of(task) == region));
    }
    regions.all().map(|region| names(&topology, regions.tasks(region))).collect()
}

fn deadlocked(vertices: &str, edges: &str) -> Option<Vec<usize>> {
    let topology = topology(vertices, edges);
    Regions::build(&topology).deadlocked_vertices(&topology)
}

// P009 P020
#[test]
fn unconnected_vertices_are_regions_of_their_own() {
    assert_eq!(regions("a b c", ""), ["a", "b", "c"]);
    assert_eq!(regions("", ""), [""; 0]);
}

// P010
#[test]
fn parallel_chains_are_regions_of_their_own() {
    assert_eq!(regions("a*3 b*3", "a-b:P"), ["a1 b1", "a2 b2", "a3 b3"]);
}

// P011
#[test]
fn two_pipelined_exchanges_are_one_region() {
    assert_eq!(regions("a*2 b*2 c*2", "a=b:P b=c:P"), ["a1 a2 b1 b2 c1 c2"]);
}

// P012 P013
#[test]
fn pipelined_trees_are_one_region() {
    assert_eq!(regions("a b c d e f g", "a-e:P b-e:P c-f:P d-f:P e-g:P f-g:P"), ["a b c d e f g"]);
    assert_eq!(regions("a b c d e f g", "a-b:P a-c:P b-d:P b-e:P c-f:P c-g:P"), ["a b c d e f g"]);
}

// P014 P015
#[test]
fn a_blocking_exchange_is_a_border() {
    let expected = ["a1 a2 b1 b2", "c1", "c2"];
    assert_eq!(regions("a*2 b*2 c*2", "a=b:P b-c:B"), expected);
    assert_eq!(regions("a*2 b*2 c*2", "a=b:P b=c:B"), expected);
}

// P016
#[test]
fn a_cascade_of_joins_is_cut_at_its_blocking_edges() {
    assert_eq!(regions("a b c d e f g", "a-e:P b-e:P c-f:P d-f:P e-g:B f-g:B"), ["a b e", "c d f", "g"]);
}

// P017 P024
#[test]
fn a_blocking_edge_within_a_pipelined_diamond_changes_nothing() {
    assert_eq!(regions("a b c d", "a-b:B a-c:P b-d:P c-d:P"), ["a b c d"]);
}

// P019 P021 P022 P023
#[test]
fn only_edges_that_must_be_pipelined_tie() {
    for kind in ["PA", "B", "BP", "HF", "HS"] {
        assert_eq!(regions("a b", &format!("a-b:{kind}")), ["a", "b"], "{kind}");
    }
    for kind in ["P", "PU"] {
        assert_eq!(regions("a b", &format!("a-b:{kind}")), ["a b"], "{kind}");
    }
    assert_eq!(regions("a b c", "a-b:B b-c:P"), ["a", "b c"]);
    assert_eq!(regions("a b c", "a-b:B b-c:B"), ["a", "b", "c"]);
    assert_eq!(regions("a b c", "a-b:P b-c:P"), ["a b c"]);
    assert_eq!(regions("a b c d", "a-c:P b-c:B c-d:P"), ["a c d", "b"]);
    assert_eq!(regions("a b c d", "a-b:P b-c:B b-d:P"), ["a b d", "c"]);
    assert_eq!(regions("a b", "a-b:B a-b:P"), ["a b"], "two data sets between one pair");
}

// P030
#[test]
fn a_pipelined_pair_is_one_region_and_each_task_is_in_it() {
    let pair = topology("a b", "a-b:P");
    let regions = Regions::build(&pair);
    assert_eq!((regions.count(), regions.tasks(RegionIndex(0))), (1, &[TaskIndex(0), TaskIndex(1)][..]));
}

/// Reference 1.5. The second row has two regions since Flink 1.14.
#[test]
fn cyclic_merge_examples() {
    assert_eq!(regions("a b c d", "a-b:B a-c:P b-d:P c-d:P"), ["a b c d"]);
    assert_eq!(regions("a b c d", "a-b:B a-c:P b-d:B c-d:P"), ["a c d", "b"]);
    assert_eq!(regions("a*2 b*2 c*2", "a-b:P b-c:P a=c:B"), ["a1 a2 b1 b2 c1 c2"]);
}

/// All-to-all edges of any type keep a logical region whole (FLINK-17330), wherever they are in it.
#[test]
fn an_inner_all_to_all_edge_keeps_the_logical_region_whole() {
    assert_eq!(regions("a*2 b*2", "a-b:P a=b:B"), ["a1 a2 b1 b2"]);
    assert_eq!(regions("a*2 b*2 c*2", "a-b:P b-c:P b=c:HF"), ["a1 a2 b1 b2 c1 c2"]);
    // Between logical regions it does not.
    assert_eq!(regions("a*2 b*2 c*2", "a-b:P b=c:B"), ["a1 b1", "a2 b2", "c1", "c2"]);
}

/// Fan-in cuts five subtasks as 2 and 3, fan-out as 3 and 2: the blocking edges then point both ways.
// P018
#[test]
fn regions_that_reach_each_other_inside_a_logical_region_are_merged() {
    let pipelined = "x-y:P y-w:P x-v:P";
    let vertices = "x*5 y*2 w*3 v*5";
    let raw = ["x1 x2 y1 w1 w2 v1 v2", "x3 x4 x5 y2 w3 v3 v4 v5"];
    assert_eq!(regions(vertices, pipelined), raw);
    assert_eq!(regions(vertices, &format!("{pipelined} y-v:B")), raw, "one way");
    assert_eq!(regions(vertices, &format!("{pipelined} x-w:B")), raw, "the other way");
    let all = ["x1 x2 x3 x4 x5 y1 y2 w1 w2 w3 v1 v2 v3 v4 v5"];
    assert_eq!(regions(vertices, &format!("{pipelined} y-v:B x-w:B")), all, "both ways");
}

#[test]
fn the_order_of_vertices_only_changes_the_numbering() {
    assert_eq!(regions("d c b a", "a-b:P b-c:B c-d:P"), ["d c", "b a"]);
}

/// Reference 1.3: {b, f} and {c, d} wait for each other.
#[test]
fn logical_regions_that_wait_for_each_other_are_found() {
    assert_eq!(deadlocked("b f c d", "b-f:P c-d:P b-d:B c-f:B"), Some(vec![0, 1, 2, 3]));
    assert_eq!(deadlocked("a b c d", "a-b:B a-c:P b-d:B c-d:P"), Some(vec![0, 1, 2, 3]));
    // What hangs before or behind the knot is not part of it.
    assert_eq!(deadlocked("s a b c d t", "s-a:B a-b:B a-c:P b-d:B c-d:P d-t:B"), Some(vec![1, 2, 3, 4]));
    assert_eq!(deadlocked("a b c d", "a-b:B a-c:P b-d:P c-d:P"), None, "one logical region does not wait for itself");
    assert_eq!(deadlocked("a b c d", "a-b:B a-c:B b-d:HF c-d:PA"), None);
    assert_eq!(deadlocked_vertices(&graph("a b", "a-b:B")), None);
}

/// Regions as lists of tasks, after each of the given decisions.
fn grown(vertices: &str, edges: &str, decisions: &[&str]) -> Vec<Vec<String>> {
    let mut topology = dynamic_topology(vertices, edges);
    let mut regions = Regions::build(&topology);
    let listed = |topology: &Topology, regions: &Regions| -> Vec<String> {
        regions.all().map(|region| names(topology, regions.tasks(region))).collect()
    };
    let mut steps = vec![listed(&topology, &regions)];
    for decided in decisions {
        grow(&mut topology, decided).unwrap();
        regions.grow(&topology);
        for task in topology.tasks() {
            assert!(regions.tasks(regions.region_of(task)).contains(&task));
        }
        steps.push(listed(&topology, &regions));
    }
    steps
}

// P034
#[test]
fn regions_that_exist_do_not_change_when_the_topology_grows() {
    let mut topology = dynamic_topology("a*3 b*?", "a=b:B");
    let mut regions = Regions::build(&topology);
    let before = regions.region_of(task(&topology, "a2"));
    grow(&mut topology, "b*2").unwrap();
    regions.grow(&topology);
    assert_eq!(regions.region_of(task(&topology, "a2")), before);
    assert_eq!(names(&topology, regions.tasks(before)), "a2");
    assert_eq!(regions.count(), 5);
}

#[test]
fn new_regions_come_behind_the_old_ones() {
    let steps = grown("a*2 b*? c*? d*?", "a=b:B b-c:P c=d:B", &["b*2 c*2", "d*2"]);
    let expected: [&[&str]; 3] =
        [&["a1", "a2"], &["a1", "a2", "b1 c1", "b2 c2"], &["a1", "a2", "b1 c1", "b2 c2", "d1", "d2"]];
    assert_eq!(steps, expected);
    assert_eq!(grown("", "", &[""]), [[""; 0], [""; 0]]);
    assert_eq!(grown("a*?", "", &["a*2"]), [vec![], vec!["a1", "a2"]]);
}

#[test]
fn several_growths_can_be_caught_up_with_at_once() {
    let mut topology = dynamic_topology("a*2 b*? c*?", "a=b:B b=c:B");
    let mut regions = Regions::build(&topology);
    grow(&mut topology, "b*2").unwrap();
    grow(&mut topology, "c*2").unwrap();
    regions.grow(&topology);
    regions.grow(&topology);
    let listed: Vec<_> = regions.all().map(|region| names(&topology, regions.tasks(region))).collect();
    assert_eq!(listed, ["a1", "a2", "b1", "b2", "c1", "c2"]);
}

/// All rules of building hold for what is added: whole regions, and regions that reach each other.
#[test]
fn what_is_added_is_cut_into_regions_as_ever() {
    let steps = grown("s x*? y*? z*?", "s=x:B x-y:P x=y:B y=z:B", &["x*2 y*2", "z"]);
    assert_eq!(steps[1], ["s", "x1 x2 y1 y2"]);
    assert_eq!(steps[2], ["s", "x1 x2 y1 y2", "z"]);
    let pipelined = "s=x:B x-y:P y-w:P x-v:P";
    let (vertices, decided) = ("s x*? y*? w*? v*?", ["x*5 y*2 w*3 v*5"]);
    let raw = ["s", "x1 x2 y1 w1 w2 v1 v2", "x3 x4 x5 y2 w3 v3 v4 v5"];
    assert_eq!(grown(vertices, pipelined, &decided)[1], raw);
    let all = ["s", "x1 x2 x3 x4 x5 y1 y2 w1 w2 w3 v1 v2 v3 v4 v5"];
    assert_eq!(grown(vertices, &format!("{pipelined} y-v:B x-w:B"), &decided)[1], all);
}

/// A logical region of which a part was laid out is left as it is: as in Flink, what is missing can never be decided.
#[test]
fn an_edge_from_old_to_new_tasks_of_one_logical_region_joins_nothing() {
    for edge in ["a-b:B", "a=b:B"] {
        let steps = grown("a*2 b*? c*?", &format!("{edge} a-c:P b-c:P"), &["b*2"]);
        let expected = if edge == "a-b:B" { vec!["a1", "a2", "b1", "b2"] } else { vec!["a1 a2", "b1 b2"] };
        assert_eq!(steps[1], expected, "{edge}");
    }
}
