//! Tables whose rows may be elsewhere than in memory: readers find them there, the writer brings back those that it changes and lets
//! go what is too much.
//!
//! # Rules kept here
//! 1. What is spilled and what is not are read under one hold of a shard's lock, hash range by hash range: a row is never seen
//!    twice or not at all because it moved meanwhile.
//! 2. A table with further indexes keeps its rows in memory.
//!
//! # Not here
//! One shard's rows (`shard::cold`).

use super::VersionedTable;
use super::WRITE_CHUNK;
use super::shard::{Cold, RangeRows, Shard};
use crate::spill::{Spill, Spilled};
use crate::{Epoch, Result, RowStore};
use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use std::collections::HashMap;

/// Rows of keys, found where they are spilled.
pub(super) struct ColdRows {
    pub(super) rows: RecordBatch,
    /// For each row, the position of its key among those asked for.
    pub(super) key_of_row: Vec<usize>,
}

impl VersionedTable {
    /// The same table, still empty, which lets rows leave memory.
    ///
    /// # Errors
    /// `Unsupported`: a column's type cannot be spilled.
    pub fn with_spill(self, spill: &Spill) -> Result<VersionedTable> {
        for shard in &self.shards {
            let cold = Cold::new(&self.schema, spill)?;
            shard.write().set_cold(cold);
        }
        Ok(self)
    }

    /// Brings rows back that are about to be changed.
    ///
    /// # Arguments
    /// - `keys`: columns of their identities. `hashes`: of those.
    pub(super) fn admit(&self, shard: usize, keys: &[ArrayRef], hashes: &[u64]) -> Result<()> {
        // Nobody else brings rows back or lets them go.
        if !self.shards[shard].read().is_spilled() {
            return Ok(());
        }
        let chunk = self.shards[shard].read().rows_at_once(WRITE_CHUNK);
        for start in (0..hashes.len()).step_by(chunk) {
            let count = chunk.min(hashes.len() - start);
            let keys: Vec<ArrayRef> = keys.iter().map(|key| key.slice(start, count)).collect();
            let found = self.shards[shard]
                .read()
                .read_missing(&hashes[start..start + count], &keys)?;
            if let Some(found) = found {
                self.shards[shard].write().admit(&found);
            }
        }
        Ok(())
    }

    /// Lets rows go if memory is short.
    ///
    /// # Errors
    /// `Unavailable`: they cannot be written; they stay.
    pub(super) fn let_go(&self, shard: usize) -> Result<()> {
        if !self.shards[shard].write().is_too_large() {
            return Ok(());
        }
        let mut from = 0;
        loop {
            let leaving = {
                let shard = self.shards[shard].read();
                let Some(leaving) = shard.leaving(from, shard.rows_at_once(WRITE_CHUNK)) else {
                    break;
                };
                shard.write_leaving(&leaving)?;
                leaving
            };
            if !self.shards[shard].write().leave(&leaving) {
                return Ok(());
            }
            from = leaving.next;
        }
        self.shards[shard].write().has_let_go();
        Ok(())
    }
}

/// The rows of keys that a shard has spilled, as they are seen at an epoch.
///
/// # Arguments
/// - `wanted`: which of the keys may be in the shard.
pub(super) fn find(
    shard: &Shard,
    identity: &[usize],
    keys: &[ArrayRef],
    hashes: &[u64],
    wanted: &[usize],
    epoch: Epoch,
) -> Result<Option<ColdRows>> {
    if !shard.is_spilled() || wanted.is_empty() {
        return Ok(None);
    }
    let indices = UInt32Array::from_iter_values(wanted.iter().map(|row| *row as u32));
    let taken = keys.iter().map(|key| Ok(arrow::compute::take(key, &indices, None)?));
    let taken = taken.collect::<Result<Vec<ArrayRef>>>()?;
    let wanted_hashes: Vec<u64> = wanted.iter().map(|row| hashes[*row]).collect();
    let Some(found) = shard.read_missing(&wanted_hashes, &taken)? else {
        return Ok(None);
    };
    of_keys(&found, identity, keys, hashes, wanted, epoch).map(Some)
}

/// The rows among those found that have one of the keys and are seen, once for each time that the key was asked for.
fn of_keys(
    found: &Spilled,
    identity: &[usize],
    keys: &[ArrayRef],
    hashes: &[u64],
    wanted: &[usize],
    epoch: Epoch,
) -> Result<ColdRows> {
    let mut by_hash: HashMap<u64, Vec<usize>> = HashMap::new();
    for row in wanted {
        by_hash.entry(hashes[*row]).or_default().push(*row);
    }
    let mut stored = RowStore::new(found.rows.schema());
    let first = stored.append(found.rows.columns(), found.len());
    let view = RowStore::view(identity.iter().copied(), keys);
    let (mut rows, mut key_of_row) = (Vec::new(), Vec::new());
    for row in (0..found.len()).filter(|row| found.is_seen(*row, epoch)) {
        let asked = by_hash.get(&found.hashes[row]).into_iter().flatten();
        for key in asked.filter(|key| stored.equals(first + row as u32, &view, **key)) {
            rows.push(row as u32);
            key_of_row.push(*key);
        }
    }
    Ok(ColdRows {
        rows: take_record_batch(&found.rows, &UInt32Array::from(rows))?,
        key_of_row,
    })
}

/// Where a reader of hash ranges stands in a shard.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RangePosition {
    /// The lower half of the hash that comes next.
    pub(super) half: u32,
    /// How many rows of it were given already, each as often as it counts.
    pub(super) given: i64,
}

/// What comes next of a range of rows.
pub(super) struct RangePiece {
    /// Which of the rows, and how often each.
    pub(super) rows: Vec<(u32, i64)>,
    /// Where to go on; `None`: in the next shard.
    pub(super) next: Option<RangePosition>,
}

impl RangePosition {
    /// The next rows, `rows_max` at most.
    pub(super) fn take(self, range: &RangeRows, rows_max: usize) -> RangePiece {
        let (mut rows, mut left) = (Vec::new(), rows_max as i64);
        let (mut half, mut before) = (self.half, 0);
        for (row, (of, weight)) in range.halves.iter().zip(&range.weights).enumerate() {
            if *of != half {
                (half, before) = (*of, 0);
            }
            let skipped = match half == self.half {
                true => (self.given - before).clamp(0, *weight),
                false => 0,
            };
            let times = (weight - skipped).min(left);
            if times > 0 {
                rows.push((row as u32, times));
                left -= times;
            }
            before += skipped + times;
            if times < weight - skipped {
                let next = Some(RangePosition { half, given: before });
                return RangePiece { rows, next };
            }
        }
        let next = range.next.map(|half| RangePosition { half, given: 0 });
        RangePiece { rows, next }
    }
}
