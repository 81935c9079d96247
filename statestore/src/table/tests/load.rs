//! Rows that a table begins with, against the same rows put in one by one.

use super::*;
use crate::ErrorKind;

/// Two tables with the same rows at epoch 5: inserted, and loaded in two parts.
fn both(unique: bool, rows: &[(&str, i64, i64)]) -> [(Arc<VersionedTable>, Arc<Retention>); 2] {
    let [inserted, loaded] = [(); 2].map(|()| table(unique, 1));
    for (table, _) in [&inserted, &loaded] {
        table.create_index(vec![1]).unwrap();
    }
    inserted.0.apply(0, Epoch(5), &batch(&inserted.0, rows)).unwrap();
    let (first, second) = rows.split_at(rows.len() / 3);
    loaded.0.begin_at(0, Epoch(5));
    loaded.0.reserve(0, rows.len());
    for part in [first, second] {
        loaded.0.load(0, Epoch(5), &batch(&loaded.0, part)).unwrap();
    }
    [inserted, loaded]
}

/// What readers see of a table at an epoch, by all ways.
fn seen(table: &Arc<VersionedTable>, retention: &Arc<Retention>, epoch: u64) -> impl PartialEq + std::fmt::Debug {
    let pin = retention.pin(Epoch(epoch)).unwrap();
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..7));
    let found = table.lookup_index(0, &[values], &pin).unwrap().unwrap();
    let mut by_value: Vec<String> = (0..found.rows.num_rows())
        .map(|row| format!("{:?}", found.rows.slice(row, 1).columns()))
        .collect();
    by_value.sort();
    let by_key = table.schema().unique.then(|| {
        let keys: ArrayRef = Arc::new(StringArray::from_iter_values(
            (0..60).map(|key| format!("key number {key}")),
        ));
        table.lookup(&[keys], &pin).unwrap().key_of_row
    });
    let rows = contents(table, retention, epoch);
    (
        rows,
        by_value,
        by_key,
        table.count(&pin).unwrap(),
        table.statistics().rows,
    )
}

#[test]
fn rows_that_were_loaded_are_as_if_they_had_been_inserted_and_change_alike() {
    for unique in [true, false] {
        let names: Vec<String> = (0..50).map(|key| format!("key number {key}")).collect();
        let weight = |key: i64| if unique { 1 } else { 1 + key % 3 };
        let rows: Vec<(&str, i64, i64)> = (0..50)
            .map(|key| (names[key as usize].as_str(), key % 7, weight(key)))
            .collect();
        let tables = both(unique, &rows);
        let later: [Vec<(&str, i64, i64)>; 3] = [
            rows[10..20]
                .iter()
                .map(|(key, value, weight)| (*key, *value, -weight))
                .collect(),
            vec![("key number 55", 3, 1), ("key number 12", 5, 1)],
            vec![("key number 12", 5, -1), ("key number 40", 40 % 7, -weight(40))],
        ];
        for (epoch, changes) in (6..).zip(&later) {
            for (table, _) in &tables {
                table.apply(0, Epoch(epoch), &batch(table, changes)).unwrap();
            }
            for at in 5..=epoch {
                let [inserted, loaded] = tables.each_ref().map(|(table, retention)| seen(table, retention, at));
                assert!(
                    inserted == loaded,
                    "unique {unique}, epoch {at} of {epoch}:\n{inserted:?}\n{loaded:?}"
                );
            }
        }
    }
}

#[test]
fn what_was_before_the_rows_that_were_loaded_is_expired() {
    let [_, (table, retention)] = both(true, &[("a", 1, 1), ("b", 2, 1), ("c", 3, 1)]);
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let error = table.lookup(&[keys], &retention.pin(Epoch(4)).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Expired);
    assert!(
        table.changes(Epoch(5), Epoch(9)).unwrap().is_empty(),
        "they are no changes"
    );
}

/// A key, a value and a weight.
type Given<'a> = (&'a str, i64, i64);

#[test]
fn a_row_that_comes_twice_or_less_than_once_is_refused() {
    let cases: [(bool, &[Given<'_>]); 6] = [
        (true, &[("a", 1, 1), ("b", 1, 1), ("a", 2, 1)]),
        (true, &[("a", 1, 2)]),
        (true, &[("a", 1, 0)]),
        (false, &[("a", 1, 1), ("a", 2, 1), ("a", 1, 3)]),
        (false, &[("a", 1, 1), ("b", 1, -1)]),
        (false, &[("a", 1, 0)]),
    ];
    for (unique, rows) in cases {
        let (table, _) = table(unique, 1);
        let error = table.load(0, Epoch(1), &batch(&table, rows)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bug, "{rows:?}");
    }
    let (table, _) = table(true, 1);
    table.load(0, Epoch(1), &batch(&table, &[("a", 1, 1)])).unwrap();
    assert!(
        table.load(0, Epoch(1), &batch(&table, &[("a", 1, 1)])).is_err(),
        "in another batch"
    );
}
