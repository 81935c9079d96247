//! Walks over a statement's syntax tree, compiled once for all visitors.
//!
//! sqlparser's traversal is generic in its visitor: each visitor of its own type makes the compiler repeat the walk over
//! every kind of node. Here visitors are trait objects, so there is one walk that reads and one that changes.
//!
//! # Not here
//! What the visitors look for.

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Walks over `node` and all below it.
pub(crate) fn read<B>(node: &impl Visit, visitor: &mut dyn Visitor<Break = B>) -> ControlFlow<B> {
    node.visit(&mut Reading(visitor))
}

/// Walks over `node` and all below it with a visitor that may change them.
pub(crate) fn change<B>(node: &mut impl VisitMut, visitor: &mut dyn VisitorMut<Break = B>) -> ControlFlow<B> {
    node.visit(&mut Changing(visitor))
}

struct Reading<'a, B>(&'a mut dyn Visitor<Break = B>);

struct Changing<'a, B>(&'a mut dyn VisitorMut<Break = B>);

/// Hands every node of the named kinds on to the visitor.
macro_rules! hand_on {
    ($(($pre:ident, $post:ident, $node:ty)),* $(,)?) => {
        impl<B> Visitor for Reading<'_, B> {
            type Break = B;
            $(
                fn $pre(&mut self, node: &$node) -> ControlFlow<B> {
                    self.0.$pre(node)
                }

                fn $post(&mut self, node: &$node) -> ControlFlow<B> {
                    self.0.$post(node)
                }
            )*
        }

        impl<B> VisitorMut for Changing<'_, B> {
            type Break = B;
            $(
                fn $pre(&mut self, node: &mut $node) -> ControlFlow<B> {
                    self.0.$pre(node)
                }

                fn $post(&mut self, node: &mut $node) -> ControlFlow<B> {
                    self.0.$post(node)
                }
            )*
        }
    };
}

hand_on![
    (pre_visit_query, post_visit_query, Query),
    (pre_visit_select, post_visit_select, Select),
    (pre_visit_relation, post_visit_relation, ObjectName),
    (pre_visit_table_factor, post_visit_table_factor, TableFactor),
    (pre_visit_expr, post_visit_expr, Expr),
    (pre_visit_statement, post_visit_statement, Statement),
    (pre_visit_value, post_visit_value, ValueWithSpan),
];
