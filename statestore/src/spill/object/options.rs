//! How the database is opened, and how it is read.

use super::blocks::Blocks;
use super::forgotten::Forgotten;
use super::watched::Watched;
use super::{ObjectMemory, Outcome, PREFIX};
use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, CompressionCodec, GarbageCollectorDirectoryOptions,
    GarbageCollectorOptions, ObjectStoreCacheOptions, ReadOptions, ScanOptions, Settings,
};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::prefix_extractor::{PrefixExtractor, PrefixTarget};
use slatedb::{BloomFilterPolicy, CompactorBuilder, Db, FilterPolicy};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the smallest and of the largest buffer of changes, and how many of them are in memory.
const BUFFER_BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=32 << 20;
const BUFFERS: usize = 3;

/// Files that are not merged yet, and that a read may have to look into.
const YOUNG_FILES: usize = 16;

/// Bytes of the smallest and of the largest file that merging makes: such that the cache holds indexes and filters of some.
const FILE_BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=64 << 20;

/// Bits of a Bloom filter per key, and per hash.
const FILTER_BITS: u32 = 10;

/// Bytes of the parts that objects are cached in.
const PART_BYTES: usize = 512 << 10;

/// Files of the cache that are kept open.
const OPEN_FILES: usize = 256;

/// Bytes that scans of many keys read ahead.
const READ_AHEAD_BYTES: usize = 256 << 10;

/// Bytes that merging reads ahead of each file.
const MERGE_AHEAD_BYTES: usize = 1 << 20;

/// How often it is looked what merging has made, and whether there is something to merge.
const LOOK_EVERY: Duration = Duration::from_secs(10);
const MERGE_EVERY: Duration = Duration::from_secs(2);

/// How often files that nobody needs are removed, and how old they are then. Reads that take longer fail.
const COLLECT_EVERY: Duration = Duration::from_secs(60);
const READ_AT_MOST: Duration = Duration::from_secs(300);

/// Tries of a request beyond those of the client of the store.
const RETRIES: u32 = 1;

/// How single keys are read.
pub(super) fn reads() -> ReadOptions {
    ReadOptions::default()
}

/// How ranges are read.
///
/// # Arguments
/// - `is_short`: few entries, of the kind that is wanted again.
pub(super) fn scans(is_short: bool) -> ScanOptions {
    ScanOptions {
        cache_blocks: is_short,
        read_ahead_bytes: if is_short { 1 } else { READ_AHEAD_BYTES },
        ..ScanOptions::default()
    }
}

/// Filters know hashes beside keys.
struct HashPrefix;

impl PrefixExtractor for HashPrefix {
    fn name(&self) -> &str {
        "hash"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(key) | PrefixTarget::Prefix(key)) = target;
        (key.len() >= PREFIX).then_some(PREFIX)
    }
}

fn filters() -> Vec<Arc<dyn FilterPolicy>> {
    let filter = BloomFilterPolicy::new(FILTER_BITS).with_prefix_extractor(Arc::new(HashPrefix));
    vec![Arc::new(filter)]
}

/// All that a database is opened with.
pub(super) struct Opening {
    pub(super) path: Path,
    pub(super) store: Arc<Watched>,
    pub(super) blocks: Arc<Blocks>,
    pub(super) forgotten: Arc<Forgotten>,
    pub(super) folder: PathBuf,
    pub(super) memory: ObjectMemory,
}

impl Opening {
    /// Opens the database; the threads that this runs on do its work from then on.
    pub(super) async fn open(self) -> Outcome<Db> {
        let settings = self.settings();
        let store: Arc<dyn ObjectStore> = self.store;
        let merging = CompactorBuilder::new(self.path.clone(), store.clone())
            .with_options(merging(self.memory.cache_bytes))
            .with_filter_policies(filters())
            .with_compaction_filter_supplier(self.forgotten);
        Db::builder(self.path, store)
            .with_settings(settings)
            .with_filter_policies(filters())
            .with_db_cache(self.blocks, 0)
            .with_compactor_builder(merging)
            .build()
            .await
    }

    fn settings(&self) -> Settings {
        let buffer = (self.memory.cache_bytes / BUFFERS).clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end());
        Settings {
            flush_interval: None,
            wal_enabled: false,
            manifest_poll_interval: LOOK_EVERY,
            l0_sst_size_bytes: buffer,
            max_unflushed_bytes: buffer * BUFFERS,
            l0_max_ssts: YOUNG_FILES,
            l0_max_ssts_per_key: YOUNG_FILES,
            l0_flush_parallelism: BUFFERS - 1,
            compactor_options: None,
            compression_codec: Some(CompressionCodec::Lz4),
            object_store_cache_options: ObjectStoreCacheOptions {
                root_folder: Some(self.folder.clone()),
                max_cache_size_bytes: Some(self.memory.disk_bytes),
                part_size_bytes: PART_BYTES,
                cache_on_flush: true,
                cache_on_compaction: true,
                preload_disk_cache_on_startup: None,
                scan_interval: None,
                max_open_file_handles: OPEN_FILES,
            },
            garbage_collector_options: Some(collecting()),
            object_store_max_retries: Some(RETRIES),
            ..Settings::default()
        }
    }
}

fn merging(cache_bytes: usize) -> CompactorOptions {
    CompactorOptions {
        poll_interval: MERGE_EVERY,
        commit_compacted_interval: MERGE_EVERY,
        max_concurrent_compactions: 1,
        checkpoint_lifetime: READ_AT_MOST,
        object_store_max_retries: Some(RETRIES),
        worker: Some(CompactionWorkerOptions {
            max_concurrent_compactions: 1,
            compactions_poll_interval: MERGE_EVERY,
            max_sst_size: cache_bytes.clamp(*FILE_BYTES.start(), *FILE_BYTES.end()),
            max_fetch_tasks: 2,
            bytes_to_fetch: MERGE_AHEAD_BYTES,
            max_subcompactions: 1,
            compression_codec: Some(CompressionCodec::Lz4),
            ..CompactionWorkerOptions::default()
        }),
        ..CompactorOptions::default()
    }
}

fn collecting() -> GarbageCollectorOptions {
    let often = Some(GarbageCollectorDirectoryOptions {
        interval: Some(COLLECT_EVERY),
        min_age: READ_AT_MOST,
        ..GarbageCollectorDirectoryOptions::default()
    });
    GarbageCollectorOptions {
        manifest_options: often,
        wal_options: None,
        wal_fence_options: None,
        compacted_options: often,
        compactions_options: often,
        detach_options: None,
        // Stores on local disk do not know how to; nobody else works on this folder.
        boundary_files_enabled: false,
        object_store_max_retries: Some(RETRIES),
        ..GarbageCollectorOptions::default()
    }
}
