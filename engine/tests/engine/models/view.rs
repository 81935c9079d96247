//! The model of a view: its plan evaluated over whole collections.

use super::{aggregate, join, top_n};
use crate::plan::{CollectionId, Node, ViewPlan};
use crate::rows::{Bag, add_changes, changes};
use std::collections::BTreeMap;

/// All collections at one epoch.
pub type Collections = BTreeMap<CollectionId, Bag>;

/// What the view holds when its inputs hold this.
pub fn results(plan: &ViewPlan, inputs: &Collections) -> Bag {
    nodes(plan, inputs).swap_remove(plan.root)
}

/// What each node of the plan gives in all.
pub fn nodes(plan: &ViewPlan, inputs: &Collections) -> Vec<Bag> {
    let mut results: Vec<Bag> = Vec::new();
    for node in &plan.nodes {
        let result = match node {
            Node::Input { collection, .. } => inputs.get(collection).cloned().unwrap_or_default(),
            Node::Constant { rows } => added([rows]),
            Node::Map { input, program } => {
                let given: Vec<_> = results[*input]
                    .iter()
                    .map(|(row, count)| (row.clone(), *count))
                    .collect();
                let given = changes(&plan.nodes[*input].schema(), &given);
                added([&program.run(given).unwrap()])
            }
            Node::Aggregate(node) => aggregate::results(node, &results[node.input]),
            Node::Join(node) => join::results(node, &results[node.left], &results[node.right]),
            Node::TopN(node) => top_n::results(node, &results[node.input]),
            Node::Union { inputs, .. } => {
                let mut all = Bag::new();
                for (row, count) in inputs.iter().flat_map(|input| &results[*input]) {
                    *all.entry(row.clone()).or_default() += count;
                }
                all
            }
        };
        results.push(result);
    }
    results
}

fn added<'a>(parts: impl IntoIterator<Item = &'a cenote_statestore::Changes>) -> Bag {
    let mut bag = Bag::new();
    parts.into_iter().for_each(|part| add_changes(&mut bag, part));
    bag
}

/// The contents of a state table of a node.
pub fn state(plan: &ViewPlan, inputs: &Collections, node: usize, table: usize) -> Bag {
    let held = nodes(plan, inputs);
    match &plan.nodes[node] {
        Node::Aggregate(node) => aggregate::state(node, &held[node.input], table),
        Node::Join(node) if table == 0 => join::state(node, &node.left_keys, &held[node.left]),
        Node::Join(node) => join::state(node, &node.right_keys, &held[node.right]),
        Node::TopN(node) => top_n::state(&held[node.input]),
        other => panic!("{} keeps no state", other.kind()),
    }
}
