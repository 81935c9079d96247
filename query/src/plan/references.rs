//! The relations that a statement names, and whether they are there.

use super::ReadView;
use crate::catalog::{CATALOG_SCHEMA, PUBLIC};
use crate::walk;
use cenote_statestore::Result;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Statement as Ast, Visitor};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// All relations that a statement names: schema, name.
pub(crate) fn named_relations(ast: &Ast) -> Vec<(Option<String>, String)> {
    let relations = relations(ast).into_iter();
    relations.map(|relation| (relation.schema, relation.name)).collect()
}

/// A relation as a statement names it.
struct Relation {
    schema: Option<String>,
    name: String,
    /// Position in the statement.
    position: usize,
}

fn relations(ast: &Ast) -> Vec<Relation> {
    struct Relations(Vec<Relation>);
    impl Visitor for Relations {
        type Break = ();
        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
            let parts: Vec<&Ident> = relation.0.iter().filter_map(|part| part.as_ident()).collect();
            if let [before @ .., name] = parts.as_slice() {
                self.0.push(Relation {
                    schema: before.last().map(|schema| crate::names::folded(schema)),
                    name: crate::names::folded(name),
                    position: parts[0].span.start.column as usize,
                });
            }
            ControlFlow::Continue(())
        }
    }
    let mut relations = Relations(Vec::new());
    let _ = walk::read(ast, &mut relations);
    relations.0
}

/// Gives names that mean nothing PostgreSQL's error, with near names, before DataFusion gives its own.
pub(super) fn check_references(ast: &Ast, view: &ReadView) -> Result<()> {
    let hidden = common_table_names(ast);
    for Relation { schema, name, position } in relations(ast) {
        let schema = schema.as_deref().unwrap_or(PUBLIC);
        if schema == CATALOG_SCHEMA {
            crate::system::check_name(&name).map_err(|error| error.position(position))?;
        }
        if schema == PUBLIC && view.given.contains_key(&name) {
            continue;
        }
        if schema == PUBLIC && !hidden.contains(&name) && view.catalog.get(&name).is_none() && !name.starts_with("pg_")
        {
            // Table functions are resolved by the planner.
            if view.database.planner().table_functions().contains_key(&name) {
                continue;
            }
            return Err(view.catalog.missing(&name).position(position));
        }
    }
    Ok(())
}

fn common_table_names(ast: &Ast) -> BTreeSet<String> {
    struct Names(BTreeSet<String>);
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_query(&mut self, query: &datafusion::sql::sqlparser::ast::Query) -> ControlFlow<()> {
            let tables = query.with.iter().flat_map(|with| &with.cte_tables);
            self.0
                .extend(tables.map(|table| crate::names::folded(&table.alias.name)));
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(BTreeSet::new());
    let _ = walk::read(ast, &mut names);
    names.0
}
