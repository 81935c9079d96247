//! Whether the relations that a statement names are there.

use super::ReadView;
use crate::catalog::{CATALOG_SCHEMA, PUBLIC};
use crate::relations::{Relation, relations};
use cenote_statestore::Result;
use datafusion::sql::sqlparser::ast::Statement as Ast;

/// Gives names that mean nothing PostgreSQL's error, with near names, before DataFusion gives its own.
pub(super) fn check_references(ast: &Ast, view: &ReadView) -> Result<()> {
    for named in crate::past::named(ast) {
        if let Some(kept) = named.moment.as_ref().and_then(|moment| view.kept.get(moment)) {
            kept.check(&named, &view.catalog)
                .map_err(|error| error.position(named.position))?;
        }
    }
    let kept = view.named_in_kept_only(ast);
    for Relation { schema, name, position } in relations(ast) {
        if kept.contains(&(schema.clone(), name.clone())) {
            continue;
        }
        let schema = schema.as_deref().unwrap_or(PUBLIC);
        if view.database.attached_table(schema, &name).is_some() {
            continue;
        }
        if schema == CATALOG_SCHEMA {
            crate::system::check_name(&name).map_err(|error| error.position(position))?;
        }
        if schema == PUBLIC && view.given.contains_key(&name) {
            continue;
        }
        if schema == PUBLIC && view.catalog.get(&name).is_none() && !name.starts_with("pg_") {
            // Table functions are resolved by the planner.
            if view.database.planner().table_functions().contains_key(&name) {
                continue;
            }
            return Err(view.catalog.missing(&name).position(position));
        }
    }
    Ok(())
}
