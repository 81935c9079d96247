//! One side's rows: found by key for the other side's changes, found whole for their own deletions.

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use cenote_statestore::{Changes, Error, KeyIndex, NO_SLOT, Result, RowStore, RowView, Weights, hash_rows};
use std::ops::Range;
use std::sync::Arc;

const NONE: u32 = u32::MAX;

/// Rows of a push that are looked for, then applied.
const ROWS_PER_BLOCK: usize = 256;

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

/// Rows on their way into a side.
struct Push<'a> {
    weights: &'a Weights,
    rows: RowView<'a>,
    row_hashes: &'a [u64],
    keys: RowView<'a>,
    /// Of the keys.
    hashes: &'a [u64],
    /// How many rows of the other side match each.
    matches: &'a [i64],
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

    /// The first slots of many keys, given by a view that sets key values beside this side's key columns; [`NO_SLOT`] for
    /// a key that has none.
    pub(super) fn heads(&self, hashes: &[u64], keys: &RowView<'_>) -> Vec<u32> {
        self.find_all(&self.by_key, hashes, keys, 0)
    }

    /// The slots of a key, from its first on.
    pub(super) fn slots_from(&self, head: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(head).filter(|head| *head != NO_SLOT), |slot| {
            Some(self.next[*slot as usize]).filter(|next| *next != NONE)
        })
    }

    /// The slots of keys, whose rows stand in the view from `first` on.
    fn find_all(&self, index: &KeyIndex, hashes: &[u64], view: &RowView<'_>, first: usize) -> Vec<u32> {
        let rows: Vec<u32> = (first as u32..(first + hashes.len()) as u32).collect();
        let mut found = Vec::new();
        self.rows.find_all(index, hashes, view, &rows, &mut found);
        found
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
        let columns = changes.rows().columns();
        let row_hashes = hash_rows(columns, changes.len());
        let view = RowStore::view(0..columns.len(), columns);
        let keys = self.key_columns.iter().map(|key| &columns[*key]);
        let keys = RowStore::view(self.key_columns.iter().copied(), keys);
        let push = Push {
            weights: changes.weights(),
            rows: view,
            row_hashes: &row_hashes,
            keys,
            hashes,
            matches,
        };
        for start in (0..changes.len()).step_by(ROWS_PER_BLOCK) {
            let end = (start + ROWS_PER_BLOCK).min(changes.len());
            self.apply_block(&push, start..end, stateful)?;
        }
        Ok(())
    }

    /// Applies some rows, few enough that what is found for all of them is still in the cache for each.
    fn apply_block(&mut self, push: &Push<'_>, rows: Range<usize>, stateful: &[bool]) -> Result<()> {
        let found = self.find_all(&self.by_row, &push.row_hashes[rows.clone()], &push.rows, rows.start);
        let heads = self.find_all(&self.by_key, &push.hashes[rows.clone()], &push.keys, rows.start);
        self.touch_links(&heads);
        // Until a slot is freed, what was found is still there; what was not may have been added by an earlier row.
        let mut is_stale = false;
        let first = rows.start;
        for row in rows.filter(|row| stateful[*row]) {
            let (weight, hash) = (push.weights.get(row), push.row_hashes[row]);
            let slot = match found[row - first] {
                slot if slot != NO_SLOT && !is_stale => Some(slot),
                _ => self.by_row.find(hash, |slot| self.rows.equals(slot, &push.rows, row)),
            };
            match slot {
                Some(slot) => {
                    self.weights[slot as usize] += weight;
                    match self.weights[slot as usize] {
                        0 => {
                            self.remove(slot, hash, push.hashes[row]);
                            is_stale = true;
                        }
                        left if left < 0 => return Err(missing()),
                        _ => {}
                    }
                }
                None if weight > 0 => {
                    let head = Some(heads[row - first]).filter(|head| *head != NO_SLOT && !is_stale);
                    self.add(push, row, head);
                }
                None if weight == 0 => {}
                None => return Err(missing()),
            }
        }
        Ok(())
    }

    /// Adds a row that is not there.
    ///
    /// # Arguments
    /// - `head`: the first slot of its key, if that is known.
    fn add(&mut self, push: &Push<'_>, row: usize, head: Option<u32>) {
        let find = || {
            self.by_key
                .find(push.hashes[row], |first| self.rows.equals(first, &push.keys, row))
        };
        let head = head.or_else(find);
        let slot = self.insert(&push.rows, row, push.weights.get(row), push.matches[row]);
        self.by_row.insert(push.row_hashes[row], slot);
        self.link(slot, push.hashes[row], head);
    }

    /// Reads what [`Side::link`] will write, so that it is in the cache by then: reads that do not depend on each other overlap.
    fn touch_links(&self, heads: &[u32]) {
        let seconds = heads
            .iter()
            .filter(|head| **head != NO_SLOT)
            .map(|head| self.next[*head as usize]);
        let seconds: Vec<u32> = seconds.filter(|second| *second != NONE).collect();
        let touched = seconds
            .iter()
            .fold(0, |sum, second| sum ^ self.previous[*second as usize]);
        std::hint::black_box(touched);
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
    fn link(&mut self, slot: u32, hash: u64, head: Option<u32>) {
        let index = slot as usize;
        (self.next[index], self.previous[index]) = (NONE, NONE);
        match head {
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
                let heads = self.heads(&hashes, &view);
                heads.into_iter().flat_map(|head| self.slots_from(head)).collect()
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
