//! An epoch that has no end yet: what it has taken so far.

use crate::plan::CollectionId;
use cenote_statestore::Changes;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows and bytes of an epoch that is left open: what views keep until its end is bounded by them.
const OPEN_ROWS_MAX: usize = 64 << 20;
const OPEN_BYTES_MAX: usize = 512 << 20;

/// What an open epoch has taken so far.
#[derive(Debug, Default)]
pub(crate) struct OpenEpoch {
    touched: BTreeSet<CollectionId>,
    rows: usize,
    bytes: usize,
}

impl OpenEpoch {
    /// Counts changes in.
    ///
    /// # Returns
    /// Whether they are the first of their collection.
    pub(super) fn add(&mut self, collection: CollectionId, changes: &Changes) -> bool {
        self.rows += changes.len();
        self.bytes += changes.memory_bytes();
        self.touched.insert(collection)
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows >= OPEN_ROWS_MAX || self.bytes >= OPEN_BYTES_MAX
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The collections that it has changes of.
    pub(super) fn touched(self) -> Arc<[CollectionId]> {
        self.touched.into_iter().collect()
    }
}
