//! Readers that follow a table: they keep the changes that they have not read yet, but no row versions.
//!
//! # Rules kept here
//! A follower holds back the changes after its epoch as far as the table's limit of bytes goes; beyond that it is left
//! behind, and the next read of changes says so.

use crate::Epoch;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many readers stand at each epoch.
#[derive(Debug, Default)]
pub(super) struct Followers(Mutex<BTreeMap<Epoch, usize>>);

impl Followers {
    /// The epoch of the reader that is furthest behind.
    pub(super) fn last(&self) -> Option<Epoch> {
        self.0.lock().keys().next().copied()
    }

    fn enter(&self, epoch: Epoch) {
        *self.0.lock().entry(epoch).or_insert(0) += 1;
    }

    fn leave(&self, epoch: Epoch) {
        let mut standing = self.0.lock();
        if let Some(count) = standing.get_mut(&epoch) {
            *count -= 1;
            if *count == 0 {
                standing.remove(&epoch);
            }
        }
    }
}

/// A reader's place in a table's changes, kept until it is dropped.
#[derive(Debug)]
pub struct Follower {
    followers: Arc<Followers>,
    epoch: Epoch,
}

impl Follower {
    pub(super) fn new(followers: Arc<Followers>, epoch: Epoch) -> Follower {
        followers.enter(epoch);
        Follower { followers, epoch }
    }

    /// The epoch up to which the reader has read.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Moves on: changes up to `epoch` have been read.
    pub fn advance(&mut self, epoch: Epoch) {
        self.followers.enter(epoch);
        self.followers.leave(self.epoch);
        self.epoch = epoch;
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.followers.leave(self.epoch);
    }
}
