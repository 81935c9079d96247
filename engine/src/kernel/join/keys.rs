//! The keys of both sides, and where each side's rows of a key are listed.
//!
//! # Not here
//! The lists themselves (`lists`), and the rows (`side`).

use super::lists::Head;
use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use cenote_statestore::{KeyIndex, NO_SLOT, RowStore, RowView, room_for};

/// Stands for the key of a row that has none, or whose key is on neither side.
pub(super) const NO_KEY: u32 = NO_SLOT;

/// Keys that at least one side has a row of. A row that comes finds its key once, for both sides.
pub(super) struct Keys {
    values: RowStore,
    index: KeyIndex,
    /// For each key the list of either side, one beside the other.
    heads: Vec<[Head; 2]>,
    /// Keys that lost a row since [`Keys::sweep`], with their hashes.
    thinned: Vec<(u32, u64)>,
}

impl Keys {
    /// No keys, of columns of `schema`.
    pub(super) fn new(schema: SchemaRef) -> Keys {
        Keys {
            values: RowStore::new(schema),
            index: KeyIndex::default(),
            heads: Vec::new(),
            thinned: Vec::new(),
        }
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.values.schema()
    }

    /// Finds the keys of rows; [`NO_KEY`] for one that is not there.
    pub(super) fn find_all(&self, hashes: &[u64], keys: &RowView<'_>) -> Vec<u32> {
        let mut found = Vec::new();
        self.values.find_all(&self.index, hashes, keys, &mut found);
        found
    }

    /// The key of a row, which is added if it is not there.
    ///
    /// # Arguments
    /// - `found`: what [`Keys::find_all`] found, since which no key was taken away.
    #[inline]
    pub(super) fn ensure(&mut self, found: u32, hash: u64, keys: &RowView<'_>, row: usize) -> u32 {
        match found {
            NO_KEY => self.add(hash, keys, row),
            key => key,
        }
    }

    fn add(&mut self, hash: u64, keys: &RowView<'_>, row: usize) -> u32 {
        // An earlier row may have added it since.
        if let Some(key) = self.index.find(hash, |key| self.values.equals(key, keys, row)) {
            return key;
        }
        let key = self.values.allocate();
        self.values.write_one(key, keys, row);
        self.index.insert(hash, key);
        if self.heads.len() <= key as usize {
            self.heads.resize(room_for(key as usize + 1), [Head::default(); 2]);
        }
        key
    }

    /// The lists of a key's rows on the left and on the right.
    #[inline]
    pub(super) fn heads(&self, key: u32) -> [Head; 2] {
        self.heads.get(key as usize).copied().unwrap_or_default()
    }

    #[inline]
    pub(super) fn head(&self, key: u32, side: usize) -> Head {
        self.heads(key)[side]
    }

    #[inline]
    pub(super) fn head_mut(&mut self, key: u32, side: usize) -> &mut Head {
        &mut self.heads[key as usize][side]
    }

    /// Notes that a key has a row less.
    pub(super) fn thin(&mut self, key: u32, hash: u64) {
        self.thinned.push((key, hash));
    }

    /// Forgets the keys whose last row has gone.
    pub(super) fn sweep(&mut self) {
        for (key, hash) in std::mem::take(&mut self.thinned) {
            let is_empty = self.heads[key as usize].iter().all(|head| head.is_empty());
            // The same key may have been noted more than once.
            if is_empty && self.index.remove(hash, key) {
                self.values.release(key);
            }
        }
    }

    /// All keys, in the order of their numbers.
    pub(super) fn all(&self) -> Vec<u32> {
        let mut keys: Vec<u32> = self.index.iter().collect();
        keys.sort_unstable();
        keys
    }

    /// Reads one column of keys, in the order given.
    pub(super) fn gather(&self, column: usize, keys: &[u32]) -> ArrayRef {
        self.values.gather(&[column], keys).remove(0)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let heads = self.heads.capacity() * size_of::<[Head; 2]>();
        self.values.memory_bytes() + self.index.memory_bytes() + heads
    }
}
