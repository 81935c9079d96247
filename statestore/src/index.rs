//! Hash index from keys to slots.
//!
//! An entry is the slot number alone (4 bytes); the hash of each slot lies in a vector beside it, for
//! growth of the table and for removal without the key at hand.

use hashbrown::HashTable;

/// Maps hashed keys to slots. Equality is the caller's: it knows where keys are kept.
#[derive(Debug, Default)]
pub struct KeyIndex {
    table: HashTable<u32>,
    hashes: Vec<u32>,
}

/// The 32 bits kept of a hash, spread again to 64 so that both ends of it are used by the table.
#[inline(always)]
fn spread(short: u32) -> u64 {
    (short as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline(always)]
fn short(hash: u64) -> u32 {
    hash as u32
}

impl KeyIndex {
    /// The slot whose key satisfies `equal`, among those of that hash.
    #[inline(always)]
    pub fn find(&self, hash: u64, mut equal: impl FnMut(u32) -> bool) -> Option<u32> {
        let short = short(hash);
        self.table
            .find(spread(short), |slot| {
                self.hashes[*slot as usize] == short && equal(*slot)
            })
            .copied()
    }

    /// Adds a slot for a key that is not in the index.
    #[inline]
    pub fn insert(&mut self, hash: u64, slot: u32) {
        let short = short(hash);
        if self.hashes.len() <= slot as usize {
            self.hashes.resize(slot as usize + 1, 0);
        }
        self.hashes[slot as usize] = short;
        let hashes = &self.hashes;
        self.table
            .insert_unique(spread(short), slot, |slot| spread(hashes[*slot as usize]));
    }

    /// Puts `new` in the place of `old`, which has the same key.
    ///
    /// # Panics
    /// If `old` is not in the index.
    #[inline]
    pub fn replace(&mut self, old: u32, new: u32) {
        let short = self.hashes[old as usize];
        if self.hashes.len() <= new as usize {
            self.hashes.resize(new as usize + 1, 0);
        }
        self.hashes[new as usize] = short;
        *self
            .table
            .find_mut(spread(short), |slot| *slot == old)
            .expect("an indexed slot") = new;
    }

    /// Removes a slot.
    ///
    /// # Returns
    /// Whether it was there.
    pub fn remove(&mut self, slot: u32) -> bool {
        let short = self.hashes[slot as usize];
        match self.table.find_entry(spread(short), |candidate| *candidate == slot) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        }
    }

    /// The slot of the index that has the same hash as `slot` and satisfies `chosen`: finds the head of the chain
    /// that a slot hangs on.
    pub fn find_like(&self, slot: u32, mut chosen: impl FnMut(u32) -> bool) -> Option<u32> {
        let short = self.hashes[slot as usize];
        self.table
            .find(spread(short), |head| {
                self.hashes[*head as usize] == short && chosen(*head)
            })
            .copied()
    }

    /// Keys in the index.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// All slots in the index, in no order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.table.iter().copied()
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.table.allocation_size() + self.hashes.capacity() * 4
    }
}
