//! State that a view goes on from, as a checkpoint holds it.
//!
//! # Rules kept here
//! Each worker reads the rows that are its own: a checkpoint is gone on from with any number of workers.
//!
//! # Not here
//! Which checkpoint, and whether its state is that of the plan (`query`); the files
//! ([`cenote_statestore::checkpoint`]).

use crate::dataflow::{SharedKernel, guarded};
use crate::plan::{Node, NodeId, ViewPlan};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use cenote_statestore::checkpoint::{Checkpoint, KeyGroups};
use cenote_statestore::{Changes, Epoch, Error, KEY_GROUPS, Result, VersionedTable, hash_rows, shard_of};
use std::collections::BTreeMap;

/// Where the state of a view is in a checkpoint: names of its tables, as users give them.
#[derive(Clone, Debug)]
pub struct ViewState {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// State tables, by the plan's node and the table's number ([`Node::state_tables`]).
    pub tables: BTreeMap<(NodeId, usize), String>,
    /// The view's contents.
    pub contents: String,
    /// The errors of its rows.
    pub errors: Option<String>,
}

/// One worker of several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) worker: usize,
    pub(crate) workers: usize,
}

impl Share {
    /// The key groups that have rows of the worker; of the outermost, other workers may have some too.
    fn groups(self) -> KeyGroups {
        let first = self.worker * KEY_GROUPS / self.workers;
        let end = ((self.worker + 1) * KEY_GROUPS).div_ceil(self.workers);
        KeyGroups {
            first: first as u8,
            last: (end - 1) as u8,
        }
    }

    /// The rows that are the worker's.
    ///
    /// # Arguments
    /// - `key`: the columns that they are distributed by.
    fn own(self, changes: Changes, key: &[usize]) -> Result<Changes> {
        if self.workers == 1 {
            return Ok(changes);
        }
        let columns: Vec<ArrayRef> = key
            .iter()
            .map(|column| changes.rows().column(*column).clone())
            .collect();
        let hashes = hash_rows(&columns, changes.len());
        let is_own = |row: usize| shard_of(hashes[row], self.workers) == self.worker;
        let mask = BooleanArray::new(BooleanBuffer::collect_bool(changes.len(), is_own), None);
        // Batches were written worker by worker: with as many workers as then each has one owner, and nothing is copied.
        match mask.true_count() {
            all if all == changes.len() => Ok(changes),
            0 => Ok(changes.slice(0, 0)),
            _ => changes.filter(&mask),
        }
    }

    /// For how many rows of a table to make room.
    fn of_rows(self, rows: usize) -> usize {
        let even = rows.div_ceil(self.workers);
        // Hashes spread them, but not evenly.
        if self.workers == 1 { even } else { even + even / 64 }
    }
}

impl ViewState {
    /// Gives a worker's operators the state that is theirs.
    pub(crate) fn load_operators(
        &self,
        plan: &ViewPlan,
        kernels: &BTreeMap<NodeId, SharedKernel>,
        share: Share,
    ) -> Result<()> {
        for (id, kernel) in kernels {
            let named = self.tables.range((*id, 0)..=(*id, usize::MAX));
            let bytes = named.map(|(_, name)| Ok(self.checkpoint.table(name)?.bytes));
            let bytes = bytes.sum::<Result<u64>>()? / share.workers as u64;
            kernel.borrow_mut().await_state(bytes);
            for (number, table) in Node::state_tables(&plan.nodes[*id]).iter().enumerate() {
                let name = self.tables.get(&(*id, number));
                let name = name.ok_or_else(|| Error::bug(format!("no state of `{}` was named", table.name)))?;
                let load = |rows: &RecordBatch| guarded(|| kernel.borrow_mut().load(number, rows));
                let rows = self.checkpoint.table(name)?.rows_likely();
                kernel.borrow_mut().reserve(number, share.of_rows(rows));
                // A table without rows is given all the same.
                load(&RecordBatch::new_empty(table.columns.clone()))?;
                for rows in self.checkpoint.read_table(name, share.groups())? {
                    let rows = share.own(rows?, &table.key)?;
                    if !rows.is_empty() {
                        load(rows.rows())?;
                    }
                }
                kernel.borrow_mut().note_changes(number);
            }
        }
        Ok(())
    }

    /// Fills a worker's shard of the view's table, and of that of its errors.
    pub(crate) fn load_tables(
        &self,
        contents: &VersionedTable,
        errors: Option<&VersionedTable>,
        epoch: Epoch,
        share: Share,
    ) -> Result<()> {
        let errors = self.errors.iter().zip(errors);
        for (name, table) in [(&self.contents, contents)].into_iter().chain(errors) {
            let schema = table.schema();
            let identity = schema.identity();
            let entry = self.checkpoint.table(name)?;
            let groups = match entry.key.len() == identity.len() {
                true => share.groups(),
                false => KeyGroups::ALL,
            };
            table.begin_at(share.worker, epoch);
            table.reserve(share.worker, share.of_rows(entry.rows_likely()));
            for rows in self.checkpoint.read_table(name, groups)? {
                let rows = share.own(rows?, &identity)?;
                let own = Changes::relabel(rows.rows().clone(), schema.columns.clone())?;
                table.load(share.worker, epoch, &rows.with_rows(own))?;
            }
        }
        Ok(())
    }
}
