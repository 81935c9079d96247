//! Reads of one row where it lies: no pin, no batch, the lock of one shard alone.

use super::shard::Shard;
use super::{VersionedTable, cold};
use crate::column::Stored;
use crate::{Epoch, Result, RowStore, RowView, hash_rows, shard_of};
use arrow::array::ArrayRef;

/// A row found by [`VersionedTable::read_one`].
pub struct StoredRow<'a> {
    rows: &'a RowStore,
    slot: u32,
}

impl StoredRow<'_> {
    /// The value of a column.
    #[inline]
    pub fn stored(&self, column: usize) -> Stored<'_> {
        self.rows.stored(column, self.slot)
    }
}

impl VersionedTable {
    /// Shows the row of one key, as of one epoch, to `read`, which is to be quick: its shard's writer waits meanwhile.
    ///
    /// # Arguments
    /// - `key`: the key columns' values, in the order of the schema's identity, one row.
    /// - `epoch`: one that readers may read. It need not be pinned: a shard keeps its versions while it is locked.
    ///
    /// # Returns
    /// `None`: no row has the key.
    ///
    /// # Errors
    /// `Expired`: the table no longer holds that epoch.
    pub fn read_one<T>(
        &self,
        key: &[ArrayRef],
        epoch: Epoch,
        read: impl FnOnce(StoredRow<'_>) -> T,
    ) -> Result<Option<T>> {
        let hash = hash_rows(key, 1)[0];
        let view = RowStore::view(self.schema.identity(), key);
        if self.hash_sharded || self.shards.len() == 1 {
            let shard = self.shards[shard_of(hash, self.shards.len())].read();
            return match find(&shard, hash, &view, epoch)? {
                None if shard.is_spilled() => self.read_spilled(&shard, key, hash, epoch, read),
                found => Ok(found.map(read)),
            };
        }
        for shard in &self.shards {
            let shard = shard.read();
            if let Some(row) = find(&shard, hash, &view, epoch)? {
                return Ok(Some(read(row)));
            }
        }
        for shard in self
            .shards
            .iter()
            .map(|shard| shard.read())
            .filter(|shard| shard.is_spilled())
        {
            shard.check(epoch)?;
            if cold::find(&shard, &self.schema.identity(), key, &[hash], &[0], epoch)?
                .is_some_and(|found| found.rows.num_rows() > 0)
            {
                return self.read_spilled(&shard, key, hash, epoch, read);
            }
        }
        Ok(None)
    }

    /// As [`VersionedTable::read_one`], where the shard may have spilled the row.
    fn read_spilled<T>(
        &self,
        shard: &Shard,
        key: &[ArrayRef],
        hash: u64,
        epoch: Epoch,
        read: impl FnOnce(StoredRow<'_>) -> T,
    ) -> Result<Option<T>> {
        let found = cold::find(shard, &self.schema.identity(), key, &[hash], &[0], epoch)?;
        let Some(found) = found.filter(|found| found.rows.num_rows() > 0) else {
            return Ok(None);
        };
        let mut rows = RowStore::new(self.schema.columns.clone());
        let slot = rows.append(found.rows.columns(), found.rows.num_rows());
        Ok(Some(read(StoredRow { rows: &rows, slot })))
    }
}

fn find<'a>(shard: &'a Shard, hash: u64, view: &RowView<'_>, epoch: Epoch) -> Result<Option<StoredRow<'a>>> {
    shard.check(epoch)?;
    let found = shard.find(hash, view, 0, epoch);
    Ok(found.map(|place| {
        let (rows, slot) = shard.values_of(place);
        StoredRow { rows, slot }
    }))
}
