//! Checkpoints that the first release wrote open for ever; the tools' tests read the same files.
//!
//! Files of a released format are never rewritten. `cargo test --workspace write_golden_checkpoints -- --ignored` makes them for a
//! new format version, where they are not there yet.

use super::round_trip::{all_types, table_of};
use super::*;
use arrow::array::Decimal128Array;
use std::path::PathBuf;

fn golden(version: u64) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/golden/checkpoints/v{version}"))
}

/// A view: `SELECT owner, sum(amount) AS total, count(*) AS n FROM orders GROUP BY owner`.
fn by_owner() -> TableState {
    let columns = Schema::new(vec![
        Field::new("owner", DataType::Utf8, true),
        Field::new("total", DataType::Decimal128(38, 2), true),
        Field::new("n", DataType::Int64, false),
    ]);
    TableState {
        columns: Arc::new(columns),
        sql_types: ["text", "numeric(38,2)", "bigint"].map(String::from).to_vec(),
        ..keyed("by_owner")
    }
}

fn aggregate() -> TableState {
    TableState {
        schema: "cenote_state".into(),
        name: "by_owner_aggregate".into(),
        kind: TableKind::State,
        view: Some("by_owner".into()),
        operator: Some("aggregate".into()),
        ..by_owner()
    }
}

fn owners(rows: &[(Option<&str>, i128, i64)]) -> RecordBatch {
    let owners: ArrayRef = Arc::new(StringArray::from_iter(rows.iter().map(|row| row.0)));
    let totals = Decimal128Array::from_iter_values(rows.iter().map(|row| row.1)).with_precision_and_scale(38, 2);
    let counts: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2)));
    RecordBatch::try_new(by_owner().columns, vec![owners, Arc::new(totals.unwrap()), counts]).unwrap()
}

const FIRST: [(Option<&str>, i128, i64); 4] = [
    (Some("ann"), 1250, 2),
    (Some("bob"), 500, 1),
    (None, 9007199254740993, 1),
    (Some(""), -1, 1),
];

fn base(writer: &Writer, state: &TableState, changes: &Changes) {
    let table = writer.table(state.clone()).unwrap();
    for groups in KeyGroups::cut(2) {
        let hashes = hash_rows(
            &state
                .key
                .iter()
                .map(|at| changes.rows().column(*at).clone())
                .collect::<Vec<_>>(),
            changes.len(),
        );
        let here: Vec<u32> = (0..changes.len() as u32)
            .filter(|row| groups.contains(key_group(hashes[*row as usize])))
            .collect();
        let taken = changes.take(&here).unwrap();
        writer
            .part(table, groups, PartKind::Base, [state.base_rows(&taken)])
            .unwrap();
    }
    let weights = (0..changes.len()).map(|row| changes.weights().get(row) as u64);
    writer.count(table, weights.sum());
}

fn orders() -> Changes {
    let pairs = [(1, "ann"), (2, "bob"), (2, "ann")].map(|(n, owner)| (n, owner.to_string()));
    Changes::new(rows(&pairs), Weights::Each(vec![1, 3, 1]))
}

/// bob is gone, ann has more, cid is new.
fn change(writer: &Writer, state: &TableState) {
    let table = writer.table(state.clone()).unwrap();
    let live = owners(&[
        (Some("ann"), 99999999999999999999999999999999999999, 3),
        (Some("cid"), 1, 1),
    ]);
    let gone: ArrayRef = Arc::new(StringArray::from(vec!["bob"]));
    for groups in KeyGroups::cut(2) {
        let keys = live.column(0).clone();
        let hashes = hash_rows(&[keys], 2);
        let here: Vec<u32> = (0..2)
            .filter(|row| groups.contains(key_group(hashes[*row as usize])))
            .collect();
        let taken = Changes::insertions(live.clone()).take(&here).unwrap();
        let mut batches = vec![state.delta_rows(&taken)];
        if groups.contains(group_of(std::slice::from_ref(&gone))) {
            batches.push(state.gone_rows(std::slice::from_ref(&gone), 1));
        }
        writer.part(table, groups, PartKind::Delta, batches).unwrap();
    }
    writer.count(table, 4);
}

#[test]
#[ignore = "makes the files for a new format version"]
fn write_golden_checkpoints() {
    let folder = golden(FORMAT);
    assert!(!folder.exists(), "files of a released format are never rewritten");
    let store = open_store(&folder);
    let writer = store.begin(None).unwrap();
    base(&writer, &by_owner(), &Changes::insertions(owners(&FIRST)));
    base(&writer, &aggregate(), &Changes::insertions(owners(&FIRST)));
    let bag = TableState {
        kind: TableKind::Table,
        ..keyless("orders")
    };
    base(&writer, &bag, &orders());
    let every = TableState {
        name: "every_type".into(),
        schema: "public".into(),
        view: None,
        operator: None,
        kind: TableKind::Table,
        ..table_of(&all_types(), vec![0], false)
    };
    base(&writer, &every, &Changes::insertions(all_types()));
    let first = writer.publish(sealed(41)).unwrap();
    store.create_savepoint("before_deploy", &first.id()).unwrap();
    let writer = store.begin(Some(&first)).unwrap();
    change(&writer, &by_owner());
    change(&writer, &aggregate());
    for (state, rows) in [(&bag, 5), (&every, 3)] {
        let table = writer.table(state.clone()).unwrap();
        KeyGroups::cut(2)
            .into_iter()
            .for_each(|groups| writer.keep(table, groups).unwrap());
        writer.count(table, rows);
    }
    writer.publish(sealed(57)).unwrap();
}

fn owners_of(checkpoint: &Checkpoint, name: &str) -> BTreeMap<Option<String>, (i128, i64)> {
    let mut found = BTreeMap::new();
    for changes in checkpoint.read_table(name, KeyGroups::ALL).unwrap() {
        let rows = changes.unwrap().rows().clone();
        let totals = rows.column(1).as_primitive::<arrow::datatypes::Decimal128Type>();
        for row in 0..rows.num_rows() {
            let owner = rows
                .column(0)
                .as_string::<i32>()
                .iter()
                .nth(row)
                .unwrap()
                .map(String::from);
            found.insert(
                owner,
                (totals.value(row), rows.column(2).as_primitive::<Int64Type>().value(row)),
            );
        }
    }
    found
}

#[test]
fn checkpoints_of_every_released_format_open() {
    for version in 1..=FORMAT {
        let checkpoints = reader(&golden(version));
        assert_eq!(checkpoints.owner().unwrap().as_deref(), Some(SERVER));
        let all = checkpoints.all().unwrap();
        let [(first, _), (second, _)] = all.as_slice() else {
            panic!("{all:?}")
        };
        assert_eq!(checkpoints.savepoints().unwrap()["before_deploy"], *first);
        let mut expected: BTreeMap<Option<String>, (i128, i64)> = FIRST
            .iter()
            .map(|(owner, total, n)| (owner.map(String::from), (*total, *n)))
            .collect();
        for (id, epoch) in [(first, 41), (second, 57)] {
            let checkpoint = checkpoints.open(id.as_str()).unwrap();
            assert_eq!(checkpoint.manifest().epoch, epoch);
            assert_eq!(checkpoint.manifest().sections, sealed(0).sections);
            assert!(checkpoint.verify().unwrap().problems.is_empty());
            for name in ["by_owner", "cenote_state.by_owner_aggregate"] {
                assert_eq!(owners_of(&checkpoint, name), expected, "version {version}, {id}");
            }
            expected.remove(&Some("bob".into()));
            expected.insert(Some("ann".into()), (99999999999999999999999999999999999999, 3));
            expected.insert(Some("cid".into()), (1, 1));
        }
        // A folder of an older format is written on.
        let copy = tempfile::tempdir().unwrap();
        restore(copy.path(), &files(&golden(version)));
        let store = open_store(copy.path());
        assert_eq!(publish(&store, "t", 60, &some_pairs(9)).sequence, 3);
        assert_eq!(
            store.collect(KEEP_ONE).unwrap().checkpoints,
            std::slice::from_ref(second)
        );
    }
}
