//! Rows in slots: columns side by side, with a list of free slots.
//!
//! # Not here
//! Which slot a key has ([`KeyIndex`]); versions ([`crate::VersionedTable`]).

use crate::KeyIndex;
use crate::column::{ArrayView, Column, Stored};
use crate::index::with_spare;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use std::ops::Range;

/// Columns of equal length whose rows are allocated and released one at a time.
#[derive(Debug)]
pub struct RowStore {
    schema: SchemaRef,
    columns: Vec<Column>,
    free: Vec<u32>,
    slots: u32,
}

/// Borrowed columns of a batch, to compare with stored rows or to insert from, one row at a time.
pub struct RowView<'a>(Vec<(usize, ArrayView<'a>)>);

/// How many values to have ready when `slots` are needed: few enough that those behind are soon in use. What is written takes
/// memory, what an allocation has beyond that does not.
pub fn room_for(slots: usize) -> usize {
    slots + (slots / 2).clamp(15, 4096)
}

impl RowStore {
    /// An empty store.
    ///
    /// # Panics
    /// If a column's type is not [`crate::storable`].
    pub fn new(schema: SchemaRef) -> RowStore {
        let columns = schema
            .fields()
            .iter()
            .map(|field| Column::new(field.data_type()))
            .collect();
        RowStore {
            schema,
            columns,
            free: Vec::new(),
            slots: 0,
        }
    }

    /// The columns' names and types.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Takes a free slot; its contents are arbitrary until written.
    #[inline]
    pub fn allocate(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        if self.slots as usize == self.capacity() {
            let room = room_for(self.slots as usize + 1);
            self.columns.iter_mut().for_each(|column| column.grow(room));
        }
        self.slots += 1;
        self.slots - 1
    }

    /// Makes room for rows to be appended, so that nothing is moved while they come, and for some more.
    pub fn reserve(&mut self, rows: usize) {
        let (first, rows) = (self.slots as usize, with_spare(rows));
        self.columns.iter_mut().for_each(|column| column.reserve(first, rows));
    }

    /// Adds rows in slots of their own, one behind the other and behind all others.
    ///
    /// # Arguments
    /// - `columns`: all columns, of `rows` values each.
    ///
    /// # Returns
    /// The first of the slots.
    pub fn append(&mut self, columns: &[ArrayRef], rows: usize) -> u32 {
        debug_assert_eq!(columns.len(), self.columns.len());
        let first = self.slots;
        for (column, array) in self.columns.iter_mut().zip(columns) {
            column.append(first as usize, array);
        }
        self.slots += rows as u32;
        first
    }

    /// Whether two slots have the same values in columns `indices`; NULL equals NULL.
    #[inline]
    pub fn same(&self, indices: &[usize], a: u32, b: u32) -> bool {
        indices.iter().all(|index| self.columns[*index].same(a, b))
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.columns.first().map_or(usize::MAX, Column::slots)
    }

    /// Gives a slot back.
    pub fn release(&mut self, slot: u32) {
        self.columns.iter_mut().for_each(|column| column.clear(slot));
        self.free.push(slot);
    }

    /// Slots ever in use: every slot number is below it.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Slots in use now.
    pub fn live(&self) -> usize {
        self.slots as usize - self.free.len()
    }

    /// Writes rows of a batch: `columns[c][rows[i]]` goes to column `c` of `slots[i]`.
    pub fn write(&mut self, slots: &[u32], columns: &[ArrayRef], rows: &[u32]) {
        debug_assert_eq!(columns.len(), self.columns.len());
        for (column, array) in self.columns.iter_mut().zip(columns) {
            column.write(slots, array, rows);
        }
    }

    /// Borrows columns of a batch to stand beside the store's columns `indices`.
    pub fn view<'a>(
        indices: impl IntoIterator<Item = usize>,
        arrays: impl IntoIterator<Item = &'a ArrayRef>,
    ) -> RowView<'a> {
        RowView(
            indices
                .into_iter()
                .zip(arrays.into_iter().map(ArrayView::new))
                .collect(),
        )
    }

    /// Whether the slot's columns equal the row of the view; NULL equals NULL.
    #[inline(always)]
    pub fn equals(&self, slot: u32, view: &RowView<'_>, row: usize) -> bool {
        view.0
            .iter()
            .all(|(index, array)| self.columns[*index].equals(slot, array, row))
    }

    /// The slots of many keys, as [`KeyIndex::find_all`] gives them.
    ///
    /// # Arguments
    /// - `hashes`: of the keys in the view, from its first row on.
    pub fn find_all(&self, index: &KeyIndex, hashes: &[u64], view: &RowView<'_>, found: &mut Vec<u32>) {
        self.find_each(index, hashes, view, |number| number, found);
    }

    /// As [`RowStore::find_all`], for some rows of the view.
    ///
    /// # Arguments
    /// - `hashes`: of their keys, one for each of `rows`.
    pub fn find_some(&self, index: &KeyIndex, hashes: &[u64], view: &RowView<'_>, rows: &[u32], found: &mut Vec<u32>) {
        self.find_each(index, hashes, view, |number| rows[number] as usize, found);
    }

    #[inline(always)]
    fn find_each(
        &self,
        index: &KeyIndex,
        hashes: &[u64],
        view: &RowView<'_>,
        row_of: impl Fn(usize) -> usize,
        found: &mut Vec<u32>,
    ) {
        if let [(column, array)] = view.0.as_slice()
            && let Some((stored, given)) = self.columns[*column].longs(array)
        {
            let equal = |slot: u32, number: usize| stored[slot as usize] == given[row_of(number)];
            return index.find_all(
                hashes,
                equal,
                |slot| stored.get(slot as usize).map_or(0, |value| *value as u64),
                found,
            );
        }
        let equal = |slot: u32, number: usize| self.equals(slot, view, row_of(number));
        let first = view.0.first().map(|(column, _)| &self.columns[*column]);
        let touch = |slot| first.map_or(0, |column| column.touch(slot));
        index.find_all(hashes, equal, touch, found);
    }

    /// As [`RowStore::write`], for some columns only.
    pub fn write_some(&mut self, indices: &[usize], slots: &[u32], columns: &[ArrayRef], rows: &[u32]) {
        for index in indices {
            self.columns[*index].write(slots, &columns[*index], rows);
        }
    }

    /// Copies rows of another store of the same columns: slot `from[i]` there to slot `to[i]` here.
    pub(crate) fn copy(&mut self, other: &RowStore, from: &[u32], to: &[u32]) {
        for (column, given) in self.columns.iter_mut().zip(&other.columns) {
            column.copy(given, from, to);
        }
    }

    /// Writes the view's columns of one row.
    #[inline]
    pub fn write_one(&mut self, slot: u32, view: &RowView<'_>, row: usize) {
        for (index, array) in &view.0 {
            self.columns[*index].write_one(slot, array, row);
        }
    }

    /// Reads columns `indices` of the slots, in order.
    pub fn gather(&self, indices: &[usize], slots: &[u32]) -> Vec<ArrayRef> {
        indices.iter().map(|index| self.columns[*index].gather(slots)).collect()
    }

    /// The value of one column of a slot.
    #[inline]
    pub fn stored(&self, column: usize, slot: u32) -> Stored<'_> {
        self.columns[column].stored(slot)
    }

    /// Reads columns `indices` of neighbouring slots.
    pub fn gather_run(&self, indices: &[usize], slots: Range<u32>) -> Vec<ArrayRef> {
        let columns = indices.iter().map(|index| &self.columns[*index]);
        columns.map(|column| column.gather_run(slots.clone())).collect()
    }

    /// Reads whole rows.
    pub fn gather_rows(&self, slots: &[u32]) -> RecordBatch {
        let columns = self.columns.iter().map(|column| column.gather(slots)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(slots.len()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).expect("columns follow the schema")
    }

    /// As [`RowStore::memory_bytes`], after what is nearly full has grown.
    pub(crate) fn memory_bytes_grown(&self) -> usize {
        self.columns.iter().map(Column::memory_bytes_grown).sum::<usize>() + self.free.capacity() * 4
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.columns.iter().map(Column::memory_bytes).sum::<usize>() + self.free.capacity() * 4
    }
}

impl RowView<'_> {
    /// Whether any of the view's columns is NULL in that row.
    #[inline]
    pub fn any_null(&self, row: usize) -> bool {
        self.0.iter().any(|(_, array)| array.is_null(row))
    }
}

#[cfg(test)]
mod tests;
