//! The life of a folder: owners, restarts, misuse, savepoints, what is newest.

use super::*;

#[test]
fn folder_of_another_server_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    publish(&open_store(folder.path()), "t", 1, &some_pairs(3));
    let other = || Store::open(Arc::new(LocalDisk::new(folder.path())), "other", "1").unwrap_err();
    assert_eq!((other().kind(), other().code()), (ErrorKind::Invalid, "CKPT-0001"));
    // Also when only a checkpoint tells.
    std::fs::remove_file(folder.path().join(OWNER)).unwrap();
    assert_eq!(other().code(), "CKPT-0001");
    assert!(!folder.path().join(OWNER).exists());
    open_store(folder.path());
    assert_eq!(reader(folder.path()).owner().unwrap().as_deref(), Some(SERVER));
}

#[test]
fn ids_and_sequences_go_on_after_restarts_and_beside_orphans() {
    let folder = tempfile::tempdir().unwrap();
    let orphan = "99980101T000000.000Z-00000000";
    std::fs::create_dir_all(folder.path().join(orphan).join("public.t")).unwrap();
    std::fs::write(folder.path().join(orphan).join("public.t/000-255.base.0.arrow"), b"old").unwrap();
    let mut last = CheckpointId::parse(orphan).unwrap();
    for life in 1..=4 {
        let manifest = publish(&open_store(folder.path()), "t", life, &some_pairs(life as i64));
        assert_eq!(manifest.sequence, life);
        assert!(manifest.id() > last);
        last = manifest.id();
    }
    assert_eq!(reader(folder.path()).all().unwrap().len(), 4);
    let newest = reader(folder.path()).newest_whole(Depth::Checksums).unwrap();
    assert_eq!(newest.whole.unwrap().manifest().id(), last);
    assert!(newest.damaged.is_empty());
}

#[test]
fn dropped_writer_leaves_what_is_collected_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let kept = publish(&store, "t", 1, &some_pairs(50));
    let before = files(folder.path());
    let writer = store.begin(Some(&kept)).unwrap();
    let table = writer.table(keyed("t")).unwrap();
    let batch = keyed("t").base_rows(&Changes::insertions(rows(&some_pairs(5))));
    writer.part(table, KeyGroups::ALL, PartKind::Base, [batch]).unwrap();
    // In flight, it is not garbage.
    assert_eq!(store.collect(KEEP_ONE).unwrap(), Collected::default());
    assert_eq!(files(folder.path()).len(), before.len() + 1);
    drop(writer);
    assert_eq!(reader(folder.path()).all().unwrap().len(), 1);
    assert_eq!(store.collect(KEEP_ONE).unwrap().files, 1);
    assert_eq!(files(folder.path()), before);
}

#[test]
fn misuse_is_told_and_nothing_is_published() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let state = keyed("t");
    let batch = |count| state.base_rows(&Changes::insertions(rows(&some_pairs(count))));
    let begin = || {
        let writer = store.begin(None).unwrap();
        let table = writer.table(state.clone()).unwrap();
        (writer, table)
    };
    let (writer, table) = begin();
    is_bug(writer.table(state.clone()), "twice");
    is_bug(writer.keep(table, KeyGroups::ALL), "does not have it");
    is_bug(
        writer.part(table, KeyGroups::new(0, 0), PartKind::Base, [batch(100)]),
        "another bucket",
    );
    assert_eq!(writer.publish(sealed(1)).unwrap_err().code(), "CKPT-0010");
    let (writer, table) = begin();
    is_bug(
        writer.part(table, KeyGroups::ALL, PartKind::Delta, [batch(1)]),
        "other columns",
    );
    let (writer, table) = begin();
    is_bug(
        writer.part(table, KeyGroups::ALL, PartKind::Delta, []),
        "does not have it",
    );
    let (writer, table) = begin();
    writer.part(table, KeyGroups::new(0, 100), PartKind::Base, []).unwrap();
    is_bug(writer.publish(sealed(1)), "key group 101");
    let failing = Err(Error::bug("the operator stopped"));
    let (writer, table) = begin();
    is_bug(
        writer.part(table, KeyGroups::ALL, PartKind::Base, [batch(9), failing]),
        "the operator stopped",
    );
    assert_eq!(writer.publish(sealed(1)).unwrap_err().code(), "CKPT-0010");
    let bad = TableState {
        key: vec![1],
        ..state.clone()
    };
    is_bug(store.begin(None).unwrap().table(bad), "not part of its identity");
    is_bug(state.base_rows(&Changes::deletions(rows(&some_pairs(1)))), "weight");
    assert!(reader(folder.path()).all().unwrap().is_empty());
    // All of it is garbage.
    store.collect(KEEP_ONE).unwrap();
    assert_eq!(files(folder.path()).into_keys().collect::<Vec<_>>(), [OWNER]);
}

#[test]
fn table_that_changed_its_columns_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let previous = publish(&store, "t", 1, &some_pairs(10));
    let writer = store.begin(Some(&previous)).unwrap();
    let table = writer.table(keyless("t")).unwrap();
    is_bug(writer.keep(table, KeyGroups::cut(4)[0]), "does not have it");
}

#[test]
fn savepoint_keeps_its_checkpoint_until_it_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let first = publish(&store, "t", 1, &some_pairs(10));
    store.create_savepoint("before Deploy", &first.id()).unwrap();
    publish(&store, "t", 2, &some_pairs(20));
    let third = publish(&store, "t", 3, &some_pairs(30));
    assert_eq!(store.collect(KEEP_ONE).unwrap().checkpoints.len(), 1);
    let savepoints = reader(folder.path()).savepoints().unwrap();
    assert_eq!(savepoints, BTreeMap::from([("before Deploy".to_string(), first.id())]));
    let open = |manifest: &Manifest| reader(folder.path()).open(manifest.id().as_str());
    assert_eq!(contents(&open(&first).unwrap(), "t").unwrap().len(), 10);
    let again = store.create_savepoint("before Deploy", &third.id()).unwrap_err();
    assert_eq!((again.code(), again.state()), ("CKPT-0009", "42710"));
    assert_eq!(store.create_savepoint("", &third.id()).unwrap_err().state(), "42602");
    store.drop_savepoint("before Deploy").unwrap();
    assert_eq!(store.drop_savepoint("before Deploy").unwrap_err().state(), "42704");
    assert_eq!(store.collect(KEEP_ONE).unwrap().checkpoints, [first.id()]);
    assert_eq!(open(&first).unwrap_err().code(), "CKPT-0006");
    assert_eq!(
        store.create_savepoint("x", &first.id()).unwrap_err().code(),
        "CKPT-0006"
    );
    assert_eq!(contents(&open(&third).unwrap(), "t").unwrap().len(), 30);
}

#[test]
fn damaged_newest_is_told_with_the_older_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let old = publish(&store, "t", 1, &some_pairs(10));
    let mid = publish(&store, "t", 2, &some_pairs(20));
    let new = publish(&store, "t", 3, &some_pairs(30));
    let part = folder.path().join(&new.tables[0].buckets[0].parts[0].path);
    let mut bytes = std::fs::read(&part).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&part, &bytes).unwrap();
    std::fs::write(folder.path().join(mid.id().as_str()).join("manifest.json"), b"{}").unwrap();
    let newest = reader(folder.path()).newest_whole(Depth::Checksums).unwrap();
    assert_eq!(newest.whole.unwrap().manifest().id(), old.id());
    let named: Vec<_> = newest
        .damaged
        .iter()
        .map(|(id, error)| (id.clone(), error.code()))
        .collect();
    assert_eq!(named, [(new.id(), "CKPT-0002"), (mid.id(), "CKPT-0002")]);
    // Lengths do not tell that.
    let newest = reader(folder.path()).newest_whole(Depth::Lengths).unwrap();
    assert_eq!(
        (newest.whole.unwrap().manifest().id(), newest.damaged.len()),
        (new.id(), 0)
    );
    std::fs::remove_file(&part).unwrap();
    assert_eq!(
        reader(folder.path())
            .newest_whole(Depth::Lengths)
            .unwrap()
            .damaged
            .len(),
        2
    );
    // While a manifest cannot be read, nothing is deleted.
    let before = files(folder.path());
    assert_eq!(store.collect(KEEP_ONE).unwrap_err().code(), "CKPT-0011");
    assert_eq!(files(folder.path()), before);
    // With its folder gone the rest is collected.
    std::fs::remove_dir_all(folder.path().join(mid.id().as_str())).unwrap();
    assert_eq!(store.collect(KEEP_ONE).unwrap().checkpoints, [old.id()]);
}

#[cfg(unix)]
#[test]
fn links_that_lead_out_of_the_folder_are_not_followed() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let manifest = publish(&open_store(folder.path()), "t", 1, &some_pairs(100));
    let part = folder.path().join(&manifest.tables[0].buckets[0].parts[0].path);
    let elsewhere = outside.path().join("part");
    std::fs::rename(&part, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &part).unwrap();
    let checkpoint = reader(folder.path()).open(manifest.id().as_str()).unwrap();
    let error = contents(&checkpoint, "t").unwrap_err();
    assert_eq!(error.code(), "CKPT-0002");
    assert!(error.message().contains("a link leads out of the folder"), "{error}");
}

/// Files whose listings leave out what is in folders of a name.
#[derive(Debug)]
struct Hiding(&'static str);

impl Files for Hiding {}

impl DiskFiles for Hiding {
    fn entries(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        match folder.ends_with(self.0) {
            true => Ok(Vec::new()),
            false => Unsynced.entries(folder),
        }
    }
}

#[test]
fn savepoint_that_a_listing_leaves_out_keeps_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let blind = Arc::new(LocalDisk::with_files(folder.path(), Arc::new(Hiding(SAVEPOINTS))));
    let store = Store::open(blind, SERVER, "1").unwrap();
    let first = publish(&store, "t", 1, &some_pairs(10));
    store.create_savepoint("s", &first.id()).unwrap();
    publish(&store, "t", 2, &some_pairs(10));
    let before = files(folder.path());
    let error = store.collect(KEEP_ONE).unwrap_err();
    assert_eq!(error.code(), "CKPT-0011");
    assert!(error.render().contains("savepoint \"s\""), "{error:?}");
    assert_eq!(files(folder.path()), before);
    // One that somebody removed is none.
    std::fs::remove_file(folder.path().join("savepoints/s.json")).unwrap();
    assert_eq!(store.collect(KEEP_ONE).unwrap().checkpoints, [first.id()]);
}
