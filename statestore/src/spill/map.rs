//! A store in memory: the model that other stores are tested against, and what tests of spilling use.

use super::backend::{Backend, Entries, Snapshot, Writes};
use crate::Result;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

type Bytes = Box<[u8]>;

/// An ordered map in memory.
#[derive(Debug, Default)]
pub struct Map {
    entries: RwLock<Arc<BTreeMap<Bytes, Bytes>>>,
    tables: AtomicU32,
}

struct MapSnapshot(Arc<BTreeMap<Bytes, Bytes>>);

fn scan(entries: &BTreeMap<Bytes, Bytes>, range: Range<&[u8]>, most: usize, found: &mut Entries) {
    if range.start < range.end {
        let bounds = (Bound::Included(range.start), Bound::Excluded(range.end));
        let entries = entries.range::<[u8], _>(bounds).take(most);
        entries.for_each(|(key, value)| found.push(key, value));
    }
}

impl Map {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.read().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Backend for Map {
    fn name(&self) -> &'static str {
        "map"
    }

    fn next_table(&self) -> u32 {
        self.tables.fetch_add(1, Ordering::Relaxed)
    }

    fn get(&self, keys: &Entries, found: &mut Entries, positions: &mut Vec<u32>) -> Result<()> {
        let entries = self.entries.read();
        for position in 0..keys.len() {
            if let Some(value) = entries.get(keys.key(position)) {
                found.push(keys.key(position), value);
                positions.push(position as u32);
            }
        }
        Ok(())
    }

    fn write(&self, writes: &Writes) -> Result<()> {
        let mut entries = self.entries.write();
        let entries = Arc::make_mut(&mut entries);
        for (key, value) in writes.iter() {
            match value {
                Some(value) => drop(entries.insert(key.into(), value.into())),
                None => drop(entries.remove(key)),
            }
        }
        Ok(())
    }

    fn remove_range(&self, range: Range<&[u8]>) -> Result<()> {
        let mut entries = self.entries.write();
        Arc::make_mut(&mut entries).retain(|key, _| !(range.start <= &**key && &**key < range.end));
        Ok(())
    }

    fn scan(&self, range: Range<&[u8]>, most: usize, found: &mut Entries) -> Result<()> {
        scan(&self.entries.read(), range, most, found);
        Ok(())
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(MapSnapshot(self.entries.read().clone()))
    }

    fn sizes(&self) -> (u64, u64) {
        let bytes = self
            .entries
            .read()
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum::<usize>();
        (bytes as u64, 0)
    }
}

impl Snapshot for MapSnapshot {
    fn scan(&self, range: Range<&[u8]>, most: usize, found: &mut Entries) -> Result<()> {
        scan(&self.0, range, most, found);
        Ok(())
    }
}
