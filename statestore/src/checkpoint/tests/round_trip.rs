//! Every type that state can hold comes back as it was written; so do tables of odd shapes.

use super::*;
use crate::forms::json::{column_of, json_type, jsonb_type};
use crate::forms::list::array_type;
use crate::forms::uuid::UUID;
use arrow::array::*;
use arrow::datatypes::*;

/// Rows of every storable type, made to be hard. Python makes its own copy of them in `tests/e2e/test_checkpoints.py`.
pub(super) fn all_types() -> RecordBatch {
    let texts = StringArray::from(vec![Some(""), None, Some("ünïcödé \u{1f600} ' \" \\ \n")]);
    let list = |data: Vec<Option<Vec<Option<i64>>>>| ListArray::from_iter_primitive::<Int64Type, _, _>(data);
    let fields = Fields::from(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Utf8, true),
    ]);
    let struct_of = StructArray::new(
        fields,
        vec![
            Arc::new(Int64Array::from(vec![Some(1), None, None])),
            Arc::new(StringArray::from(vec![Some(""), Some("x"), None])),
        ],
        Some(vec![true, true, false].into()),
    );
    let decimals = Decimal128Array::from(vec![Some(99999999999999999999999999999999999999), None, Some(-1)]);
    let uuids = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
        [Some([0u8; 16]), None, Some([255u8; 16])].into_iter(),
        16,
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        (
            "bool",
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        ),
        (
            "i16",
            Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX)])),
        ),
        (
            "i32",
            Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX)])),
        ),
        (
            "i64",
            Arc::new(Int64Array::from(vec![Some((1 << 53) + 1), None, Some(i64::MIN)])),
        ),
        ("u64", Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(0)]))),
        (
            "f32",
            Arc::new(Float32Array::from(vec![Some(-0.0), None, Some(f32::NAN)])),
        ),
        (
            "f64",
            Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(f64::NAN)])),
        ),
        ("dec", Arc::new(decimals.with_precision_and_scale(38, 9).unwrap())),
        (
            "date",
            Arc::new(Date32Array::from(vec![Some(i32::MIN), None, Some(20_000)])),
        ),
        (
            "time",
            Arc::new(Time64MicrosecondArray::from(vec![Some(86_399_999_999), None, Some(0)])),
        ),
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(i64::MAX), None, Some(1)])),
        ),
        (
            "tstz",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None, Some(1)]).with_timezone("UTC")),
        ),
        (
            "span",
            Arc::new(IntervalMonthDayNanoArray::from(vec![
                Some(IntervalMonthDayNano::new(-1, i32::MAX, i64::MIN)),
                None,
                Some(IntervalMonthDayNano::new(0, 0, 0)),
            ])),
        ),
        ("text", Arc::new(texts.clone())),
        (
            "bytes",
            Arc::new(BinaryArray::from(vec![Some(&[][..]), None, Some(&[0, 255, 10][..])])),
        ),
        ("uuid", Arc::new(uuids.unwrap())),
        (
            "json",
            column_of(
                StringArray::from(vec![Some("{ \"a\" :1}"), None, Some("null")]),
                &json_type(),
            ),
        ),
        (
            "jsonb",
            column_of(StringArray::from(vec![Some("[]"), None, Some("\"\"")]), &jsonb_type()),
        ),
        (
            "list",
            Arc::new(list(vec![Some(vec![Some(1), None]), None, Some(vec![])])),
        ),
        ("row", Arc::new(struct_of)),
    ];
    let field = |(name, column): &(&str, ArrayRef)| match column.data_type() {
        DataType::List(_) => Field::new(*name, array_type(DataType::Int64), true),
        data_type => Field::new(*name, data_type.clone(), *name != "id"),
    };
    let fields: Vec<Field> = columns.iter().map(field).collect();
    let columns: Vec<ArrayRef> = columns.into_iter().map(|(_, column)| column).collect();
    assert!(fields.iter().all(|field| crate::storable(field.data_type())));
    assert!(fields.iter().any(|field| *field.data_type() == UUID));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

pub(super) fn table_of(batch: &RecordBatch, identity: Vec<usize>, multiset: bool) -> TableState {
    TableState {
        schema: "cenote_state".into(),
        name: "all types".into(),
        kind: TableKind::State,
        view: Some("v".into()),
        operator: Some("aggregate".into()),
        columns: batch.schema(),
        sql_types: vec![],
        key: identity.clone(),
        identity,
        multiset,
    }
}

fn written(state: &TableState, changes: &Changes, kind: PartKind) -> Vec<Changes> {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let writer = store.begin(None).unwrap();
    let table = writer.table(state.clone()).unwrap();
    let empty = state.base_rows(&Changes::empty(state.columns.clone()));
    let first = match kind {
        PartKind::Base => state.base_rows(changes),
        PartKind::Delta => empty,
    };
    writer.part(table, KeyGroups::ALL, PartKind::Base, [first]).unwrap();
    let mut manifest = writer.publish(sealed(7)).unwrap();
    if kind == PartKind::Delta {
        let writer = store.begin(Some(&manifest)).unwrap();
        let table = writer.table(state.clone()).unwrap();
        writer
            .part(table, KeyGroups::ALL, PartKind::Delta, [state.delta_rows(changes)])
            .unwrap();
        manifest = writer.publish(sealed(8)).unwrap();
    }
    let checkpoint = reader(folder.path()).open(manifest.id().as_str()).unwrap();
    assert_eq!(*checkpoint.manifest(), manifest);
    assert_eq!(manifest.tables[0].table_schema(), state.columns);
    let verified = checkpoint.verify().unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
    let read = checkpoint.read_table(&state.readable_name(), KeyGroups::ALL).unwrap();
    read.collect::<Result<_>>().unwrap()
}

/// Bit for bit: floats by their bits, which equality of arrays does not compare.
fn assert_same(a: &RecordBatch, b: &RecordBatch) {
    assert_eq!(a.schema(), b.schema());
    for (a, b) in a.columns().iter().zip(b.columns()) {
        match a.data_type() {
            DataType::Float64 => {
                let bits = |c: &ArrayRef| {
                    c.as_primitive::<Float64Type>()
                        .iter()
                        .map(|v| v.map(f64::to_bits))
                        .collect::<Vec<_>>()
                };
                assert_eq!(bits(a), bits(b));
            }
            DataType::Float32 => {
                let bits = |c: &ArrayRef| {
                    c.as_primitive::<Float32Type>()
                        .iter()
                        .map(|v| v.map(f32::to_bits))
                        .collect::<Vec<_>>()
                };
                assert_eq!(bits(a), bits(b));
            }
            _ => assert_eq!(a, b),
        }
    }
}

#[test]
fn every_type_survives_as_value_and_as_identity() {
    let batch = all_types();
    let everything: Vec<usize> = (0..batch.num_columns()).collect();
    for kind in [PartKind::Base, PartKind::Delta] {
        for (identity, multiset) in [
            (vec![0], false),
            (everything.clone(), false),
            (everything.clone(), true),
        ] {
            let state = table_of(&batch, identity, multiset);
            let weights = if multiset {
                Weights::Each(vec![1, 2, i64::MAX])
            } else {
                Weights::All(1)
            };
            let read = written(&state, &Changes::new(batch.clone(), weights.clone()), kind);
            assert_eq!(read.len(), 1);
            assert_same(read[0].rows(), &batch);
            (0..3).for_each(|row| assert_eq!(read[0].weights().get(row), weights.get(row)));
        }
    }
}

#[test]
fn tables_without_rows_and_without_columns_survive() {
    let none = RecordBatch::new_empty(Arc::new(Schema::empty()));
    for multiset in [false, true] {
        let state = table_of(&none, vec![], multiset);
        assert!(written(&state, &Changes::empty(none.schema()), PartKind::Base).is_empty());
    }
    // A sum over everything: no key, one row.
    let one = RecordBatch::try_from_iter([("sum", Arc::new(Int64Array::from(vec![5])) as ArrayRef)]).unwrap();
    let state = table_of(&one, vec![], false);
    assert_eq!(
        written(&state, &Changes::insertions(one.clone()), PartKind::Delta)[0].rows(),
        &one
    );
    // A row of no columns, seven times.
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(none.schema(), vec![], &options).unwrap();
    let state = table_of(&none, vec![], true);
    let read = written(&state, &Changes::new(row, Weights::All(7)), PartKind::Base);
    assert_eq!((read[0].len(), read[0].weights().get(0)), (1, 7));
}

#[test]
fn columns_that_cannot_be_written_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let writer = open_store(folder.path()).begin(None).unwrap();
    for (name, data_type) in [
        ("n", DataType::LargeUtf8),
        (WEIGHT, DataType::Int64),
        (DELETED, DataType::Boolean),
    ] {
        let columns = Arc::new(Schema::new(vec![Field::new(name, data_type, true)]));
        let state = TableState {
            columns,
            key: vec![],
            identity: vec![],
            ..keyed("t")
        };
        let error = writer.table(state).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Unsupported, "CKPT-0008"));
    }
}

#[test]
fn metadata_of_fields_and_sql_types_are_in_the_manifest() {
    let field = Field::new("c", DataType::Utf8, true).with_metadata([("cenote:type".into(), "char(3)".into())].into());
    let columns = Arc::new(Schema::new(vec![field]));
    let folder = tempfile::tempdir().unwrap();
    let writer = open_store(folder.path()).begin(None).unwrap();
    let sql_types = vec!["character(3)".to_string()];
    let state = TableState {
        columns: columns.clone(),
        sql_types,
        key: vec![0],
        ..keyed("t")
    };
    let table = writer.table(state).unwrap();
    writer.part(table, KeyGroups::ALL, PartKind::Base, []).unwrap();
    let manifest = writer.publish(sealed(1)).unwrap();
    assert_eq!(manifest.tables[0].table_schema(), columns);
    assert_eq!(manifest.tables[0].columns[0].sql_type.as_deref(), Some("character(3)"));
}
