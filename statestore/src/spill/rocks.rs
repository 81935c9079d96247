//! RocksDB as a place to spill to: on local disk, with a cache of bounded size.
//!
//! # Rules kept here
//! The folder is emptied when it is opened, and nothing in it is synced: it outlives no process.
//!
//! # Source
//! <https://github.com/facebook/rocksdb/wiki/RocksDB-Tuning-Guide>, and the same wiki on prefix seek and Bloom filters.

use super::backend::{Backend, Entries, Snapshot, Writes};
use crate::{Error, ErrorKind, Result};
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType,
    DBRawIterator, LruCacheOptions, Options, ReadOptions, SliceTransform, WriteBatch, WriteBufferManager,
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a key that rows of one hash share: the table's number and the hash.
const PREFIX: usize = 12;

/// Buffers of changes in memory that are written to files when they are full, and the bytes of the smallest and of the largest. They
/// are part of the cache, and may take half of it.
const BUFFERS: usize = 3;
const BUFFER_BYTES: std::ops::RangeInclusive<usize> = 1 << 20..=32 << 20;

/// Parts of the cache, as a power of two: a part has to hold far more than one block.
const CACHE_PARTS_LOG2: i32 = 2;

/// Bytes of a block of a file's index or filter. As a whole they would be larger than a part of a small cache, and be read again for
/// every key.
const METADATA_BYTES: usize = 8 << 10;

/// The part of a buffer that its own filter takes.
const BUFFER_FILTER: f64 = 0.05;

/// Bits of a Bloom filter per key.
const FILTER_BITS: f64 = 10.0;

/// Keys looked for at once.
const KEYS_PER_GET: usize = 1024;

/// A RocksDB database.
pub struct Rocks {
    db: Arc<DB>,
    cache: Cache,
    folder: PathBuf,
    tables: AtomicU32,
}

impl std::fmt::Debug for Rocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rocks").field("folder", &self.folder).finish()
    }
}

fn failed(verb: &str, folder: &Path, error: &dyn std::fmt::Display) -> Error {
    let text = format!("cannot {verb} spilled state in {}: {error}", folder.display());
    Error::new(ErrorKind::Unavailable, "STATE-0501", text)
        .sqlstate("58030")
        .attempt("see that the disk has room and works; state that was spilled is made again from the checkpoint and the log at the next start")
}

impl Rocks {
    /// Opens an empty database in a folder of its own; what the folder has is removed.
    ///
    /// # Arguments
    /// - `cache_bytes`: memory for blocks, indexes and filters of files, and for changes.
    ///
    /// # Errors
    /// `Unavailable`: the folder cannot be used.
    pub fn open(folder: &Path, cache_bytes: usize) -> Result<Rocks> {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed("empty the folder of", folder, &error));
            }
            _ => {}
        }
        std::fs::create_dir_all(folder).map_err(|error| failed("make a folder for", folder, &error))?;
        let mut of_cache = LruCacheOptions::default();
        of_cache.set_capacity(cache_bytes);
        of_cache.set_num_shard_bits(CACHE_PARTS_LOG2);
        let cache = Cache::new_lru_cache_opts(&of_cache);
        let buffers = WriteBufferManager::new_write_buffer_manager_with_cache(cache_bytes / 2, false, cache.clone());
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&cache);
        blocks.set_bloom_filter(FILTER_BITS, false);
        blocks.set_whole_key_filtering(true);
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        blocks.set_partition_filters(true);
        blocks.set_metadata_block_size(METADATA_BYTES);
        blocks.set_pin_top_level_index_and_filter(true);
        blocks.set_format_version(5);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        options.set_prefix_extractor(SliceTransform::create_fixed_prefix(PREFIX));
        options.set_write_buffer_manager(&buffers);
        options.set_write_buffer_size((cache_bytes / 2 / BUFFERS).clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end()));
        options.set_memtable_prefix_bloom_ratio(BUFFER_FILTER);
        options.set_memtable_whole_key_filtering(true);
        options.set_max_write_buffer_number(BUFFERS as i32);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_max_background_jobs(2);
        options.set_max_open_files(512);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_keep_log_file_num(1);
        options.set_stats_dump_period_sec(0);
        options.set_stats_persist_period_sec(0);
        let family = ColumnFamilyDescriptor::new(rocksdb::DEFAULT_COLUMN_FAMILY_NAME, options.clone());
        let db = DB::open_cf_descriptors(&options, folder, [family]).map_err(|error| failed("open", folder, &error))?;
        Ok(Rocks {
            db: Arc::new(db),
            cache,
            folder: folder.to_path_buf(),
            tables: AtomicU32::new(0),
        })
    }

    fn failed(&self, verb: &str, error: &rocksdb::Error) -> Error {
        failed(verb, &self.folder, error)
    }

    fn default_family(&self) -> &ColumnFamily {
        let family = rocksdb::DEFAULT_COLUMN_FAMILY_NAME;
        self.db.cf_handle(family).expect("every database has it")
    }
}

/// Whether a range has the keys of one hash alone.
fn is_one_hash(range: &Range<&[u8]>) -> bool {
    let number = |key: &[u8]| key.try_into().map(u64::from_be_bytes).ok();
    range.start.len() == PREFIX
        && range.end.len() == PREFIX
        && range.start[..4] == range.end[..4]
        && number(&range.end[4..]) == number(&range.start[4..]).map(|hash| hash.wrapping_add(1))
}

fn read_options(range: &Range<&[u8]>) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_iterate_upper_bound(range.end.to_vec());
    match is_one_hash(range) {
        true => options.set_prefix_same_as_start(true),
        false => {
            options.set_total_order_seek(true);
            options.fill_cache(false);
        }
    }
    options
}

fn seek(
    entries: &mut DBRawIterator<'_>,
    range: &Range<&[u8]>,
    most: usize,
    found: &mut Entries,
) -> std::result::Result<(), rocksdb::Error> {
    entries.seek(range.start);
    let mut left = most;
    while left > 0
        && let Some((key, value)) = entries.item()
    {
        if key >= range.end {
            break;
        }
        found.push(key, value);
        left -= 1;
        entries.next();
    }
    entries.status()
}

impl Backend for Rocks {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn next_table(&self) -> u32 {
        self.tables.fetch_add(1, Ordering::Relaxed)
    }

    fn get(&self, keys: &Entries, found: &mut Entries, positions: &mut Vec<u32>) -> Result<()> {
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_unstable_by_key(|position| keys.key(*position as usize));
        let family = self.default_family();
        for part in order.chunks(KEYS_PER_GET) {
            let wanted = part.iter().map(|position| keys.key(*position as usize));
            let values = self.db.batched_multi_get_cf(family, wanted, true);
            for (position, value) in part.iter().zip(values) {
                if let Some(value) = value.map_err(|error| self.failed("read", &error))? {
                    found.push(keys.key(*position as usize), &value);
                    positions.push(*position);
                }
            }
        }
        Ok(())
    }

    fn write(&self, writes: &Writes) -> Result<()> {
        let mut batch = WriteBatch::with_capacity_bytes(writes.bytes() + writes.len() * 16);
        for (key, value) in writes.iter() {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        let written = self.db.write_without_wal(batch);
        written.map_err(|error| self.failed("write", &error))
    }

    fn remove_range(&self, range: Range<&[u8]>) -> Result<()> {
        let mut batch = WriteBatch::default();
        batch.delete_range(range.start, range.end);
        let written = self.db.write_without_wal(batch);
        written.map_err(|error| self.failed("remove", &error))
    }

    fn scan(&self, range: Range<&[u8]>, most: usize, found: &mut Entries) -> Result<()> {
        let mut entries = self.db.raw_iterator_opt(read_options(&range));
        seek(&mut entries, &range, most, found).map_err(|error| self.failed("read", &error))
    }

    fn scan_each(&self, ranges: &Entries, found: &mut Entries) -> Result<()> {
        let mut options = ReadOptions::default();
        options.set_prefix_same_as_start(true);
        // An iterator is dear to make, and cheap to move.
        let mut entries = self.db.raw_iterator_opt(options);
        for range in 0..ranges.len() {
            let range = ranges.key(range)..ranges.value(range);
            seek(&mut entries, &range, usize::MAX, found).map_err(|error| self.failed("read", &error))?;
        }
        Ok(())
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        let folder = self.folder.clone();
        let view = View::new(self.db.clone(), |db| db.snapshot());
        Box::new(RocksSnapshot { view, folder })
    }

    fn sizes(&self) -> (u64, u64) {
        let property = |name: &str| self.db.property_int_value(name).ok().flatten().unwrap_or(0);
        let memory = self.cache.get_usage() as u64 + property("rocksdb.cur-size-all-mem-tables");
        (memory, property("rocksdb.live-sst-files-size"))
    }

    fn limit_cache(&self, bytes: usize) {
        self.cache.clone().set_capacity(bytes);
    }
}

type DbSnapshot<'a> = rocksdb::Snapshot<'a>;

self_cell::self_cell!(
    struct View {
        owner: Arc<DB>,
        #[covariant]
        dependent: DbSnapshot,
    }
);

struct RocksSnapshot {
    view: View,
    folder: PathBuf,
}

impl Snapshot for RocksSnapshot {
    fn scan(&self, range: Range<&[u8]>, most: usize, found: &mut Entries) -> Result<()> {
        self.view.with_dependent(|_, snapshot| {
            let mut entries = snapshot.raw_iterator_opt(read_options(&range));
            seek(&mut entries, &range, most, found).map_err(|error| failed("read", &self.folder, &error))
        })
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        self.db.cancel_all_background_work(true);
    }
}
