//! Reads of one row where it lies: no pin, no batch, the lock of one shard alone.

use super::VersionedTable;
use super::shard::Shard;
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
            return Ok(find(&shard, hash, &view, epoch)?.map(read));
        }
        for shard in &self.shards {
            let shard = shard.read();
            if let Some(row) = find(&shard, hash, &view, epoch)? {
                return Ok(Some(read(row)));
            }
        }
        Ok(None)
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
