//! Hash index from keys to slots.
//!
//! # Layout
//! One open-addressed array of 8-byte entries, a slot beside 32 bits of its key's hash: a probe reads one cache line of it,
//! and goes on to the key's own columns only where the hash agrees. Entries stand in the order of their hashes, as far
//! as collisions let them (linear probing, deletion by shifting back: Knuth, TAOCP 3, 6.4), so growing is one pass
//! over both arrays.
//!
//! # Not here
//! Keys, and whether two are equal: the caller knows where they are kept. A key's hash is the caller's to know, too.

use std::hint::black_box;

/// Maps hashed keys to slots.
#[derive(Debug, Default)]
pub struct KeyIndex {
    /// The upper half of an entry is the hash, the lower the slot.
    entries: Vec<u64>,
    keys: usize,
}

/// No entry: no slot has this number.
const EMPTY: u64 = u64::MAX;

/// Entries of the smallest array.
const ENTRIES_MIN: usize = 16;

/// One more in so many finds room that was made for all of them.
const SPARE: usize = 16;

/// Ranges that homes are ordered by, as bits of a hash.
const RANGE_BITS: u32 = 11;

/// Rows looked for at once, so that their memory accesses overlap.
const BLOCK: usize = 64;

/// Stands for a key that was not found.
pub const NO_SLOT: u32 = u32::MAX;

#[inline(always)]
fn entry_of(hash: u64, slot: u32) -> u64 {
    hash << 32 | slot as u64
}

/// Whether an entry has the hash's kept bits.
#[inline(always)]
fn has_hash(entry: u64, hash: u64) -> bool {
    (entry >> 32) as u32 == hash as u32
}

#[inline(always)]
fn home_of(hash: u64, entries: usize) -> usize {
    ((hash as u32 as u64 * entries as u64) >> 32) as usize
}

impl KeyIndex {
    /// The slot whose key satisfies `equal`, among those of that hash.
    #[inline(always)]
    pub fn find(&self, hash: u64, equal: impl FnMut(u32) -> bool) -> Option<u32> {
        self.position(hash, equal).map(|position| self.entries[position] as u32)
    }

    #[inline(always)]
    fn position(&self, hash: u64, mut equal: impl FnMut(u32) -> bool) -> Option<usize> {
        let entries = self.entries.as_slice();
        if entries.is_empty() {
            return None;
        }
        let mut position = home_of(hash, entries.len());
        loop {
            let entry = entries[position];
            if entry == EMPTY {
                return None;
            }
            if has_hash(entry, hash) && equal(entry as u32) {
                return Some(position);
            }
            position = after(position, entries.len());
        }
    }

    /// Looks for many keys; the memory accesses of neighbours overlap.
    ///
    /// # Arguments
    /// - `equal`: whether the key of a slot is that of a row.
    /// - `touch`: reads something of what `equal` will read of a slot; gets numbers that are no slots, too.
    /// - `found`: gets one slot per hash, [`NO_SLOT`] where there is none.
    #[inline(always)]
    pub fn find_all(
        &self,
        hashes: &[u64],
        mut equal: impl FnMut(u32, usize) -> bool,
        touch: impl Fn(u32) -> u64,
        found: &mut Vec<u32>,
    ) {
        found.reserve(hashes.len());
        if self.entries.is_empty() {
            found.resize(found.len() + hashes.len(), NO_SLOT);
            return;
        }
        for (number, block) in hashes.chunks(BLOCK).enumerate() {
            // Nothing depends on what is read here, and nothing is decided: the processor has all of it under way at once.
            let mut homes = [EMPTY; BLOCK];
            for (home, hash) in homes.iter_mut().zip(block) {
                *home = self.entries[home_of(*hash, self.entries.len())];
            }
            let touched = homes.iter().zip(block).fold(0, |sum, (home, hash)| {
                let slot = *home as u32 * u32::from(has_hash(*home, *hash));
                sum ^ touch(slot)
            });
            black_box(touched);
            for (row, hash) in block.iter().enumerate() {
                let slot = self.find(*hash, |slot| equal(slot, number * BLOCK + row));
                found.push(slot.unwrap_or(NO_SLOT));
            }
        }
    }

    /// Adds a slot for a key that is not in the index.
    #[inline]
    pub fn insert(&mut self, hash: u64, slot: u32) {
        self.make_room(1);
        put(&mut self.entries, entry_of(hash, slot));
        self.keys += 1;
    }

    /// Adds the slots from `first` on for keys that are not in the index; the memory accesses of neighbours overlap.
    ///
    /// # Arguments
    /// - `hashes`: of the keys, one for each slot.
    /// - `is_same`: whether two slots have the same key; asked where their hashes agree.
    ///
    /// # Returns
    /// A slot whose key was there already, if there is one: the index is of no use any more then.
    pub fn insert_run(&mut self, hashes: &[u64], first: u32, is_same: impl Fn(u32, u32) -> bool) -> Option<u32> {
        self.make_room(hashes.len());
        for block in by_home(hashes, first).chunks(BLOCK) {
            let length = self.entries.len();
            let homes = block.iter().map(|entry| self.entries[home_of(entry >> 32, length)]);
            black_box(homes.fold(0, |sum, home| sum ^ home));
            for entry in block {
                if !put_new(&mut self.entries, *entry, &is_same) {
                    return Some(*entry as u32);
                }
            }
        }
        self.keys += hashes.len();
        None
    }

    /// Makes room for so many keys more, and some: the array is as large as they need at once, and does not grow on their way.
    pub fn reserve(&mut self, keys: usize) {
        let entries = entries_for(self.keys + with_spare(keys));
        if entries > self.entries.len() {
            self.resize(entries);
        }
    }

    #[inline]
    fn make_room(&mut self, keys: usize) {
        if (self.keys + keys) * 4 > self.entries.len() * 3 {
            self.grow(keys);
        }
    }

    #[cold]
    fn grow(&mut self, keys: usize) {
        self.resize((self.entries.len() / 2 * 3).max(entries_for(self.keys + keys)));
    }

    fn resize(&mut self, entries: usize) {
        let mut entries = vec![EMPTY; entries.max(ENTRIES_MIN)];
        self.entries
            .iter()
            .filter(|entry| **entry != EMPTY)
            .for_each(|entry| put(&mut entries, *entry));
        self.entries = entries;
    }

    /// Puts `new` in the place of `old`, which has the same key.
    ///
    /// # Panics
    /// If `old` is not in the index.
    #[inline]
    pub fn replace(&mut self, hash: u64, old: u32, new: u32) {
        let position = self.position(hash, |slot| slot == old).expect("an indexed slot");
        self.entries[position] = entry_of(hash, new);
    }

    /// Removes a slot.
    ///
    /// # Returns
    /// Whether it was there.
    pub fn remove(&mut self, hash: u64, slot: u32) -> bool {
        let Some(mut hole) = self.position(hash, |candidate| candidate == slot) else {
            return false;
        };
        let length = self.entries.len();
        let mut position = after(hole, length);
        // What stands behind the hole moves into it, unless it would then stand before its home.
        while self.entries[position] != EMPTY {
            let home = home_of(self.entries[position] >> 32, length);
            let from_home = (position + length - home) % length;
            let from_hole = (position + length - hole) % length;
            if from_home >= from_hole {
                self.entries[hole] = self.entries[position];
                hole = position;
            }
            position = after(position, length);
        }
        self.entries[hole] = EMPTY;
        self.keys -= 1;
        true
    }

    /// Keys in the index.
    pub fn len(&self) -> usize {
        self.keys
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// All slots in the index, in no order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.entries
            .iter()
            .filter(|entry| **entry != EMPTY)
            .map(|entry| *entry as u32)
    }

    /// The slots whose keys' hashes have a lower half of at least `from` and less than `until` (`None`: any), with that half.
    pub fn in_range(&self, from: u32, until: Option<u32>) -> Vec<(u32, u32)> {
        let length = self.entries.len();
        let mut found = Vec::new();
        if length == 0 {
            return found;
        }
        let end = until.map_or(length, |until| home_of(until as u64, length) + 1);
        let start = home_of(from as u64, length);
        // What has no room at its home stands behind it, at the worst from the array's beginning on.
        for place in start..start + length {
            let entry = self.entries[place % length];
            if entry == EMPTY {
                if place + 1 >= end {
                    break;
                }
                continue;
            }
            let half = (entry >> 32) as u32;
            if half >= from && until.is_none_or(|until| half < until) {
                found.push((half, entry as u32));
            }
        }
        found
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * 8
    }
}

#[inline(always)]
fn after(position: usize, entries: usize) -> usize {
    if position + 1 == entries { 0 } else { position + 1 }
}

/// For how many to make room where so many will come at once, so that those that come then do not move them all.
pub fn with_spare(count: usize) -> usize {
    count + count / SPARE
}

/// Entries for the slots from `first` on, as their homes lie, nearly: those of a page are put one after the other.
fn by_home(hashes: &[u64], first: u32) -> Vec<u64> {
    let range_of = |hash: u64| (hash as u32 >> (32 - RANGE_BITS)) as usize;
    let mut starts = [0u32; (1 << RANGE_BITS) + 1];
    hashes.iter().for_each(|hash| starts[range_of(*hash) + 1] += 1);
    for range in 1..starts.len() {
        starts[range] += starts[range - 1];
    }
    let mut entries = vec![EMPTY; hashes.len()];
    for (hash, slot) in hashes.iter().zip(first..) {
        let place = &mut starts[range_of(*hash)];
        entries[*place as usize] = entry_of(*hash, slot);
        *place += 1;
    }
    entries
}

/// The smallest array that takes so many keys.
fn entries_for(keys: usize) -> usize {
    (keys * 4).div_ceil(3)
}

/// Puts an entry into the first free place from its home on, unless its key is there: whether it did.
#[inline(always)]
fn put_new(entries: &mut [u64], entry: u64, is_same: impl Fn(u32, u32) -> bool) -> bool {
    let hash = entry >> 32;
    let mut position = home_of(hash, entries.len());
    while entries[position] != EMPTY {
        let there = entries[position];
        if has_hash(there, hash) && is_same(there as u32, entry as u32) {
            return false;
        }
        position = after(position, entries.len());
    }
    entries[position] = entry;
    true
}

/// Puts an entry into the first free place from its home on.
#[inline(always)]
fn put(entries: &mut [u64], entry: u64) {
    let mut position = home_of(entry >> 32, entries.len());
    while entries[position] != EMPTY {
        position = after(position, entries.len());
    }
    entries[position] = entry;
}

#[cfg(test)]
mod tests;
