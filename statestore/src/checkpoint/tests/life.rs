//! A life of a server whose files or objects fail, and what must hold after it.

use super::*;
use std::collections::BTreeSet;

/// Opens the checkpoints there as their server.
pub(in crate::checkpoint) fn open_on(blobs: Arc<dyn Blobs>) -> Result<Store> {
    Store::open(blobs, SERVER, "0.1.0-test")
}

pub(in crate::checkpoint) type Contents = BTreeMap<i64, String>;

/// Lays one row over a checkpoint, and writes a second table in full.
pub(in crate::checkpoint) fn lay(store: &Store, previous: &Manifest, epoch: u64) -> Result<Manifest> {
    let writer = store.begin(Some(previous))?;
    let (state, other) = (keyed("t"), keyed("other"));
    let table = writer.table(state.clone())?;
    let key = epoch as i64;
    for groups in KeyGroups::cut(4) {
        match groups.contains(group_of_key(key)) {
            true => {
                let row = rows(&[(key, format!("epoch {epoch}"))]);
                writer.part(
                    table,
                    groups,
                    PartKind::Delta,
                    [state.delta_rows(&Changes::insertions(row))],
                )?;
            }
            false => writer.keep(table, groups)?,
        }
    }
    let table = writer.table(other.clone())?;
    let all = other.base_rows(&Changes::insertions(rows(&some_pairs(500))));
    writer.part(table, KeyGroups::ALL, PartKind::Base, [all])?;
    writer.publish(sealed(epoch))
}

pub(in crate::checkpoint) fn expected(epochs: &[u64]) -> Contents {
    let mut contents: Contents = some_pairs(20).into_iter().collect();
    contents.extend(epochs.iter().map(|epoch| (*epoch as i64, format!("epoch {epoch}"))));
    contents
}

/// What a life under faults got done before its first error.
#[derive(Default)]
pub(in crate::checkpoint) struct Life {
    pub(in crate::checkpoint) published: bool,
    pub(in crate::checkpoint) named: bool,
    pub(in crate::checkpoint) error: Option<Error>,
}

pub(in crate::checkpoint) fn live(blobs: Arc<dyn Blobs>, previous: &Manifest) -> Life {
    let mut life = Life::default();
    let outcome = open_on(blobs).and_then(|store| {
        let manifest = lay(&store, previous, 3)?;
        life.published = true;
        store.create_savepoint("second", &manifest.id())?;
        life.named = true;
        store.collect(KEEP_ONE)?;
        store.drop_savepoint("second")
    });
    life.error = outcome.err();
    life
}

/// Looks without faults: what was there is whole, and the newest is what was told.
pub(in crate::checkpoint) fn judge(
    blobs: &Arc<dyn Blobs>,
    first: &Manifest,
    second: &Manifest,
    life: &Life,
    case: &str,
) -> Manifest {
    let reader = Checkpoints::new(blobs.clone());
    let newest = reader.newest_whole(Depth::Checksums).unwrap();
    assert!(newest.damaged.is_empty(), "{case}: {:?}", newest.damaged);
    let newest = newest.whole.unwrap_or_else(|| panic!("{case}: nothing is left"));
    let found = contents(&newest, "t").unwrap();
    match newest.manifest().id() == second.id() {
        true => {
            assert!(!life.published, "{case}: a published checkpoint is gone");
            assert_eq!(found, expected(&[2]), "{case}");
        }
        false => assert_eq!(found, expected(&[2, 3]), "{case}"),
    }
    // The savepoint keeps the first one.
    assert_eq!(reader.savepoints().unwrap()["first"], first.id(), "{case}");
    let first = reader.open(first.id().as_str()).unwrap();
    assert_eq!(contents(&first, "t").unwrap(), expected(&[]), "{case}");
    assert!(first.verify().unwrap().problems.is_empty(), "{case}");
    newest.manifest().clone()
}

/// The next life is good, and leaves nothing behind of what failed.
pub(in crate::checkpoint) fn go_on(blobs: &Arc<dyn Blobs>, newest: &Manifest, case: &str) {
    let store = open_on(blobs.clone()).unwrap();
    let manifest = lay(&store, newest, 4).unwrap_or_else(|error| panic!("{case}: {error:?}"));
    assert!(manifest.order() > newest.order(), "{case}");
    if store.checkpoints().savepoints().unwrap().contains_key("second") {
        store.drop_savepoint("second").unwrap();
    }
    store.collect(KEEP_ONE).unwrap();
    let left = store.checkpoints().all().unwrap();
    assert_eq!(left.len(), 2, "{case}");
    let mut needed: BTreeSet<String> = [OWNER.to_string(), "savepoints/first.json".to_string()].into();
    for (id, kept) in left {
        needed.insert(format!("{id}/manifest.json"));
        needed.extend(kept.unwrap().parts().map(|part| part.path.clone()));
    }
    let left = blobs.list(None).unwrap();
    let left = left.iter().map(|found| found.path.to_string());
    assert_eq!(left.collect::<BTreeSet<_>>(), needed, "{case}");
    let newest = store.checkpoints().open(manifest.id().as_str()).unwrap();
    assert!(newest.verify().unwrap().problems.is_empty(), "{case}");
    assert_eq!(contents(&newest, "t").unwrap()[&4], "epoch 4", "{case}");
}

/// What is there before the faults: a checkpoint with a savepoint, and one upon it.
pub(in crate::checkpoint) fn before(blobs: &Arc<dyn Blobs>) -> (Manifest, Manifest) {
    let store = open_on(blobs.clone()).unwrap();
    let first = publish(&store, "t", 1, &some_pairs(20));
    store.create_savepoint("first", &first.id()).unwrap();
    let second = lay(&store, &first, 2).unwrap();
    (first, second)
}
