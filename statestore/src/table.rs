//! Tables that a writer changes epoch by epoch while readers see any retained sealed epoch.
//!
//! # Layout
//! A table is split into shards; one writer owns a shard (a dataflow worker, or the committer for tables
//! held here). In a shard a row's identity (its unique key, or the whole row with a multiplicity) has a slot, which a
//! hash index finds. The slot holds the newest version; older ones hang on it in a chain, each with the epoch it was
//! created in and the epoch it ended in.
//!
//! # Rules kept here
//! 1. **Visible.** A version is seen at `as_of` exactly when `created <= as_of < ended`.
//! 2. **Readers do not wait for writers.** A writer holds a shard's lock for at most [`WRITE_CHUNK`] rows at a time,
//!    readers for one chunk of a scan or one lookup; versions of an epoch that is not sealed yet are invisible, so
//!    a half-applied epoch is never seen.
//! 3. **Slots are stable while any version is visible**, so a position in a scan stays right as long as its epoch is pinned.
//!
//! # Not here
//! Choosing the epoch to read; which epochs are kept ([`crate::Retention`]).
//!
//! # Source
//! Timestamped versions and snapshot reads as in multi-version concurrency control: Bernstein, Goodman,
//! "Multiversion Concurrency Control", TODS 1983.

mod cold;
mod counts;
mod delta;
mod follow;
mod gone;
mod indexes;
mod marks;
mod past;
mod point;
mod scan;
mod secondary;
mod shard;

pub use delta::{Delta, DeltaRows};
pub use follow::Follower;
pub use indexes::UniqueKey;
pub use point::StoredRow;
pub use scan::Scan;

use crate::retention::expired;
use crate::{Changes, Epoch, ErrorKind, Pin, Result, Retention, RowStore, hash_rows, shard_of};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use follow::Followers;
use indexes::Indexes;
use parking_lot::RwLock;
use shard::{Batch, Shard};
use std::sync::Arc;

/// Rows applied under one hold of a shard's lock.
pub const WRITE_CHUNK: usize = 4096;

/// What a table is: columns and identity.
#[derive(Clone, Debug)]
pub struct TableSchema {
    /// Name for messages.
    pub name: String,
    /// Columns in order.
    pub columns: SchemaRef,
    /// Indices of the key columns; empty for tables without a key.
    pub key: Vec<usize>,
    /// Whether a key has at most one row. Without it a row's identity is the whole row, with a multiplicity.
    pub unique: bool,
}

impl TableSchema {
    /// Columns that make a row's identity.
    pub fn identity(&self) -> Vec<usize> {
        if self.unique {
            self.key.clone()
        } else {
            (0..self.columns.fields().len()).collect()
        }
    }
}

/// Sizes of a table, versions that are kept for older epochs included in the bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableStatistics {
    /// Rows now, with their multiplicities.
    pub rows: u64,
    /// Row versions held.
    pub versions: u64,
    /// Bytes of memory.
    pub bytes: u64,
}

/// Rows found by [`VersionedTable::lookup`].
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The rows, all columns of the table.
    pub rows: RecordBatch,
    /// For each row, the position of its key in the request.
    pub key_of_row: Vec<usize>,
}

/// A keyed, typed table with the recent past of every row.
#[derive(Debug)]
pub struct VersionedTable {
    schema: TableSchema,
    shards: Vec<RwLock<Shard>>,
    hash_sharded: bool,
    retention: Arc<Retention>,
    followers: Arc<Followers>,
    history_bytes_max: usize,
    key_name: Option<String>,
    unique_keys: Vec<UniqueKey>,
    indexes: Indexes,
}

impl VersionedTable {
    /// An empty table.
    ///
    /// # Arguments
    /// - `shards`: number of writers, at least 1.
    /// - `hash_sharded`: whether a row lies in the shard `shard_of(hash_rows(identity))`; otherwise lookups ask all shards.
    /// - `history_bytes_max`: bytes of past changes each shard keeps for [`VersionedTable::changes`]; 0 keeps none.
    pub fn new(
        schema: TableSchema,
        shards: usize,
        hash_sharded: bool,
        retention: Arc<Retention>,
        history_bytes_max: usize,
    ) -> VersionedTable {
        let shards = (0..shards.max(1)).map(|_| RwLock::new(Shard::new(&schema))).collect();
        VersionedTable {
            schema,
            shards,
            hash_sharded,
            retention,
            followers: Arc::default(),
            history_bytes_max,
            key_name: None,
            unique_keys: Vec::new(),
            indexes: Indexes::default(),
        }
    }

    /// Columns and identity.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Applies changes of one epoch to a shard. They stay invisible until the caller lets readers read that epoch.
    ///
    /// # Arguments
    /// - `epoch`: not before any epoch applied to this shard.
    /// - `changes`: net changes: deletions name rows (by identity) that are there.
    ///
    /// # Errors
    /// `Bug`: a deletion of a row that is not there, or a second row of a unique key.
    pub fn apply(&self, shard: usize, epoch: Epoch, changes: &Changes) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        self.apply_rows(shard, epoch, changes)?;
        self.finish_apply(shard, epoch, changes);
        match self.let_go(shard) {
            // What is applied is applied: rows that cannot be written stay here.
            Err(error) if error.kind() == ErrorKind::Unavailable => Ok(()),
            outcome => outcome,
        }
    }

    /// Says that a shard, which is empty, begins at an epoch: what was before cannot be read or followed.
    pub fn begin_at(&self, shard: usize, epoch: Epoch) {
        self.shards[shard].write().begin_at(epoch);
    }

    /// Makes room in a shard for so many rows to be loaded.
    pub fn reserve(&self, shard: usize, rows: usize) {
        self.shards[shard].write().reserve(rows);
    }

    /// Puts rows into a shard as they stand at the epoch that it begins at ([`VersionedTable::begin_at`]), each identity once; whoever
    /// follows the table is not told of them. For a shard that nobody reads or writes yet: its lock is held for all of them.
    ///
    /// # Errors
    /// `Bug`: a second row of an identity, or one that is there less than once. The table is of no use any more.
    pub fn load(&self, shard: usize, epoch: Epoch, rows: &Changes) -> Result<()> {
        let hashes = hash_rows(&self.identities(rows), rows.len());
        self.shards[shard]
            .write()
            .load(&self.schema.name, epoch, rows, &hashes)?;
        self.let_go(shard)
    }

    /// The columns of rows' identities.
    fn identities(&self, changes: &Changes) -> Vec<ArrayRef> {
        let identity = self.schema.identity().into_iter();
        identity.map(|column| changes.rows().column(column).clone()).collect()
    }

    fn apply_rows(&self, shard: usize, epoch: Epoch, changes: &Changes) -> Result<()> {
        let keys = self.identities(changes);
        let hashes = hash_rows(&keys, changes.len());
        let view = RowStore::view(self.schema.identity(), &keys);
        let batch = Batch {
            table: &self.schema,
            epoch,
            changes,
            view: &view,
            hashes: &hashes,
        };
        self.admit(shard, &keys, &hashes)?;
        let passes: &[bool] = if changes.weights().is_insertion() {
            &[false]
        } else {
            &[true, false]
        };
        let mut deleted = Vec::new();
        for deletions in passes {
            for start in (0..changes.len()).step_by(WRITE_CHUNK) {
                let rows = start..(start + WRITE_CHUNK).min(changes.len());
                self.shards[shard]
                    .write()
                    .apply(&batch, rows, *deletions, &mut deleted)?;
            }
        }
        match deleted.is_empty() {
            true => Ok(()),
            false => self.shards[shard].write().note_deleted(epoch, changes, &deleted),
        }
    }

    fn finish_apply(&self, shard: usize, epoch: Epoch, changes: &Changes) {
        let (horizon, kept_from) = (self.retention.horizon(), self.retention.kept_from());
        {
            let mut shard = self.shards[shard].write();
            shard.forget_unseen();
            if self.history_bytes_max > 0 {
                shard.remember(epoch, changes.clone());
            }
            let unread_from = self.followers.last().unwrap_or(horizon);
            shard.drop_history(horizon.min(unread_from), self.history_bytes_max);
        }
        while self.shards[shard]
            .write()
            .drop_versions(horizon, kept_from, WRITE_CHUNK)
        {}
    }

    /// The rows of given keys at one epoch.
    ///
    /// # Arguments
    /// - `keys`: the key columns' values, in the order of the schema's identity, one row per key.
    /// - `pin`: the epoch.
    ///
    /// # Errors
    /// `Expired`: the table no longer holds that epoch.
    pub fn lookup(&self, keys: &[ArrayRef], pin: &Pin) -> Result<Lookup> {
        let count = keys.first().map_or(0, |key| key.len());
        let hashes = hash_rows(keys, count);
        let view = RowStore::view(self.schema.identity(), keys);
        let (mut parts, mut key_of_row) = (Vec::new(), Vec::new());
        for (number, shard) in self.shards.iter().enumerate() {
            let is_here = |hash: &u64| !self.hash_sharded || shard_of(*hash, self.shards.len()) == number;
            if !hashes.iter().any(is_here) {
                continue;
            }
            let shard = shard.read();
            shard.check(pin.epoch())?;
            let (mut places, mut others) = (Vec::new(), Vec::new());
            for (row, hash) in hashes.iter().enumerate().filter(|(_, hash)| is_here(hash)) {
                match shard.find(*hash, &view, row, pin.epoch()) {
                    Some(place) => {
                        places.push(place);
                        key_of_row.push(row);
                    }
                    None => others.push(row),
                }
            }
            if !places.is_empty() {
                parts.push(shard.gather_rows(&places)?);
            }
            let identity = self.schema.identity();
            if let Some(found) = cold::find(&shard, &identity, keys, &hashes, &others, pin.epoch())? {
                parts.push(found.rows);
                key_of_row.extend(found.key_of_row);
            }
        }
        let rows = concat_batches(&self.schema.columns, &parts)?;
        Ok(Lookup { rows, key_of_row })
    }

    /// For each row, whether its identity has a version that is live now, and the epoch that was created in: what
    /// a writer needs to detect conflicts. Only for the single writer of a table with one shard.
    ///
    /// # Errors
    /// `Unavailable`: rows that have left memory cannot be read.
    pub fn newest(&self, keys: &[ArrayRef]) -> Result<Vec<Option<Epoch>>> {
        let count = keys.first().map_or(0, |key| key.len());
        let hashes = hash_rows(keys, count);
        self.admit(0, keys, &hashes)?;
        let view = RowStore::view(self.schema.identity(), keys);
        let shard = self.shards[0].read();
        let newest = hashes.iter().enumerate();
        Ok(newest.map(|(row, hash)| shard.newest(*hash, &view, row)).collect())
    }

    /// Whole rows of identities that are live now: `None` where there is none. For the writer of a table with one shard.
    ///
    /// # Errors
    /// As [`VersionedTable::newest`].
    pub fn newest_rows(&self, keys: &[ArrayRef]) -> Result<Lookup> {
        let count = keys.first().map_or(0, |key| key.len());
        let hashes = hash_rows(keys, count);
        self.admit(0, keys, &hashes)?;
        let view = RowStore::view(self.schema.identity(), keys);
        let shard = self.shards[0].read();
        let (mut slots, mut key_of_row) = (Vec::new(), Vec::new());
        for (row, hash) in hashes.iter().enumerate() {
            if let Some(slot) = shard.newest_slot(*hash, &view, row) {
                slots.push(slot);
                key_of_row.push(row);
            }
        }
        Ok(Lookup {
            rows: shard.newest_rows(&slots),
            key_of_row,
        })
    }

    /// The net changes of each epoch in `(after, through]`, ascending, of all shards.
    ///
    /// # Errors
    /// `Expired`: changes after `after` are no longer all kept; the error names the epoch to resume from.
    pub fn changes(&self, after: Epoch, through: Epoch) -> Result<Vec<(Epoch, Changes)>> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.read();
            if after < shard.history_from() {
                return Err(expired(after, shard.history_from()));
            }
            shard.history(after, through, &mut found);
        }
        found.sort_by_key(|(epoch, _)| *epoch);
        Ok(found)
    }

    /// The net changes of all epochs up to one that are still kept, of all shards; of an epoch all or nothing.
    pub fn kept_changes(&self, through: Epoch) -> Vec<(Epoch, Changes)> {
        let from = self.shards.iter().map(|shard| shard.read().history_from()).max();
        // More may be dropped meanwhile.
        self.changes(from.unwrap_or(Epoch::ZERO), through).unwrap_or_default()
    }

    /// Starts following the table: changes after `after` are kept until they are read, within the limit of bytes.
    ///
    /// # Errors
    /// `Expired`: changes after `after` are no longer all kept; the error names the epoch to resume from.
    pub fn follow(&self, after: Epoch) -> Result<Follower> {
        let follower = Follower::new(self.followers.clone(), after);
        self.changes(after, after)?;
        Ok(follower)
    }

    /// Starts reading the whole table, or some shards of it.
    ///
    /// # Arguments
    /// - `projection`: indices of the columns to read.
    /// - `shards`: which shards; the scan goes through them in order.
    pub fn scan(self: &Arc<Self>, pin: Pin, projection: Vec<usize>, shards: std::ops::Range<usize>) -> Scan {
        Scan::new(self.clone(), pin, projection, shards)
    }

    /// Sizes, summed over shards.
    pub fn statistics(&self) -> TableStatistics {
        self.shards.iter().fold(TableStatistics::default(), |sum, shard| {
            let one = shard.read().statistics();
            TableStatistics {
                rows: sum.rows + one.rows,
                versions: sum.versions + one.versions,
                bytes: sum.bytes + one.bytes,
            }
        })
    }

    /// Whether rows carry multiplicities.
    pub fn is_multiset(&self) -> bool {
        !self.schema.unique
    }
}

#[cfg(test)]
mod tests;
