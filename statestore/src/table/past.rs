//! What rows were before: the versions of a shard that readers of older epochs may still ask for.
//!
//! # Layout
//! A version has the epoch it was created in, the epoch it ended in, the next older and the next newer version of its
//! row. Where keys are unique it has its values, too; a row of a multiset only changes how often it counts.
//!
//! # Not here
//! The newest version of each row (`shard`).

use crate::RowStore;
use arrow::datatypes::{Schema, SchemaRef};
use std::collections::VecDeque;
use std::sync::Arc;

/// The end of a chain.
pub(super) const NONE: u32 = u32::MAX;

/// Marks a place that is a slot of the shard, not a version here.
const SLOT: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Past {
    rows: RowStore,
    created: Vec<u64>,
    ended: Vec<u64>,
    older: Vec<u32>,
    /// The next newer version, or the row's slot with the bit [`SLOT`].
    newer: Vec<u32>,
    /// How often rows counted; empty where keys are unique.
    weights: Vec<i64>,
    is_multiset: bool,
    /// Versions by the epoch they ended in, ascending.
    garbage: VecDeque<(u64, u32)>,
}

/// A version that left.
pub(super) struct Dropped {
    pub(super) version: u32,
    /// The row's slot, if that was the last of its past.
    pub(super) slot: Option<u32>,
}

impl Past {
    pub(super) fn new(columns: &SchemaRef, is_multiset: bool) -> Past {
        let columns = if is_multiset {
            Arc::new(Schema::empty())
        } else {
            columns.clone()
        };
        Past {
            rows: RowStore::new(columns),
            created: Vec::new(),
            ended: Vec::new(),
            older: Vec::new(),
            newer: Vec::new(),
            weights: Vec::new(),
            is_multiset,
            garbage: VecDeque::new(),
        }
    }

    /// Adds a version of the row in `slot`, before its values are there.
    ///
    /// # Arguments
    /// - `lived`: the epochs it was created in and ended in; not before any other that has ended here.
    /// - `older`: the newest version of the row that is here already, or [`NONE`].
    pub(super) fn push(&mut self, slot: u32, lived: (u64, u64), older: u32, weight: i64) -> u32 {
        let version = self.rows.allocate();
        let index = version as usize;
        if index >= self.created.len() {
            self.created.resize(index + 1, 0);
            self.ended.resize(index + 1, 0);
            self.older.resize(index + 1, NONE);
            self.newer.resize(index + 1, NONE);
            if self.is_multiset {
                self.weights.resize(index + 1, 0);
            }
        }
        (self.created[index], self.ended[index]) = lived;
        (self.older[index], self.newer[index]) = (older, slot | SLOT);
        if older != NONE {
            self.newer[older as usize] = version;
        }
        if self.is_multiset {
            self.weights[index] = weight;
        }
        self.garbage.push_back((lived.1, version));
        version
    }

    /// Gives new versions their values, those of the shard's slots.
    pub(super) fn keep_values(&mut self, rows: &RowStore, slots: &[u32], versions: &[u32]) {
        if !self.is_multiset {
            self.rows.copy(rows, slots, versions);
        }
    }

    /// The version that is seen at an epoch, in the chain that starts with `newest`.
    pub(super) fn seen_at(&self, newest: u32, epoch: u64) -> Option<u32> {
        let mut version = newest;
        while version != NONE {
            let index = version as usize;
            if self.created[index] <= epoch {
                return (epoch < self.ended[index]).then_some(version);
            }
            version = self.older[index];
        }
        None
    }

    pub(super) fn created(&self, version: u32) -> u64 {
        self.created[version as usize]
    }

    pub(super) fn is_seen(&self, version: u32, epoch: u64) -> bool {
        self.created[version as usize] <= epoch && epoch < self.ended[version as usize]
    }

    /// The versions of a chain.
    pub(super) fn chain(&self, newest: u32) -> impl Iterator<Item = u32> {
        let first = (newest != NONE).then_some(newest);
        std::iter::successors(first, |version| {
            Some(self.older[*version as usize]).filter(|older| *older != NONE)
        })
    }

    pub(super) fn weight(&self, version: u32) -> i64 {
        if self.is_multiset {
            self.weights[version as usize]
        } else {
            1
        }
    }

    pub(super) fn rows(&self) -> &RowStore {
        &self.rows
    }

    /// Takes out the version that ended first, if it did at `through` or before. It is the last of its chain.
    pub(super) fn drop_first(&mut self, through: u64) -> Option<Dropped> {
        let (_, version) = *self.garbage.front().filter(|(ended, _)| *ended <= through)?;
        self.garbage.pop_front();
        let index = version as usize;
        let newer = self.newer[index];
        self.ended[index] = 0;
        let is_last = newer & SLOT != 0;
        if !is_last {
            self.older[newer as usize] = NONE;
        }
        let slot = is_last.then_some(newer & !SLOT);
        Some(Dropped { version, slot })
    }

    pub(super) fn release(&mut self, version: u32) {
        self.rows.release(version);
    }

    /// Versions held.
    pub(super) fn len(&self) -> usize {
        self.garbage.len()
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes()
            + (self.created.capacity() + self.ended.capacity() + self.weights.capacity()) * 8
            + (self.older.capacity() + self.newer.capacity()) * 4
            + self.garbage.capacity() * 16
    }
}
