//! One side's rows: found by key for the other side's changes, found whole for their own deletions.

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use cenote_statestore::{Changes, Error, KeyIndex, Result, RowStore, RowView, hash_rows};
use std::sync::Arc;

const NONE: u32 = u32::MAX;

/// Rows of one side with multiplicities; rows of one key form a doubly linked chain.
pub(super) struct Side {
    key_columns: Vec<usize>,
    rows: RowStore,
    weights: Vec<i64>,
    /// How many rows of the other side match; empty where nobody asks.
    matches: Vec<i64>,
    counts_matches: bool,
    next: Vec<u32>,
    previous: Vec<u32>,
    by_row: KeyIndex,
    by_key: KeyIndex,
}

impl Side {
    pub(super) fn new(schema: &SchemaRef, key_columns: &[usize], counts_matches: bool) -> Side {
        Side {
            key_columns: key_columns.to_vec(),
            rows: RowStore::new(schema.clone()),
            weights: Vec::new(),
            matches: Vec::new(),
            counts_matches,
            next: Vec::new(),
            previous: Vec::new(),
            by_row: KeyIndex::default(),
            by_key: KeyIndex::default(),
        }
    }

    pub(super) fn key_columns(&self) -> &[usize] {
        &self.key_columns
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.rows.schema().clone()
    }

    pub(super) fn counts_matches(&self) -> bool {
        self.counts_matches
    }

    pub(super) fn weight(&self, slot: u32) -> i64 {
        self.weights[slot as usize]
    }

    pub(super) fn gather(&self, slots: &[u32]) -> Vec<ArrayRef> {
        self.rows.gather_rows(slots).columns().to_vec()
    }

    /// The slots of a key, given by a view that sets key values beside this side's key columns.
    pub(super) fn slots_of_key(&self, hash: u64, key: &RowView<'_>, row: usize) -> impl Iterator<Item = u32> {
        let first = self.by_key.find(hash, |slot| self.rows.equals(slot, key, row));
        std::iter::successors(first, |slot| {
            Some(self.next[*slot as usize]).filter(|next| *next != NONE)
        })
    }

    /// Adds to match counts.
    ///
    /// # Returns
    /// The slots for which "has a match" changed: slot, before, after.
    pub(super) fn add_matches(&mut self, mut touched: Vec<(u32, i64)>) -> Vec<(u32, bool, bool)> {
        touched.sort_unstable_by_key(|(slot, _)| *slot);
        let mut changed = Vec::new();
        for of_slot in touched.chunk_by(|a, b| a.0 == b.0) {
            let slot = of_slot[0].0;
            let count = &mut self.matches[slot as usize];
            let before = *count != 0;
            *count += of_slot.iter().map(|(_, weight)| weight).sum::<i64>();
            if before != (*count != 0) {
                changed.push((slot, before, !before));
            }
        }
        changed
    }

    /// Applies a push to the stored rows.
    ///
    /// # Arguments
    /// - `hashes`: of the key, per row. `matches`: per row, for new rows. `stateful`: which rows are kept at all.
    pub(super) fn apply(
        &mut self,
        changes: &Changes,
        hashes: &[u64],
        matches: &[i64],
        stateful: &[bool],
    ) -> Result<()> {
        let columns = changes.rows().columns().to_vec();
        let row_hashes = hash_rows(&columns, changes.len());
        let view = RowStore::view(0..columns.len(), &columns);
        for row in (0..changes.len()).filter(|row| stateful[*row]) {
            let weight = changes.weights().get(row);
            match self
                .by_row
                .find(row_hashes[row], |slot| self.rows.equals(slot, &view, row))
            {
                Some(slot) => {
                    self.weights[slot as usize] += weight;
                    match self.weights[slot as usize] {
                        0 => self.remove(slot, row_hashes[row], hashes[row]),
                        left if left < 0 => return Err(missing()),
                        _ => {}
                    }
                }
                None if weight > 0 => {
                    let slot = self.insert(&view, row, weight, matches[row]);
                    self.by_row.insert(row_hashes[row], slot);
                    self.link(slot, hashes[row], &view, row);
                }
                None if weight == 0 => {}
                None => return Err(missing()),
            }
        }
        Ok(())
    }

    fn insert(&mut self, view: &RowView<'_>, row: usize, weight: i64, matches: i64) -> u32 {
        let slot = self.rows.allocate();
        let index = slot as usize;
        if self.weights.len() <= index {
            let slots = (index + 1).next_power_of_two().max(64);
            self.weights.resize(slots, 0);
            self.next.resize(slots, NONE);
            self.previous.resize(slots, NONE);
            if self.counts_matches {
                self.matches.resize(slots, 0);
            }
        }
        self.rows.write_one(slot, view, row);
        self.weights[index] = weight;
        if self.counts_matches {
            self.matches[index] = matches;
        }
        slot
    }

    /// Puts a slot behind the first of its key, or makes it the first.
    fn link(&mut self, slot: u32, hash: u64, view: &RowView<'_>, row: usize) {
        let index = slot as usize;
        (self.next[index], self.previous[index]) = (NONE, NONE);
        match self
            .by_key
            .find(hash, |first| self.rows.equals_in(first, view, row, &self.key_columns))
        {
            None => self.by_key.insert(hash, slot),
            Some(first) => {
                let second = std::mem::replace(&mut self.next[first as usize], slot);
                (self.next[index], self.previous[index]) = (second, first);
                if second != NONE {
                    self.previous[second as usize] = slot;
                }
            }
        }
    }

    fn remove(&mut self, slot: u32, row_hash: u64, key_hash: u64) {
        let (next, previous) = (self.next[slot as usize], self.previous[slot as usize]);
        if next != NONE {
            self.previous[next as usize] = previous;
        }
        match (previous, next) {
            (NONE, NONE) => {
                self.by_key.remove(key_hash, slot);
            }
            (NONE, next) => self.by_key.replace(key_hash, slot, next),
            (previous, next) => self.next[previous as usize] = next,
        }
        self.by_row.remove(row_hash, slot);
        self.rows.release(slot);
    }

    pub(super) fn read(&self, schema: &SchemaRef, keys: Option<&[ArrayRef]>) -> Result<RecordBatch> {
        let slots = match keys {
            None => {
                let mut slots: Vec<u32> = self.by_row.iter().collect();
                slots.sort_unstable();
                slots
            }
            Some(keys) => {
                let count = keys.first().map_or(0, |key| key.len());
                let hashes = hash_rows(keys, count);
                let view = RowStore::view(self.key_columns.iter().copied(), keys);
                (0..count)
                    .flat_map(|row| self.slots_of_key(hashes[row], &view, row).collect::<Vec<_>>())
                    .collect()
            }
        };
        let mut columns = self.gather(&slots);
        columns.push(Arc::new(
            slots.iter().map(|slot| self.weight(*slot)).collect::<Int64Array>(),
        ));
        Changes::batch(schema.clone(), columns, slots.len())
    }

    pub(super) fn size(&self) -> (u64, u64) {
        let links = (self.next.capacity() + self.previous.capacity()) * 4;
        let counts = (self.weights.capacity() + self.matches.capacity()) * 8;
        let indexes = self.by_row.memory_bytes() + self.by_key.memory_bytes();
        (
            self.by_row.len() as u64,
            (self.rows.memory_bytes() + links + counts + indexes) as u64,
        )
    }
}

fn missing() -> Error {
    Error::bug("a join was told to forget a row that it does not hold")
}
