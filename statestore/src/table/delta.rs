//! What has changed of a table between two epochs, as rows by identity: those that are there, new or changed, and those that went.
//!
//! # Not here
//! The changes of each epoch, one after the other ([`VersionedTable::changes`]).

use super::shard::Shard;
use super::{VersionedTable, cold};
use crate::{Changes, Epoch, Error, KeyIndex, Pin, Result, RowStore, Weights, hash_rows};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::SchemaRef;
use parking_lot::RwLock;
use std::sync::Arc;

/// Slots looked at under one hold of a shard's lock.
const SLOTS_PER_HOLD: u32 = 64 * 1024;

/// Slots of which those that were written are looked for under one hold, and how many of those are looked at.
const MARKS_PER_HOLD: u32 = 256 * 1024;
const ROWS_PER_HOLD: usize = 16 * 1024;

/// Identities looked up under one hold.
const LOOKUPS_PER_HOLD: usize = 4096;

/// The rows of a table that changed after an epoch, as they are at a later one.
#[derive(Debug)]
pub struct Delta {
    table: Arc<VersionedTable>,
    after: Epoch,
    pin: Pin,
    shard: usize,
    /// Where it stands in the shard: a slot, or half of a hash in one that may let rows go.
    slot: u32,
    /// Whether only what was deleted from such a shard is left.
    is_at_gone: bool,
}

/// A piece of a [`Delta`].
#[derive(Clone, Debug)]
pub enum DeltaRows {
    /// Rows that are new or have changed, with their multiplicities.
    There(Changes),
    /// Identities of rows that are not there any more; some were not there before either.
    Gone(RecordBatch),
}

impl VersionedTable {
    /// Keeps, from now on, what [`VersionedTable::delta`] needs of deletions after an epoch.
    ///
    /// # Arguments
    /// - `epoch`: nothing of a later one has been applied yet.
    pub fn keep_deletions(&self, epoch: Epoch) {
        for shard in &self.shards {
            let mut shard = shard.write();
            // Marks that cannot be removed tell of rows that have not changed, which does no harm.
            let _ = shard.clear_marks();
            shard.gone_mut().keep_from(epoch);
        }
    }

    /// Drops what is kept of deletions up to an epoch: nobody will ask for what changed before it.
    pub fn drop_deletions(&self, epoch: Epoch) {
        for shard in &self.shards {
            shard.write().gone_mut().drop_through(epoch);
            let _ = shard.read().drop_marks(epoch);
            let mut slot = 0;
            loop {
                let mut shard = shard.write();
                let marked = shard.gone().marks().slots();
                let end = marked.min(slot + MARKS_PER_HOLD);
                shard.unmark(slot..end, epoch);
                slot = end;
                if end == marked {
                    break;
                }
            }
        }
    }

    /// Whether all deletions after an epoch are kept.
    pub fn knows_deletions(&self, epoch: Epoch) -> bool {
        self.shards.iter().all(|shard| shard.read().gone().is_kept_from(epoch))
    }

    /// How many rows there are at an epoch, with their multiplicities.
    ///
    /// # Errors
    /// `Expired`: the table no longer holds that epoch.
    pub fn count(&self, pin: &Pin) -> Result<u64> {
        let count = |shard: &RwLock<Shard>| {
            let known = {
                let shard = shard.read();
                shard.check(pin.epoch())?;
                shard.known_count(pin.epoch())
            };
            known.map_or_else(|| count_slots(shard, pin), Ok)
        };
        self.shards.iter().map(count).sum()
    }

    /// What changed in `(after, pin]`.
    ///
    /// # Returns
    /// `None`: it is not known which rows were deleted.
    pub fn delta(self: &Arc<Self>, after: Epoch, pin: Pin) -> Option<Delta> {
        self.knows_deletions(after).then(|| Delta {
            table: self.clone(),
            after,
            pin,
            shard: 0,
            slot: 0,
            is_at_gone: false,
        })
    }
}

/// How many rows of a shard there are at an epoch, by going through them.
pub(super) fn count_slots(shard: &RwLock<Shard>, pin: &Pin) -> Result<u64> {
    let (mut rows, mut slot) = (0, 0);
    loop {
        let shard = shard.read();
        shard.check(pin.epoch())?;
        if shard.may_spill() {
            let range = shard.range_at(slot, pin.epoch())?;
            rows += range.weights.iter().map(|weight| *weight as u64).sum::<u64>();
            match range.next {
                Some(half) => slot = half,
                None => return Ok(rows),
            }
            continue;
        }
        let end = shard.slots().min(slot + SLOTS_PER_HOLD);
        rows += shard.count(slot..end, pin.epoch());
        slot = end;
        if end == shard.slots() {
            return Ok(rows);
        }
    }
}

impl Delta {
    /// The next rows, some thousands at most.
    ///
    /// # Errors
    /// `Expired`: the reader was so slow that what it needs was dropped.
    fn next_rows(&mut self) -> Result<Option<DeltaRows>> {
        let table = self.table.clone();
        let all: Vec<usize> = (0..table.schema.columns.fields().len()).collect();
        while self.shard < table.shards.len() {
            let shard = table.shards[self.shard].read();
            shard.check(self.pin.epoch())?;
            if !shard.gone().is_kept_from(self.after) {
                return Err(given_up(self.after, self.pin.epoch()));
            }
            if shard.may_spill() && !self.is_at_gone {
                let range = shard.range_changed(self.slot, self.after, self.pin.epoch())?;
                match range.next {
                    Some(half) => self.slot = half,
                    None => self.is_at_gone = true,
                }
                if !range.weights.is_empty() {
                    return Ok(Some(DeltaRows::There(Changes::new(
                        range.rows,
                        Weights::Each(range.weights),
                    ))));
                }
                continue;
            }
            let marked = shard.gone().marks().slots();
            if self.is_at_gone {
                self.slot = marked;
            }
            let end = marked.min(self.slot.saturating_add(MARKS_PER_HOLD));
            let (found, next) = shard.changed(self.slot..end, self.after, self.pin.epoch(), ROWS_PER_HOLD);
            self.slot = next;
            if !found.is_empty() {
                let (places, weights): (Vec<_>, Vec<_>) = found.iter().map(|found| (found.place, found.weight)).unzip();
                let columns = shard.gather(&all, &places)?;
                let rows = Changes::batch(table.schema.columns.clone(), columns, places.len())?;
                return Ok(Some(DeltaRows::There(Changes::new(rows, Weights::Each(weights)))));
            }
            if next < marked {
                continue;
            }
            let gone = shard.gone().between(self.after, self.pin.epoch());
            let gone = gone.ok_or_else(|| given_up(self.after, self.pin.epoch()))?;
            drop(shard);
            let gone = self.gone_of(self.shard, &gone)?;
            (self.shard, self.slot, self.is_at_gone) = (self.shard + 1, 0, false);
            if gone.num_rows() > 0 {
                return Ok(Some(DeltaRows::Gone(gone)));
            }
        }
        Ok(None)
    }

    /// Identities that were deleted from a shard and are not there at the later epoch, each once.
    ///
    /// # Arguments
    /// - `gone`: identities that were deleted, each once in a batch.
    fn gone_of(&self, number: usize, gone: &[RecordBatch]) -> Result<RecordBatch> {
        let identity = self.table.schema.identity();
        let schema = Arc::new(self.table.schema.columns.project(&identity)?);
        let mut seen = (gone.len() > 1).then(|| Seen::new(&schema));
        let mut away = Vec::new();
        for rows in gone.iter().flat_map(pieces) {
            let hashes = hash_rows(rows.columns(), rows.num_rows());
            let stored = RowStore::view(identity.iter().copied(), rows.columns());
            let mut is_there = {
                let shard = self.table.shards[number].read();
                shard.check(self.pin.epoch())?;
                let mut is_there = shard.are_there(&hashes, &stored, self.pin.epoch());
                let others: Vec<usize> = (0..is_there.len()).filter(|row| !is_there[*row]).collect();
                let keys = rows.columns();
                if let Some(found) = cold::find(&shard, &identity, keys, &hashes, &others, self.pin.epoch())? {
                    found.key_of_row.iter().for_each(|row| is_there[*row] = true);
                }
                is_there
            };
            if let Some(seen) = &mut seen {
                seen.add(rows.columns(), &hashes, &mut is_there);
            }
            let mask: BooleanArray = is_there.iter().map(|is_there| Some(!is_there)).collect();
            away.push(filter_record_batch(&rows, &mask)?);
        }
        Ok(concat_batches(&schema, &away)?)
    }
}

/// Deletions were more than are kept, since the delta began.
fn given_up(after: Epoch, at: Epoch) -> Error {
    crate::retention::expired(after, at)
}

fn pieces(rows: &RecordBatch) -> impl Iterator<Item = RecordBatch> + '_ {
    let starts = (0..rows.num_rows()).step_by(LOOKUPS_PER_HOLD);
    starts.map(|start| rows.slice(start, LOOKUPS_PER_HOLD.min(rows.num_rows() - start)))
}

/// Identities that were told of.
struct Seen {
    rows: RowStore,
    index: KeyIndex,
}

impl Seen {
    fn new(identity: &SchemaRef) -> Seen {
        Seen {
            rows: RowStore::new(identity.clone()),
            index: KeyIndex::default(),
        }
    }

    /// Adds those that are not left out, and leaves out those that were there before.
    fn add(&mut self, columns: &[ArrayRef], hashes: &[u64], left_out: &mut [bool]) {
        let view = RowStore::view(0..columns.len(), columns);
        let rows = hashes.iter().zip(left_out).enumerate();
        for (row, (hash, left_out)) in rows.filter(|(_, (_, left_out))| !**left_out) {
            let rows = &self.rows;
            *left_out = self.index.find(*hash, |slot| rows.equals(slot, &view, row)).is_some();
            if !*left_out {
                let slot = self.rows.allocate();
                self.rows.write_one(slot, &view, row);
                self.index.insert(*hash, slot);
            }
        }
    }
}

impl Iterator for Delta {
    type Item = Result<DeltaRows>;

    fn next(&mut self) -> Option<Result<DeltaRows>> {
        let next = self.next_rows().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.shard = self.table.shards.len();
        }
        next
    }
}
