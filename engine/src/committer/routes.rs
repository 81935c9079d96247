//! Which views the rows of a commit cannot matter to: those whose first filters let none of them pass.
//!
//! An epoch costs each view that it touches a round of the dataflow, some tens of microseconds, whatever comes of its rows; a
//! filter on a few rows costs one or two. So a small commit to a collection that many views read is tried on their filters
//! here, and the others are as if it had been to another collection.
//!
//! # Not here
//! What a view makes of the rows: it runs its filters again on what reaches it.

use crate::dataflow::guarded;
use crate::meters::ViewMeters;
use crate::plan::{CollectionId, Node, NodeId, RowProgram, ViewPlan};
use cenote_statestore::Changes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rows of one collection in a commit up to which they are tried.
const ROWS_MAX: usize = 64;

/// Views that read a collection from which on it is worth it.
const VIEWS_MIN: usize = 8;

/// The first filters of all views, by the collection that they are on.
#[derive(Default)]
pub(crate) struct Routes(BTreeMap<CollectionId, BTreeMap<CollectionId, Route>>);

/// What a view does first with the rows of one collection.
struct Route {
    /// Where the collection comes in: the input's node, and the nodes that read it.
    uses: Vec<(NodeId, Vec<First>)>,
    meters: Arc<ViewMeters>,
}

/// A node that reads an input.
enum First {
    Map(NodeId, Arc<dyn RowProgram>),
    /// Every row matters to it.
    Other,
}

impl Routes {
    /// Adds a view.
    pub(super) fn add(&mut self, view: CollectionId, plan: &ViewPlan, meters: &Arc<ViewMeters>) {
        for (id, node) in plan.nodes.iter().enumerate() {
            if let Node::Input { collection, .. } = node {
                let route = self.0.entry(*collection).or_default().entry(view);
                let route = route.or_insert_with(|| Route {
                    uses: Vec::new(),
                    meters: meters.clone(),
                });
                route.uses.push((id, firsts(plan, id)));
            }
        }
    }

    /// Takes a view away.
    pub(super) fn remove(&mut self, view: CollectionId) {
        self.0.values_mut().for_each(|routes| {
            routes.remove(&view);
        });
        self.0.retain(|_, routes| !routes.is_empty());
    }

    /// The views that read what a commit changes and that none of its rows can matter to, ascending.
    pub(super) fn unmoved(&self, changes: &[(CollectionId, Changes)]) -> Arc<[CollectionId]> {
        let (mut unmoved, mut moved) = (BTreeSet::new(), BTreeSet::new());
        for (collection, changes) in changes.iter().filter(|(_, changes)| !changes.is_empty()) {
            let Some(routes) = self.0.get(collection) else {
                continue;
            };
            let is_tried = changes.len() <= ROWS_MAX && routes.len() >= VIEWS_MIN;
            for (view, route) in routes {
                match is_tried && !route.lets_pass(changes) {
                    true => unmoved.insert(*view),
                    false => moved.insert(*view),
                };
            }
        }
        let unmoved: Vec<CollectionId> = unmoved.difference(&moved).copied().collect();
        let tried = changes
            .iter()
            .flat_map(|(collection, changes)| Some((self.0.get(collection)?, changes)));
        for (routes, changes) in tried {
            unmoved
                .iter()
                .filter_map(|view| routes.get(view))
                .for_each(|route| route.count(changes));
        }
        unmoved.into()
    }
}

impl Route {
    /// Whether any row gets past the first filters, or fails in one.
    fn lets_pass(&self, changes: &Changes) -> bool {
        self.uses
            .iter()
            .flat_map(|(_, firsts)| firsts)
            .any(|first| match first {
                First::Map(_, program) => {
                    guarded(|| program.run(changes.clone())).map_or(true, |rows| !rows.is_empty())
                }
                First::Other => true,
            })
    }

    /// Counts rows as if they had come to the view and gone no further.
    fn count(&self, changes: &Changes) {
        for (input, firsts) in self.uses.iter().filter(|_| !changes.is_empty()) {
            self.meters.of(*input).gave(changes.len());
            for first in firsts {
                if let First::Map(node, _) = first {
                    self.meters.of(*node).took(changes.len());
                }
            }
        }
    }
}

/// The nodes that read a node.
fn firsts(plan: &ViewPlan, input: NodeId) -> Vec<First> {
    let readers = plan
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.inputs().contains(&input));
    let mut firsts: Vec<First> = readers
        .map(|(id, node)| match node {
            Node::Map { program, .. } => First::Map(id, program.clone()),
            _ => First::Other,
        })
        .collect();
    // The input is the view itself.
    firsts.extend((plan.root == input).then_some(First::Other));
    firsts
}
