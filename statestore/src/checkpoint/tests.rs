//! Shared by the tests of checkpoints: tables to write, stores in folders, random numbers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};

use super::*;
use crate::wal::Files;
use crate::{Changes, Epoch, Error, ErrorKind, Result, Weights, hash_rows, key_group};

mod collect;
mod conformance;
mod damage;
mod faults;
mod golden;
mod held;
pub(in crate::checkpoint) mod life;
mod lives;
mod merge;
mod messages;
mod names;
mod round_trip;

const SERVER: &str = "5eed0000000000000000000000000001";

/// SplitMix64: the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Files whose `sync` does nothing: quick.
#[derive(Debug)]
struct Unsynced;

impl Files for Unsynced {
    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFiles for Unsynced {}

fn open_store(folder: &Path) -> Store {
    open_with(folder, Arc::new(Unsynced)).unwrap()
}

fn open_with(folder: &Path, files: Arc<dyn DiskFiles>) -> Result<Store> {
    life::open_on(Arc::new(LocalDisk::with_files(folder, files)))
}

fn reader(folder: &Path) -> Checkpoints {
    Checkpoints::new(Arc::new(LocalDisk::new(folder)))
}

fn sealed(epoch: u64) -> Sealed {
    Sealed {
        epoch: Epoch(epoch),
        kind: Kind::Checkpoint,
        catalog_version: 3,
        sections: BTreeMap::from([(
            "sources".to_string(),
            serde_json::json!({"clicks": {"offset": 9007199254740993i64}}),
        )]),
    }
}

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("v", DataType::Utf8, false),
    ]))
}

/// A keyed table of numbers and texts.
fn keyed(name: &str) -> TableState {
    TableState {
        schema: "public".into(),
        name: name.into(),
        kind: TableKind::View,
        view: None,
        operator: None,
        columns: columns(),
        sql_types: vec!["bigint".into(), "text".into()],
        key: vec![0],
        identity: vec![0],
        multiset: false,
    }
}

/// The same columns without a key.
fn keyless(name: &str) -> TableState {
    TableState {
        key: vec![0, 1],
        identity: vec![0, 1],
        multiset: true,
        ..keyed(name)
    }
}

fn rows(pairs: &[(i64, String)]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(pairs.iter().map(|(key, _)| *key)));
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(pairs.iter().map(|(_, value)| value)));
    RecordBatch::try_new(columns(), vec![keys, values]).unwrap()
}

fn group_of(columns: &[ArrayRef]) -> u8 {
    key_group(hash_rows(columns, 1)[0])
}

fn group_of_key(key: i64) -> u8 {
    group_of(&[Arc::new(Int64Array::from(vec![key]))])
}

/// Publishes one full checkpoint of a keyed table.
fn publish(store: &Store, name: &str, epoch: u64, pairs: &[(i64, String)]) -> Manifest {
    let writer = store.begin(None).unwrap();
    let state = keyed(name);
    let table = writer.table(state.clone()).unwrap();
    for groups in KeyGroups::cut(4) {
        let here: Vec<_> = pairs
            .iter()
            .filter(|(key, _)| groups.contains(group_of_key(*key)))
            .cloned()
            .collect();
        let batch = state.base_rows(&Changes::insertions(rows(&here)));
        writer.part(table, groups, PartKind::Base, [batch]).unwrap();
    }
    writer.publish(sealed(epoch)).unwrap()
}

fn some_pairs(count: i64) -> Vec<(i64, String)> {
    (0..count).map(|key| (key, format!("value {key}"))).collect()
}

/// All rows of a keyed table, by key.
fn contents(checkpoint: &Checkpoint, name: &str) -> Result<BTreeMap<i64, String>> {
    let mut found = BTreeMap::new();
    for changes in checkpoint.read_table(name, KeyGroups::ALL)? {
        let changes = changes?;
        let keys = changes.rows().column(0).as_primitive::<Int64Type>();
        let values = changes.rows().column(1).as_string::<i32>();
        for row in 0..changes.len() {
            assert_eq!(changes.weights().get(row), 1);
            let before = found.insert(keys.value(row), values.value(row).to_string());
            assert_eq!(before, None, "a key came twice");
        }
    }
    Ok(found)
}

fn is_bug<T: std::fmt::Debug>(outcome: Result<T>, part: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Bug, "{error:?}");
    assert!(error.message().contains(part), "{error:?}");
}

/// Every file below a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let disk = LocalDisk::new(folder);
    let found = disk.list(None).unwrap();
    let read = |file: &Found| {
        (
            file.path.to_string(),
            std::fs::read(folder.join(file.path.as_str())).unwrap(),
        )
    };
    found.iter().map(read).collect()
}

fn restore(folder: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for (path, bytes) in files {
        let place = folder.join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, bytes).unwrap();
    }
}

const KEEP_ONE: Keep = Keep {
    count: 1,
    age: Duration::ZERO,
};
