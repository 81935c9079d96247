//! Reading a whole table at one epoch, a batch at a time.

use super::VersionedTable;
use super::cold::RangePosition;
use super::shard::Shard;
use crate::{Changes, Epoch, Pin, Result, Weights};
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use std::ops::Range;
use std::sync::Arc;

/// Slots looked at under one hold of a shard's lock.
const SLOTS_PER_HOLD: u32 = 32 * 1024;

/// Rows that are read in one piece rather than slot by slot if all of them are seen: fewer would make small batches.
const RUN_MIN: usize = 2048;

/// A scan: holds its epoch by a pin, and a shard's lock only while it copies a batch.
#[derive(Debug)]
pub struct Scan {
    table: Arc<VersionedTable>,
    pin: Pin,
    projection: Vec<usize>,
    schema: SchemaRef,
    end_shard: usize,
    shard: usize,
    slot: u32,
    /// How many times the row at `slot` was returned already.
    repeated: i64,
}

impl Scan {
    pub(super) fn new(table: Arc<VersionedTable>, pin: Pin, projection: Vec<usize>, shards: Range<usize>) -> Scan {
        let schema = Arc::new(table.schema.columns.project(&projection).expect("columns of the table"));
        Scan {
            table,
            pin,
            projection,
            schema,
            end_shard: shards.end,
            shard: shards.start,
            slot: 0,
            repeated: 0,
        }
    }

    /// The columns read.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The epoch read.
    pub fn epoch(&self) -> Epoch {
        self.pin.epoch()
    }

    /// Where the scan stands, to be given to [`Scan::seek`] of another scan of the same table and epoch.
    pub fn position(&self) -> (u64, i64) {
        ((self.shard as u64) << 32 | self.slot as u64, self.repeated)
    }

    /// Goes on from a position.
    pub fn seek(&mut self, position: (u64, i64)) {
        self.shard = (position.0 >> 32) as usize;
        self.slot = position.0 as u32;
        self.repeated = position.1;
    }

    /// The next rows.
    ///
    /// # Returns
    /// At most `rows_max` rows, at least one; `None` at the end.
    ///
    /// # Errors
    /// `Expired`: the reader was so slow that the versions it needs were dropped.
    pub fn next_batch(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        while self.shard < self.end_shard {
            if self.may_spill() {
                let repeated = |rows: Vec<(u32, i64)>| {
                    let rows = rows.into_iter();
                    let repeated: Vec<u32> = rows
                        .flat_map(|(row, times)| std::iter::repeat_n(row, times as usize))
                        .collect();
                    (repeated, ())
                };
                match self.next_range(rows_max, repeated)? {
                    Some((rows, ())) => return Ok(Some(rows)),
                    None => continue,
                }
            }
            let slots = self.next_slots(rows_max)?;
            if let Some((columns, count)) = slots {
                return Ok(Some(Changes::batch(self.schema.clone(), columns, count)?));
            }
        }
        Ok(None)
    }

    /// The next rows, each once and with its multiplicity. Not to be mixed with [`Scan::next_batch`].
    ///
    /// # Returns
    /// At most `rows_max` rows, at least one; `None` at the end.
    ///
    /// # Errors
    /// As of [`Scan::next_batch`].
    pub fn next_weighted(&mut self, rows_max: usize) -> Result<Option<Changes>> {
        while self.shard < self.end_shard {
            if self.may_spill() {
                match self.next_range(rows_max, |rows| rows.into_iter().unzip())? {
                    Some((rows, weights)) => return Ok(Some(Changes::new(rows, Weights::Each(weights)))),
                    None => continue,
                }
            }
            let table = self.table.clone();
            let shard = table.shards[self.shard].read();
            shard.check(self.pin.epoch())?;
            let end = shard.slots().min(self.slot.saturating_add(SLOTS_PER_HOLD));
            let (mut places, mut weights) = (Vec::new(), Vec::new());
            let rows_max = shard.rows_at_once(rows_max);
            while self.slot < end && places.len() < rows_max {
                if let Some(version) = shard.version_at(self.slot, self.pin.epoch()) {
                    places.push(version.place);
                    weights.push(version.weight);
                }
                self.slot += 1;
            }
            self.leave_at_end(&shard);
            if !places.is_empty() {
                let columns = shard.gather(&self.projection, &places)?;
                let rows = Changes::batch(self.schema.clone(), columns, places.len())?;
                return Ok(Some(Changes::new(rows, Weights::Each(weights))));
            }
        }
        Ok(None)
    }

    /// Whether the shard it stands in may let rows go, so that they are not read by their slots.
    fn may_spill(&self) -> bool {
        self.table.shards[self.shard].read().may_spill()
    }

    /// The next rows by their hashes, in a shard that may let rows go.
    ///
    /// # Arguments
    /// - `choose`: which rows to give of those with their multiplicities, and what more is to be known of them.
    fn next_range<T>(
        &mut self,
        rows_max: usize,
        choose: impl Fn(Vec<(u32, i64)>) -> (Vec<u32>, T),
    ) -> Result<Option<(RecordBatch, T)>> {
        let table = self.table.clone();
        let position = RangePosition {
            half: self.slot,
            given: self.repeated,
        };
        let range = {
            let shard = table.shards[self.shard].read();
            shard.check(self.pin.epoch())?;
            shard.range_at(position.half, self.pin.epoch())?
        };
        let piece = position.take(&range, rows_max);
        match piece.next {
            Some(next) => (self.slot, self.repeated) = (next.half, next.given),
            None => (self.shard, self.slot, self.repeated) = (self.shard + 1, 0, 0),
        }
        if piece.rows.is_empty() {
            return Ok(None);
        }
        let (rows, more) = choose(piece.rows);
        let (count, rows) = (rows.len(), UInt32Array::from(rows));
        let columns = self
            .projection
            .iter()
            .map(|column| take(range.rows.column(*column), &rows, None));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(Some((Changes::batch(self.schema.clone(), columns, count)?, more)))
    }

    fn next_slots(&mut self, rows_max: usize) -> Result<Option<(Vec<arrow::array::ArrayRef>, usize)>> {
        let table = self.table.clone();
        let shard = table.shards[self.shard].read();
        shard.check(self.pin.epoch())?;
        let end = shard.slots().min(self.slot.saturating_add(SLOTS_PER_HOLD));
        if let Some(run) = self.next_run(&shard, end, rows_max) {
            self.slot = run.end;
            self.leave_at_end(&shard);
            return Ok(Some((shard.gather_run(&self.projection, run.clone()), run.len())));
        }
        let mut places = Vec::with_capacity(rows_max.min((end - self.slot.min(end)) as usize));
        while self.slot < end && places.len() < rows_max {
            if let Some(version) = shard.version_at(self.slot, self.pin.epoch()) {
                let wanted = version.weight - self.repeated;
                let room = (rows_max - places.len()) as i64;
                places.extend(std::iter::repeat_n(version.place, wanted.min(room) as usize));
                if wanted > room {
                    self.repeated += room;
                    break;
                }
            }
            self.repeated = 0;
            self.slot += 1;
        }
        self.leave_at_end(&shard);
        if places.is_empty() {
            return Ok(None);
        }
        Ok(Some((shard.gather(&self.projection, &places)?, places.len())))
    }

    /// The next slots if they are a run of rows that are all seen, long enough to be worth it.
    fn next_run(&self, shard: &Shard, end: u32, rows_max: usize) -> Option<Range<u32>> {
        let most = end.min(self.slot.saturating_add(u32::try_from(rows_max).unwrap_or(u32::MAX)));
        if self.repeated > 0 || self.slot >= most {
            return None;
        }
        let run = self.slot..shard.run_end(self.slot..most, self.pin.epoch());
        (run.len() >= RUN_MIN).then_some(run)
    }

    /// Goes on to the next shard behind the last slot of this one.
    fn leave_at_end(&mut self, shard: &Shard) {
        if self.slot >= shard.slots() {
            self.shard += 1;
            self.slot = 0;
        }
    }
}
