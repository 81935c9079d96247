//! Blocks, indexes and filters of files in memory, as many as the limit lets.
//!
//! # Source
//! The clock of Multics' pager: Corbató, "A Paging Experiment with the Multics System", 1968.

use async_trait::async_trait;
use hashbrown::{DefaultHashBuilder, HashMap};
use parking_lot::Mutex;
use slatedb::Error;
use slatedb::db_cache::{CachedEntry, CachedKey, DbCache};
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Parts that are locked one by one. Each has to hold more than the index and the filter of a file.
const SHARDS: usize = 4;

/// Bytes that an entry takes beside what is in it.
const ENTRY_BYTES: usize = 192;

/// A cache.
pub(super) struct Blocks {
    shards: Vec<Mutex<Shard>>,
    hasher: DefaultHashBuilder,
    limit: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<CachedKey, Slot>,
    /// Keys in the order in which it is looked whether they may go; some are not there any more.
    order: VecDeque<CachedKey>,
    bytes: usize,
}

struct Slot {
    entry: CachedEntry,
    bytes: usize,
    /// Whether it was asked for since it was last looked at.
    is_used: bool,
}

impl Shard {
    fn insert(&mut self, key: CachedKey, entry: CachedEntry, limit: usize) {
        let bytes = entry.size() + ENTRY_BYTES;
        let slot = Slot {
            entry,
            bytes,
            is_used: false,
        };
        self.bytes += bytes;
        match self.entries.insert(key.clone(), slot) {
            Some(old) => self.bytes -= old.bytes,
            None => self.order.push_back(key),
        }
        self.shrink(limit);
    }

    fn shrink(&mut self, limit: usize) {
        while self.bytes > limit
            && let Some(key) = self.order.pop_front()
        {
            match self.entries.get_mut(&key) {
                Some(slot) if slot.is_used => {
                    slot.is_used = false;
                    self.order.push_back(key);
                }
                Some(_) => self.remove(&key),
                None => {}
            }
        }
    }

    fn remove(&mut self, key: &CachedKey) {
        if let Some(slot) = self.entries.remove(key) {
            self.bytes -= slot.bytes;
        }
    }
}

impl Blocks {
    /// # Arguments
    /// - `limit`: bytes that it may take.
    pub(super) fn new(limit: usize) -> Blocks {
        Blocks {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: DefaultHashBuilder::default(),
            limit: AtomicUsize::new(limit),
        }
    }

    /// Changes how many bytes it may take.
    pub(super) fn limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
        for shard in &self.shards {
            shard.lock().shrink(bytes / SHARDS);
        }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }

    fn shard(&self, key: &CachedKey) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    fn look(&self, key: &CachedKey) -> Option<CachedEntry> {
        let mut shard = self.shard(key).lock();
        let slot = shard.entries.get_mut(key)?;
        slot.is_used = true;
        Some(slot.entry.clone())
    }
}

#[async_trait]
impl DbCache for Blocks {
    async fn get_block(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.look(key))
    }

    async fn get_index(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.look(key))
    }

    async fn get_filter(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.look(key))
    }

    async fn get_stats(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.look(key))
    }

    async fn insert(&self, key: CachedKey, value: CachedEntry) {
        let limit = self.limit.load(Ordering::Relaxed) / SHARDS;
        self.shard(&key).lock().insert(key.clone(), value, limit);
    }

    async fn remove(&self, key: &CachedKey) {
        self.shard(key).lock().remove(key);
    }

    fn entry_count(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().entries.len() as u64).sum()
    }
}
