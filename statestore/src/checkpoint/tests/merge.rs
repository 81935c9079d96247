//! Chains of incremental checkpoints against a model: each one reads as the table stood when it was published.

use super::*;
use std::collections::BTreeSet;

/// A table as a map, and what changed since the last checkpoint.
#[derive(Default)]
struct Model {
    rows: BTreeMap<(i64, String), i64>,
    changed: BTreeSet<(i64, String)>,
}

impl Model {
    fn change(&mut self, random: &mut Random, multiset: bool) {
        for _ in 0..random.below(40) {
            let key = random.below(60) as i64;
            let identity = if multiset {
                (key, format!("v{}", random.below(3)))
            } else {
                (key, String::new())
            };
            match random.below(3) {
                0 => drop(self.rows.remove(&identity)),
                _ => drop(self.rows.insert(identity.clone(), 1 + random.below(5) as i64)),
            }
            self.changed.insert(identity);
        }
    }
}

/// Of a keyed table the weight is the value; of a multiset it is the weight.
fn changes_of(rows: &[(&(i64, String), i64)], multiset: bool) -> Changes {
    let value = |(identity, weight): &(&(i64, String), i64)| match multiset {
        true => (*identity).clone(),
        false => (identity.0, format!("{weight}")),
    };
    let pairs: Vec<(i64, String)> = rows.iter().map(value).collect();
    let weights = match multiset {
        true => Weights::Each(rows.iter().map(|(_, weight)| *weight).collect()),
        false => Weights::All(1),
    };
    Changes::new(super::rows(&pairs), weights)
}

fn group(identity: &(i64, String), multiset: bool) -> u8 {
    let key: ArrayRef = Arc::new(Int64Array::from(vec![identity.0]));
    let value: ArrayRef = Arc::new(StringArray::from(vec![identity.1.as_str()]));
    if multiset {
        group_of(&[key, value])
    } else {
        group_of(&[key])
    }
}

fn write(
    store: &Store,
    previous: Option<&Manifest>,
    model: &mut Model,
    random: &mut Random,
    multiset: bool,
    cut: &[KeyGroups],
) -> Manifest {
    let writer = store.begin(previous).unwrap();
    let state = if multiset { keyless("t") } else { keyed("t") };
    let table = writer.table(state.clone()).unwrap();
    for groups in cut {
        let here = |identity: &(i64, String)| groups.contains(group(identity, multiset));
        let changed: Vec<_> = model.changed.iter().filter(|identity| here(identity)).collect();
        if previous.is_some() && changed.is_empty() && random.below(2) == 0 {
            writer.keep(table, *groups).unwrap();
        } else if previous.is_none() || random.below(4) == 0 {
            let all: Vec<_> = model
                .rows
                .iter()
                .filter(|(identity, _)| here(identity))
                .map(|(i, w)| (i, *w))
                .collect();
            // Two parts, as two workers would write them.
            for half in all.chunks(all.len().div_ceil(2).max(1)) {
                writer
                    .part(
                        table,
                        *groups,
                        PartKind::Base,
                        [state.base_rows(&changes_of(half, multiset))],
                    )
                    .unwrap();
            }
            writer.part(table, *groups, PartKind::Base, []).unwrap();
        } else {
            let live: Vec<_> = changed
                .iter()
                .filter_map(|i| model.rows.get(*i).map(|w| (*i, *w)))
                .collect();
            let gone: Vec<(i64, String)> = changed
                .iter()
                .filter(|i| !model.rows.contains_key(**i))
                .map(|i| (*i).clone())
                .collect();
            let count = gone.len();
            let gone = super::rows(&gone);
            let identities = &gone.columns()[..if multiset { 2 } else { 1 }];
            let batches = [
                state.delta_rows(&changes_of(&live, multiset)),
                state.gone_rows(identities, count),
            ];
            writer.part(table, *groups, PartKind::Delta, batches).unwrap();
        }
    }
    writer.count(
        table,
        model
            .rows
            .values()
            .map(|weight| if multiset { *weight as u64 } else { 1 })
            .sum(),
    );
    model.changed.clear();
    writer.publish(sealed(random.below(100))).unwrap()
}

fn read(checkpoint: &Checkpoint, groups: KeyGroups, multiset: bool) -> BTreeMap<(i64, String), i64> {
    let mut found = BTreeMap::new();
    for changes in checkpoint.read_table("t", groups).unwrap() {
        let changes = changes.unwrap();
        let keys = changes.rows().column(0).as_primitive::<Int64Type>();
        let values = changes.rows().column(1).as_string::<i32>();
        for row in 0..changes.len() {
            let (key, value) = (keys.value(row), values.value(row).to_string());
            let (identity, weight) = match multiset {
                true => ((key, value), changes.weights().get(row)),
                false => ((key, String::new()), value.parse().unwrap()),
            };
            assert_eq!(found.insert(identity, weight), None);
        }
    }
    found
}

#[test]
fn chains_of_checkpoints_read_as_the_table_stood() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let multiset = seed % 2 == 1;
        let folder = tempfile::tempdir().unwrap();
        let store = open_store(folder.path());
        let cut = KeyGroups::cut([1, 2, 7, 256][random.below(4) as usize].min(if seed < 36 { 7 } else { 256 }));
        let (mut model, mut previous) = (Model::default(), None::<Manifest>);
        let mut published = Vec::new();
        for _ in 0..6 {
            model.change(&mut random, multiset);
            let manifest = write(&store, previous.as_ref(), &mut model, &mut random, multiset, &cut);
            assert_eq!(manifest.sequence, published.len() as u64 + 1);
            published.push((manifest.id(), model.rows.clone()));
            previous = Some(manifest);
        }
        for (id, expected) in &published {
            let checkpoint = store.checkpoints().open(id.as_str()).unwrap();
            assert_eq!(read(&checkpoint, KeyGroups::ALL, multiset), *expected, "seed {seed}");
            let verified = checkpoint.verify().unwrap();
            assert!(verified.problems.is_empty(), "seed {seed}: {:?}", verified.problems);
            for groups in [KeyGroups::new(0, 99), KeyGroups::new(100, 100), KeyGroups::new(77, 255)] {
                let mut some = expected.clone();
                some.retain(|identity, _| groups.contains(group(identity, multiset)));
                assert_eq!(read(&checkpoint, groups, multiset), some, "seed {seed}, {groups:?}");
            }
        }
    }
}

#[test]
fn bytes_written_follow_what_changed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let full = publish(&store, "t", 1, &some_pairs(20_000));
    let writer = store.begin(Some(&full)).unwrap();
    let state = keyed("t");
    let table = writer.table(state.clone()).unwrap();
    let changed = vec![(7, "changed".to_string())];
    for groups in KeyGroups::cut(4) {
        match groups.contains(group_of_key(7)) {
            true => drop(
                writer
                    .part(
                        table,
                        groups,
                        PartKind::Delta,
                        [state.delta_rows(&Changes::insertions(rows(&changed)))],
                    )
                    .unwrap(),
            ),
            false => writer.keep(table, groups).unwrap(),
        }
    }
    let next = writer.publish(sealed(2)).unwrap();
    assert_eq!(next.bytes, full.bytes + next.bytes_new);
    assert!(
        next.bytes_new * 100 < full.bytes,
        "{} of {}",
        next.bytes_new,
        full.bytes
    );
    assert_eq!(next.tables[0].parts().filter(|part| part.epoch == 2).count(), 1);
    let found = contents(&store.checkpoints().open(next.id().as_str()).unwrap(), "t").unwrap();
    assert_eq!((found.len(), found[&7].as_str()), (20_000, "changed"));
}

#[test]
fn many_batches_and_threads_make_one_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let writer = store.begin(None).unwrap();
    let state = keyed("t");
    let table = writer.table(state.clone()).unwrap();
    let pairs = some_pairs(300_000);
    std::thread::scope(|scope| {
        for groups in KeyGroups::cut(8) {
            let (writer, state, pairs) = (&writer, &state, &pairs);
            scope.spawn(move || {
                let batches = pairs.chunks(70_000).map(|chunk| {
                    let here: Vec<_> = chunk
                        .iter()
                        .filter(|(key, _)| groups.contains(group_of_key(*key)))
                        .cloned()
                        .collect();
                    state.base_rows(&Changes::insertions(rows(&here)))
                });
                writer.part(table, groups, PartKind::Base, batches).unwrap();
            });
        }
    });
    let manifest = writer.publish(sealed(1)).unwrap();
    assert_eq!(manifest.tables[0].rows, Some(300_000));
    let checkpoint = store.checkpoints().open(manifest.id().as_str()).unwrap();
    assert_eq!(contents(&checkpoint, "t").unwrap(), pairs.into_iter().collect());
}
