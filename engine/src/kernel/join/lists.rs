//! Lists of the slots that the rows of one key lie in.
//!
//! # Layout
//! One slot stands in the list's head itself. Up to [`SMALL_MAX`] stand side by side in a block of 2, 4, 8 or 16 places, each
//! beside half of its row's hash, so that a row is found, and the whole list given, by reading one or two cache lines.
//! A longer list has an array and a hash index of its own: finding a row in it takes as long as in a short one.
//!
//! # Not here
//! The rows; whether two are equal is the caller's to say.

use cenote_statestore::KeyIndex;

/// Places of the largest block.
const SMALL_MAX: u32 = 16;

/// What a head of a longer list says in place of a count.
const LONG: u32 = SMALL_MAX + 1;

/// Sizes of blocks: 2, 4, 8 and 16 places.
const CLASSES: usize = 4;

/// Bits of a hash that are kept: the others of its lower half leave room for a count.
const HASH: u64 = 0xffff_ffe0;

/// A slot in the lower half, what is kept of its row's hash in the upper.
type Place = u64;

/// Where the list of one key is: a place with its count of one; else a count, and the number of the block in its class or
/// of the long list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head(u64);

/// The lists of one side.
#[derive(Debug, Default)]
pub(super) struct Lists {
    blocks: [Blocks; CLASSES],
    long: Vec<Long>,
    free_long: Vec<u32>,
}

/// Blocks of one size.
#[derive(Debug, Default)]
struct Blocks {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Long {
    places: Vec<Place>,
    /// From a row's hash to its position in `places`.
    index: KeyIndex,
}

#[inline(always)]
fn place_of(slot: u32, hash: u64) -> Place {
    (hash & HASH) << 32 | slot as u64
}

#[inline(always)]
fn hash_of(place: Place) -> u64 {
    (place >> 32) & HASH
}

#[inline(always)]
fn slot_of(place: Place) -> u32 {
    place as u32
}

/// The class of blocks for a list of 2 to 16.
#[inline(always)]
fn class_of(count: u32) -> usize {
    (count - 1).ilog2() as usize
}

impl Head {
    fn of(count: u32, at: u32) -> Head {
        Head((count as u64) << 32 | at as u64)
    }

    #[inline(always)]
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Slots in the list, or [`LONG`].
    #[inline(always)]
    fn count(self) -> u32 {
        (self.0 >> 32) as u32 & !(HASH as u32)
    }

    #[inline(always)]
    fn at(self) -> usize {
        self.0 as u32 as usize
    }
}

impl Lists {
    /// Appends the slots of a list.
    #[inline]
    pub(super) fn slots(&self, head: Head, slots: &mut Vec<u32>) {
        let places = match head.count() {
            0 => return,
            1 => return slots.push(slot_of(head.0)),
            2..=SMALL_MAX => self.block(head),
            _ => &self.long[head.at()].places,
        };
        slots.extend(places.iter().map(|place| slot_of(*place)));
    }

    /// The list of a head whose list is in a block.
    #[inline(always)]
    fn block(&self, head: Head) -> &[Place] {
        let class = class_of(head.count());
        &self.blocks[class].get(class, head.at())[..head.count() as usize]
    }

    /// Reads a little of what [`Lists::find`] will, so that it is in the cache by then.
    #[inline]
    pub(super) fn touch(&self, head: Head) -> u64 {
        match head.count() {
            2..=SMALL_MAX => self.block(head)[0],
            _ => 0,
        }
    }

    /// Finds a row in a list.
    ///
    /// # Returns
    /// Its slot, and where in the list it stands.
    #[inline]
    pub(super) fn find(&self, head: Head, hash: u64, equal: impl Fn(u32) -> bool) -> Option<(u32, usize)> {
        let is_it = |place: &Place| hash_of(*place) == hash & HASH && equal(slot_of(*place));
        match head.count() {
            0 => None,
            1 => is_it(&head.0).then_some((slot_of(head.0), 0)),
            2..=SMALL_MAX => {
                let places = self.block(head);
                let position = places.iter().position(is_it)?;
                Some((slot_of(places[position]), position))
            }
            _ => {
                let long = &self.long[head.at()];
                let is_it = |position: u32| equal(slot_of(long.places[position as usize]));
                let position = long.index.find(hash & HASH, is_it)? as usize;
                Some((slot_of(long.places[position]), position))
            }
        }
    }

    /// Adds the slot of a row that is not in the list.
    #[inline]
    pub(super) fn add(&mut self, head: &mut Head, slot: u32, hash: u64) {
        let place = place_of(slot, hash);
        match head.count() {
            0 => *head = Head(place | 1 << 32),
            1 => *head = self.in_block(&[head.0 & !(1 << 32), place]),
            LONG => self.long[head.at()].push(place),
            SMALL_MAX => {
                let places = [self.free_block(*head).as_slice(), &[place]].concat();
                *head = self.lengthen(places);
            }
            count if class_of(count) == class_of(count + 1) => {
                let class = class_of(count);
                self.blocks[class].get_mut(class, head.at())[count as usize] = place;
                *head = Head::of(count + 1, head.at() as u32);
            }
            count => {
                let mut places = [0; SMALL_MAX as usize];
                places[..count as usize].copy_from_slice(self.block(*head));
                places[count as usize] = place;
                self.blocks[class_of(count)].free.push(head.at() as u32);
                *head = self.in_block(&places[..count as usize + 1]);
            }
        }
    }

    /// Takes a slot out of a list.
    ///
    /// # Arguments
    /// - `position`: where it stands, as [`Lists::find`] says.
    pub(super) fn remove(&mut self, head: &mut Head, position: usize) {
        match head.count() {
            0 | 1 => *head = Head::default(),
            2..=SMALL_MAX => {
                let mut places = self.free_block(*head);
                places.swap_remove(position);
                *head = self.in_block(&places);
            }
            _ => {
                let long = &mut self.long[head.at()];
                long.remove(position);
                if long.places.len() <= SMALL_MAX as usize {
                    let places = std::mem::take(long).places;
                    self.free_long.push(head.at() as u32);
                    *head = self.in_block(&places);
                }
            }
        }
    }

    /// Writes a list of at most 16 into a block of its size, or a head.
    #[inline]
    fn in_block(&mut self, places: &[Place]) -> Head {
        if let [place] = places {
            return Head(*place | 1 << 32);
        }
        let count = places.len() as u32;
        let class = class_of(count);
        Head::of(count, self.blocks[class].allocate(class, places))
    }

    /// Gives a block back.
    ///
    /// # Returns
    /// What stood in it.
    fn free_block(&mut self, head: Head) -> Vec<Place> {
        let places = self.block(head).to_vec();
        self.blocks[class_of(head.count())].free.push(head.at() as u32);
        places
    }

    /// Makes a long list.
    fn lengthen(&mut self, places: Vec<Place>) -> Head {
        let mut index = KeyIndex::default();
        for (position, place) in places.iter().enumerate() {
            index.insert(hash_of(*place), position as u32);
        }
        let long = Long { places, index };
        let at = self.free_long.pop().unwrap_or(self.long.len() as u32);
        match self.long.get_mut(at as usize) {
            Some(free) => *free = long,
            None => self.long.push(long),
        }
        Head::of(LONG, at)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let blocks = self.blocks.iter().map(Blocks::memory_bytes).sum::<usize>();
        let long = self.long.iter().map(Long::memory_bytes).sum::<usize>();
        blocks + long + self.long.capacity() * size_of::<Long>() + self.free_long.capacity() * 4
    }
}

impl Blocks {
    /// All places of a block.
    #[inline(always)]
    fn get(&self, class: usize, block: usize) -> &[Place] {
        &self.places[block << (class + 1)..(block + 1) << (class + 1)]
    }

    #[inline(always)]
    fn get_mut(&mut self, class: usize, block: usize) -> &mut [Place] {
        &mut self.places[block << (class + 1)..(block + 1) << (class + 1)]
    }

    /// Takes a block and writes a list into it.
    #[inline]
    fn allocate(&mut self, class: usize, places: &[Place]) -> u32 {
        let block = self.free.pop().unwrap_or_else(|| {
            let block = self.places.len() >> (class + 1);
            self.places.resize(self.places.len() + (2 << class), 0);
            block as u32
        });
        self.get_mut(class, block as usize)[..places.len()].copy_from_slice(places);
        block
    }

    fn memory_bytes(&self) -> usize {
        self.places.capacity() * 8 + self.free.capacity() * 4
    }
}

impl Long {
    #[inline]
    fn push(&mut self, place: Place) {
        self.index.insert(hash_of(place), self.places.len() as u32);
        self.places.push(place);
    }

    fn remove(&mut self, position: usize) {
        let last = self.places.len() - 1;
        self.index.remove(hash_of(self.places[position]), position as u32);
        if position < last {
            self.index
                .replace(hash_of(self.places[last]), last as u32, position as u32);
        }
        self.places.swap_remove(position);
    }

    fn memory_bytes(&self) -> usize {
        self.places.capacity() * 8 + self.index.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
