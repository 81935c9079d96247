//! Which rows of a state table have changed since a checkpoint.
//!
//! # Rules kept here
//! A row that changed is told of as it is, once; one that went, by its identity. A row may be told of that is as it was.

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use cenote_statestore::{KeyIndex, Result, RowStore, TableSchema, hash_rows};
use std::sync::Arc;

/// Changes of a state table.
#[derive(Clone, Debug, Default)]
pub struct StateChanges {
    /// Rows that are new or have changed, with all columns of the table.
    pub there: Vec<RecordBatch>,
    /// Identities of rows that are not there any more: the columns that [`state_identity`] names.
    pub gone: Vec<RecordBatch>,
}

/// The columns that make the identity of a row of a state table: its key where that is unique, else all but the multiplicity.
pub fn state_identity(table: &TableSchema) -> Vec<usize> {
    match table.unique {
        true => table.key.clone(),
        false => (0..table.columns.fields().len().saturating_sub(1)).collect(),
    }
}

impl StateChanges {
    /// Leaves of what went what did not come back, each once.
    ///
    /// # Arguments
    /// - `gone`: among them all that went; of those that came back, each is in `there`.
    pub(super) fn settled(
        table: &TableSchema,
        there: Vec<RecordBatch>,
        gone: Vec<RecordBatch>,
    ) -> Result<StateChanges> {
        if gone.iter().all(|rows| rows.num_rows() == 0) {
            return Ok(StateChanges {
                there,
                gone: Vec::new(),
            });
        }
        let identity = state_identity(table);
        let mut seen = Seen::of(table)?;
        for rows in &there {
            seen.add(rows.project(&identity)?.columns(), rows.num_rows());
        }
        let left = gone.into_iter().map(|rows| {
            let is_new = seen.add(rows.columns(), rows.num_rows());
            Ok(filter_record_batch(&rows, &BooleanArray::from(is_new))?)
        });
        let left = left.collect::<Result<Vec<_>>>()?;
        Ok(StateChanges { there, gone: left })
    }

    /// As [`StateChanges::settled`], where the operator knows what is there: what has changed need not be gone through for it.
    ///
    /// # Arguments
    /// - `gone`: all that went, each once in a batch.
    /// - `are_there`: which of some identities are there.
    pub(super) fn settled_by(
        table: &TableSchema,
        there: Vec<RecordBatch>,
        gone: Vec<RecordBatch>,
        are_there: impl Fn(&RecordBatch) -> Vec<bool>,
    ) -> Result<StateChanges> {
        let mut seen = match gone.len() > 1 {
            true => Some(Seen::of(table)?),
            false => None,
        };
        let left = gone.into_iter().map(|rows| {
            let away = BooleanArray::from_iter(are_there(&rows).into_iter().map(|is_there| Some(!is_there)));
            let rows = filter_record_batch(&rows, &away)?;
            match &mut seen {
                Some(seen) => {
                    let is_new = seen.add(rows.columns(), rows.num_rows());
                    Ok(filter_record_batch(&rows, &BooleanArray::from(is_new))?)
                }
                None => Ok(rows),
            }
        });
        let gone = left.collect::<Result<Vec<_>>>()?;
        Ok(StateChanges { there, gone })
    }
}

struct Seen {
    rows: RowStore,
    index: KeyIndex,
}

impl Seen {
    /// No identities of a table as yet.
    fn of(table: &TableSchema) -> Result<Seen> {
        let identity = table.columns.project(&state_identity(table))?;
        Ok(Seen {
            rows: RowStore::new(Arc::new(identity)),
            index: KeyIndex::default(),
        })
    }

    /// Adds identities; which of them were not there.
    fn add(&mut self, columns: &[ArrayRef], count: usize) -> Vec<bool> {
        let view = RowStore::view(0..columns.len(), columns);
        let hashes = hash_rows(columns, count);
        let mut add = |row: usize, hash: u64| {
            let rows = &self.rows;
            if self.index.find(hash, |slot| rows.equals(slot, &view, row)).is_some() {
                return false;
            }
            let slot = self.rows.allocate();
            self.rows.write_one(slot, &view, row);
            self.index.insert(hash, slot);
            true
        };
        hashes
            .into_iter()
            .enumerate()
            .map(|(row, hash)| add(row, hash))
            .collect()
    }
}

/// No mark.
const NONE: u32 = u32::MAX;

/// Slots whose rows have changed, each with a number, and what went.
#[derive(Debug, Default)]
pub(super) struct ChangedSlots {
    /// By slot; [`NONE`] where it has not changed.
    marks: Vec<u32>,
    slots: Vec<u32>,
    gone: Vec<RecordBatch>,
}

impl ChangedSlots {
    /// Notes that the row in a slot is new or has changed.
    #[inline]
    pub(super) fn mark(&mut self, slot: u32, number: u32) {
        if self.marks.len() <= slot as usize {
            self.marks.resize(cenote_statestore::room_for(slot as usize + 1), NONE);
        }
        let mark = &mut self.marks[slot as usize];
        if *mark == NONE {
            self.slots.push(slot);
        }
        *mark = number;
    }

    /// Notes that a slot has no row any more.
    #[inline]
    pub(super) fn unmark(&mut self, slot: u32) {
        if let Some(mark) = self.marks.get_mut(slot as usize) {
            *mark = NONE;
        }
    }

    /// Notes identities that went.
    pub(super) fn went(&mut self, rows: RecordBatch) {
        self.gone.push(rows);
    }

    /// Takes the slots that have changed, with their numbers, and what went.
    pub(super) fn take(&mut self) -> (Vec<(u32, u32)>, Vec<RecordBatch>) {
        let mut marked = Vec::with_capacity(self.slots.len());
        for slot in self.slots.drain(..) {
            // A slot that was left and taken again is listed twice.
            let number = std::mem::replace(&mut self.marks[slot as usize], NONE);
            marked.extend((number != NONE).then_some((slot, number)));
        }
        (marked, std::mem::take(&mut self.gone))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let gone: usize = self.gone.iter().map(RecordBatch::get_array_memory_size).sum();
        (self.marks.capacity() + self.slots.capacity()) * 4 + gone
    }
}
