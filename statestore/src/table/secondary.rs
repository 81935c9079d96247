//! A further index of a shard's rows: from the values of some columns to every version that has them.
//!
//! Versions of the same values hang in one chain; the hash index knows the chain's head. Adding, moving and
//! removing a version take constant time, however many share its values. Where keys are unique every version is in it by
//! its place, in a slot or in the past; of a multiset's rows the slot alone is. Versions with a NULL are in no chain: NULL
//! equals nothing.
//!
//! # Not here
//! Which version a reader sees, and when one is removed (`shard`).

use super::past::Past;
use super::shard::Place;
use crate::{KeyIndex, RowStore, RowView, hash_rows};
use arrow::array::{ArrayRef, RecordBatch};

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// A place that is in no chain.
const ABSENT: u32 = u32::MAX - 1;

#[derive(Debug)]
pub(super) struct Secondary {
    columns: Vec<usize>,
    heads: KeyIndex,
    /// For each place the next older version of its values, the next newer one, and the hash of the values.
    older: Vec<u32>,
    newer: Vec<u32>,
    hashes: Vec<u32>,
}

/// Whether the version at a place has the values of a row.
fn equals(rows: &RowStore, past: &Past, place: u32, view: &RowView<'_>, row: usize) -> bool {
    let place = Place(place);
    let rows = if place.is_past() { past.rows() } else { rows };
    rows.equals(place.number(), view, row)
}

impl Secondary {
    pub(super) fn new(columns: Vec<usize>) -> Secondary {
        Secondary {
            columns,
            heads: KeyIndex::default(),
            older: Vec::new(),
            newer: Vec::new(),
            hashes: Vec::new(),
        }
    }

    /// Adds versions that were written to `rows` just now: `slots[i]` holds row `sources[i]` of the batch.
    pub(super) fn add(&mut self, rows: &RowStore, past: &Past, batch: &RecordBatch, slots: &[u32], sources: &[u32]) {
        let (Some(first), Some(last)) = (sources.first(), sources.last()) else {
            return;
        };
        let (first, count) = (*first as usize, (last - first) as usize + 1);
        let columns = self.columns.iter().map(|column| batch.column(*column));
        let values: Vec<ArrayRef> = columns.map(|column| column.slice(first, count)).collect();
        let places: Vec<Place> = slots.iter().map(|slot| Place::slot(*slot)).collect();
        let rows_of = sources.iter().map(|source| *source as usize - first);
        self.put(rows, past, &values, &places, rows_of);
    }

    /// Adds versions from what is stored: `numbers` are slots, or versions of the past, as `place` says.
    pub(super) fn add_stored(&mut self, rows: &RowStore, past: &Past, numbers: &[u32], place: fn(u32) -> Place) {
        let places: Vec<Place> = numbers.iter().map(|number| place(*number)).collect();
        if let Some(first) = places.first() {
            let stored = if first.is_past() { past.rows() } else { rows };
            let values = stored.gather(&self.columns, numbers);
            self.put(rows, past, &values, &places, 0..places.len());
        }
    }

    /// Puts versions that are in no chain yet into those of their values: row `sources[i]` of `values` is of `places[i]`.
    fn put(
        &mut self,
        rows: &RowStore,
        past: &Past,
        values: &[ArrayRef],
        places: &[Place],
        sources: impl Iterator<Item = usize>,
    ) {
        let hashes = hash_rows(values, values[0].len());
        let view = RowStore::view(self.columns.iter().copied(), values);
        for (place, row) in places.iter().zip(sources) {
            self.make_room(*place);
            if !view.any_null(row) && self.older[place.0 as usize] == ABSENT {
                let is_same = |head| equals(rows, past, head, &view, row);
                let head = self.heads.find(hashes[row], is_same);
                self.put_before(head, hashes[row], place.0);
            }
        }
    }

    fn make_room(&mut self, place: Place) {
        let length = place.0 as usize + 1;
        if self.older.len() < length {
            self.older.resize(length, ABSENT);
            self.newer.resize(length, ABSENT);
            self.hashes.resize(length, 0);
        }
    }

    fn put_before(&mut self, head: Option<u32>, hash: u64, place: u32) {
        self.newer[place as usize] = NONE;
        self.older[place as usize] = head.unwrap_or(NONE);
        self.hashes[place as usize] = hash as u32;
        match head {
            Some(head) => {
                self.newer[head as usize] = place;
                self.heads.replace(hash, head, place);
            }
            None => self.heads.insert(hash, place),
        }
    }

    /// Takes a version out before its place is released; does nothing if it is in no chain.
    pub(super) fn remove(&mut self, place: Place) {
        let place = place.0;
        let Some(older) = self.chained(place) else {
            return;
        };
        let (newer, hash) = (self.newer[place as usize], self.hashes[place as usize] as u64);
        if older != NONE {
            self.newer[older as usize] = newer;
        }
        match (newer, older) {
            (NONE, NONE) => {
                self.heads.remove(hash, place);
            }
            (NONE, older) => self.heads.replace(hash, place, older),
            (newer, older) => self.older[newer as usize] = older,
        }
        self.older[place as usize] = ABSENT;
    }

    /// A version is at another place from now on; does nothing if it is in no chain.
    pub(super) fn rename(&mut self, from: Place, to: Place) {
        let Some(older) = self.chained(from.0) else {
            return;
        };
        self.make_room(to);
        let (newer, hash) = (self.newer[from.0 as usize], self.hashes[from.0 as usize]);
        let index = to.0 as usize;
        (self.older[index], self.newer[index], self.hashes[index]) = (older, newer, hash);
        if older != NONE {
            self.newer[older as usize] = to.0;
        }
        match newer {
            NONE => self.heads.replace(hash as u64, from.0, to.0),
            newer => self.older[newer as usize] = to.0,
        }
        self.older[from.0 as usize] = ABSENT;
    }

    /// What is older in the chain of a place, if it is in one.
    fn chained(&self, place: u32) -> Option<u32> {
        self.older.get(place as usize).copied().filter(|older| *older != ABSENT)
    }

    /// The versions that have the view's values of one row.
    pub(super) fn places(
        &self,
        rows: &RowStore,
        past: &Past,
        hash: u64,
        view: &RowView<'_>,
        row: usize,
    ) -> impl Iterator<Item = Place> {
        let head = match view.any_null(row) {
            true => None,
            false => self.heads.find(hash, |head| equals(rows, past, head, view, row)),
        };
        let chain = std::iter::successors(head, |place| {
            Some(self.older[*place as usize]).filter(|older| *older != NONE)
        });
        chain.map(Place)
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.heads.memory_bytes() + (self.older.capacity() + self.newer.capacity() + self.hashes.capacity()) * 4
    }
}
