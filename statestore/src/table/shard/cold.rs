//! Rows of a shard that are not in memory.
//!
//! # Rules kept here
//! 1. A row that is spilled has no past: every reader that may come sees what was spilled, or did not see the row yet.
//! 2. A row's slot overrides what is spilled of it. Only the shard's writer lets rows go, and whoever makes an index brings them
//!    back beside it; a row that is changed is brought back first.
//! 3. Of what is spilled, that is known which changed since the last checkpoint ([`Cold::marks`]), as long as deletions are kept.
//!
//! # Not here
//! The store, and how rows are written there ([`crate::spill`]).

use super::super::past::NONE;
use super::super::shard::{Place, Shard, Version};
use super::{DEAD, FREE};
use crate::spill::{Share, Spill, SpillRows, SpillTable, Spilled, Writes};
use crate::table::TableSchema;
use crate::{Changes, Epoch, KeyIndex, Result, RowStore, RowView, hash_rows};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, filter_record_batch};
use std::sync::Arc;

/// The row is spilled, too, perhaps as it was.
const SPILLED: u8 = 1;

/// The row is spilled as it is.
const CLEAN: u8 = 2;

/// Rows read in one step of a range.
const ROWS_PER_STEP: usize = 4096;

/// What a shard knows of its rows that are not in memory.
#[derive(Debug)]
pub(in crate::table) struct Cold {
    rows: Arc<SpillTable>,
    /// Identities of spilled rows that changed after the last checkpoint.
    marks: Arc<SpillTable>,
    share: Share,
    /// Whether anything was ever spilled.
    is_used: bool,
    /// Bytes from which on it is worth looking again for rows that may go: the last time so many had to stay.
    looks_from: usize,
    /// By slot; slots beyond have none.
    flags: Vec<u8>,
}

/// Rows of some hashes at one epoch, each once.
pub(in crate::table) struct RangeRows {
    pub(in crate::table) rows: RecordBatch,
    pub(in crate::table) weights: Vec<i64>,
    /// The lower halves of the hashes that the rows are in the order of.
    pub(in crate::table) halves: Vec<u32>,
    /// The lower half of the hash where it goes on; `None`: at the end.
    pub(in crate::table) next: Option<u32>,
}

/// Spilled rows up to a hash, and up to which if not to that.
type SpilledRange = Result<(Spilled, Option<u32>)>;

/// Rows to be spilled: their slots, and the hashes of their identities.
pub(in crate::table) struct Leaving {
    slots: Vec<u32>,
    hashes: Vec<u64>,
    /// Where to go on looking for more.
    pub(in crate::table) next: u32,
}

impl Cold {
    pub(in crate::table) fn new(schema: &TableSchema, spill: &Spill) -> Result<Cold> {
        let identity = schema.identity();
        let keys = Arc::new(schema.columns.project(&identity)?);
        let all = (0..identity.len()).collect();
        Ok(Cold {
            rows: Arc::new(SpillTable::new(
                spill.backend.clone(),
                schema.columns.clone(),
                identity,
            )?),
            marks: Arc::new(SpillTable::new(spill.backend.clone(), keys, all)?),
            share: spill.budget.share(),
            is_used: false,
            looks_from: 0,
            flags: Vec::new(),
        })
    }

    fn flags(&self, slot: u32) -> u8 {
        self.flags.get(slot as usize).copied().unwrap_or(0)
    }

    fn set_flags(&mut self, slot: u32, flags: u8) {
        if self.flags.len() <= slot as usize {
            self.flags.resize(slot as usize + 1, 0);
        }
        self.flags[slot as usize] = flags;
    }

    /// Notes that a slot's row changes.
    #[inline]
    pub(super) fn touch(&mut self, slot: u32) {
        if let Some(flags) = self.flags.get_mut(slot as usize) {
            *flags &= !CLEAN;
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.flags.capacity()
    }
}

/// What rows have in columns, beside the shard's.
fn view_of<'a>(columns: &[usize], arrays: &'a [ArrayRef]) -> RowView<'a> {
    RowStore::view(columns.iter().copied(), arrays)
}

impl Shard {
    pub(in crate::table) fn set_cold(&mut self, cold: Cold) {
        self.cold = Some(Box::new(cold));
    }

    /// Whether rows are, or may be, elsewhere.
    #[inline]
    pub(in crate::table) fn is_spilled(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| cold.is_used)
    }

    /// Whether rows may leave memory some time.
    #[inline]
    pub(in crate::table) fn may_spill(&self) -> bool {
        self.cold.is_some()
    }

    fn spilled(&self) -> Option<&Cold> {
        self.cold.as_deref().filter(|cold| cold.is_used)
    }

    /// Tells how much memory the shard uses.
    ///
    /// # Returns
    /// Whether it is to let rows go.
    pub(in crate::table) fn is_too_large(&mut self) -> bool {
        let Some((used, is_too_much)) = self.use_memory() else {
            return false;
        };
        is_too_much && self.cold.as_ref().is_some_and(|cold| used >= cold.looks_from)
    }

    /// Notes that all rows have gone that may. If none is left, the memory that they had is given back.
    pub(in crate::table) fn has_let_go(&mut self) {
        if self.rows.live() == 0 && self.secondary.iter().all(Option::is_none) {
            self.forget_slots();
        }
        let used = self.use_memory();
        if let (Some(cold), Some((used, is_too_much))) = (&mut self.cold, used) {
            cold.looks_from = if is_too_much { used + used / 4 } else { 0 };
        }
    }

    /// Begins with slots anew: none is in use, so nobody knows one's number.
    fn forget_slots(&mut self) {
        self.rows = RowStore::new(self.rows.schema().clone());
        self.index = KeyIndex::default();
        self.created = Vec::new();
        self.previous = Vec::new();
        self.weights = Vec::new();
        // What was written and is spilled is marked where it is.
        self.gone.marks_mut().clear();
        if let Some(cold) = &mut self.cold {
            cold.flags = Vec::new();
        }
    }

    /// # Returns
    /// The bytes that are used, and whether they are too many; `None`: rows stay in memory.
    fn use_memory(&mut self) -> Option<(usize, bool)> {
        if self.cold.is_none() || self.secondary.iter().any(Option::is_some) {
            return None;
        }
        // A column that grows is there twice for a while: what would grow beyond the limit goes before.
        let all = self.rows.memory_bytes_grown() + self.index.memory_bytes() + self.created.capacity() * 12;
        let (live, slots) = (self.rows.live(), self.rows.slots().max(1) as usize);
        // Slots that are free are taken again before memory is.
        let used = (all as u128 * live as u128 / slots as u128) as usize;
        let cold = self.cold.as_mut()?;
        Some((used, cold.share.use_bytes(used)))
    }

    /// Rows that may be spilled, from a slot on.
    ///
    /// # Returns
    /// `None`: there are none any more.
    pub(in crate::table) fn leaving(&self, from: u32, most: usize) -> Option<Leaving> {
        let mut slot = from;
        let mut slots = Vec::new();
        while slot < self.slots() && slots.len() < most {
            let created = self.created[slot as usize];
            if created & DEAD == 0 && self.previous[slot as usize] == NONE {
                slots.push(slot);
            }
            slot += 1;
        }
        let hashes = hash_rows(&self.rows.gather(&self.identity, &slots), slots.len());
        (!slots.is_empty()).then_some(Leaving {
            slots,
            hashes,
            next: slot,
        })
    }

    /// Writes rows that leave where they are not as they were written before. Until [`Shard::leave`] they are here, too.
    pub(in crate::table) fn write_leaving(&self, leaving: &Leaving) -> Result<()> {
        let Some(cold) = &self.cold else {
            return Ok(());
        };
        let is_dirty = |slot: &u32| cold.flags(*slot) & CLEAN == 0;
        let dirty = leaving
            .slots
            .iter()
            .zip(&leaving.hashes)
            .filter(|(slot, _)| is_dirty(slot));
        let (slots, hashes): (Vec<u32>, Vec<u64>) = dirty.map(|(slot, hash)| (*slot, *hash)).unzip();
        if slots.is_empty() {
            return Ok(());
        }
        let rows = self.rows.gather_rows(&slots);
        let stamp = |row: usize| (self.created[slots[row] as usize], self.weight(slots[row]));
        let mut writes = Writes::default();
        let given = SpillRows {
            rows: &rows,
            hashes: &hashes,
            stamp: &stamp,
        };
        cold.rows.put(&mut writes, &given)?;
        if let Some(from) = self.gone.kept_from() {
            let changed: Vec<bool> = (0..slots.len()).map(|row| stamp(row).0 > from.0).collect();
            let of = |row: &usize| changed[*row];
            let kept: Vec<usize> = (0..slots.len()).filter(of).collect();
            let keys = filter_record_batch(&rows.project(&self.identity)?, &BooleanArray::from(changed.clone()))?;
            let hashes: Vec<u64> = kept.iter().map(|row| hashes[*row]).collect();
            let given = SpillRows {
                rows: &keys,
                hashes: &hashes,
                stamp: &|row| stamp(kept[row]),
            };
            cold.marks.put(&mut writes, &given)?;
        }
        cold.rows.backend().write(&writes)
    }

    /// Lets rows go that were written, unless they have to stay now: an index was made meanwhile.
    ///
    /// # Returns
    /// Whether they went.
    pub(in crate::table) fn leave(&mut self, leaving: &Leaving) -> bool {
        if let Some(cold) = &mut self.cold {
            let stays = self.secondary.iter().any(Option::is_some);
            let flags = if stays { SPILLED | CLEAN } else { 0 };
            cold.is_used = true;
            leaving.slots.iter().for_each(|slot| cold.set_flags(*slot, flags));
            if stays {
                return false;
            }
        }
        for (slot, hash) in leaving.slots.iter().zip(&leaving.hashes) {
            self.index.remove(*hash, *slot);
            self.created[*slot as usize] = FREE;
            self.rows.release(*slot);
        }
        true
    }

    /// Writes rows that were never in memory.
    pub(super) fn load_spilled(&mut self, epoch: Epoch, rows: &Changes, hashes: &[u64]) -> Result<()> {
        let Some(cold) = &mut self.cold else {
            return Ok(());
        };
        cold.is_used = true;
        let mut writes = Writes::default();
        let given = SpillRows {
            rows: rows.rows(),
            hashes,
            stamp: &|row| (epoch.0, rows.weights().get(row)),
        };
        cold.rows.put(&mut writes, &given)?;
        cold.rows.backend().write(&writes)
    }

    /// Reads what is spilled of identities that are not here.
    ///
    /// # Arguments
    /// - `keys`: columns of the identities, as `view` has them.
    ///
    /// # Returns
    /// `None`: there are none.
    pub(in crate::table) fn read_missing(&self, hashes: &[u64], keys: &[ArrayRef]) -> Result<Option<Spilled>> {
        let Some(cold) = self.spilled() else {
            return Ok(None);
        };
        let view = view_of(&self.identity, keys);
        let mut found = Vec::new();
        self.rows.find_all(&self.index, hashes, &view, &mut found);
        let is_missing: Vec<bool> = found.iter().map(|slot| *slot == crate::NO_SLOT).collect();
        self.read_spilled(cold, hashes, keys, is_missing)
    }

    fn read_spilled(
        &self,
        cold: &Cold,
        hashes: &[u64],
        keys: &[ArrayRef],
        wanted: Vec<bool>,
    ) -> Result<Option<Spilled>> {
        let wanted_hashes = hashes.iter().zip(&wanted).filter(|(_, wanted)| **wanted);
        let wanted_hashes: Vec<u64> = wanted_hashes.map(|(hash, _)| *hash).collect();
        if wanted_hashes.is_empty() {
            return Ok(None);
        }
        let mask = BooleanArray::from(wanted);
        let keys = keys.iter().map(|key| Ok(arrow::compute::filter(key, &mask)?));
        let found = cold.rows.find(&wanted_hashes, &keys.collect::<Result<Vec<_>>>()?)?;
        Ok((!found.is_empty()).then_some(found))
    }

    /// Brings rows back, those that are not here.
    pub(in crate::table) fn admit(&mut self, found: &Spilled) {
        let identity = self.identity.clone();
        let keys: Vec<ArrayRef> = identity
            .iter()
            .map(|column| found.rows.column(*column).clone())
            .collect();
        let view = view_of(&identity, &keys);
        let (mut slots, mut rows) = (Vec::new(), Vec::new());
        for row in 0..found.len() {
            let hash = found.hashes[row];
            let stored = &self.rows;
            if self.index.find(hash, |slot| stored.equals(slot, &view, row)).is_some() {
                continue;
            }
            let slot = self.rows.allocate();
            // The next row of the same hash is compared with it.
            self.rows.write_one(slot, &view, row);
            self.index.insert(hash, slot);
            let index = slot as usize;
            self.make_room(index);
            self.created[index] = found.created[row];
            self.previous[index] = NONE;
            if self.multiset {
                self.weights[index] = found.weights[row];
            }
            if let Some(cold) = &mut self.cold {
                cold.set_flags(slot, SPILLED | CLEAN);
            }
            slots.push(slot);
            rows.push(row as u32);
        }
        let others = self.others.clone();
        self.rows.write_some(&others, &slots, found.rows.columns(), &rows);
    }

    /// Brings the rows of the next hashes back, for good: it has an index, so that none leaves any more.
    ///
    /// # Returns
    /// The lower half of the hash where it goes on; `None`: at the end.
    pub(in crate::table) fn admit_next(&mut self, from: u32) -> Result<Option<u32>> {
        let Some(cold) = self.spilled() else {
            return Ok(None);
        };
        let (found, next) = cold.rows.range(from, None, ROWS_PER_STEP)?;
        self.admit(&found);
        Ok(next)
    }

    /// Takes rows out of the store whose slots are freed.
    ///
    /// # Returns
    /// Whether it could: else they must stay.
    pub(super) fn forget_spilled(&mut self, slots: &[u32], hashes: &[u64]) -> bool {
        let Some(cold) = self.spilled() else {
            return true;
        };
        let gone = slots
            .iter()
            .zip(hashes)
            .filter(|(slot, _)| cold.flags(**slot) & SPILLED != 0);
        let (gone, hashes): (Vec<u32>, Vec<u64>) = gone.map(|(slot, hash)| (*slot, *hash)).unzip();
        if gone.is_empty() {
            return true;
        }
        let mut writes = Writes::default();
        let keys = self.rows.gather(&self.identity, &gone);
        let removed = cold.rows.remove(&mut writes, &hashes, &keys);
        let is_done = removed.and_then(|_| cold.rows.backend().write(&writes)).is_ok();
        if let Some(cold) = self.cold.as_mut().filter(|_| is_done) {
            gone.iter().for_each(|slot| cold.set_flags(*slot, 0));
        }
        is_done
    }

    /// Nothing that is spilled has changed since a checkpoint, which is made now.
    pub(in crate::table) fn clear_marks(&self) -> Result<()> {
        self.spilled().map_or(Ok(()), |cold| cold.marks.clear())
    }

    /// Forgets what had changed up to an epoch.
    pub(in crate::table) fn drop_marks(&self, through: Epoch) -> Result<()> {
        let mut from = Some(0);
        while let (Some(cold), Some(at)) = (self.spilled(), from) {
            let (found, next) = cold.marks.range(at, None, ROWS_PER_STEP)?;
            let old: Vec<bool> = found.created.iter().map(|created| *created <= through.0).collect();
            let hashes = found.hashes.iter().zip(&old).filter(|(_, old)| **old);
            let hashes: Vec<u64> = hashes.map(|(hash, _)| *hash).collect();
            if !hashes.is_empty() {
                let keys = filter_record_batch(&found.rows, &BooleanArray::from(old))?;
                let mut writes = Writes::default();
                cold.marks.remove(&mut writes, &hashes, keys.columns())?;
                cold.marks.backend().write(&writes)?;
            }
            from = next;
        }
        Ok(())
    }

    /// Rows of the next hashes, as they are at an epoch: those here, and those that are spilled.
    ///
    /// # Arguments
    /// - `from`: the lower half of the first hash.
    pub(in crate::table) fn range_at(&self, from: u32, epoch: Epoch) -> Result<RangeRows> {
        let spilled = |cold: &Cold, until: Option<u32>| cold.rows.range(from, until, ROWS_PER_STEP);
        let version = |slot: u32| self.version_at(slot, epoch);
        self.range(from, &spilled, &version, &|created| created <= epoch.0)
    }

    /// Rows of the next hashes that changed after one epoch, as they are at another.
    pub(in crate::table) fn range_changed(&self, from: u32, after: Epoch, at: Epoch) -> Result<RangeRows> {
        let marked = |cold: &Cold, until: Option<u32>| -> SpilledRange {
            let (marks, next) = cold.marks.range(from, until, ROWS_PER_STEP)?;
            Ok((cold.rows.find(&marks.hashes, marks.rows.columns())?, next))
        };
        let version = |slot: u32| {
            let version = self.version_at(slot, at)?;
            (self.created_at(slot, version, at) > after.0).then_some(version)
        };
        self.range(from, &marked, &version, &|created| created > after.0 && created <= at.0)
    }

    /// # Arguments
    /// - `spilled`: reads what is spilled up to a hash. `version`: what is seen of a slot. `is_seen`: whether what is spilled is
    ///   seen, by the epoch that it was created in.
    fn range(
        &self,
        from: u32,
        spilled: &dyn Fn(&Cold, Option<u32>) -> SpilledRange,
        version: &dyn Fn(u32) -> Option<Version>,
        is_seen: &dyn Fn(u64) -> bool,
    ) -> Result<RangeRows> {
        // So many hashes as have a step's rows here.
        let width = (ROWS_PER_STEP as u64) << 32;
        let width = (width / (self.index.len() as u64).max(1)).max(1);
        let mut until = u32::try_from(from as u64 + width).ok();
        let mut parts = Vec::new();
        let (mut weights, mut halves) = (Vec::new(), Vec::new());
        if let Some(cold) = self.spilled() {
            let (found, cut) = spilled(cold, until)?;
            until = cut.or(until);
            let keys: Vec<ArrayRef> = self
                .identity
                .iter()
                .map(|key| found.rows.column(*key).clone())
                .collect();
            let view = view_of(&self.identity, &keys);
            let mut here = Vec::new();
            self.rows.find_all(&self.index, &found.hashes, &view, &mut here);
            let chosen: Vec<bool> = (0..found.len())
                .map(|row| here[row] == crate::NO_SLOT && is_seen(found.created[row]))
                .collect();
            for row in (0..found.len()).filter(|row| chosen[*row]) {
                weights.push(found.weights[row]);
                halves.push(found.hashes[row] as u32);
            }
            parts.push(filter_record_batch(&found.rows, &BooleanArray::from(chosen))?);
        }
        let (mut places, mut seen): (Vec<Place>, Vec<u32>) = (Vec::new(), Vec::new());
        for (half, slot) in self.index.in_range(from, until) {
            if let Some(version) = version(slot) {
                places.push(version.place);
                weights.push(version.weight);
                seen.push(half);
            }
        }
        halves.extend(seen);
        parts.push(self.gather_rows(&places)?);
        let rows = concat_batches(self.rows.schema(), &parts)?;
        let (rows, weights, halves) = self.in_order(rows, weights, halves)?;
        Ok(RangeRows {
            rows,
            weights,
            halves,
            next: until,
        })
    }

    /// Rows in the order of their hashes.
    fn in_order(
        &self,
        rows: RecordBatch,
        weights: Vec<i64>,
        halves: Vec<u32>,
    ) -> Result<(RecordBatch, Vec<i64>, Vec<u32>)> {
        let keys: Vec<ArrayRef> = self.identity.iter().map(|key| rows.column(*key).clone()).collect();
        let hashes = hash_rows(&keys, rows.num_rows());
        let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
        order.sort_unstable_by_key(|row| hashes[*row as usize].rotate_left(32));
        let weights = order.iter().map(|row| weights[*row as usize]).collect();
        let halves = order.iter().map(|row| halves[*row as usize]).collect();
        let rows = arrow::compute::take_record_batch(&rows, &UInt32Array::from(order))?;
        Ok((rows, weights, halves))
    }
}
