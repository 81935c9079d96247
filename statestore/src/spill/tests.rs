//! Every store against a map, and typed rows against themselves.

use super::*;
use crate::{Changes, hash_rows};
use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs a test with each store of this build.
fn with_each(test: impl Fn(Arc<dyn Backend>)) {
    test(Arc::new(Map::default()));
    #[cfg(feature = "rocksdb")]
    {
        let folder = tempfile::tempdir().unwrap();
        test(Arc::new(Rocks::open(&folder.path().join("store"), 8 << 20).unwrap()));
    }
    #[cfg(feature = "slatedb")]
    {
        let folder = tempfile::tempdir().unwrap();
        let location = crate::checkpoint::Location::Folder(folder.path().join("bucket"));
        // So little that files are written, read and merged.
        let memory = ObjectMemory {
            cache_bytes: 192 << 10,
            disk_bytes: 8 << 20,
        };
        test(Arc::new(
            Objects::open(&location, "s", &folder.path().join("cache"), memory).unwrap(),
        ));
    }
}

fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |bound| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % bound
    }
}

fn entries(found: &Entries) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = 0..found.len();
    entries
        .map(|entry| (found.key(entry).to_vec(), found.value(entry).to_vec()))
        .collect()
}

#[test]
fn stores_hold_what_a_map_holds() {
    with_each(|store| {
        let mut random = random(3);
        let mut model = Model::new();
        let key_of = |number: u64| -> Vec<u8> {
            let head = [&[0, 0, 0, (number % 3) as u8][..], &(number / 7).to_be_bytes()].concat();
            [head, vec![b'x'; (number % 4) as usize]].concat()
        };
        let mut kept: Option<(Box<dyn Snapshot>, Model)> = None;
        for round in 0..200 {
            let mut writes = Writes::default();
            for _ in 0..random(40) {
                let key = key_of(random(300));
                match random(3) {
                    0 => {
                        writes.remove(&key);
                        model.remove(&key);
                    }
                    _ => {
                        let value = vec![round as u8; random(20) as usize];
                        writes.put(&key, &value);
                        model.insert(key, value);
                    }
                }
            }
            store.write(&writes).unwrap();
            let (from, until) = (key_of(random(300)), key_of(random(300)));
            if round % 20 == 19 && from < until {
                store.remove_range(&from..&until).unwrap();
                model.retain(|key, _| !(*key >= from && *key < until));
            }
            let mut found = Entries::default();
            store.scan(&from..&until, 10, &mut found).unwrap();
            let wanted: Vec<_> = model
                .iter()
                .filter(|(key, _)| **key >= from && **key < until)
                .take(10)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            assert_eq!(entries(&found), wanted, "{}: a range in round {round}", store.name());
            // All keys of one hash.
            let hash = key_of(random(300))[..12].to_vec();
            let next = u64::from_be_bytes(hash[4..].try_into().unwrap()) + 1;
            let end = [&hash[..4], &next.to_be_bytes()].concat();
            let mut found = Entries::default();
            store.scan(&hash..&end, usize::MAX, &mut found).unwrap();
            let wanted = model.iter().filter(|(key, _)| key.starts_with(&hash));
            let wanted: Vec<_> = wanted.map(|(key, value)| (key.clone(), value.clone())).collect();
            assert_eq!(entries(&found), wanted, "{}: a hash in round {round}", store.name());
            // Those of several.
            let mut hashes: Vec<Vec<u8>> = (0..random(9)).map(|_| key_of(random(300))[..12].to_vec()).collect();
            hashes.sort();
            hashes.dedup();
            let (mut ranges, mut found) = (Entries::default(), Entries::default());
            for hash in &hashes {
                let next = u64::from_be_bytes(hash[4..].try_into().unwrap()) + 1;
                ranges.push(hash, &[&hash[..4], &next.to_be_bytes()].concat());
            }
            store.scan_each(&ranges, &mut found).unwrap();
            let wanted = model
                .iter()
                .filter(|(key, _)| hashes.iter().any(|hash| key.starts_with(hash)));
            let wanted: Vec<_> = wanted.map(|(key, value)| (key.clone(), value.clone())).collect();
            assert_eq!(entries(&found), wanted, "{}: hashes in round {round}", store.name());
            let mut keys = Entries::default();
            (0..30).for_each(|_| keys.push(&key_of(random(300)), &[]));
            let (mut found, mut positions) = (Entries::default(), Vec::new());
            store.get(&keys, &mut found, &mut positions).unwrap();
            let there = (0..keys.len()).filter(|key| model.contains_key(keys.key(*key))).count();
            assert_eq!(positions.len(), there);
            for (entry, position) in positions.iter().enumerate() {
                assert_eq!(found.key(entry), keys.key(*position as usize));
                assert_eq!(found.value(entry), model[found.key(entry)]);
            }
            if let Some((snapshot, then)) = &kept {
                let mut found = Entries::default();
                snapshot.scan(&[0u8][..]..&[9u8][..], usize::MAX, &mut found).unwrap();
                let then: Vec<_> = then.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                assert_eq!(entries(&found), then, "{}: as it was", store.name());
            }
            if round % 30 == 0 {
                kept = Some((store.snapshot(), model.clone()));
            }
        }
        assert!(!model.is_empty());
    });
}

fn columns() -> arrow::datatypes::SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("name", DataType::Utf8, true),
        Field::new("rate", DataType::Float64, true),
        Field::new("value", DataType::Int64, true),
    ]))
}

fn rows(names: &[Option<&str>], rates: &[Option<f64>], values: &[i64]) -> RecordBatch {
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(names.to_vec())),
        Arc::new(Float64Array::from(rates.to_vec())),
        Arc::new(Int64Array::from(values.to_vec())),
    ];
    RecordBatch::try_new(columns(), arrays).unwrap()
}

fn put(table: &SpillTable, key: &[usize], rows: &RecordBatch) {
    let keys: Vec<ArrayRef> = key.iter().map(|column| rows.column(*column).clone()).collect();
    let mut writes = Writes::default();
    let given = SpillRows {
        rows,
        hashes: &hash_rows(&keys, rows.num_rows()),
        stamp: &|row| (row as u64 + 1, 2),
    };
    table.put(&mut writes, &given).unwrap();
    table.backend().write(&writes).unwrap();
}

#[test]
fn rows_come_back_as_they_were_and_one_takes_the_place_of_another_of_its_identity() {
    with_each(|store| {
        for identity in [vec![0], vec![1], vec![0, 1]] {
            let table = SpillTable::new(store.clone(), columns(), identity.clone()).unwrap();
            let other = SpillTable::new(store.clone(), columns(), identity.clone()).unwrap();
            let first = rows(
                &[Some("a"), None, Some(""), Some("b")],
                &[Some(0.0), Some(f64::NAN), None, Some(-1.5)],
                &[1, 2, 3, i64::MIN],
            );
            put(&table, &identity, &first);
            put(&other, &identity, &first);
            put(&table, &identity, &rows(&[Some("a")], &[Some(0.0)], &[7]));
            let keys: Vec<ArrayRef> = identity.iter().map(|column| first.column(*column).clone()).collect();
            let found = table.find(&hash_rows(&keys, 4), &keys).unwrap();
            let mut values: Vec<i64> = found.rows.column(2).to_data().buffers()[0].typed_data::<i64>().to_vec();
            values.sort();
            assert_eq!(values, [i64::MIN, 2, 3, 7], "by {identity:?}");
            assert!(found.weights.iter().all(|weight| *weight == 2));
            let mut writes = Writes::default();
            table.remove(&mut writes, &hash_rows(&keys, 4), &keys).unwrap();
            store.write(&writes).unwrap();
            assert!(
                table.find(&hash_rows(&keys, 4), &keys).unwrap().is_empty(),
                "by {identity:?}"
            );
            let there: usize = Arc::new(other).snapshot().map(|found| found.unwrap().len()).sum();
            assert_eq!(there, 4, "another table's rows");
        }
    });
}

#[test]
fn ranges_have_every_row_once_in_the_order_of_hashes() {
    with_each(|store| {
        let columns = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let table = SpillTable::new(store, columns.clone(), vec![0]).unwrap();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..500));
        let all = Changes::batch(columns, vec![numbers], 500).unwrap();
        put(&table, &[0], &all);
        for most in [1, 7, 1000] {
            let (mut halves, mut from) = (Vec::new(), Some(0));
            while let Some(at) = from {
                let (found, next) = table.range(at, None, most).unwrap();
                assert!(next.is_none_or(|next| next > at));
                halves.extend(found.hashes.iter().map(|hash| *hash as u32));
                from = next;
            }
            assert_eq!(halves.len(), 500, "{most} at once");
            assert!(halves.is_sorted());
        }
        let (found, next) = table.range(1 << 30, Some(1 << 31), 1000).unwrap();
        assert!(
            next.is_none()
                && found
                    .hashes
                    .iter()
                    .all(|hash| (1 << 30..1 << 31).contains(&(*hash as u32)))
        );
        table.clear().unwrap();
        assert!(table.range(0, None, 10).unwrap().0.is_empty());
    });
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_store_that_cannot_be_opened_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Rocks::open(&file.join("store"), 1 << 20).unwrap_err();
    assert_eq!((error.code(), error.state()), ("STATE-0501", "58030"));
}
