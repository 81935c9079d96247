//! One side's rows, listed by key: found by key for the other side's changes, found in their list for their own.
//!
//! # Not here
//! Keys (`keys`) and lists (`lists`). The values of a row's key are the key's, kept once for all rows of both sides.

use super::keys::Keys;
use super::lists::{Head, Lists};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use cenote_statestore::{Changes, Error, Result, RowStore, RowView, hash_rows};
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
    /// Multiplicities; empty while every row is there once.
    weights: Vec<i64>,
    /// How many rows of the other side match; empty where nobody asks.
    matches: Vec<i64>,
    counts_matches: bool,
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
            weights: Vec::new(),
            matches: Vec::new(),
            counts_matches,
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
        self.weights.get(slot as usize).copied().unwrap_or(1)
    }

    /// Appends the slots of a key's rows.
    #[inline]
    pub(super) fn slots(&self, head: Head, slots: &mut Vec<u32>) {
        self.lists.slots(head, slots);
    }

    /// Reads what the rows of a push will need, so that it is in the cache by then: reads that do not depend on each other
    /// overlap.
    pub(super) fn touch(&self, heads: impl Iterator<Item = Head>) {
        std::hint::black_box(heads.fold(0, |sum, head| sum ^ self.lists.touch(head)));
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
    pub(super) fn apply(&mut self, head: &mut Head, view: &RowView<'_>, incoming: &Incoming) -> Result<Outcome> {
        let equal = |slot: u32| self.rows.equals(slot, view, incoming.row);
        match self.lists.find(*head, incoming.hash, equal) {
            Some((slot, position)) => self.add_weight(head, slot, position, incoming.weight),
            None if incoming.weight > 0 => {
                let slot = self.insert(view, incoming);
                self.lists.add(head, slot, incoming.hash);
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
                self.set_weight(slot, left);
                Ok(Outcome::Kept)
            }
        }
    }

    #[inline]
    fn set_weight(&mut self, slot: u32, weight: i64) {
        if self.weights.len() <= slot as usize {
            if weight == 1 {
                return;
            }
            self.weights.resize(room_for(slot), 1);
        }
        self.weights[slot as usize] = weight;
    }

    #[inline]
    fn insert(&mut self, view: &RowView<'_>, incoming: &Incoming) -> u32 {
        let slot = self.rows.allocate();
        self.rows.write_one(slot, view, incoming.row);
        self.set_weight(slot, incoming.weight);
        if self.counts_matches {
            if self.matches.len() <= slot as usize {
                self.matches.resize(room_for(slot), 0);
            }
            self.matches[slot as usize] = incoming.matches;
        }
        slot
    }

    /// Reads the rows of some keys, in the order of the keys, with their multiplicities behind them.
    pub(super) fn read(&self, schema: &SchemaRef, keys: &Keys, number: usize, wanted: &[u32]) -> Result<RecordBatch> {
        let (mut slots, mut of) = (Vec::new(), Vec::new());
        for key in wanted {
            self.slots(keys.head(*key, number), &mut slots);
            of.resize(slots.len(), *key);
        }
        let mut columns = self.gather(&slots, |column| keys.gather(column, &of));
        columns.push(Arc::new(
            slots.iter().map(|slot| self.weight(*slot)).collect::<Int64Array>(),
        ));
        Changes::batch(schema.clone(), columns, slots.len())
    }

    /// Rows, and bytes that they take without their keys.
    pub(super) fn size(&self) -> (u64, u64) {
        let counts = (self.weights.capacity() + self.matches.capacity()) * 8;
        let bytes = self.rows.memory_bytes() + self.lists.memory_bytes() + counts;
        (self.rows.live() as u64, bytes as u64)
    }
}

/// How many counts to make room for when one for `slot` is needed.
fn room_for(slot: u32) -> usize {
    ((slot as usize + 1) * 3 / 2).max(64)
}

fn missing() -> Error {
    Error::bug("a join was told to forget a row that it does not hold")
}
