//! Operator kernels: incremental operators as plain state machines over batches, free of the runtime.
//!
//! # Rules kept here
//! 1. A kernel takes the changes of one epoch in any number of pushes and, when told that the epoch is
//!    complete, gives its net output. Each push is an exact incremental step, so pushes may be cut anywhere. Output that is
//!    too much to wait may be given earlier: no row is then taken back before it is given.
//! 2. State at the end of an epoch depends only on the multiset of changes up to it.
//! 3. Everything a kernel keeps is readable as the state tables that its node declares
//!    ([`crate::plan::Node::state_tables`]), by the same numbers; a new kernel that is given those rows goes on as the old one
//!    would.
//!
//! # Not here
//! Epochs, frontiers and exchange (`dataflow`).

mod accumulator;
mod aggregate;
mod changed;
mod join;
mod load;
mod spill;
mod spread;
mod top_n;
mod values;

pub use aggregate::AggregateKernel;
pub use changed::{StateChanges, state_identity};
pub use join::JoinKernel;
pub use spill::SpillKernel;
pub use top_n::TopNKernel;

use arrow::array::{ArrayRef, RecordBatch};
use cenote_statestore::{Changes, Epoch, Error, Result};

/// Rows that are read when they are needed.
pub type LaterRows = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// An incremental operator with state.
pub trait Kernel {
    /// Changes of this epoch follow, after those of earlier ones.
    fn begin(&mut self, _epoch: Epoch) {}

    /// Takes changes of the current epoch.
    ///
    /// # Arguments
    /// - `input`: which input they come from.
    /// - `output`: output that is known already may be pushed here.
    ///
    /// # Errors
    /// The operator cannot go on; its view has failed.
    fn push(&mut self, input: usize, changes: &Changes, output: &mut Vec<Changes>) -> Result<()>;

    /// Takes some of the changes of the current epoch, from the first on, so that what they give is not too much at once.
    ///
    /// # Arguments
    /// As [`Kernel::push`].
    ///
    /// # Returns
    /// How many it has taken: all, or fewer but not none.
    ///
    /// # Errors
    /// As [`Kernel::push`].
    fn push_some(&mut self, input: usize, changes: &Changes, output: &mut Vec<Changes>) -> Result<usize> {
        self.push(input, changes, output)?;
        Ok(changes.len())
    }

    /// The epoch is complete: pushes what is left of its output.
    fn finish(&mut self, epoch: Epoch, output: &mut Vec<Changes>) -> Result<()>;

    /// The errors of rows that it could not work on, since they were last taken: rows of
    /// [`crate::plan::row_error_columns`].
    fn take_errors(&mut self) -> Result<Option<Changes>> {
        Ok(None)
    }

    /// Reads one of its state tables, between epochs.
    ///
    /// # Arguments
    /// - `table`: number of the table in [`crate::plan::Node::state_tables`].
    /// - `keys`: only rows of these keys (values of the table's key columns); `None`: everything.
    fn read(&self, table: usize, keys: Option<&[ArrayRef]>) -> Result<Vec<RecordBatch>>;

    /// Reads all of one of its state tables as it is now, between epochs, perhaps while it goes on.
    fn read_later(&mut self, table: usize) -> Result<LaterRows> {
        Ok(Box::new(self.read(table, None)?.into_iter().map(Ok)))
    }

    /// Says that it will be given rows ([`Kernel::load`]) that take so many bytes in a checkpoint, of all of its state tables together.
    fn await_state(&mut self, _bytes: u64) {}

    /// Makes room for rows of one of its state tables that it will be given ([`Kernel::load`]).
    fn reserve(&mut self, _table: usize, _rows: usize) {}

    /// Takes rows of one of its state tables, as [`Kernel::read`] gave them, in place of the changes that made them: for a new
    /// kernel, before its first epoch; later only if it has nothing of their keys yet, and is given all rows of these before
    /// anything else. Nothing comes of them, and they have not changed.
    ///
    /// # Arguments
    /// - `table`: number of the table. Tables come in their order, each in any number of batches, at least one.
    ///
    /// # Errors
    /// The rows are no state of such an operator.
    fn load(&mut self, table: usize, rows: &RecordBatch) -> Result<()>;

    /// Takes all rows of its state tables, by their numbers, in place of the changes that made them: for a new kernel, before its first
    /// epoch. Unlike after [`Kernel::load`] all that it has given for them comes again, with that epoch.
    ///
    /// # Returns
    /// Changes that are to be pushed in the first epoch for that, by input.
    ///
    /// # Errors
    /// The rows are no state of such an operator.
    fn stand(&mut self, tables: &[Vec<RecordBatch>]) -> Result<Vec<(usize, Changes)>>;

    /// Notes from here on, between epochs, which rows of one of its state tables change.
    fn note_changes(&mut self, table: usize);

    /// Takes what has changed of one of its state tables since it was last taken, or since it is noted; between epochs.
    ///
    /// # Errors
    /// `Bug`: changes of the table are not noted.
    fn take_changes(&mut self, table: usize) -> Result<StateChanges>;

    /// Rows and bytes of one of its state tables.
    fn size(&self, table: usize) -> (u64, u64);
}

fn not_noted() -> Error {
    Error::bug("changes of a state table were asked for that nobody noted")
}

#[cfg(test)]
mod tests;
