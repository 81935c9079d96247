//! What was handed to the workers and is not finished by every view.

use crate::progress::Progress;
use cenote_statestore::Epoch;
use std::collections::VecDeque;

/// Rows handed to the workers that not every view has finished.
const ROWS_MAX: usize = 8 << 20;

/// Epochs handed to the workers that not every view has finished.
const EPOCHS_MAX: u64 = 16 * 1024;

/// Epochs under way, with their rows.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    epochs: VecDeque<(Epoch, usize)>,
    rows: usize,
}

impl InFlight {
    pub(super) fn push(&mut self, epoch: Epoch, rows: usize) {
        self.epochs.push_back((epoch, rows));
        self.rows += rows;
    }

    /// Blocks while too much is ahead of the slowest view.
    pub(super) fn wait_for_room(&mut self, progress: &Progress) {
        loop {
            let finished = progress.finished();
            while let Some((epoch, rows)) = self.epochs.front()
                && *epoch <= finished
            {
                self.rows -= rows;
                self.epochs.pop_front();
            }
            let is_much = self.epochs.len() as u64 > EPOCHS_MAX || self.rows > ROWS_MAX;
            let Some((first, _)) = self.epochs.front().copied().filter(|_| is_much) else {
                return;
            };
            progress.wait_finished(|finished| finished >= first);
        }
    }
}
