//! How many rows a shard had at each epoch that can be read: a number for each, so that nobody has to go through the rows.
//!
//! # Rules kept here
//! 1. What is told is exact: where it is not known any more, nothing is told, and whoever asks goes through the rows.
//! 2. There are [`EPOCHS_MAX`] numbers at most, however long a reader keeps an old epoch.

use crate::Epoch;
use std::collections::VecDeque;

/// Epochs whose numbers are kept.
const EPOCHS_MAX: usize = 1 << 16;

/// Numbers of rows by epoch, multiplicities counted.
#[derive(Debug, Default)]
pub(super) struct RowCounts {
    /// From this epoch on, until the first of the later ones, there were so many.
    first: (Epoch, i64),
    /// Epochs that changed the number, ascending.
    later: VecDeque<(Epoch, i64)>,
}

impl RowCounts {
    /// Notes how many there are now.
    ///
    /// # Arguments
    /// - `epoch`: not before any that was noted.
    pub(super) fn note(&mut self, epoch: Epoch, rows: i64) {
        match self.later.back_mut() {
            Some(last) if last.0 == epoch => last.1 = rows,
            _ => self.later.push_back((epoch, rows)),
        }
        if self.later.len() > EPOCHS_MAX {
            self.first = self.later.pop_front().unwrap_or(self.first);
        }
    }

    /// How many there were at an epoch; `None`: that is not known any more.
    pub(super) fn at(&self, epoch: Epoch) -> Option<u64> {
        let behind = self.later.partition_point(|(noted, _)| *noted <= epoch);
        let last = behind.checked_sub(1).map_or(self.first, |last| self.later[last]);
        (last.0 <= epoch).then_some(last.1.max(0) as u64)
    }

    /// Forgets what was before an epoch: nobody asks for it.
    pub(super) fn forget_before(&mut self, epoch: Epoch) {
        while let Some(next) = self.later.pop_front_if(|(noted, _)| *noted <= epoch) {
            self.first = next;
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.later.capacity() * size_of::<(Epoch, i64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_epoch_has_its_number_until_there_are_too_many() {
        let mut counts = RowCounts::default();
        assert_eq!(counts.at(Epoch(7)), Some(0), "nothing was ever there");
        for epoch in 1..=EPOCHS_MAX as u64 {
            counts.note(Epoch(epoch * 2), 1);
            counts.note(Epoch(epoch * 2), epoch as i64);
        }
        let asked = |counts: &RowCounts, epochs: [u64; 4]| epochs.map(|epoch| counts.at(Epoch(epoch)));
        assert_eq!(asked(&counts, [0, 2, 3, 4]), [Some(0), Some(1), Some(1), Some(2)]);
        counts.note(Epoch(1 << 20), 9);
        assert_eq!(asked(&counts, [1, 2, 3, 4]), [None, Some(1), Some(1), Some(2)]);
        counts.note(Epoch(1 << 21), 5);
        assert_eq!(
            asked(&counts, [3, 4, 1 << 20, 1 << 30]),
            [None, Some(2), Some(9), Some(5)]
        );
        counts.forget_before(Epoch(1 << 20));
        assert_eq!(
            asked(&counts, [4, (1 << 20) - 1, 1 << 20, 1 << 21]),
            [None, None, Some(9), Some(5)]
        );
    }
}
