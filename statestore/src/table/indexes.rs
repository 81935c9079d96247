//! Further indexes of a table: those of unique keys, and those that a user made.
//!
//! # Rules kept here
//! 1. An index has every version that a reader may ask for, so it answers for every epoch that the table does.
//! 2. A new index is filled in small steps: neither readers nor writers wait for more than one of them. It is not
//!    found before it is whole.
//! 3. The position of an index is never used again.
//!
//! # Not here
//! Refusing a second row of a unique key: that is for whoever writes.

use super::{Lookup, VersionedTable, WRITE_CHUNK};
use crate::{Epoch, Pin, Result, RowStore, hash_rows};
use arrow::array::ArrayRef;
use arrow::compute::concat_batches;
use parking_lot::RwLock;

/// A further key of a table's rows: no two of them share the values of its columns, unless one of these is NULL.
///
/// That it holds is for whoever writes to see to; the table keeps the index that tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueKey {
    /// Name of the constraint.
    pub name: String,
    /// Indices of its columns.
    pub columns: Vec<usize>,
}

/// The indexes by position: first those of the unique keys.
#[derive(Debug, Default)]
pub(super) struct Indexes(RwLock<Vec<Option<Index>>>);

#[derive(Debug)]
struct Index {
    columns: Vec<usize>,
    /// Whether it has everything, so that it may be asked.
    is_whole: bool,
}

impl VersionedTable {
    /// The same table, still empty, with further keys.
    ///
    /// # Arguments
    /// - `key_name`: name of the primary key; `None`: the table's name and `_pkey`.
    pub fn with_keys(mut self, key_name: Option<String>, unique_keys: Vec<UniqueKey>) -> VersionedTable {
        for key in &unique_keys {
            let made = self.create_index(key.columns.clone());
            made.expect("an empty table has no rows elsewhere");
        }
        self.key_name = key_name;
        self.unique_keys = unique_keys;
        self
    }

    /// Name of the primary key's constraint.
    pub fn key_name(&self) -> String {
        self.key_name
            .clone()
            .unwrap_or_else(|| format!("{}_pkey", self.schema.name))
    }

    /// The keys beside the primary key.
    pub fn unique_keys(&self) -> &[UniqueKey] {
        &self.unique_keys
    }

    /// Makes an index, while readers read and writers write.
    ///
    /// # Returns
    /// Its position.
    ///
    /// # Errors
    /// `Unavailable`: rows that have left memory cannot be read: an indexed table has all in memory.
    pub fn create_index(&self, columns: Vec<usize>) -> Result<usize> {
        let position = {
            let mut indexes = self.indexes.0.write();
            indexes.push(Some(Index {
                columns: columns.clone(),
                is_whole: false,
            }));
            indexes.len() - 1
        };
        for shard in &self.shards {
            shard.write().add_secondary(position, columns.clone());
            // From now on no row leaves memory.
            let mut from = Some(0);
            while let Some(at) = from {
                from = shard.write().admit_next(at)?;
            }
            let slots = shard.read().slots();
            for start in (0..slots).step_by(WRITE_CHUNK) {
                let end = slots.min(start + WRITE_CHUNK as u32);
                shard.write().fill_secondary(position, start..end);
            }
        }
        if let Some(Some(index)) = self.indexes.0.write().get_mut(position) {
            index.is_whole = true;
        }
        Ok(position)
    }

    /// Drops an index.
    pub fn drop_index(&self, position: usize) {
        if let Some(index) = self.indexes.0.write().get_mut(position) {
            *index = None;
        }
        let shards = self.shards.iter();
        shards.for_each(|shard| shard.write().drop_secondary(position));
    }

    /// The indexes that can be asked: position and columns, in the order that their values are given in.
    pub fn indexes(&self) -> Vec<(usize, Vec<usize>)> {
        let indexes = self.indexes.0.read();
        let whole = indexes.iter().enumerate().filter_map(|(position, index)| {
            let index = index.as_ref().filter(|index| index.is_whole)?;
            Some((position, index.columns.clone()))
        });
        whole.collect()
    }

    /// The rows that have given values of an index at one epoch.
    ///
    /// # Arguments
    /// - `index`: its position.
    /// - `values`: the index's columns, one row per value looked for; a row with a NULL finds nothing.
    ///
    /// # Returns
    /// Each row as often as it counts; `None`: the index was dropped.
    ///
    /// # Cost
    /// One hash probe per value and shard.
    ///
    /// # Errors
    /// `Expired`: the table no longer holds that epoch.
    pub fn lookup_index(&self, index: usize, values: &[ArrayRef], pin: &Pin) -> Result<Option<Lookup>> {
        self.find(index, values, Some(pin.epoch()))
    }

    /// The live rows that have given values of a unique key: for the writer of the table.
    pub fn newest_unique(&self, key: usize, values: &[ArrayRef]) -> Result<Lookup> {
        let found = self.find(key, values, None)?;
        found.ok_or_else(|| crate::Error::bug("the index of a unique key was dropped"))
    }

    /// The rows at one epoch that have given values of a unique key.
    ///
    /// # Errors
    /// `Expired`: the table no longer holds that epoch.
    pub fn lookup_unique(&self, key: usize, values: &[ArrayRef], pin: &Pin) -> Result<Lookup> {
        let found = self.lookup_index(key, values, pin)?;
        found.ok_or_else(|| crate::Error::bug("the index of a unique key was dropped"))
    }

    /// The rows with given values, at an epoch or now.
    fn find(&self, index: usize, values: &[ArrayRef], epoch: Option<Epoch>) -> Result<Option<Lookup>> {
        let known = self.indexes.0.read();
        let Some(Some(Index { columns, .. })) = known.get(index) else {
            return Ok(None);
        };
        let count = values.first().map_or(0, |value| value.len());
        let hashes = hash_rows(values, count);
        let view = RowStore::view(columns.iter().copied(), values);
        let (mut parts, mut key_of_row) = (Vec::new(), Vec::new());
        for shard in &self.shards {
            let shard = shard.read();
            epoch.map_or(Ok(()), |epoch| shard.check(epoch))?;
            let mut places = Vec::new();
            for (row, hash) in hashes.iter().enumerate() {
                let Some(versions) = shard.find_secondary(index, *hash, &view, row, epoch) else {
                    return Ok(None);
                };
                for version in versions {
                    let times = version.weight.max(0) as usize;
                    places.extend(std::iter::repeat_n(version.place, times));
                    key_of_row.extend(std::iter::repeat_n(row, times));
                }
            }
            if !places.is_empty() {
                parts.push(shard.gather_rows(&places)?);
            }
        }
        let rows = concat_batches(&self.schema.columns, &parts)?;
        Ok(Some(Lookup { rows, key_of_row }))
    }
}
