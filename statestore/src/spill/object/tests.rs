//! What a database in an object store does beyond holding what a map holds.

use super::*;
use slatedb::{CompactionFilterDecision, CompactionFilterSupplier, CompactionJobContext, RowEntry, ValueDeletable};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// So little memory that files are written, read and merged.
const LITTLE: ObjectMemory = ObjectMemory {
    cache_bytes: 192 << 10,
    disk_bytes: 4 << 20,
};

fn open(root: &Path, server: &str) -> Objects {
    let location = Location::Folder(root.join("bucket"));
    Objects::open(&location, server, &root.join("cache").join(server), LITTLE).unwrap()
}

fn key(table: u32, number: u64) -> Vec<u8> {
    [&table.to_be_bytes()[..], &number.to_be_bytes(), b"key"].concat()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let found = paths.map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    found.flatten().collect()
}

fn rows(scan: impl Fn(Range<&[u8]>, usize, &mut Entries) -> Result<()>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = Entries::default();
    scan(&[0u8][..]..&[9u8][..], usize::MAX, &mut found).unwrap();
    let entries = 0..found.len();
    entries
        .map(|entry| (found.key(entry).to_vec(), found.value(entry).to_vec()))
        .collect()
}

/// Waits until something is so that threads of the store bring about.
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_start_is_empty_and_what_is_of_others_stays() {
    let root = tempfile::tempdir().unwrap();
    let bucket = root.path().join("bucket");
    let others = [
        "server.json",
        "spill/t/a/compacted/b.sst",
        "20261130T151923.123Z-9f3a01bc/manifest.json",
    ];
    for file in others.iter().chain(&["spill/s/earlier/compacted/c.sst"]) {
        std::fs::create_dir_all(bucket.join(file).parent().unwrap()).unwrap();
        std::fs::write(bucket.join(file), "x").unwrap();
    }
    let mut kept: Vec<PathBuf> = others.iter().map(|file| bucket.join(file)).collect();
    kept.sort();
    let store = open(root.path(), "s");
    assert!(!bucket.join("spill/s/earlier").exists());
    let mut writes = Writes::default();
    writes.put(&key(0, 1), b"value");
    store.write(&writes).unwrap();
    assert_eq!(rows(|range, most, found| store.scan(range, most, found)).len(), 1);
    assert!(files(&bucket).len() > kept.len());
    drop(store);
    let mut left = files(&bucket);
    left.sort();
    assert_eq!(left, kept, "a store that ends takes along what it has");
    let store = open(root.path(), "s");
    assert!(rows(|range, most, found| store.scan(range, most, found)).is_empty());
    store.close();
    let error = store.write(&writes).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("STATE-0501", ErrorKind::Unavailable));
}

#[test]
fn what_was_written_comes_from_files_and_merged_files_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), "s");
    let (mut model, mut then) = (BTreeMap::new(), None);
    for round in 0..60u64 {
        let mut writes = Writes::default();
        for number in 0..400 {
            let key = key(1, number * 7919 % 2000 + round * 13 % 50);
            match (number + round) % 5 {
                0 => {
                    writes.remove(&key);
                    model.remove(&key);
                }
                _ => {
                    let value = format!("{round} {number} {}", "x".repeat(100)).into_bytes();
                    writes.put(&key, &value);
                    model.insert(key, value);
                }
            }
        }
        store.write(&writes).unwrap();
        if round == 20 {
            then = Some((store.snapshot(), model.clone()));
        }
    }
    wait("files are merged", || {
        !store.shared.db.manifest().compacted().is_empty()
    });
    assert_eq!(rows(|range, most, found| store.scan(range, most, found)), model);
    let (snapshot, as_it_was) = then.unwrap();
    assert_eq!(rows(|range, most, found| snapshot.scan(range, most, found)), as_it_was);
    let mut keys = Entries::default();
    (0..2100).for_each(|number| keys.push(&key(1, number), &[]));
    let (mut found, mut positions) = (Entries::default(), Vec::new());
    store.get(&keys, &mut found, &mut positions).unwrap();
    assert_eq!(found.len(), model.len());
    assert!((0..found.len()).all(|entry| model[found.key(entry)] == found.value(entry)));
    let (memory, stored) = store.sizes();
    assert!(memory > 0 && memory <= LITTLE.cache_bytes as u64 && stored > 0);
    store.limit_cache(0);
    assert_eq!(store.sizes().0, 0);
    store.remove_range(&key(1, 0)..&key(1, 1000)).unwrap();
    model.retain(|entry, _| *entry >= key(1, 1000));
    assert_eq!(rows(|range, most, found| store.scan(range, most, found)), model);
}

#[test]
fn entries_of_forgotten_tables_are_left_out_when_files_are_merged() {
    let forgotten = Forgotten::default();
    forgotten.add(3);
    let context = CompactionJobContext {
        destination: 0,
        is_dest_last_run: true,
        compaction_clock_tick: 0,
        retention_min_seq: None,
    };
    let sieve = forgotten.create_compaction_filter(&context);
    let mut sieve = futures::executor::block_on(sieve).unwrap_or_else(|_| panic!("a filter"));
    for (table, decision) in [(2, CompactionFilterDecision::Keep), (3, CompactionFilterDecision::Drop)] {
        let entry = RowEntry {
            key: key(table, 1).into(),
            value: ValueDeletable::Value("value".into()),
            seq: 1,
            create_ts: None,
            expire_ts: None,
        };
        assert_eq!(futures::executor::block_on(sieve.filter(&entry)).unwrap(), decision);
    }
}

#[test]
fn a_store_that_cannot_be_opened_says_so() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("file"), "").unwrap();
    let location = Location::Folder(root.path().join("file/bucket"));
    let error = Objects::open(&location, "s", &root.path().join("cache"), LITTLE).unwrap_err();
    assert_eq!((error.code(), error.state()), ("STATE-0501", "58030"));
    assert!(error.message().contains("file/bucket/spill/s"), "{}", error.message());
}
