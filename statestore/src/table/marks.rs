//! Which slots of a shard were written since a checkpoint: a bit each, so that nobody looks at those that were not.
//!
//! # Rules kept here
//! A slot that was written is marked until it is unmarked; one that is marked need not have changed.

use crate::room_for;
use std::ops::Range;

/// A bit for each slot.
#[derive(Debug, Default)]
pub(super) struct Marks {
    words: Vec<u64>,
}

/// Slots of a word.
const WORD: u32 = u64::BITS;

impl Marks {
    /// Marks a slot.
    #[inline]
    pub(super) fn mark(&mut self, slot: u32) {
        let word = (slot / WORD) as usize;
        if word >= self.words.len() {
            self.words.resize(room_for(word + 1), 0);
        }
        self.words[word] |= 1 << (slot % WORD);
    }

    /// The marked ones of some slots, ascending.
    pub(super) fn of(&self, slots: Range<u32>) -> impl Iterator<Item = u32> {
        let words = words_of(&slots, self.words.len());
        let first = words.start;
        let marked = self.words[words].iter().zip(first as u32..);
        marked
            .flat_map(|(word, number)| Bits(*word).map(move |bit| number * WORD + bit))
            .filter(move |slot| slots.contains(slot))
    }

    /// Takes the marks of some slots away, where that is right.
    ///
    /// # Arguments
    /// - `slots`: from the first of a word on.
    pub(super) fn unmark(&mut self, slots: Range<u32>, is_right: impl Fn(u32) -> bool) {
        let words = words_of(&slots, self.words.len());
        let first = words.start;
        for (word, number) in self.words[words].iter_mut().zip(first as u32..) {
            let wrong = Bits(*word).filter(|bit| !is_right(number * WORD + bit));
            *word = wrong.fold(0, |kept, bit| kept | 1 << bit);
        }
    }

    /// Takes all marks away.
    pub(super) fn clear(&mut self) {
        self.words = Vec::new();
    }

    /// Every marked slot is below it.
    pub(super) fn slots(&self) -> u32 {
        self.words.len() as u32 * WORD
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

/// The words that some slots are in, of so many.
fn words_of(slots: &Range<u32>, words: usize) -> Range<usize> {
    let end = (slots.end.div_ceil(WORD) as usize).min(words);
    ((slots.start / WORD) as usize).min(end)..end
}

/// The bits of a word that are set, ascending.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (bit < WORD).then_some(bit)
    }
}
