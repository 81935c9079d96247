//! An ordered store of bytes.

use crate::Result;
use std::fmt::Debug;
use std::ops::Range;

/// An ordered store of bytes, which many threads use at once.
pub trait Backend: Debug + Send + Sync {
    /// What it is called in SQL and on the command line.
    fn name(&self) -> &'static str;

    /// A number that nobody else gets from this store: the first bytes of a table's keys.
    fn next_table(&self) -> u32;

    /// The values of some keys.
    ///
    /// # Arguments
    /// - `keys`: in any order.
    /// - `found`: gets the entries that there are, in any order. `positions`: gets the position of the key of each.
    ///
    /// # Errors
    /// `Unavailable`: the store cannot be read.
    fn get(&self, keys: &Entries, found: &mut Entries, positions: &mut Vec<u32>) -> Result<()>;

    /// Makes all of some changes, one after the other.
    ///
    /// # Errors
    /// `Unavailable`: the store cannot be written to; none of them may be relied on.
    fn write(&self, writes: &Writes) -> Result<()>;

    /// Removes all entries from a key on up to another one, that one not.
    ///
    /// # Errors
    /// As [`Backend::write`].
    fn remove_range(&self, range: Range<&[u8]>) -> Result<()>;

    /// Reads entries in the order of their keys.
    ///
    /// # Arguments
    /// - `range`: from a key on up to another one, that one not.
    /// - `most`: entries to read.
    /// - `found`: gets them behind what it has.
    ///
    /// # Errors
    /// `Unavailable`: the store cannot be read.
    fn scan(&self, range: Range<&[u8]>, most: usize, found: &mut Entries) -> Result<()>;

    /// Reads all entries of some ranges, each of the keys of one hash.
    ///
    /// # Arguments
    /// - `ranges`: in their order; first keys, and as the value of each the key that its range ends before.
    /// - `found`: gets the entries behind what it has.
    ///
    /// # Errors
    /// As [`Backend::scan`].
    fn scan_each(&self, ranges: &Entries, found: &mut Entries) -> Result<()> {
        let mut ranges = (0..ranges.len()).map(|range| ranges.key(range)..ranges.value(range));
        ranges.try_for_each(|range| self.scan(range, usize::MAX, found))
    }

    /// Removes all keys that begin with the number of a table that nobody reads or writes from now on.
    ///
    /// # Errors
    /// As [`Backend::write`].
    fn forget(&self, table: u32) -> Result<()> {
        self.remove_range(&table.to_be_bytes()..&(table + 1).to_be_bytes())
    }

    /// Everything as it is now.
    fn snapshot(&self) -> Box<dyn Snapshot>;

    /// Bytes of memory that it uses for itself, and bytes on disk.
    fn sizes(&self) -> (u64, u64);

    /// Changes how much memory its cache may take.
    fn limit_cache(&self, bytes: usize) {
        let _ = bytes;
    }

    /// Ends it: what it holds is gone as far as that can be done in a short time, and every later call may fail.
    fn close(&self) {}
}

/// A store as it was.
pub trait Snapshot: Send + Sync {
    /// As [`Backend::scan`].
    ///
    /// # Errors
    /// As [`Backend::scan`].
    fn scan(&self, range: Range<&[u8]>, most: usize, found: &mut Entries) -> Result<()>;
}

/// Keys with values, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    bytes: Vec<u8>,
    /// For each entry, where its key and where its value ends.
    ends: Vec<(u32, u32)>,
}

impl Entries {
    /// Adds an entry.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.ends.push((end, self.bytes.len() as u32));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The key of an entry.
    #[inline]
    pub fn key(&self, entry: usize) -> &[u8] {
        &self.bytes[self.start(entry)..self.ends[entry].0 as usize]
    }

    /// The value of an entry.
    #[inline]
    pub fn value(&self, entry: usize) -> &[u8] {
        &self.bytes[self.ends[entry].0 as usize..self.ends[entry].1 as usize]
    }

    #[inline]
    fn start(&self, entry: usize) -> usize {
        match entry {
            0 => 0,
            entry => self.ends[entry - 1].1 as usize,
        }
    }

    /// Leaves only the first entries.
    pub fn truncate(&mut self, entries: usize) {
        if entries < self.len() {
            self.bytes.truncate(self.start(entries));
            self.ends.truncate(entries);
        }
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Changes of a store, in their order.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    entries: Entries,
    is_removal: Vec<bool>,
}

impl Writes {
    /// Puts an entry, in place of one of the same key.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.entries.push(key, value);
        self.is_removal.push(false);
    }

    /// Removes the entry of a key, if there is one.
    #[inline]
    pub fn remove(&mut self, key: &[u8]) {
        self.entries.push(key, &[]);
        self.is_removal.push(true);
    }

    /// The changes: keys, and values unless they are removals.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let writes = self.is_removal.iter().enumerate();
        writes.map(|(entry, is_removal)| {
            let value = (!is_removal).then(|| self.entries.value(entry));
            (self.entries.key(entry), value)
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.is_removal.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.is_removal.is_empty()
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.entries.bytes()
    }
}
