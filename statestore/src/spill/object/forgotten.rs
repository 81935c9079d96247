//! Tables that nobody reads or writes any more: what is left of them goes when files are merged.

use async_trait::async_trait;
use parking_lot::RwLock;
use slatedb::{
    CompactionFilter, CompactionFilterDecision, CompactionFilterError, CompactionFilterSupplier, CompactionJobContext,
    RowEntry,
};
use std::collections::HashSet;
use std::sync::Arc;

/// Numbers of such tables.
#[derive(Default)]
pub(super) struct Forgotten(RwLock<Arc<HashSet<u32>>>);

impl Forgotten {
    pub(super) fn add(&self, table: u32) {
        Arc::make_mut(&mut self.0.write()).insert(table);
    }
}

/// Lets through what is of other tables.
struct Sieve(Arc<HashSet<u32>>);

#[async_trait]
impl CompactionFilterSupplier for Forgotten {
    async fn create_compaction_filter(
        &self,
        _: &CompactionJobContext,
    ) -> Result<Box<dyn CompactionFilter>, CompactionFilterError> {
        Ok(Box::new(Sieve(self.0.read().clone())))
    }
}

#[async_trait]
impl CompactionFilter for Sieve {
    async fn filter(&mut self, entry: &RowEntry) -> Result<CompactionFilterDecision, CompactionFilterError> {
        let table = entry.key.first_chunk::<4>().map(|number| u32::from_be_bytes(*number));
        Ok(match table.is_some_and(|table| self.0.contains(&table)) {
            // Older entries of its keys may be seen again then, and nobody looks.
            true => CompactionFilterDecision::Drop,
            false => CompactionFilterDecision::Keep,
        })
    }

    async fn on_compaction_end(&mut self) -> Result<(), CompactionFilterError> {
        Ok(())
    }
}
