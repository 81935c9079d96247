//! One shard of a versioned table: rows in slots, their newest versions, the index, and what readers of older epochs see.
//!
//! # Layout
//! A row's identity has a slot for as long as any of its versions can be read, so the index changes only when identities
//! come and go. The slot has the newest version; what it was before is copied aside (`past`) when it changes. A row that
//! was deleted leaves its slot dead until the last of its past is dropped.

mod changed;
mod cold;
mod load;

use super::counts::RowCounts;
use super::gone::Gone;
use super::past::{NONE, Past};
use super::secondary::Secondary;
use super::{TableSchema, TableStatistics};
use crate::index::NO_SLOT;
use crate::retention::expired;
use crate::{Changes, Epoch, Error, KeyIndex, Result, RowStore, RowView, hash_rows};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::interleave;
pub(super) use cold::{Cold, RangeRows};
use std::collections::VecDeque;
use std::ops::Range;

/// Marks the epoch of a slot whose row was deleted in it.
const DEAD: u64 = 1 << 63;

/// The epoch of a slot that has no row.
const FREE: u64 = u64::MAX;

/// Bytes of dead versions beyond which readers' pins no longer keep them.
const PINNED_GARBAGE_BYTES_MAX: usize = 256 << 20;

/// Slots that there can be, and versions of the past: a bit of their numbers says which of the two they are.
const PLACES_MAX: usize = 1 << 31;

/// Slots that [`Shard::run_end`] looks at in one step.
const RUN_STEP: usize = 64;

/// A version that a reader was shown: where its values are, and how often it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    pub(super) place: Place,
    pub(super) weight: i64,
}

/// Where a version's values are: a slot, or a place in the past. One number for both, as indexes keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(pub(super) u32);

impl Place {
    pub(super) fn slot(slot: u32) -> Place {
        Place(slot << 1)
    }

    pub(super) fn past(version: u32) -> Place {
        Place(version << 1 | 1)
    }

    pub(super) fn is_past(self) -> bool {
        self.0 & 1 == 1
    }

    pub(super) fn number(self) -> u32 {
        self.0 >> 1
    }
}

#[derive(Debug)]
pub(super) struct Shard {
    rows: RowStore,
    /// The epoch of each slot's newest version, or of its deletion.
    created: Vec<u64>,
    /// The next older version.
    previous: Vec<u32>,
    /// Multiplicities; empty where keys are unique.
    weights: Vec<i64>,
    multiset: bool,
    /// Columns that make a row's identity, and the others.
    identity: Vec<usize>,
    others: Vec<usize>,
    index: KeyIndex,
    past: Past,
    /// Further indexes, over all versions; a position whose index was dropped stays empty.
    secondary: Vec<Option<Secondary>>,
    /// Rows that were deleted and have no past: to be freed at the end of the batch, unless they came back.
    unseen: Vec<(u64, u32)>,
    gone: Gone,
    live_rows: i64,
    /// How many there were at each readable epoch.
    counts: RowCounts,
    /// Epochs below it can no longer be read.
    readable_from: Epoch,
    history: VecDeque<(Epoch, Changes)>,
    history_bytes: usize,
    history_from: Epoch,
    /// Rows that are not in memory; `None`: all are.
    cold: Option<Box<Cold>>,
}

/// Changes of one epoch on their way into a shard.
pub(super) struct Batch<'a> {
    pub(super) table: &'a TableSchema,
    pub(super) epoch: Epoch,
    pub(super) changes: &'a Changes,
    /// The identities, and their hashes.
    pub(super) view: &'a RowView<'a>,
    pub(super) hashes: &'a [u64],
}

impl Shard {
    pub(super) fn new(schema: &TableSchema) -> Shard {
        let identity = schema.identity();
        let columns = 0..schema.columns.fields().len();
        Shard {
            rows: RowStore::new(schema.columns.clone()),
            created: Vec::new(),
            previous: Vec::new(),
            weights: Vec::new(),
            multiset: !schema.unique,
            others: columns.filter(|column| !identity.contains(column)).collect(),
            identity,
            index: KeyIndex::default(),
            past: Past::new(&schema.columns, !schema.unique),
            secondary: Vec::new(),
            unseen: Vec::new(),
            gone: Gone::default(),
            live_rows: 0,
            counts: RowCounts::default(),
            readable_from: Epoch::ZERO,
            history: VecDeque::new(),
            history_bytes: 0,
            history_from: Epoch::ZERO,
            cold: None,
        }
    }

    /// Adds an index at a position, which has what is written from now on; what is in slots already is added by
    /// [`Shard::fill_secondary`].
    pub(super) fn add_secondary(&mut self, position: usize, columns: Vec<usize>) {
        self.secondary.resize_with(position + 1, || None);
        self.secondary[position] = Some(Secondary::new(columns));
    }

    /// Adds the versions of some slots to an index, if it is there still.
    pub(super) fn fill_secondary(&mut self, position: usize, slots: Range<u32>) {
        let Some(Some(index)) = self.secondary.get_mut(position) else {
            return;
        };
        let (mut newest, mut older) = (Vec::new(), Vec::new());
        for slot in slots.filter(|slot| self.created[*slot as usize] != FREE) {
            let is_dead = self.created[slot as usize] & DEAD != 0;
            if self.multiset || !is_dead {
                newest.push(slot);
            }
            if !self.multiset {
                older.extend(self.past.chain(self.previous[slot as usize]));
            }
        }
        index.add_stored(&self.rows, &self.past, &newest, Place::slot);
        index.add_stored(&self.rows, &self.past, &older, Place::past);
    }

    pub(super) fn drop_secondary(&mut self, position: usize) {
        if let Some(index) = self.secondary.get_mut(position) {
            *index = None;
        }
    }

    /// The versions that an index has for the values of a row of a view, as they are seen at an epoch, or now.
    ///
    /// # Returns
    /// `None`: the index was dropped.
    pub(super) fn find_secondary(
        &self,
        position: usize,
        hash: u64,
        view: &RowView<'_>,
        row: usize,
        epoch: Option<Epoch>,
    ) -> Option<Vec<Version>> {
        let index = self.secondary.get(position)?.as_ref()?;
        let places = index.places(&self.rows, &self.past, hash, view, row);
        Some(places.filter_map(|place| self.seen(place, epoch)).collect())
    }

    /// What is seen of an indexed version.
    fn seen(&self, place: Place, epoch: Option<Epoch>) -> Option<Version> {
        let number = place.number();
        match (epoch, place.is_past()) {
            (None, true) => None,
            (None, false) => self.newest_version(number),
            (Some(epoch), true) => {
                let is_seen = self.past.is_seen(number, epoch.0);
                is_seen.then_some(Version { place, weight: 1 })
            }
            // Of a multiset's rows the slot alone is indexed; elsewhere each version is, for itself.
            (Some(epoch), false) if self.multiset => self.version_at(number, epoch),
            (Some(epoch), false) => self
                .newest_version(number)
                .filter(|_| self.created[number as usize] <= epoch.0),
        }
    }

    fn newest_version(&self, slot: u32) -> Option<Version> {
        let place = Place::slot(slot);
        let weight = self.weight(slot);
        (self.created[slot as usize] & DEAD == 0).then_some(Version { place, weight })
    }

    /// Slots ever in use: every slot number is below it.
    pub(super) fn slots(&self) -> u32 {
        self.created.len() as u32
    }

    pub(super) fn check(&self, epoch: Epoch) -> Result<()> {
        if epoch < self.readable_from {
            Err(expired(epoch, self.readable_from))
        } else {
            Ok(())
        }
    }

    /// The version of a slot's row that is seen at an epoch.
    #[inline]
    pub(super) fn version_at(&self, slot: u32, epoch: Epoch) -> Option<Version> {
        let created = self.created[slot as usize];
        if created <= epoch.0 {
            return self.newest_version(slot);
        }
        if created & DEAD != 0 && created & !DEAD <= epoch.0 {
            return None;
        }
        let version = self.past.seen_at(self.previous[slot as usize], epoch.0)?;
        let place = if self.multiset {
            Place::slot(slot)
        } else {
            Place::past(version)
        };
        let weight = self.past.weight(version);
        Some(Version { place, weight })
    }

    /// Where a run of slots ends whose newest versions are seen at `epoch`, each once: exact to [`RUN_STEP`] slots, as what
    /// lies in one step is looked at without a branch.
    pub(super) fn run_end(&self, slots: Range<u32>, epoch: Epoch) -> u32 {
        let mut at = slots.start as usize;
        let end = slots.end as usize;
        // What is deleted or free has a mark that is beyond it, whatever epoch is asked for.
        let seen = epoch.0.min(!DEAD);
        while at < end {
            let step = at..(at + RUN_STEP).min(end);
            let created = self.created[step.clone()].iter();
            let mut is_run = created.fold(true, |all, created| all & (*created <= seen));
            if self.multiset {
                let weights = self.weights[step.clone()].iter();
                is_run &= weights.fold(true, |all, weight| all & (*weight == 1));
            }
            if !is_run {
                break;
            }
            at = step.end;
        }
        at as u32
    }

    /// How often all rows count at an epoch; `None`: they are to be gone through.
    pub(super) fn known_count(&self, epoch: Epoch) -> Option<u64> {
        self.counts.at(epoch)
    }

    /// How often the rows of some slots count at an epoch, all together.
    pub(super) fn count(&self, slots: Range<u32>, epoch: Epoch) -> u64 {
        let (mut rows, mut at) = (0, slots.start);
        while at < slots.end {
            let run = self.run_end(at..slots.end, epoch);
            rows += u64::from(run - at);
            let gap = (run + RUN_STEP as u32).min(slots.end);
            let seen = (run..gap).filter_map(|slot| self.version_at(slot, epoch));
            rows += seen.map(|version| version.weight as u64).sum::<u64>();
            at = gap;
        }
        rows
    }

    /// How many times the newest version of a slot counts.
    #[inline]
    fn weight(&self, slot: u32) -> i64 {
        if self.multiset { self.weights[slot as usize] } else { 1 }
    }

    /// The version of an identity that is seen at an epoch.
    pub(super) fn find(&self, hash: u64, view: &RowView<'_>, row: usize, epoch: Epoch) -> Option<Place> {
        let slot = self.index.find(hash, |slot| self.rows.equals(slot, view, row))?;
        self.version_at(slot, epoch).map(|version| version.place)
    }

    /// Which of many identities are seen at an epoch.
    pub(super) fn are_there(&self, hashes: &[u64], view: &RowView<'_>, epoch: Epoch) -> Vec<bool> {
        let mut found = Vec::new();
        self.rows.find_all(&self.index, hashes, view, &mut found);
        let is_there = |slot: u32| slot != NO_SLOT && self.version_at(slot, epoch).is_some();
        found.into_iter().map(is_there).collect()
    }

    /// The slot of an identity that is live now.
    pub(super) fn newest_slot(&self, hash: u64, view: &RowView<'_>, row: usize) -> Option<u32> {
        let slot = self.index.find(hash, |slot| self.rows.equals(slot, view, row))?;
        (self.created[slot as usize] & DEAD == 0).then_some(slot)
    }

    pub(super) fn newest(&self, hash: u64, view: &RowView<'_>, row: usize) -> Option<Epoch> {
        self.newest_slot(hash, view, row)
            .map(|slot| Epoch(self.created[slot as usize]))
    }

    /// Reads columns of versions, in order.
    pub(super) fn gather(&self, columns: &[usize], places: &[Place]) -> Result<Vec<ArrayRef>> {
        let numbers = |is_past: bool| -> Vec<u32> {
            let chosen = places.iter().filter(|place| place.is_past() == is_past);
            chosen.map(|place| place.number()).collect()
        };
        let (newest, older) = (numbers(false), numbers(true));
        if older.is_empty() {
            return Ok(self.rows.gather(columns, &newest));
        }
        let past = self.past.rows().gather(columns, &older);
        if newest.is_empty() {
            return Ok(past);
        }
        let mut taken = [0, 0];
        let order = places.iter().map(|place| {
            let part = place.is_past() as usize;
            taken[part] += 1;
            (part, taken[part] - 1)
        });
        let order: Vec<(usize, usize)> = order.collect();
        let newest = self.rows.gather(columns, &newest);
        let columns = newest.iter().zip(&past);
        Ok(columns
            .map(|(newest, past)| interleave(&[newest, past], &order))
            .collect::<std::result::Result<_, _>>()?)
    }

    /// Reads columns of the newest versions of neighbouring slots.
    pub(super) fn gather_run(&self, columns: &[usize], slots: Range<u32>) -> Vec<ArrayRef> {
        self.rows.gather_run(columns, slots)
    }

    /// Where the values of a version lie.
    pub(super) fn values_of(&self, place: Place) -> (&RowStore, u32) {
        let rows = if place.is_past() { self.past.rows() } else { &self.rows };
        (rows, place.number())
    }

    /// Reads the newest versions of slots.
    pub(super) fn newest_rows(&self, slots: &[u32]) -> RecordBatch {
        self.rows.gather_rows(slots)
    }

    /// Reads whole rows.
    pub(super) fn gather_rows(&self, places: &[Place]) -> Result<RecordBatch> {
        let all: Vec<usize> = (0..self.rows.schema().fields().len()).collect();
        Changes::batch(self.rows.schema().clone(), self.gather(&all, places)?, places.len())
    }

    /// Applies the deletions, or the insertions, among `rows` of the changes.
    ///
    /// # Arguments
    /// - `deleted`: gets the rows that went, with their slots, where that is noted ([`Shard::note_deleted`]).
    pub(super) fn apply(
        &mut self,
        batch: &Batch<'_>,
        rows: Range<usize>,
        deletions: bool,
        deleted: &mut Vec<(u32, u32)>,
    ) -> Result<()> {
        self.check_room(&batch.table.name, rows.len())?;
        let weights = batch.changes.weights();
        let is_chosen = |row: &usize| {
            let weight = weights.get(*row);
            weight != 0 && (weight < 0) == deletions
        };
        let rows: Vec<u32> = rows.filter(is_chosen).map(|row| row as u32).collect();
        let hashes: Vec<u64> = rows.iter().map(|row| batch.hashes[*row as usize]).collect();
        let mut found = Vec::new();
        self.rows.find_some(&self.index, &hashes, batch.view, &rows, &mut found);
        if deletions {
            self.delete(batch, &rows, &found, deleted)?;
        } else {
            self.insert(batch, &rows, found)?;
        }
        self.counts.note(batch.epoch, self.live_rows);
        Ok(())
    }

    /// Whether there are numbers for so many rows more.
    fn check_room(&self, table: &str, rows: usize) -> Result<()> {
        let most = self.rows.slots().max(self.past.rows().slots()) as usize + rows;
        match most < PLACES_MAX {
            true => Ok(()),
            false => Err(Error::bug(format!(
                "table `{table}` has too many rows in one shard: {most}"
            ))),
        }
    }

    fn delete(&mut self, batch: &Batch<'_>, rows: &[u32], found: &[u32], deleted: &mut Vec<(u32, u32)>) -> Result<()> {
        let (mut aside, is_noted) = ((Vec::new(), Vec::new()), self.gone.is_kept());
        for (row, slot) in rows.iter().zip(found) {
            let weight = batch.changes.weights().get(*row as usize);
            let before = if *slot == NO_SLOT { 0 } else { self.live_weight(*slot) };
            self.set_aside(batch, *slot, before, weight, &mut aside)?;
            let (index, left) = (*slot as usize, before + weight);
            self.created[index] = if left == 0 { batch.epoch.0 | DEAD } else { batch.epoch.0 };
            if self.multiset {
                self.weights[index] = left;
            }
            if self.is_forgotten(*slot) {
                self.unseen.push((batch.hashes[*row as usize], *slot));
            }
            match left {
                _ if !is_noted => {}
                0 => deleted.push((*row, *slot)),
                _ => self.gone.mark(*slot),
            }
        }
        self.past.keep_values(&self.rows, &aside.0, &aside.1);
        Ok(())
    }

    fn insert(&mut self, batch: &Batch<'_>, rows: &[u32], found: Vec<u32>) -> Result<()> {
        let (mut aside, mut slots) = ((Vec::new(), Vec::new()), found);
        let is_noted = self.gone.is_kept();
        let mut indexed = (Vec::new(), Vec::new());
        for (row, place) in rows.iter().zip(&mut slots) {
            let number = *row as usize;
            let weight = batch.changes.weights().get(number);
            if *place == NO_SLOT {
                // An earlier row of the batch may be the same.
                let stored = &self.rows;
                let found = self
                    .index
                    .find(batch.hashes[number], |slot| stored.equals(slot, batch.view, number));
                *place = found.unwrap_or_else(|| self.new_slot(batch, number));
            }
            let before = self.live_weight(*place);
            self.set_aside(batch, *place, before, weight, &mut aside)?;
            if before == 0 && (!self.multiset || self.previous[*place as usize] == NONE) {
                indexed.0.push(*place);
                indexed.1.push(*row);
            }
            self.created[*place as usize] = batch.epoch.0;
            if self.multiset {
                self.weights[*place as usize] = before + weight;
            }
            if is_noted {
                self.gone.mark(*place);
            }
        }
        self.past.keep_values(&self.rows, &aside.0, &aside.1);
        if !self.multiset {
            let columns = batch.changes.rows().columns();
            self.rows.write_some(&self.others, &slots, columns, rows);
        }
        for index in self.secondary.iter_mut().flatten() {
            index.add(&self.rows, &self.past, batch.changes.rows(), &indexed.0, &indexed.1);
        }
        Ok(())
    }

    /// A slot for an identity that has none, dead as yet.
    fn new_slot(&mut self, batch: &Batch<'_>, row: usize) -> u32 {
        let slot = self.rows.allocate();
        let index = slot as usize;
        self.make_room(index);
        self.created[index] = batch.epoch.0 | DEAD;
        self.rows.write_one(slot, batch.view, row);
        self.index.insert(batch.hashes[row], slot);
        slot
    }

    /// Sees to it that there is a slot of this number.
    fn make_room(&mut self, index: usize) {
        if index >= self.created.len() {
            self.created.resize(index + 1, FREE);
            self.previous.resize(index + 1, NONE);
            if self.multiset {
                self.weights.resize(index + 1, 0);
            }
        }
    }

    /// How many times a slot's row counts now; 0 if it is dead.
    fn live_weight(&self, slot: u32) -> i64 {
        if self.created[slot as usize] & DEAD != 0 {
            0
        } else {
            self.weight(slot)
        }
    }

    /// Keeps what a row is before it changes, where a reader may have seen it.
    ///
    /// # Arguments
    /// - `before`: how many times the row counts now. `weight`: how many times more it will.
    /// - `aside`: the slots whose values are to be copied, and the versions that they become.
    fn set_aside(
        &mut self,
        batch: &Batch<'_>,
        slot: u32,
        before: i64,
        weight: i64,
        aside: &mut (Vec<u32>, Vec<u32>),
    ) -> Result<()> {
        let (left, epoch) = (before + weight, batch.epoch.0);
        if left < 0 || (!self.multiset && left > 1) {
            return Err(Error::bug(format!(
                "table `{}` would hold a row {left} times at epoch {epoch}",
                batch.table.name
            )));
        }
        self.live_rows += weight;
        if let Some(cold) = &mut self.cold {
            cold.touch(slot);
        }
        let index = slot as usize;
        // A version of this very epoch cannot have been seen by anybody.
        if before > 0 && self.created[index] != epoch {
            let lived = (self.created[index], epoch);
            let version = self.past.push(slot, lived, self.previous[index], before);
            self.previous[index] = version;
            aside.0.push(slot);
            aside.1.push(version);
            if !self.multiset {
                self.move_indexed(Place::slot(slot), Some(Place::past(version)));
            }
        } else if before > 0 && !self.multiset {
            self.move_indexed(Place::slot(slot), None);
        }
        Ok(())
    }

    /// Tells the further indexes that a version is somewhere else, or nowhere.
    fn move_indexed(&mut self, from: Place, to: Option<Place>) {
        for index in self.secondary.iter_mut().flatten() {
            match to {
                Some(to) => index.rename(from, to),
                None => index.remove(from),
            }
        }
    }

    /// Frees the slots of rows that were deleted in the epoch that they were inserted in: nobody can ask for them.
    pub(super) fn forget_unseen(&mut self) {
        let mut unseen = std::mem::take(&mut self.unseen);
        // One that was deleted, came and was deleted again is listed twice.
        unseen.sort_unstable_by_key(|(_, slot)| *slot);
        unseen.dedup_by_key(|(_, slot)| *slot);
        unseen.retain(|(_, slot)| self.is_forgotten(*slot));
        let (hashes, slots): (Vec<u64>, Vec<u32>) = unseen.into_iter().unzip();
        self.free(&hashes, &slots);
    }

    /// Whether a slot's row is deleted and has no past.
    fn is_forgotten(&self, slot: u32) -> bool {
        let created = self.created[slot as usize];
        created & DEAD != 0 && created != FREE && self.previous[slot as usize] == NONE
    }

    /// Frees slots of rows that are deleted; where they are spilled and cannot be forgotten there, they stay deleted here.
    fn free(&mut self, hashes: &[u64], slots: &[u32]) {
        if slots.is_empty() || !self.forget_spilled(slots, hashes) {
            return;
        }
        for (hash, slot) in hashes.iter().zip(slots) {
            self.index.remove(*hash, *slot);
            self.move_indexed(Place::slot(*slot), None);
            self.created[*slot as usize] = FREE;
            self.rows.release(*slot);
        }
    }

    /// Frees versions that no reader may ask for any more, `versions_max` at most.
    ///
    /// # Returns
    /// Whether there may be more.
    pub(super) fn drop_versions(&mut self, horizon: Epoch, kept_from: Epoch, versions_max: usize) -> bool {
        let version_bytes = (self.past.memory_bytes() / (self.past.rows().slots() as usize).max(1)).max(1);
        let too_much = self.past.len() * version_bytes > PINNED_GARBAGE_BYTES_MAX;
        let limit = if too_much { kept_from } else { horizon };
        self.readable_from = self.readable_from.max(limit);
        self.counts.forget_before(self.readable_from);
        let (mut gone, mut dropped) = (Vec::new(), 0);
        while dropped < versions_max
            && let Some(last) = self.past.drop_first(limit.0)
        {
            dropped += 1;
            if !self.multiset {
                self.move_indexed(Place::past(last.version), None);
            }
            self.past.release(last.version);
            if let Some(slot) = last.slot {
                self.previous[slot as usize] = NONE;
                gone.extend(self.is_forgotten(slot).then_some(slot));
            }
        }
        if !gone.is_empty() {
            let keys = self.rows.gather(&self.identity, &gone);
            let hashes = hash_rows(&keys, gone.len());
            self.free(&hashes, &gone);
        }
        dropped == versions_max
    }

    /// Frees the changes of `through` and before, and more if all together are larger than `history_bytes_max`.
    pub(super) fn drop_history(&mut self, through: Epoch, history_bytes_max: usize) {
        while let Some((epoch, changes)) = self.history.front()
            && (*epoch <= through || self.history_bytes > history_bytes_max)
        {
            self.history_from = self.history_from.max(*epoch);
            self.history_bytes -= changes.memory_bytes();
            self.history.pop_front();
        }
    }

    /// There is nothing before an epoch.
    pub(super) fn begin_at(&mut self, epoch: Epoch) {
        self.readable_from = self.readable_from.max(epoch);
        self.history_from = self.history_from.max(epoch);
    }

    pub(super) fn remember(&mut self, epoch: Epoch, changes: Changes) {
        self.history_bytes += changes.memory_bytes();
        self.history.push_back((epoch, changes));
    }

    /// Changes at and before this epoch are no longer kept.
    pub(super) fn history_from(&self) -> Epoch {
        self.history_from
    }

    pub(super) fn history(&self, after: Epoch, through: Epoch, found: &mut Vec<(Epoch, Changes)>) {
        let start = self.history.partition_point(|(epoch, _)| *epoch <= after);
        let wanted = self
            .history
            .iter()
            .skip(start)
            .take_while(|(epoch, _)| *epoch <= through);
        found.extend(wanted.cloned());
    }

    pub(super) fn statistics(&self) -> TableStatistics {
        let versions = (self.rows.live() + self.past.len()) as u64;
        let own = (self.created.capacity() + self.weights.capacity()) * 8 + self.previous.capacity() * 4;
        let secondary: usize = self.secondary.iter().flatten().map(Secondary::memory_bytes).sum();
        let bytes = own
            + self.rows.memory_bytes()
            + self.past.memory_bytes()
            + self.index.memory_bytes()
            + secondary
            + self.cold.as_ref().map_or(0, |cold| cold.memory_bytes())
            + self.gone.memory_bytes()
            + self.counts.memory_bytes()
            + self.history_bytes;
        TableStatistics {
            rows: self.live_rows.max(0) as u64,
            versions,
            bytes: bytes as u64,
        }
    }
}
