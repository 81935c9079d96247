//! Files are checked once, whoever reads them, and read in pieces that are held against what was checked.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts how often a file of rows is opened.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Files for Counting {}

impl DiskFiles for Counting {
    fn open(&self, path: &Path) -> io::Result<File> {
        let is_part = path.extension().is_some_and(|ending| ending == "arrow");
        self.0.fetch_add(usize::from(is_part), Ordering::Relaxed);
        Unsynced.open(path)
    }
}

impl Counting {
    fn taken(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn counted(folder: &Path, id: &CheckpointId) -> (Checkpoint, Arc<Counting>) {
    let files = Arc::new(Counting::default());
    let blobs = LocalDisk::with_files(folder, files.clone());
    let checkpoint = Checkpoints::new(Arc::new(blobs)).open(id.as_str()).unwrap();
    (checkpoint, files)
}

#[test]
fn readers_that_are_at_a_file_at_a_time_share_it_and_later_ones_read_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = publish(&open_store(folder.path()), "t", 1, &some_pairs(1000));
    let (checkpoint, files) = counted(folder.path(), &manifest.id());
    let read = || checkpoint.read_table("t", KeyGroups::ALL).unwrap();
    let (mut one, mut other) = (read(), read());
    let mut rows = 0;
    loop {
        let (left, right) = (one.next(), other.next());
        let (Some(left), Some(right)) = (left, right) else {
            break;
        };
        let (left, right) = (left.unwrap(), right.unwrap());
        assert_eq!(left.rows(), right.rows());
        rows += left.len();
    }
    assert_eq!(rows, 1000);
    assert_eq!(files.taken(), 4, "four files, once each");
    assert_eq!(contents(&checkpoint, "t").unwrap().len(), 1000);
    assert_eq!(files.taken(), 4, "nothing is kept in memory when nobody reads it");
}

#[test]
fn what_was_read_is_not_read_again_to_be_checked_and_what_was_not_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let writer = store.begin(None).unwrap();
    for name in ["read", "unread"] {
        let table = writer.table(keyed(name)).unwrap();
        let all = keyed(name).base_rows(&Changes::insertions(rows(&some_pairs(50))));
        writer.part(table, KeyGroups::ALL, PartKind::Base, [all]).unwrap();
    }
    let manifest = writer.publish(sealed(1)).unwrap();
    let (checkpoint, files) = counted(folder.path(), &manifest.id());
    contents(&checkpoint, "read").unwrap();
    assert_eq!(files.taken(), 1);
    for taken in [1, 0] {
        checkpoint.check_unread().unwrap();
        assert_eq!(files.taken(), taken);
    }
    for (name, is_found) in [("unread", true), ("read", false)] {
        let (checkpoint, _) = counted(folder.path(), &manifest.id());
        contents(&checkpoint, "read").unwrap();
        let path = &manifest.table(name).unwrap().buckets[0].parts[0].path;
        let place = folder.path().join(path);
        let before = std::fs::read(&place).unwrap();
        let mut damaged = before.clone();
        damaged[100] ^= 1;
        std::fs::write(&place, &damaged).unwrap();
        assert_eq!(checkpoint.check_unread().is_err(), is_found, "{name}");
        let error = contents(&checkpoint, name).unwrap_err();
        assert!(error.message().contains(path), "{error:?}");
        std::fs::write(&place, &before).unwrap();
    }
    // What could not be read was not read: whoever asked for it and went on is found out.
    let (checkpoint, _) = counted(folder.path(), &manifest.id());
    let path = &manifest.table("read").unwrap().buckets[0].parts[0].path;
    std::fs::write(folder.path().join(path), b"").unwrap();
    let failed = contents(&checkpoint, "read").unwrap_err();
    assert_eq!(checkpoint.check_unread().unwrap_err().message(), failed.message());
}

/// A table in one file of several pieces.
fn publish_long(folder: &Path) -> (Manifest, std::path::PathBuf) {
    let store = open_store(folder);
    let writer = store.begin(None).unwrap();
    let (state, table) = (keyed("t"), writer.table(keyed("t")).unwrap());
    let pairs: Vec<(i64, String)> = (0..60_000)
        .map(|key| (key, format!("a value of key {key}, which is long")))
        .collect();
    let batches = pairs
        .chunks(10_000)
        .map(|pairs| state.base_rows(&Changes::insertions(rows(pairs))));
    writer.part(table, KeyGroups::ALL, PartKind::Base, batches).unwrap();
    let manifest = writer.publish(sealed(1)).unwrap();
    let part = &manifest.tables[0].buckets[0].parts[0];
    assert!(part.length > 2 << 20, "{part:?}");
    let place = folder.join(&part.path);
    (manifest, place)
}

#[test]
fn a_long_file_is_checked_once_and_read_by_each_reader() {
    let folder = tempfile::tempdir().unwrap();
    let (manifest, _) = publish_long(folder.path());
    let (checkpoint, files) = counted(folder.path(), &manifest.id());
    let read = || checkpoint.read_table("t", KeyGroups::ALL).unwrap();
    let (mut one, mut other) = (read(), read());
    let mut batches = 0;
    while let (Some(left), Some(right)) = (one.next(), other.next()) {
        assert_eq!(left.unwrap().rows(), right.unwrap().rows());
        batches += 1;
    }
    assert_eq!((batches, files.taken()), (6, 3), "it is checked, and read twice");
    assert_eq!(contents(&checkpoint, "t").unwrap().len(), 60_000);
    checkpoint.check_unread().unwrap();
    assert_eq!(files.taken(), 1, "it is known");
}

#[test]
fn a_long_file_that_changes_while_it_is_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (manifest, place) = publish_long(folder.path());
    let bytes = std::fs::read(&place).unwrap();
    let mut random = Random(3);
    for case in 0..40 {
        let (checkpoint, _) = counted(folder.path(), &manifest.id());
        let mut read = checkpoint.read_table("t", KeyGroups::ALL).unwrap();
        let first = read.next().unwrap().unwrap();
        assert_eq!(first.len(), 10_000);
        // Behind the first batch, and before the end, which is in memory.
        let at = (bytes.len() as u64 / 4 + random.below(bytes.len() as u64 / 2)) as usize;
        let mut damaged = bytes.clone();
        match case % 4 {
            0 => damaged.truncate(at),
            1 => damaged[at..].rotate_left(1),
            _ => damaged[at] ^= 1 << random.below(8),
        }
        std::fs::write(&place, &damaged).unwrap();
        let error = read.find_map(Result::err).expect("it was changed");
        assert_eq!(error.code(), "CKPT-0002");
        assert!(error.message().contains(place.to_str().unwrap()), "{error:?}");
        std::fs::write(&place, &bytes).unwrap();
    }
}

#[test]
fn every_damage_of_a_long_file_is_named_before_any_of_it_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let (manifest, place) = publish_long(folder.path());
    let bytes = std::fs::read(&place).unwrap();
    let mut random = Random(5);
    let cuts = [0, 9, 10, 1 << 18, (1 << 18) + 1, 1 << 20, bytes.len() - 1];
    for case in 0..100 + cuts.len() {
        let mut damaged = bytes.clone();
        match case.checked_sub(100) {
            Some(cut) => damaged.truncate(cuts[cut]),
            None => damaged[random.below(bytes.len() as u64) as usize] ^= 1 << random.below(8),
        }
        std::fs::write(&place, &damaged).unwrap();
        let (checkpoint, _) = counted(folder.path(), &manifest.id());
        let first = checkpoint.read_table("t", KeyGroups::ALL).unwrap().next().unwrap();
        let error = first.expect_err("it is damaged");
        assert_eq!(error.code(), "CKPT-0002");
        assert!(error.message().contains(place.to_str().unwrap()), "{error:?}");
        assert_eq!(checkpoint.check_unread().unwrap_err().code(), "CKPT-0002");
    }
}
