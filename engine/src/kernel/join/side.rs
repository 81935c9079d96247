//! One side's rows, listed by key: found by key for the other side's changes, found in their list for their own.
//!
//! # Not here
//! Keys (`keys`) and lists (`lists`). The values of a row's key are the key's, kept once for all rows of both sides.

use super::super::changed::ChangedSlots;
use super::super::not_noted;
use super::keys::Keys;
use super::lists::{Head, Lists};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Schema, SchemaRef};
use cenote_statestore::{Changes, Error, Result, RowStore, RowView, hash_rows, room_for};
use std::sync::Arc;

/// Rows of one side with multiplicities.
pub(super) struct Side {
    schema: SchemaRef,
    key_columns: Vec<usize>,
    /// Where the values of each column are.
    places: Vec<Place>,
    /// The columns that are not of the key.
    rows: RowStore,
    /// Their positions in the side's schema.
    stored: Vec<usize>,
    lists: Lists,
    weights: Multiplicities,
    /// How many rows of the other side match; empty where nobody asks.
    matches: Vec<i64>,
    counts_matches: bool,
    /// Rows that have changed, with their keys, where that is noted.
    changed: Option<ChangedSlots>,
}

/// How often each row is there: most once, which one bit says.
#[derive(Default)]
struct Multiplicities {
    /// Bits that are set for slots whose row is there more than once.
    several: Vec<u64>,
    /// Where that bit is set.
    counts: Vec<i64>,
}

/// Where the values of a column are.
#[derive(Clone, Copy)]
enum Place {
    /// In the keys, this column of them.
    Key(usize),
    /// In the rows, this column of them.
    Row(usize),
}

/// A row of a push, on its way into a side.
pub(super) struct Incoming {
    pub(super) row: usize,
    pub(super) weight: i64,
    /// How many rows of the other side match it.
    pub(super) matches: i64,
    /// Of the columns that are not of the key.
    pub(super) hash: u64,
}

/// What became of a row that was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Kept,
    /// The last of equal rows went.
    Removed,
}

/// A slot whose row now has matches, or has none any more.
pub(super) struct Transition {
    pub(super) slot: u32,
    pub(super) key: u32,
    pub(super) is_matched: bool,
}

impl Side {
    /// A side without rows.
    ///
    /// # Arguments
    /// - `keys`: the schema of the keys; a key column of another type is kept with the rows.
    pub(super) fn new(schema: &SchemaRef, key_columns: &[usize], keys: &Schema, counts_matches: bool) -> Side {
        let of_key = |column: usize| {
            let key = key_columns.iter().position(|key| *key == column)?;
            (keys.field(key).data_type() == schema.field(column).data_type()).then_some(key)
        };
        let stored: Vec<usize> = (0..schema.fields().len())
            .filter(|column| of_key(*column).is_none())
            .collect();
        let place = |column| match of_key(column) {
            Some(key) => Place::Key(key),
            None => Place::Row(
                stored
                    .iter()
                    .position(|stored| *stored == column)
                    .expect("not of the key"),
            ),
        };
        Side {
            schema: schema.clone(),
            key_columns: key_columns.to_vec(),
            places: (0..schema.fields().len()).map(place).collect(),
            rows: RowStore::new(Arc::new(schema.project(&stored).expect("columns of the schema"))),
            stored,
            lists: Lists::default(),
            weights: Multiplicities::default(),
            matches: Vec::new(),
            counts_matches,
            changed: None,
        }
    }

    pub(super) fn key_columns(&self) -> &[usize] {
        &self.key_columns
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn counts_matches(&self) -> bool {
        self.counts_matches
    }

    #[inline]
    pub(super) fn weight(&self, slot: u32) -> i64 {
        self.weights.get(slot)
    }

    /// Appends the slots of a key's rows.
    #[inline]
    pub(super) fn slots(&self, head: Head, slots: &mut Vec<u32>) {
        self.lists.slots(head, slots);
    }

    /// Reads a little of a list, so that it is in the cache when it is used.
    #[inline]
    pub(super) fn touch(&self, head: Head) -> u64 {
        self.lists.touch(head)
    }

    /// The columns of rows.
    ///
    /// # Arguments
    /// - `of_key`: the values of a column of the rows' keys.
    pub(super) fn gather(&self, slots: &[u32], of_key: impl Fn(usize) -> ArrayRef) -> Vec<ArrayRef> {
        let column = |place: &Place| match place {
            Place::Key(key) => of_key(*key),
            Place::Row(column) => self.rows.gather(&[*column], slots).remove(0),
        };
        self.places.iter().map(column).collect()
    }

    /// Adds to match counts.
    ///
    /// # Arguments
    /// - `touched`: slot, its key, what to add.
    pub(super) fn add_matches(&mut self, mut touched: Vec<(u32, u32, i64)>) -> Vec<Transition> {
        touched.sort_unstable_by_key(|(slot, _, _)| *slot);
        let mut changed = Vec::new();
        for of_slot in touched.chunk_by(|a, b| a.0 == b.0) {
            let (slot, key, _) = of_slot[0];
            let count = &mut self.matches[slot as usize];
            let was_matched = *count != 0;
            *count += of_slot.iter().map(|(_, _, weight)| weight).sum::<i64>();
            let is_matched = *count != 0;
            if was_matched != is_matched {
                changed.push(Transition { slot, key, is_matched });
            }
        }
        changed
    }

    /// The columns of a push that are kept with the rows, and their hashes.
    pub(super) fn stored<'a>(&self, columns: &'a [ArrayRef], rows: usize) -> (RowView<'a>, Vec<u64>) {
        let stored: Vec<ArrayRef> = self.stored.iter().map(|column| columns[*column].clone()).collect();
        let hashes = hash_rows(&stored, rows);
        let view = RowStore::view(0..stored.len(), self.stored.iter().map(|column| &columns[*column]));
        (view, hashes)
    }

    /// Adds a row to the list of its key, or to the multiplicity of the one that is there.
    ///
    /// # Arguments
    /// - `view`: of the columns that [`Side::stored`] gives.
    ///
    /// # Errors
    /// A row was taken away that is not there.
    #[inline]
    pub(super) fn apply(
        &mut self,
        head: &mut Head,
        key: u32,
        view: &RowView<'_>,
        incoming: &Incoming,
    ) -> Result<Outcome> {
        let equal = |slot: u32| self.rows.equals(slot, view, incoming.row);
        match self.lists.find(*head, incoming.hash, equal) {
            Some((slot, position)) => {
                let outcome = self.add_weight(head, slot, position, incoming.weight)?;
                match (&mut self.changed, outcome) {
                    (Some(changed), Outcome::Kept) => changed.mark(slot, key),
                    (Some(changed), Outcome::Removed) => changed.unmark(slot),
                    (None, _) => {}
                }
                Ok(outcome)
            }
            None if incoming.weight > 0 => {
                let slot = self.insert(view, incoming);
                self.lists.add(head, slot, incoming.hash);
                if let Some(changed) = &mut self.changed {
                    changed.mark(slot, key);
                }
                Ok(Outcome::Kept)
            }
            None if incoming.weight == 0 => Ok(Outcome::Kept),
            None => Err(missing()),
        }
    }

    fn add_weight(&mut self, head: &mut Head, slot: u32, position: usize, weight: i64) -> Result<Outcome> {
        match self.weight(slot) + weight {
            0 => {
                self.lists.remove(head, position);
                self.rows.release(slot);
                Ok(Outcome::Removed)
            }
            left if left < 0 => Err(missing()),
            left => {
                self.weights.set(slot, left);
                Ok(Outcome::Kept)
            }
        }
    }

    #[inline]
    fn insert(&mut self, view: &RowView<'_>, incoming: &Incoming) -> u32 {
        let slot = self.rows.allocate();
        self.rows.write_one(slot, view, incoming.row);
        self.weights.set(slot, incoming.weight);
        if self.counts_matches {
            if self.matches.len() <= slot as usize {
                self.matches.resize(room_for(slot as usize + 1), 0);
            }
            self.matches[slot as usize] = incoming.matches;
        }
        slot
    }

    /// Notes from here on which rows change.
    pub(super) fn note_changes(&mut self) {
        self.changed = Some(ChangedSlots::default());
    }

    /// Notes rows of a push that were the last of their kind.
    pub(super) fn note_removed(&mut self, changes: &Changes, removed: Vec<u32>) -> Result<()> {
        if let Some(changed) = self.changed.as_mut().filter(|_| !removed.is_empty()) {
            let (count, removed) = (removed.len(), UInt32Array::from(removed));
            let columns = changes.rows().columns().iter();
            let columns = columns
                .map(|column| take(column, &removed, None))
                .collect::<Result<_, _>>()?;
            changed.went(Changes::batch(changes.schema(), columns, count)?);
        }
        Ok(())
    }

    /// Takes the rows that have changed, with their multiplicities, and those that went.
    pub(super) fn take_changes(&mut self, schema: &SchemaRef, keys: &Keys) -> Result<(RecordBatch, Vec<RecordBatch>)> {
        let (marked, gone) = self.changed.as_mut().ok_or_else(not_noted)?.take();
        let (slots, of): (Vec<u32>, Vec<u32>) = marked.into_iter().unzip();
        Ok((self.rows_of(schema, keys, &slots, &of)?, gone))
    }

    /// Reads the rows of some keys, in the order of the keys, with their multiplicities behind them.
    pub(super) fn read(&self, schema: &SchemaRef, keys: &Keys, number: usize, wanted: &[u32]) -> Result<RecordBatch> {
        let (mut slots, mut of) = (Vec::new(), Vec::new());
        for key in wanted {
            self.slots(keys.head(*key, number), &mut slots);
            of.resize(slots.len(), *key);
        }
        self.rows_of(schema, keys, &slots, &of)
    }

    /// # Arguments
    /// - `of`: the rows' keys.
    fn rows_of(&self, schema: &SchemaRef, keys: &Keys, slots: &[u32], of: &[u32]) -> Result<RecordBatch> {
        let mut columns = self.gather(slots, |column| keys.gather(column, of));
        columns.push(Arc::new(
            slots.iter().map(|slot| self.weight(*slot)).collect::<Int64Array>(),
        ));
        Changes::batch(schema.clone(), columns, slots.len())
    }

    /// Rows, and bytes that they take without their keys.
    pub(super) fn size(&self) -> (u64, u64) {
        let counts = self.weights.memory_bytes() + self.matches.capacity() * 8;
        let changed = self.changed.as_ref().map_or(0, ChangedSlots::memory_bytes);
        let bytes = self.rows.memory_bytes() + self.lists.memory_bytes() + counts + changed;
        (self.rows.live() as u64, bytes as u64)
    }
}

impl Multiplicities {
    #[inline]
    fn get(&self, slot: u32) -> i64 {
        match self.is_several(slot) {
            true => self.counts[slot as usize],
            false => 1,
        }
    }

    #[inline]
    fn is_several(&self, slot: u32) -> bool {
        let word = self.several.get(slot as usize / 64);
        word.is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    #[inline]
    fn set(&mut self, slot: u32, count: i64) {
        if count == 1 && !self.is_several(slot) {
            return;
        }
        let (index, word) = (slot as usize, slot as usize / 64);
        if self.several.len() <= word {
            self.several.resize(word + 1, 0);
        }
        if self.counts.len() <= index {
            self.counts.resize(room_for(index + 1), 1);
        }
        self.several[word] = self.several[word] & !(1 << (slot % 64)) | u64::from(count != 1) << (slot % 64);
        self.counts[index] = count;
    }

    fn memory_bytes(&self) -> usize {
        (self.several.capacity() + self.counts.capacity()) * 8
    }
}

fn missing() -> Error {
    Error::bug("a join was told to forget a row that it does not hold")
}
