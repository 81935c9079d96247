//! A table on its way to the rows that it has in a checkpoint: by any thread, while the engine starts.
//!
//! # Not here
//! That nobody reads the table or commits to it meanwhile: who starts the engine sees to that.

use super::tables::RowIds;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use cenote_statestore::{Changes, Epoch, Result, VersionedTable};
use std::sync::Arc;

/// A table that is empty, to be filled.
#[derive(Debug)]
pub struct Filling {
    table: Arc<VersionedTable>,
    row_ids: Option<RowIds>,
    epoch: Epoch,
}

impl Filling {
    /// # Arguments
    /// - `row_ids`: of a table whose last column numbers its rows.
    /// - `epoch`: that the rows are of.
    pub(super) fn new(table: Arc<VersionedTable>, row_ids: Option<RowIds>, epoch: Epoch) -> Filling {
        Filling { table, row_ids, epoch }
    }

    /// Fills the table.
    ///
    /// # Arguments
    /// - `rows_likely`: for how many rows to make room.
    ///
    /// # Errors
    /// One of `rows`; `Bug`: they are no rows of the table.
    pub fn fill(self, rows_likely: usize, rows: impl Iterator<Item = Result<Changes>>) -> Result<()> {
        let columns = &self.table.schema().columns;
        self.table.begin_at(0, self.epoch);
        self.table.reserve(0, rows_likely);
        for changes in rows {
            let changes = changes?;
            let stored = Changes::relabel(changes.rows().clone(), columns.clone())?;
            if let (Some(ids), Some(given)) = (&self.row_ids, stored.columns().last()) {
                ids.pass(given.as_primitive::<Int64Type>().values());
            }
            self.table.load(0, self.epoch, &changes.with_rows(stored))?;
        }
        Ok(())
    }
}
