//! SlateDB as a place to spill to: in an object store, with caches of bounded size in memory and on local disk.
//!
//! # Rules kept here
//! 1. Each start has a folder of its own in the store. Those that earlier starts of this server left are removed first, and its own
//!    when it is closed: it outlives no process.
//! 2. Nobody waits until the store has what was written; writes wait while as much is under way as may be in memory.
//! 3. A store that fails is asked again for some time; then whoever waits is told why. What comes is what was written, or an error.
//! 4. All that is asynchronous runs on threads of its own. Whoever calls waits for a message from there.
//!
//! # Not here
//! Names of places, and credentials: those of checkpoints ([`crate::checkpoint::Bucket`]), which lie in the same place.
//!
//! # Source
//! SlateDB: <https://slatedb.io/docs>, and its RFC 24 to 28 on compaction and what may be removed when.

mod blocks;
mod forgotten;
mod options;
mod place;
mod watched;

use super::backend::{Backend, Entries, Snapshot, Writes};
use crate::calls::Calls;
use crate::checkpoint::Location;
use crate::{Error, ErrorKind, Result};
use blocks::Blocks;
use forgotten::Forgotten;
use futures::{StreamExt, TryStreamExt, stream};
use options::{reads, scans};
use place::Place;
use slatedb::bytes::Bytes;
use slatedb::config::{CloseOptions, FlushType};
use slatedb::{Db, DbIterator, DbSnapshot, WriteBatch};
use std::future::Future;
use std::ops::Range;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use watched::Watched;

/// Bytes of a key that rows of one hash share: the table's number and the hash.
const PREFIX: usize = 12;

/// Keys, or ranges of them, that are read at once.
const READS_UNDER_WAY: usize = 32;

/// Keys looked for, and entries removed, in one go.
const KEYS_PER_CALL: usize = 8192;

/// How long a write waits for room: while the store takes what it is given, while it takes nothing, and between looking at that.
const WRITE_PATIENCE: Duration = Duration::from_secs(120);
const FAILURE_PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long an end waits for what is under way, and then for the removal of what there is.
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);

/// Threads that read and write.
const THREADS: Range<usize> = 2..5;

type Outcome<T> = std::result::Result<T, slatedb::Error>;

/// How large the caches of [`Objects`] are.
#[derive(Clone, Copy, Debug)]
pub struct ObjectMemory {
    /// Bytes of memory for blocks, indexes and filters of files. Changes take as much again at most.
    pub cache_bytes: usize,
    /// Bytes of local disk for parts of objects.
    pub disk_bytes: usize,
}

/// A SlateDB database.
pub struct Objects {
    shared: Arc<Shared>,
    tables: AtomicU32,
    is_closed: AtomicBool,
}

/// What a store and its snapshots need.
struct Shared {
    db: Db,
    calls: Calls,
    blocks: Arc<Blocks>,
    forgotten: Arc<Forgotten>,
    watched: Arc<Watched>,
    place: Place,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects")
            .field("place", &self.shared.place.url)
            .finish()
    }
}

fn failed(verb: &str, url: &str, reason: impl std::fmt::Display) -> Error {
    let text = format!("cannot {verb} spilled state in {url}: {reason}");
    Error::new(ErrorKind::Unavailable, "STATE-0501", text)
        .sqlstate("58030")
        .attempt("see that the store can be reached and takes writes; state that was spilled is made again from the checkpoint and the log at the next start")
}

impl Objects {
    /// Opens an empty database. What earlier starts of this server left in the store is removed, and what the folder has.
    ///
    /// # Arguments
    /// - `location`: where checkpoints are; the database is in `spill/<server>/` below.
    /// - `server`: the name of the server, which no other one has.
    /// - `folder`: a folder of its own on local disk, for the cache.
    ///
    /// # Errors
    /// `Unavailable`: the store or the folder cannot be used.
    pub fn open(location: &Location, server: &str, folder: &Path, memory: ObjectMemory) -> Result<Objects> {
        let place = Place::new(location, server).map_err(|reason| failed("open", &Place::url_of(location), reason))?;
        let fault = |verb: &str, reason: String| failed(verb, &place.url, reason);
        empty(folder).map_err(|error| fault("cache", format!("{}: {error}", folder.display())))?;
        let threads = std::thread::available_parallelism().map_or(THREADS.start, usize::from);
        let threads = threads.clamp(THREADS.start, THREADS.end - 1);
        let calls = Calls::new(threads).map_err(|error| fault("open", error.to_string()))?;
        let store = place.store().map_err(|reason| fault("open", reason))?;
        let watched = Arc::new(Watched::new(store));
        let run = |error: std::io::Error| fault("open", error.to_string());
        let (all, of) = (place.of_server.clone(), watched.clone());
        let removed = calls
            .run(async move { place::remove(of.as_ref(), &all).await })
            .map_err(run)?;
        removed.map_err(|error| fault("remove", crate::checkpoint::text_of(&error)))?;
        let (blocks, forgotten) = (
            Arc::new(Blocks::new(memory.cache_bytes)),
            Arc::new(Forgotten::default()),
        );
        let opening = options::Opening {
            path: place.path.clone(),
            store: watched.clone(),
            blocks: blocks.clone(),
            forgotten: forgotten.clone(),
            folder: folder.to_path_buf(),
            memory,
        };
        let db = calls.run(opening.open()).map_err(run)?;
        let db = db.map_err(|error| fault("open", crate::checkpoint::text_of(&error)))?;
        let shared = Shared {
            db,
            calls,
            blocks,
            forgotten,
            watched,
            place,
        };
        Ok(Objects {
            shared: Arc::new(shared),
            tables: AtomicU32::new(0),
            is_closed: AtomicBool::new(false),
        })
    }
}

fn empty(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::create_dir_all(folder)
}

impl Shared {
    fn failed(&self, verb: &str, error: &slatedb::Error) -> Error {
        failed(verb, &self.place.url, crate::checkpoint::text_of(error))
    }

    /// Waits for what `work` gives, however long that takes: who reads gives up by itself.
    fn wait<T: Send + 'static>(
        &self,
        verb: &str,
        work: impl Future<Output = Outcome<T>> + Send + 'static,
    ) -> Result<T> {
        let done = self.calls.run(work);
        let done = done.map_err(|error| failed(verb, &self.place.url, error))?;
        done.map_err(|error| self.failed(verb, &error))
    }

    fn write(&self, verb: &str, batch: WriteBatch) -> Result<()> {
        let written = self.calls.run(write(self.db.clone(), batch, self.watched.clone()));
        let written = written.map_err(|error| failed(verb, &self.place.url, error))?;
        written.map_err(|reason| failed(verb, &self.place.url, reason))
    }
}

/// Writes as soon as there is room for it.
async fn write(db: Db, batch: WriteBatch, watched: Arc<Watched>) -> std::result::Result<(), String> {
    let start = Instant::now();
    let mut written = pin!(db.write(batch));
    loop {
        match tokio::time::timeout(LOOK_EVERY, &mut written).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => return Err(crate::checkpoint::text_of(&error)),
            Err(_) => {}
        }
        match watched.failing_for(FAILURE_PATIENCE) {
            Some(reason) => return Err(reason),
            None if start.elapsed() > WRITE_PATIENCE => return Err("it does not take in time what it is given".into()),
            None => {}
        }
    }
}

/// Whether a range has the keys of one hash alone.
fn is_one_hash(range: &Range<Bytes>) -> bool {
    let number = |key: &[u8]| key.try_into().map(u64::from_be_bytes).ok();
    range.start.len() == PREFIX
        && range.end.len() == PREFIX
        && range.start[..4] == range.end[..4]
        && number(&range.end[4..]) == number(&range.start[4..]).map(|hash| hash.wrapping_add(1))
}

fn owned(range: &Range<&[u8]>) -> Range<Bytes> {
    Bytes::copy_from_slice(range.start)..Bytes::copy_from_slice(range.end)
}

async fn collect(mut entries: DbIterator, most: usize, mut found: Entries) -> Outcome<Entries> {
    let mut left = most;
    while left > 0
        && let Some(entry) = entries.next().await?
    {
        found.push(&entry.key, &entry.value);
        left -= 1;
    }
    Ok(found)
}

/// All of a range, which is one of a hash more often than not.
async fn read_range(db: Db, range: Range<Bytes>, most: usize, found: Entries) -> Outcome<Entries> {
    let entries = match is_one_hash(&range) {
        true => db.scan_prefix_with_options(&range.start, .., &scans(true)).await?,
        false => db.scan_with_options(range, &scans(false)).await?,
    };
    collect(entries, most, found).await
}

impl Backend for Objects {
    fn name(&self) -> &'static str {
        "object"
    }

    fn next_table(&self) -> u32 {
        self.tables.fetch_add(1, Ordering::Relaxed)
    }

    fn get(&self, keys: &Entries, found: &mut Entries, positions: &mut Vec<u32>) -> Result<()> {
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_unstable_by_key(|position| keys.key(*position as usize));
        for part in order.chunks(KEYS_PER_CALL) {
            let key = |position: &u32| Bytes::copy_from_slice(keys.key(*position as usize));
            let wanted: Vec<Bytes> = part.iter().map(key).collect();
            let db = self.shared.db.clone();
            let values = self.shared.wait("read", async move {
                let values = stream::iter(wanted).map(move |key| {
                    let db = db.clone();
                    // A value is a part of a whole block.
                    async move {
                        let value = db.get_with_options(key, &reads()).await?;
                        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
                    }
                });
                let values = values.buffered(READS_UNDER_WAY);
                values.try_collect::<Vec<Option<Bytes>>>().await
            })?;
            for (position, value) in part.iter().zip(values) {
                if let Some(value) = value {
                    found.push(keys.key(*position as usize), &value);
                    positions.push(*position);
                }
            }
        }
        Ok(())
    }

    fn write(&self, writes: &Writes) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in writes.iter() {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        match batch.is_empty() {
            true => Ok(()),
            false => self.shared.write("write", batch),
        }
    }

    fn remove_range(&self, range: Range<&[u8]>) -> Result<()> {
        let mut from = range.start.to_vec();
        while from.as_slice() < range.end {
            let mut found = Entries::default();
            self.scan(&from..range.end, KEYS_PER_CALL, &mut found)?;
            if found.is_empty() {
                break;
            }
            let mut batch = WriteBatch::new();
            (0..found.len()).for_each(|entry| batch.delete(found.key(entry)));
            self.shared.write("remove", batch)?;
            // The least key behind the last one.
            from = [found.key(found.len() - 1), &[0]].concat();
        }
        Ok(())
    }

    fn scan(&self, range: Range<&[u8]>, most: usize, found: &mut Entries) -> Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        let (db, before) = (self.shared.db.clone(), std::mem::take(found));
        *found = self.shared.wait("read", read_range(db, owned(&range), most, before))?;
        Ok(())
    }

    fn scan_each(&self, ranges: &Entries, found: &mut Entries) -> Result<()> {
        let range = |range: usize| owned(&(ranges.key(range)..ranges.value(range)));
        let ranges: Vec<Range<Bytes>> = (0..ranges.len()).map(range).collect();
        for part in ranges.chunks(KEYS_PER_CALL) {
            let (db, part) = (self.shared.db.clone(), part.to_vec());
            let all = self.shared.wait("read", async move {
                let reads = stream::iter(part);
                let reads = reads.map(move |range| read_range(db.clone(), range, usize::MAX, Entries::default()));
                let reads = reads.buffered(READS_UNDER_WAY);
                reads.try_collect::<Vec<Entries>>().await
            })?;
            for entries in &all {
                (0..entries.len()).for_each(|entry| found.push(entries.key(entry), entries.value(entry)));
            }
        }
        Ok(())
    }

    fn forget(&self, table: u32) -> Result<()> {
        // Its entries are left out when files are merged.
        self.shared.forgotten.add(table);
        Ok(())
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        let snapshot = self.shared.db.snapshot();
        Box::new(ObjectsSnapshot {
            snapshot: snapshot.map_err(|error| self.shared.failed("read", &error)),
            shared: self.shared.clone(),
        })
    }

    fn sizes(&self) -> (u64, u64) {
        let manifest = self.shared.db.manifest();
        let young = manifest.l0().iter().map(|file| file.estimate_size()).sum::<u64>();
        let merged = manifest.compacted().iter().map(|run| run.estimate_size()).sum::<u64>();
        (self.shared.blocks.bytes() as u64, young + merged)
    }

    fn limit_cache(&self, bytes: usize) {
        self.shared.blocks.limit(bytes);
    }

    fn close(&self) {
        if self.is_closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let (db, store) = (self.shared.db.clone(), self.shared.watched.clone());
        let path = self.shared.place.path.clone();
        // What stays only takes room: the next start removes it.
        let _ = self.shared.calls.run(async move {
            let options = CloseOptions::default().with_flush_type(None::<FlushType>);
            let _ = tokio::time::timeout(CLOSE_PATIENCE, db.close_with_options(options)).await;
            let _ = tokio::time::timeout(CLOSE_PATIENCE, place::remove(store.as_ref(), &path)).await;
        });
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.close();
    }
}

/// A store as it was.
struct ObjectsSnapshot {
    snapshot: Result<Arc<DbSnapshot>>,
    shared: Arc<Shared>,
}

impl Snapshot for ObjectsSnapshot {
    fn scan(&self, range: Range<&[u8]>, most: usize, found: &mut Entries) -> Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        let (snapshot, range) = (self.snapshot.clone()?, owned(&range));
        let before = std::mem::take(found);
        *found = self.shared.wait("read", async move {
            let entries = snapshot.scan_with_options(range, &scans(false)).await?;
            collect(entries, most, before).await
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
