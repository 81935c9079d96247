//! Which state a view goes on with that takes another view's place.
//!
//! # Rules kept here
//! 1. An operator keeps its state where it is the same operator: same definition, over inputs that are the same all the way down.
//! 2. Of the operators that keep their state, those that are read by a new one stand: they give all that they have given so
//!    far once more. The ones below them go on in silence.
//! 3. Contents of an input are read again only where a new operator needs them.
//! 4. Errors of rows are kept for the operators that see no row again. Where errors cannot be told apart by what their
//!    operators are called, nothing is kept.
//!
//! # Not here
//! How state gets from one view to the other (`worker::replace`), and how it stands ([`crate::kernel::Kernel::stand`]).

use crate::plan::{Node, NodeId, ViewPlan};
use crate::row_errors::operator_label;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a view keeps of the one whose place it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Operators that give all that they have given so far once more: the new plan's node, and the old one's.
    pub standing: BTreeMap<NodeId, NodeId>,
    /// Operators below those: the new plan's node, and the old one's.
    pub below: BTreeMap<NodeId, NodeId>,
    /// Nodes of the new plan that are made of all that their inputs hold: the others see changes alone.
    pub rebuilt: BTreeSet<NodeId>,
    /// Names of the operators whose errors of rows are kept.
    pub(crate) errors: BTreeSet<String>,
}

impl Kept {
    /// Nothing is kept.
    pub fn nothing(new: &ViewPlan) -> Kept {
        Kept {
            rebuilt: (0..new.nodes.len()).collect(),
            ..Kept::default()
        }
    }

    /// What a new plan can keep of the state that an old one has.
    pub fn of(new: &ViewPlan, old: &ViewPlan) -> Kept {
        let mut search = Search {
            new,
            same: same_nodes(new, old),
            seen: BTreeSet::new(),
            covered: BTreeSet::new(),
            kept: Kept::default(),
        };
        search.need(new.root);
        let Search {
            same,
            covered,
            mut kept,
            ..
        } = search;
        let keeps_state = |node: &NodeId| !new.nodes[*node].state_tables().is_empty();
        let below = covered.iter().filter(|node| keeps_state(node));
        let below = below.filter(|node| !kept.standing.contains_key(node) && !kept.rebuilt.contains(node));
        kept.below = below.map(|node| (*node, same[node])).collect();
        let (again, silent) = kept.tellers(new, &covered);
        match silent.is_disjoint(&again) {
            true => Kept { errors: silent, ..kept },
            false => Kept::nothing(new),
        }
    }

    /// Whether an operator starts with state.
    pub(crate) fn has_state(&self, node: NodeId) -> bool {
        self.standing.contains_key(&node) || self.below.contains_key(&node)
    }

    /// Names of the operators that see rows again and so tell their errors again, and of those that do not.
    fn tellers(&self, plan: &ViewPlan, covered: &BTreeSet<NodeId>) -> (BTreeSet<String>, BTreeSet<String>) {
        let (mut again, mut silent) = (BTreeSet::new(), BTreeSet::new());
        let mut gives = vec![false; plan.nodes.len()];
        for (id, node) in plan.nodes.iter().enumerate() {
            let is_given = node.inputs().iter().any(|input| gives[*input]);
            let stands = self.standing.contains_key(&id);
            gives[id] = stands || !self.below.contains_key(&id) && (self.rebuilt.contains(&id) || is_given);
            if node.is_fallible() && (gives[id] || covered.contains(&id)) {
                let told = if gives[id] { &mut again } else { &mut silent };
                told.insert(label(node));
            }
        }
        (again, silent)
    }
}

/// A walk from the last operator down.
struct Search<'a> {
    new: &'a ViewPlan,
    /// Nodes of the new plan that the old one has too.
    same: BTreeMap<NodeId, NodeId>,
    seen: BTreeSet<NodeId>,
    /// Below an operator that stands.
    covered: BTreeSet<NodeId>,
    kept: Kept,
}

impl Search<'_> {
    /// All that a node has given is needed.
    fn need(&mut self, id: NodeId) {
        if !self.seen.insert(id) {
            return;
        }
        let node = &self.new.nodes[id];
        let same = self.same.get(&id).filter(|_| node.can_stand());
        let Some(old) = same else {
            self.kept.rebuilt.insert(id);
            node.inputs().into_iter().for_each(|input| self.need(input));
            return;
        };
        self.kept.standing.insert(id, *old);
        node.inputs().into_iter().for_each(|input| self.cover(input));
    }

    fn cover(&mut self, id: NodeId) {
        if self.covered.insert(id) {
            let inputs = self.new.nodes[id].inputs();
            inputs.into_iter().for_each(|input| self.cover(input));
        }
    }
}

/// The nodes of a plan that another one has too, and which those are there.
fn same_nodes(new: &ViewPlan, old: &ViewPlan) -> BTreeMap<NodeId, NodeId> {
    let mut shapes: HashMap<(String, Vec<usize>), usize> = HashMap::new();
    let mut shapes_of = |plan: &ViewPlan| -> Vec<usize> {
        let mut found: Vec<usize> = Vec::with_capacity(plan.nodes.len());
        for node in &plan.nodes {
            let inputs = node.inputs().iter().map(|input| found[*input]).collect();
            let next = shapes.len();
            found.push(*shapes.entry((node.shape(), inputs)).or_insert(next));
        }
        found
    };
    let old: HashMap<usize, NodeId> = shapes_of(old).into_iter().zip(0..).collect();
    let new = shapes_of(new).into_iter().enumerate();
    new.filter_map(|(node, shape)| Some((node, *old.get(&shape)?)))
        .collect()
}

/// What an operator is called where it tells of rows that it could not work on.
fn label(node: &Node) -> String {
    match node {
        Node::Map { program, .. } => operator_label(&program.describe()),
        Node::Aggregate(node) => operator_label(&node.name),
        Node::Join(node) => operator_label(&node.name),
        Node::TopN(node) => operator_label(&node.name),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
