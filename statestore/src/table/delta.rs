//! What has changed of a table between two epochs, as rows by identity: those that are there, new or changed, and those that went.
//!
//! # Not here
//! The changes of each epoch, one after the other ([`VersionedTable::changes`]).

use super::{VersionedTable, cold};
use crate::{Changes, Epoch, KeyIndex, Pin, Result, RowStore, Weights, hash_rows};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use std::sync::Arc;

/// Slots looked at under one hold of a shard's lock.
const SLOTS_PER_HOLD: u32 = 64 * 1024;

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
        let mut rows = 0;
        for shard in &self.shards {
            let mut slot = 0;
            loop {
                let shard = shard.read();
                shard.check(pin.epoch())?;
                if shard.may_spill() {
                    let range = shard.range_at(slot, pin.epoch())?;
                    rows += range.weights.iter().map(|weight| *weight as u64).sum::<u64>();
                    match range.next {
                        Some(half) => slot = half,
                        None => break,
                    }
                    continue;
                }
                let end = shard.slots().min(slot + SLOTS_PER_HOLD);
                rows += shard.count(slot..end, pin.epoch());
                slot = end;
                if end == shard.slots() {
                    break;
                }
            }
        }
        Ok(rows)
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

impl Delta {
    /// The next rows: at most one per slot looked at.
    ///
    /// # Errors
    /// `Expired`: the reader was so slow that what it needs was dropped.
    fn next_rows(&mut self) -> Result<Option<DeltaRows>> {
        let table = self.table.clone();
        let all: Vec<usize> = (0..table.schema.columns.fields().len()).collect();
        while self.shard < table.shards.len() {
            let shard = table.shards[self.shard].read();
            shard.check(self.pin.epoch())?;
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
            if self.is_at_gone {
                self.slot = shard.slots();
            }
            let end = shard.slots().min(self.slot.saturating_add(SLOTS_PER_HOLD));
            let found = shard.changed(self.slot..end, self.after, self.pin.epoch());
            self.slot = end;
            let (places, weights): (Vec<_>, Vec<_>) = found.iter().map(|found| (found.place, found.weight)).unzip();
            if !places.is_empty() {
                let columns = shard.gather(&all, &places)?;
                let rows = Changes::batch(table.schema.columns.clone(), columns, places.len())?;
                return Ok(Some(DeltaRows::There(Changes::new(rows, Weights::Each(weights)))));
            }
            if end < shard.slots() {
                continue;
            }
            let gone = shard.gone().between(self.after, self.pin.epoch());
            let gone = gone.ok_or_else(|| crate::retention::expired(self.after, self.pin.epoch()))?;
            drop(shard);
            let gone = self.gone_of(self.shard, gone)?;
            (self.shard, self.slot, self.is_at_gone) = (self.shard + 1, 0, false);
            if gone.num_rows() > 0 {
                return Ok(Some(DeltaRows::Gone(gone)));
            }
        }
        Ok(None)
    }

    /// Identities that were deleted from a shard and are not there at the later epoch, each once.
    fn gone_of(&self, number: usize, gone: Vec<RecordBatch>) -> Result<RecordBatch> {
        let identity = self.table.schema.identity();
        let schema = Arc::new(self.table.schema.columns.project(&identity)?);
        let gone = concat_batches(&schema, &gone)?;
        let keys: Vec<ArrayRef> = gone.columns().to_vec();
        let hashes = hash_rows(&keys, gone.num_rows());
        // As the table has them, and as they are by themselves.
        let (stored, view) = (RowStore::view(identity, &keys), RowStore::view(0..keys.len(), &keys));
        let (mut seen, mut index) = (RowStore::new(schema), KeyIndex::default());
        let shard = self.table.shards[number].read();
        let epoch = self.pin.epoch();
        let mut is_there: Vec<bool> = (0..keys.first().map_or(0, |key| key.len()))
            .map(|row| shard.find(hashes[row], &stored, row, epoch).is_some())
            .collect();
        let others: Vec<usize> = (0..is_there.len()).filter(|row| !is_there[*row]).collect();
        let identity = self.table.schema.identity();
        if let Some(found) = cold::find(&shard, &identity, &keys, &hashes, &others, epoch)? {
            found.key_of_row.iter().for_each(|row| is_there[*row] = true);
        }
        let mut is_gone = |row: usize, hash: u64| {
            if is_there[row] || index.find(hash, |slot| seen.equals(slot, &view, row)).is_some()
            {
                return false;
            }
            let slot = seen.allocate();
            seen.write_one(slot, &view, row);
            index.insert(hash, slot);
            true
        };
        let mask = hashes.iter().enumerate().map(|(row, hash)| Some(is_gone(row, *hash)));
        let mask: BooleanArray = mask.collect();
        Ok(filter_record_batch(&gone, &mask)?)
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
