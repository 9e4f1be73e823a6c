//! Strongly connected components without recursion: a ring of 100 000 nodes must not overflow the stack
//! (reference 1.4).

use super::csr::Csr;

const UNSEEN: u32 = u32::MAX;

/// For each of `nodes` nodes the number of its component. Tarjan's algorithm with its stack on the heap.
pub(crate) fn components(nodes: usize, edges: &[(u32, u32)]) -> Vec<u32> {
    let successors = Csr::of_pairs(nodes, edges.iter().map(|&(from, to)| (from as usize, to)));
    let mut search = Search {
        successors,
        order: vec![UNSEEN; nodes],
        low: vec![UNSEEN; nodes],
        component: vec![UNSEEN; nodes],
        open: Vec::new(),
        next_order: 0,
        next_component: 0,
    };
    for node in (0_u32..).take(nodes) {
        if search.order[node as usize] == UNSEEN {
            search.visit(node);
        }
    }
    search.component
}

/// The nodes that are on a cycle, in order: those that share their component with another node, or have an edge to
/// themselves.
pub(crate) fn on_cycle(nodes: usize, edges: &[(u32, u32)]) -> Vec<usize> {
    let components = components(nodes, edges);
    let mut sizes = vec![0_u32; nodes];
    components.iter().for_each(|&component| sizes[component as usize] += 1);
    let mut is_on_cycle: Vec<bool> = components.iter().map(|&component| sizes[component as usize] > 1).collect();
    for &(from, _) in edges.iter().filter(|(from, to)| from == to) {
        is_on_cycle[from as usize] = true;
    }
    (0..nodes).filter(|&node| is_on_cycle[node]).collect()
}

struct Search {
    successors: Csr,
    /// When a node was first seen.
    order: Vec<u32>,
    /// The earliest node on `open` that is known to be reachable.
    low: Vec<u32>,
    component: Vec<u32>,
    /// Seen, and not yet in a component.
    open: Vec<u32>,
    next_order: u32,
    next_component: u32,
}

impl Search {
    fn visit(&mut self, start: u32) {
        // A node, and how many of its successors were followed.
        let mut path = vec![(start, 0)];
        self.enter(start);
        while let Some(&mut (node, ref mut followed)) = path.last_mut() {
            let at = node as usize;
            if let Some(&next) = self.successors.row(at).get(*followed) {
                *followed += 1;
                if self.order[next as usize] == UNSEEN {
                    self.enter(next);
                    path.push((next, 0));
                } else if self.component[next as usize] == UNSEEN {
                    self.low[at] = self.low[at].min(self.order[next as usize]);
                }
                continue;
            }
            path.pop();
            if let Some(&(parent, _)) = path.last() {
                self.low[parent as usize] = self.low[parent as usize].min(self.low[at]);
            }
            if self.low[at] == self.order[at] {
                self.close(node);
            }
        }
    }

    fn enter(&mut self, node: u32) {
        self.order[node as usize] = self.next_order;
        self.low[node as usize] = self.next_order;
        self.next_order += 1;
        self.open.push(node);
    }

    /// `root` and everything opened after it are one component.
    fn close(&mut self, root: u32) {
        while let Some(node) = self.open.pop() {
            self.component[node as usize] = self.next_component;
            if node == root {
                break;
            }
        }
        self.next_component += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn groups(nodes: usize, edges: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (node, component) in (0..).zip(components(nodes, edges)) {
            groups.entry(component).or_default().push(node);
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort();
        groups
    }

    // P025
    #[test]
    fn cycles_are_found() {
        assert_eq!(groups(5, &[(0, 2), (0, 3), (1, 0), (2, 1), (3, 4)]), [vec![0, 1, 2], vec![3], vec![4]]);
        let two = [(1, 2), (1, 3), (2, 3), (3, 0), (4, 3), (4, 5), (5, 6), (6, 4), (0, 1), (0, 2)];
        assert_eq!(groups(7, &two), [vec![0, 1, 2, 3], vec![4, 5, 6]]);
        let connected = [(0, 1), (1, 2), (1, 5), (2, 0), (2, 6), (3, 4), (4, 3), (5, 3), (5, 4), (6, 7), (7, 6)];
        assert_eq!(groups(8, &connected), [vec![0, 1, 2], vec![3, 4], vec![5], vec![6, 7]]);
    }

    // P026
    #[test]
    fn what_is_before_or_behind_a_cycle_is_not_on_it() {
        assert_eq!(on_cycle(5, &[(0, 1), (1, 2), (2, 1), (2, 3), (3, 4)]), [1, 2]);
        assert_eq!(on_cycle(3, &[(0, 1), (1, 1), (1, 2)]), [1]);
        assert_eq!(on_cycle(2, &[(0, 1)]), [] as [usize; 0]);
    }

    #[test]
    fn without_a_cycle_every_node_is_alone() {
        assert_eq!(groups(3, &[]), [[0], [1], [2]]);
        assert_eq!(groups(5, &[(0, 1), (0, 2), (1, 3), (3, 4), (2, 4)]), [[0], [1], [2], [3], [4]]);
    }

    // P027
    #[test]
    fn a_ring_of_100_000_nodes_is_one_component() {
        const NODES: u32 = 100_000;
        let ring: Vec<_> = (0..NODES).map(|node| (node, (node + 1) % NODES)).collect();
        assert_eq!(groups(NODES as usize, &ring).len(), 1);
    }

    /// Against petgraph, on all graphs of four nodes (4096 without self edges).
    #[test]
    fn all_small_graphs_agree_with_petgraph() {
        let pairs: Vec<(u32, u32)> =
            (0..4).flat_map(|a| (0..4).map(move |b| (a, b))).filter(|&(a, b)| a != b).collect();
        for mask in 0..1_u32 << pairs.len() {
            let edges: Vec<_> = (0..pairs.len()).filter(|bit| mask & (1 << bit) != 0).map(|bit| pairs[bit]).collect();
            let mut graph = petgraph::graph::DiGraph::<(), ()>::from_edges(&edges);
            while graph.node_count() < 4 {
                graph.add_node(());
            }
            let mut expected: Vec<Vec<u32>> = petgraph::algo::kosaraju_scc(&graph)
                .into_iter()
                .map(|component| {
                    let mut nodes: Vec<_> = component.iter().map(|&node| node.index() as u32).collect();
                    nodes.sort_unstable();
                    nodes
                })
                .collect();
            expected.sort();
            assert_eq!(groups(4, &edges), expected, "{edges:?}");
        }
    }
}
