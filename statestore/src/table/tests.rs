use super::*;
use crate::Weights;
use crate::column::Stored;
use crate::spill::{Map, Spill};
use arrow::array::{AsArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use std::collections::BTreeMap;

mod changed;
mod load;

fn table(unique: bool, shards: usize) -> (Arc<VersionedTable>, Arc<Retention>) {
    let columns = Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Int64, true),
    ]));
    let retention = Arc::new(Retention::default());
    let schema = TableSchema {
        name: "t".into(),
        columns,
        key: vec![0],
        unique,
    };
    (
        Arc::new(VersionedTable::new(schema, shards, unique, retention.clone(), 1 << 20)),
        retention,
    )
}

/// A table whose rows leave memory when they take more than so many bytes.
fn spilling(unique: bool, shards: usize, bytes: usize) -> (Arc<VersionedTable>, Arc<Retention>) {
    let (table, retention) = table(unique, shards);
    let table = Arc::into_inner(table).unwrap();
    let spill = Spill::new(Arc::new(Map::default()), bytes);
    (Arc::new(table.with_spill(&spill).unwrap()), retention)
}

fn batch(table: &VersionedTable, rows: &[(&str, i64, i64)]) -> Changes {
    let keys: ArrayRef = Arc::new(StringArray::from(rows.iter().map(|row| row.0).collect::<Vec<_>>()));
    let values: ArrayRef = Arc::new(Int64Array::from(rows.iter().map(|row| row.1).collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(table.schema().columns.clone(), vec![keys, values]).unwrap();
    Changes::new(batch, Weights::Each(rows.iter().map(|row| row.2).collect()))
}

fn contents(table: &Arc<VersionedTable>, retention: &Arc<Retention>, epoch: u64) -> Vec<(String, i64)> {
    contents_by(3, table, retention, epoch)
}

fn contents_by(
    rows_max: usize,
    table: &Arc<VersionedTable>,
    retention: &Arc<Retention>,
    epoch: u64,
) -> Vec<(String, i64)> {
    let mut scan = table.scan(retention.pin(Epoch(epoch)).unwrap(), vec![0, 1], 0..table.shards());
    let mut rows = Vec::new();
    while let Some(batch) = scan.next_batch(rows_max).unwrap() {
        let (keys, values) = (
            batch.column(0).as_string::<i32>(),
            batch.column(1).as_primitive::<Int64Type>(),
        );
        rows.extend((0..batch.num_rows()).map(|row| (keys.value(row).to_string(), values.value(row))));
    }
    rows.sort();
    rows
}

#[test]
fn every_retained_epoch_is_read_as_it_was() {
    let (table, retention) = table(true, 1);
    table
        .apply(0, Epoch(1), &batch(&table, &[("a", 1, 1), ("b", 2, 1)]))
        .unwrap();
    table
        .apply(0, Epoch(2), &batch(&table, &[("a", 10, 1), ("a", 1, -1)]))
        .unwrap();
    table.apply(0, Epoch(4), &batch(&table, &[("b", 2, -1)])).unwrap();
    assert_eq!(contents(&table, &retention, 0), vec![]);
    assert_eq!(contents(&table, &retention, 1), vec![("a".into(), 1), ("b".into(), 2)]);
    assert_eq!(contents(&table, &retention, 3), vec![("a".into(), 10), ("b".into(), 2)]);
    assert_eq!(contents(&table, &retention, 4), vec![("a".into(), 10)]);
    let keys: Vec<ArrayRef> = vec![Arc::new(StringArray::from(vec!["b", "a"]))];
    let found = table.lookup(&keys, &retention.pin(Epoch(2)).unwrap()).unwrap();
    assert_eq!(found.key_of_row, vec![0, 1]);
    assert_eq!(found.rows.column(1).as_primitive::<Int64Type>().values(), &[2, 10]);
}

#[test]
fn rows_of_a_multiset_are_counted() {
    let (table, retention) = table(false, 1);
    table
        .apply(0, Epoch(1), &batch(&table, &[("a", 1, 5), ("a", 1, -1), ("b", 1, 1)]))
        .unwrap_err();
    let (table, _) = (super::tests::table(false, 1).0, ());
    table
        .apply(0, Epoch(1), &batch(&table, &[("a", 1, 5), ("b", 1, 1)]))
        .unwrap();
    table.apply(0, Epoch(2), &batch(&table, &[("a", 1, -3)])).unwrap();
    assert_eq!(contents(&table, &retention, 1).len(), 6);
    assert_eq!(
        contents(&table, &retention, 2),
        vec![("a".into(), 1), ("a".into(), 1), ("b".into(), 1)]
    );
}

#[test]
fn deleting_what_is_not_there_is_a_bug_and_not_a_silence() {
    let (table, _) = table(true, 1);
    let error = table.apply(0, Epoch(1), &batch(&table, &[("a", 1, -1)])).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Bug);
}

#[test]
fn history_gives_net_changes_until_it_is_dropped() {
    let (table, retention) = table(true, 1);
    for epoch in 1..=5u64 {
        table
            .apply(0, Epoch(epoch), &batch(&table, &[(&format!("k{epoch}"), 1, 1)]))
            .unwrap();
    }
    let epochs: Vec<u64> = table
        .changes(Epoch(2), Epoch(4))
        .unwrap()
        .iter()
        .map(|(epoch, _)| epoch.0)
        .collect();
    assert_eq!(epochs, vec![3, 4]);
    retention.keep_from(Epoch(4));
    table.apply(0, Epoch(6), &batch(&table, &[("k6", 1, 1)])).unwrap();
    assert_eq!(
        table.changes(Epoch(2), Epoch(6)).unwrap_err().kind(),
        crate::ErrorKind::Expired
    );
    assert_eq!(table.changes(Epoch(4), Epoch(6)).unwrap().len(), 2);
}

#[test]
fn a_follower_keeps_changes_it_has_not_read_but_no_versions() {
    let (table, retention) = table(true, 1);
    let insert = |key: &str| batch(&table, &[(key, 1, 1)]);
    table.apply(0, Epoch(1), &insert("a")).unwrap();
    let mut follower = table.follow(Epoch(1)).unwrap();
    table.apply(0, Epoch(2), &batch(&table, &[("a", 1, -1)])).unwrap();
    retention.keep_from(Epoch(2));
    table.apply(0, Epoch(3), &insert("b")).unwrap();
    assert_eq!(table.changes(Epoch(1), Epoch(3)).unwrap().len(), 2);
    assert_eq!(table.statistics().versions, 1, "the deleted row is gone");
    follower.advance(Epoch(3));
    retention.keep_from(Epoch(4));
    table.apply(0, Epoch(4), &insert("c")).unwrap();
    assert!(table.changes(Epoch(1), Epoch(4)).is_err());
    assert_eq!(table.changes(follower.epoch(), Epoch(4)).unwrap().len(), 1);
    assert_eq!(table.follow(Epoch(1)).unwrap_err().kind(), crate::ErrorKind::Expired);
}

/// A model: all versions by epoch in ordered maps.
#[test]
fn random_changes_agree_with_a_model_while_versions_are_dropped() {
    let kinds = [(true, 1), (true, 3), (false, 1)];
    let memories = [None, Some(0), Some(2000)];
    for ((unique, shards), memory) in kinds.iter().flat_map(|kind| memories.map(|memory| (*kind, memory))) {
        let (table, retention) = match memory {
            None => table(unique, shards),
            Some(bytes) => spilling(unique, shards, bytes),
        };
        // A table with an index keeps its rows in memory.
        let indexed_from = if memory.is_some() { 250 } else { 50 };
        let mut seed = 7u64;
        let mut random = move |bound: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % bound
        };
        let mut model: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        let mut past: BTreeMap<u64, Vec<(String, i64)>> = BTreeMap::new();
        let mut copy = Copy::default();
        for epoch in 1..=300u64 {
            let mut net: BTreeMap<(String, i64), i64> = BTreeMap::new();
            for _ in 0..random(8) {
                let key = format!("key number {}", random(20));
                let old = model.get(&key).copied();
                let new = (random(3) > 0).then(|| (if unique { random(5) as i64 } else { 0 }, 1 + random(3) as i64));
                if let Some((value, weight)) = old {
                    *net.entry((key.clone(), value)).or_default() -= if unique { 1 } else { weight };
                }
                match new {
                    Some((value, weight)) => {
                        *net.entry((key.clone(), value)).or_default() += if unique { 1 } else { weight };
                        model.insert(key, (value, weight));
                    }
                    None => {
                        model.remove(&key);
                    }
                }
            }
            for ((key, value), weight) in net
                .into_iter()
                .filter(|(_, weight)| *weight < 0)
                .collect::<Vec<_>>()
                .into_iter()
                .chain(Vec::new())
            {
                let changes = batch(&table, &[(&key, value, weight)]);
                table
                    .apply(shard_for(&table, &changes), Epoch(epoch), &changes)
                    .unwrap();
            }
            let expected: Vec<(String, i64)> = model
                .iter()
                .flat_map(|(key, (value, weight))| {
                    std::iter::repeat_n((key.clone(), *value), if unique { 1 } else { *weight as usize })
                })
                .collect();
            catch_up(&table, &retention, epoch, &expected);
            past.insert(epoch, expected);
            if epoch > 10 {
                retention.keep_from(Epoch(epoch - 10));
            }
            if epoch == indexed_from {
                table.create_index(vec![1]).unwrap();
            }
            if epoch == 20 {
                table.keep_deletions(Epoch(epoch));
                copy.epoch = epoch;
                copy.begin(unique, &past[&epoch]);
            } else if epoch > 20 && random(4) == 0 {
                let to = copy.epoch.max(epoch - random(3));
                copy.go_on(&table, &retention, to);
                assert_eq!(copy.contents(unique), past[&to], "the copy at {to}, seen at {epoch}");
            }
            for back in [epoch, epoch.saturating_sub(4)] {
                if let Some(expected) = past.get(&back) {
                    let at = format!("epoch {back} seen at {epoch}");
                    assert_eq!(&contents(&table, &retention, back), expected, "{at}");
                    if epoch >= indexed_from {
                        assert_eq!(&by_value(&table, &retention, back), expected, "{at}, by the index");
                    }
                }
            }
        }
        let statistics = table.statistics();
        assert!(
            statistics.versions < 20 + 10 * 8 * 2 + 20,
            "{} versions are held",
            statistics.versions
        );
    }
}

/// A table that is kept by deltas alone: rows by identity, with their values and multiplicities.
#[derive(Clone, Default)]
struct Copy {
    epoch: u64,
    rows: BTreeMap<(String, i64), (i64, i64)>,
}

impl Copy {
    fn begin(&mut self, unique: bool, rows: &[(String, i64)]) {
        for (key, value) in rows {
            let identity = (key.clone(), if unique { 0 } else { *value });
            self.rows.entry(identity).or_insert((*value, 0)).1 += 1;
        }
    }

    fn go_on(&mut self, table: &Arc<VersionedTable>, retention: &Arc<Retention>, epoch: u64) {
        self.read(table, retention, epoch);
        table.drop_deletions(Epoch(epoch));
    }

    fn read(&mut self, table: &Arc<VersionedTable>, retention: &Arc<Retention>, epoch: u64) {
        let delta = table.delta(Epoch(self.epoch), retention.pin(Epoch(epoch)).unwrap());
        let unique = table.schema().unique;
        let mut named = std::collections::BTreeSet::new();
        for rows in delta.expect("deletions are kept") {
            let (rows, weights) = match rows.unwrap() {
                DeltaRows::There(changes) => (changes.rows().clone(), Some(changes.weights().clone())),
                DeltaRows::Gone(rows) => (rows, None),
            };
            let keys = rows.column(0).as_string::<i32>();
            for row in 0..rows.num_rows() {
                let value = rows
                    .columns()
                    .get(1)
                    .map(|values| values.as_primitive::<Int64Type>().value(row));
                let identity = (keys.value(row).to_string(), if unique { 0 } else { value.unwrap() });
                assert!(named.insert(identity.clone()), "{identity:?} is named twice");
                match &weights {
                    Some(weights) => self.rows.insert(identity, (value.unwrap(), weights.get(row))),
                    None => self.rows.remove(&identity),
                };
            }
        }
        self.epoch = epoch;
    }

    fn contents(&self, unique: bool) -> Vec<(String, i64)> {
        let rows = self.rows.iter();
        let mut rows: Vec<(String, i64)> = rows
            .flat_map(|((key, _), (value, weight))| {
                let times = if unique { 1 } else { *weight as usize };
                std::iter::repeat_n((key.clone(), *value), times)
            })
            .collect();
        rows.sort();
        rows
    }
}

#[test]
fn deletions_are_given_up_where_they_are_more_than_what_is_left() {
    let (table, retention) = table(true, 1);
    let long = "x".repeat(1000);
    let keys: Vec<String> = (0..3000).map(|key| format!("{key}{long}")).collect();
    let rows = |weight| -> Vec<(&str, i64, i64)> { keys.iter().map(|key| (key.as_str(), 1, weight)).collect() };
    table.apply(0, Epoch(1), &batch(&table, &rows(1))).unwrap();
    table.keep_deletions(Epoch(1));
    let delta = |to| table.delta(Epoch(1), retention.pin(Epoch(to)).unwrap());
    table.apply(0, Epoch(2), &batch(&table, &rows(-1)[..10])).unwrap();
    assert!(delta(2).is_some());
    table.apply(0, Epoch(3), &batch(&table, &rows(-1)[10..])).unwrap();
    assert!(delta(3).is_none(), "a megabyte or two of deletions");
    table.keep_deletions(Epoch(3));
    assert!(delta(3).is_none(), "those before are gone");
}

/// All rows, found by an index over the second column.
fn by_value(table: &Arc<VersionedTable>, retention: &Arc<Retention>, epoch: u64) -> Vec<(String, i64)> {
    let values: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..6))];
    let pin = retention.pin(Epoch(epoch)).unwrap();
    let rows = table.lookup_index(0, &values, &pin).unwrap().unwrap().rows;
    let keys = rows.column(0).as_string::<i32>().iter().flatten().map(String::from);
    let numbers = rows.column(1).as_primitive::<Int64Type>().values().iter().copied();
    let mut rows: Vec<(String, i64)> = keys.zip(numbers).collect();
    rows.sort();
    rows
}

fn shard_for(table: &VersionedTable, changes: &Changes) -> usize {
    let keys: Vec<ArrayRef> = table
        .schema()
        .identity()
        .iter()
        .map(|i| changes.rows().column(*i).clone())
        .collect();
    if table.shards() == 1 {
        0
    } else {
        shard_of(hash_rows(&keys, 1)[0], table.shards())
    }
}

/// Inserts what the model has and the table lacks.
fn catch_up(table: &Arc<VersionedTable>, retention: &Arc<Retention>, epoch: u64, expected: &[(String, i64)]) {
    let mut missing: BTreeMap<(String, i64), i64> = BTreeMap::new();
    expected
        .iter()
        .for_each(|row| *missing.entry(row.clone()).or_default() += 1);
    contents(table, retention, epoch)
        .into_iter()
        .for_each(|row| *missing.entry(row).or_default() -= 1);
    for ((key, value), weight) in missing.into_iter().filter(|(_, weight)| *weight != 0) {
        let changes = batch(table, &[(&key, value, weight)]);
        table.apply(shard_for(table, &changes), Epoch(epoch), &changes).unwrap();
    }
}

/// Whoever writes a table reads it at the last epoch of all.
#[test]
fn what_was_deleted_is_not_seen_at_the_last_epoch_there_can_be() {
    for unique in [true, false] {
        let (table, retention) = table(unique, 1);
        let rows: Vec<(String, i64)> = (0..5000).map(|row| (format!("key {row}"), row)).collect();
        let all = |weight| -> Vec<(&str, i64, i64)> {
            rows.iter().map(|(key, value)| (key.as_str(), *value, weight)).collect()
        };
        table.apply(0, Epoch(1), &batch(&table, &all(1))).unwrap();
        assert_eq!(contents_by(10_000, &table, &retention, u64::MAX).len(), 5000);
        table.apply(0, Epoch(2), &batch(&table, &all(-1)[..4900])).unwrap();
        assert_eq!(contents_by(10_000, &table, &retention, u64::MAX).len(), 100);
        retention.keep_from(Epoch(3));
        table.apply(0, Epoch(3), &batch(&table, &all(-1)[4900..])).unwrap();
        assert_eq!(contents_by(10_000, &table, &retention, u64::MAX), []);
    }
}

#[test]
fn a_unique_key_finds_the_version_of_each_epoch() {
    let (_, retention) = table(true, 1);
    let by_key = table(true, 1).0;
    let keys = vec![UniqueKey {
        name: "t_value_key".into(),
        columns: vec![1],
    }];
    let table = VersionedTable::new(by_key.schema().clone(), 1, true, retention.clone(), 0).with_keys(None, keys);
    let apply = |epoch, rows: &[(&str, i64, i64)]| table.apply(0, Epoch(epoch), &batch(&table, rows)).unwrap();
    let values: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![Some(1), Some(2), None]))];
    let keys_at = |epoch| {
        let found = table
            .lookup_unique(0, &values, &retention.pin(Epoch(epoch)).unwrap())
            .unwrap();
        let keys = found.rows.column(0).as_string::<i32>().iter().flatten();
        let keys: Vec<String> = keys.map(String::from).collect();
        found.key_of_row.into_iter().zip(keys).collect::<Vec<_>>()
    };
    let shown = |rows: &[(usize, &str)]| rows.iter().map(|(at, key)| (*at, key.to_string())).collect::<Vec<_>>();
    apply(1, &[("a", 1, 1), ("b", 2, 1)]);
    apply(2, &[("a", 1, -1), ("c", 1, 1)]);
    apply(3, &[("b", 2, -1), ("c", 1, -1), ("c", 2, 1)]);
    assert_eq!(keys_at(1), shown(&[(0, "a"), (1, "b")]));
    assert_eq!(keys_at(2), shown(&[(0, "c"), (1, "b")]));
    assert_eq!(keys_at(3), shown(&[(1, "c")]));
    retention.keep_from(Epoch(3));
    apply(4, &[("d", 1, 1)]);
    assert_eq!(keys_at(4), shown(&[(0, "d"), (1, "c")]));
    assert_eq!(table.newest_unique(0, &values).unwrap().key_of_row, [0, 1]);
}

#[test]
fn an_index_made_late_has_every_version_and_each_row_as_often_as_it_counts() {
    let (table, retention) = table(false, 2);
    let apply = |shard, epoch, rows: &[(&str, i64, i64)]| {
        table.apply(shard, Epoch(epoch), &batch(&table, rows)).unwrap();
    };
    apply(0, 1, &[("a", 1, 2), ("b", 2, 1)]);
    apply(1, 1, &[("c", 1, 1)]);
    apply(0, 2, &[("a", 1, -1), ("d", 1, 1)]);
    let index = table.create_index(vec![1]).unwrap();
    apply(1, 3, &[("c", 1, -1), ("e", 1, 1)]);
    let values: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![Some(1), None]))];
    let keys_at = |epoch| {
        let pin = retention.pin(Epoch(epoch)).unwrap();
        let found = table.lookup_index(index, &values, &pin).unwrap().unwrap();
        let mut keys: Vec<String> = found
            .rows
            .column(0)
            .as_string::<i32>()
            .iter()
            .flatten()
            .map(String::from)
            .collect();
        keys.sort();
        keys.join("")
    };
    assert_eq!(
        (keys_at(1), keys_at(2), keys_at(3)),
        ("aac".into(), "acd".into(), "ade".into())
    );
    table.drop_index(index);
    assert!(
        table
            .lookup_index(index, &values, &retention.pin(Epoch(3)).unwrap())
            .unwrap()
            .is_none()
    );
    assert!(table.indexes().is_empty());
}

/// Rows enough for runs, with gaps of every size among them, read in batches of several sizes.
#[test]
fn a_scan_reads_runs_and_gaps_alike() {
    for unique in [true, false] {
        let (table, retention) = table(unique, 1);
        let names: Vec<String> = (0..20_000).map(|number| format!("k{number}")).collect();
        let rows = |keep: &dyn Fn(usize) -> bool, weight| {
            let kept = names.iter().enumerate().filter(|(number, _)| keep(*number));
            kept.map(|(number, name)| (name.as_str(), number as i64, weight))
                .collect::<Vec<_>>()
        };
        let gone = |number: usize| {
            number == 3_000 || (9_000..9_100).contains(&number) || number > 12_000 && number.is_multiple_of(7)
        };
        let twice = |number: usize| !unique && (number == 17 || number == 6_001);
        let heavy = |number: usize| !unique && number == 5_000;
        let mut first = rows(&|_| true, 1);
        first.extend(rows(&heavy, 1));
        table.apply(0, Epoch(1), &batch(&table, &first)).unwrap();
        let mut changes = rows(&gone, -1);
        changes.extend(rows(&twice, 1));
        table.apply(0, Epoch(2), &batch(&table, &changes)).unwrap();
        let expected = |epoch: u64| -> Vec<(String, i64)> {
            let times = |number: usize| match epoch {
                1 => 1 + usize::from(heavy(number)),
                _ => usize::from(!gone(number)) + usize::from(twice(number) || heavy(number)),
            };
            let each = names.iter().enumerate();
            let mut rows: Vec<_> = each
                .flat_map(|(number, name)| std::iter::repeat_n((name.clone(), number as i64), times(number)))
                .collect();
            rows.sort();
            rows
        };
        for (epoch, rows_max) in [(1, 8192), (2, 8192), (2, 2500), (1, 100), (2, 1_000_000)] {
            let mut scan = table.scan(retention.pin(Epoch(epoch)).unwrap(), vec![0, 1], 0..1);
            let mut rows = Vec::new();
            while let Some(batch) = scan.next_batch(rows_max).unwrap() {
                assert!((1..=rows_max).contains(&batch.num_rows()));
                let (keys, values) = (
                    batch.column(0).as_string::<i32>(),
                    batch.column(1).as_primitive::<Int64Type>(),
                );
                rows.extend((0..batch.num_rows()).map(|row| (keys.value(row).to_string(), values.value(row))));
            }
            rows.sort();
            assert!(
                rows == expected(epoch),
                "epoch {epoch} in batches of {rows_max}, unique {unique}"
            );
        }
    }
}

#[test]
fn one_row_is_read_where_it_lies() {
    for shards in [1, 3] {
        let (table, retention) = table(true, shards);
        for (epoch, rows) in [
            (1, [("a", 1, 1)]),
            (2, [("a", 1, -1)]),
            (2, [("a", 5, 1)]),
            (3, [("a", 5, -1)]),
        ] {
            let changes = batch(&table, &rows);
            table
                .apply(shard_for(&table, &changes), Epoch(epoch), &changes)
                .unwrap();
        }
        let read = |key: &str, epoch| {
            let key: Vec<ArrayRef> = vec![Arc::new(StringArray::from(vec![key]))];
            table.read_one(&key, Epoch(epoch), |row| match (row.stored(0), row.stored(1)) {
                (Stored::Bytes(key), Stored::Long(value)) => (String::from_utf8_lossy(key).into_owned(), value),
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(read("a", 1).unwrap(), Some(("a".into(), 1)));
        assert_eq!(read("a", 2).unwrap(), Some(("a".into(), 5)));
        assert_eq!(
            (read("a", 3).unwrap(), read("b", 1).unwrap(), read("a", 0).unwrap()),
            (None, None, None)
        );
        retention.keep_from(Epoch(3));
        let changes = batch(&table, &[("a", 7, 1)]);
        table.apply(shard_for(&table, &changes), Epoch(4), &changes).unwrap();
        assert_eq!(read("a", 2).unwrap_err().kind(), crate::ErrorKind::Expired);
        assert_eq!(read("a", 4).unwrap(), Some(("a".into(), 7)));
    }
}
