//! The stored relations that a statement names.
//!
//! # Rules kept here
//! 1. A common table expression is no stored relation, and hides one of its name where its own name is in scope.
//!
//! # Not here
//! Whether they are there ([`crate::plan`]).

use crate::expand::Common;
use crate::names::folded;
use crate::walk;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, Statement as Ast, Visitor};
use std::ops::ControlFlow;

/// A relation as a statement names it.
pub(crate) struct Relation {
    /// The schema, if one is named.
    pub(crate) schema: Option<String>,
    /// The name.
    pub(crate) name: String,
    /// Position in the statement.
    pub(crate) position: usize,
}

/// All stored relations that a statement names: schema, name.
pub(crate) fn named_relations(ast: &Ast) -> Vec<(Option<String>, String)> {
    let relations = relations(ast).into_iter();
    relations.map(|relation| (relation.schema, relation.name)).collect()
}

/// All stored relations that a statement names.
pub(crate) fn relations(ast: &Ast) -> Vec<Relation> {
    let mut relations = Relations::default();
    let _ = walk::read(ast, &mut relations);
    relations.found
}

#[derive(Default)]
struct Relations {
    found: Vec<Relation>,
    common: Vec<Common>,
}

impl Visitor for Relations {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        Common::enter_query(&mut self.common, query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        Common::leave_query(&mut self.common);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let parts: Vec<&Ident> = relation.0.iter().filter_map(|part| part.as_ident()).collect();
        if let [before @ .., name] = parts.as_slice() {
            let (schema, name) = (before.last().map(|schema| folded(schema)), folded(name));
            if schema.is_some() || !Common::hide(&self.common, &name) {
                self.found.push(Relation {
                    schema,
                    name,
                    position: parts[0].span.start.column as usize,
                });
            }
        }
        ControlFlow::Continue(())
    }
}
