//! PostgreSQL's system catalog: `pg_catalog` and `information_schema`, so that clients can find out what is here.
//!
//! # Owns
//! The system tables and views, their functions, the types `oid` and `regclass` and their kind, and rewrites of what
//! clients ask into SQL that the planner takes. All of it is put together for the statement that asks, from the
//! catalog as that statement sees it; statements that do not ask pay for one look at their syntax tree.
//!
//! # Not here
//! Which PostgreSQL type a column is (`pgtype`); Cenote's own system tables (`system`).
//!
//! # Source
//! "System Catalogs", PostgreSQL 16 documentation, chapter 53. Types, functions and operators that PostgreSQL itself
//! brings, and most rewrites, are those of the library `datafusion-pg-catalog`.

mod casts;
mod functions;
mod library;
mod names;
mod oids;
mod relations;
mod rewrite;
mod rows;
mod tables;
mod touch;
mod views;

#[cfg(test)]
mod tests;

pub(crate) use casts::metadata;
pub(crate) use relations::SystemCatalog;
pub(crate) use rewrite::rewrite;
pub(crate) use touch::{assigned_settings, is_touched};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;

/// The schema of the system tables.
pub(crate) const SCHEMA: &str = "pg_catalog";

/// The schema of the standard's views.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// A planner that knows the functions of the system catalog.
pub(crate) fn with_functions(state: &SessionState, relations: &Arc<SystemCatalog>) -> Result<SessionState> {
    let mut state = state.clone();
    for function in functions::all(relations) {
        state.register_udf(function)?;
    }
    Ok(state)
}

/// Gives a plan PostgreSQL's types of system columns.
pub(crate) fn apply_types(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    casts::apply(plan, state)
}

/// Columns and rows of a table of `pg_catalog`; `None`: there is none of that name. Views are not tables: their query
/// stands in their place before names are looked up.
pub(crate) fn table(relations: &SystemCatalog, name: &str) -> Option<(SchemaRef, Vec<RecordBatch>)> {
    tables::table(relations, name)
}

/// Names of all tables of `pg_catalog`.
pub(crate) fn table_names() -> Vec<String> {
    oids::WELL_KNOWN.iter().map(|(name, _)| name.to_string()).collect()
}
