//! INSERT, UPDATE, DELETE and TRUNCATE: what they read and the rows they give to the transaction.
//!
//! # Not here
//! Conflicts of keys inside a transaction ([`crate::transaction`]) and between transactions (the engine's committer);
//! running a statement again when another one got to its rows first (`session`).

mod assignments;
mod change;
mod insert;
mod kept;
mod returning;
mod rows;
mod upsert;

pub(crate) use assignments::is_default;
pub(crate) use change::{delete, deleted_from, parameters_of_change, target, truncate, update};
pub(crate) use insert::{insert, parameters_of_insert};
pub(crate) use kept::kept_form;
pub(crate) use returning::{Returning, no_rows};
pub(crate) use rows::{assign, check_rows, nullable};

use crate::catalog::Table;
use crate::error::unsupported;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_statestore::Result;

/// What a statement has changed.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// Rows inserted, updated or deleted.
    pub(crate) count: usize,
    /// What RETURNING asks for.
    pub(crate) returned: Option<RecordBatch>,
}

/// The columns that a table's rows are stored in.
fn stored_columns(table: &Table) -> Result<SchemaRef> {
    let versioned = table
        .versioned
        .as_ref()
        .ok_or_else(|| unsupported("a change of a table that keeps no rows"))?;
    Ok(versioned.schema().columns.clone())
}

/// Stored rows in the columns that users see.
fn visible_rows(table: &Table, rows: &RecordBatch) -> Result<RecordBatch> {
    let visible: Vec<usize> = (0..table.columns.fields().len()).collect();
    Ok(rows.project(&visible)?)
}
