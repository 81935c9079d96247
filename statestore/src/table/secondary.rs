//! A further index of a shard's rows: from the values of some columns to every version that has them.
//!
//! Versions of the same values hang in one chain; the hash index knows the chain's head. Adding and
//! removing a version take constant time, however many share its values. Versions with a NULL are in no chain: NULL
//! equals nothing.
//!
//! # Not here
//! Which version a reader sees, and when one is removed (`shard`).

use crate::{KeyIndex, RowStore, RowView, hash_rows};
use arrow::array::{ArrayRef, RecordBatch};

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// A slot that is in no chain.
const ABSENT: u32 = u32::MAX - 1;

#[derive(Debug)]
pub(super) struct Secondary {
    columns: Vec<usize>,
    heads: KeyIndex,
    /// For each slot the next older version of its values, and the next newer one.
    older: Vec<u32>,
    newer: Vec<u32>,
}

impl Secondary {
    pub(super) fn new(columns: Vec<usize>) -> Secondary {
        Secondary {
            columns,
            heads: KeyIndex::default(),
            older: Vec::new(),
            newer: Vec::new(),
        }
    }

    /// Adds versions that were written to `rows` just now: `slots[i]` holds row `sources[i]` of the batch.
    pub(super) fn add(&mut self, rows: &RowStore, batch: &RecordBatch, slots: &[u32], sources: &[u32]) {
        let (Some(first), Some(last)) = (sources.first(), sources.last()) else {
            return;
        };
        let (first, count) = (*first as usize, (last - first) as usize + 1);
        let columns = self.columns.iter().map(|column| batch.column(*column));
        let values: Vec<ArrayRef> = columns.map(|column| column.slice(first, count)).collect();
        let rows_of = sources.iter().map(|source| *source as usize - first);
        self.put(rows, &values, slots, rows_of);
    }

    /// Adds those of the versions in `slots` that are not in the index yet, from what is stored.
    pub(super) fn add_stored(&mut self, rows: &RowStore, slots: &[u32]) {
        let is_new = |slot: &u32| self.older.get(*slot as usize).is_none_or(|older| *older == ABSENT);
        let slots: Vec<u32> = slots.iter().copied().filter(is_new).collect();
        let values = rows.gather(&self.columns, &slots);
        self.put(rows, &values, &slots, 0..slots.len());
    }

    /// Puts versions into the chains of their values: row `sources[i]` of `values` is of `slots[i]`.
    fn put(&mut self, rows: &RowStore, values: &[ArrayRef], slots: &[u32], sources: impl Iterator<Item = usize>) {
        let Some(most) = slots.iter().max() else { return };
        if self.older.len() <= *most as usize {
            self.older.resize(*most as usize + 1, ABSENT);
            self.newer.resize(*most as usize + 1, ABSENT);
        }
        let hashes = hash_rows(values, values[0].len());
        let view = RowStore::view(self.columns.iter().copied(), values);
        for (slot, row) in slots.iter().zip(sources) {
            if !view.any_null(row) {
                let head = self.heads.find(hashes[row], |head| rows.equals(head, &view, row));
                self.put_before(head, hashes[row], *slot);
            }
        }
    }

    fn put_before(&mut self, head: Option<u32>, hash: u64, slot: u32) {
        self.newer[slot as usize] = NONE;
        self.older[slot as usize] = head.unwrap_or(NONE);
        match head {
            Some(head) => {
                self.newer[head as usize] = slot;
                self.heads.replace(head, slot);
            }
            None => self.heads.insert(hash, slot),
        }
    }

    /// Takes a version out before its slot is released.
    pub(super) fn remove(&mut self, slot: u32) {
        let older = self.older.get(slot as usize).copied().unwrap_or(ABSENT);
        if older == ABSENT {
            return;
        }
        let newer = self.newer[slot as usize];
        if older != NONE {
            self.newer[older as usize] = newer;
        }
        match (newer, older) {
            (NONE, NONE) => {
                self.heads.remove(slot);
            }
            (NONE, older) => self.heads.replace(slot, older),
            (newer, older) => self.older[newer as usize] = older,
        }
        self.older[slot as usize] = ABSENT;
    }

    /// The versions that have the view's values of one row.
    pub(super) fn versions(
        &self,
        rows: &RowStore,
        hash: u64,
        view: &RowView<'_>,
        row: usize,
    ) -> impl Iterator<Item = u32> {
        let head = match view.any_null(row) {
            true => None,
            false => self.heads.find(hash, |head| rows.equals(head, view, row)),
        };
        std::iter::successors(head, |slot| {
            Some(self.older[*slot as usize]).filter(|older| *older != NONE)
        })
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.heads.memory_bytes() + (self.older.capacity() + self.newer.capacity()) * 4
    }
}
