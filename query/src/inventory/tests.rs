//! Rows of state as rows of the inventory: which columns are read, what is written of them, in which pieces.

use super::part::StatePart;
use super::sizes::row_bytes;
use super::*;
use arrow::array::{Decimal128Array, Int64Array, ListArray, TimestampMicrosecondArray};
use arrow::datatypes::Int32Type;
use cenote_statestore::forms::json::texts_of;
use cenote_statestore::{hash_rows, key_group};
use datafusion::prelude::{col, lit};
use parking_lot::Mutex;

fn rows() -> RecordBatch {
    let totals = Decimal128Array::from(vec![Some(12_345_678_901_234_567_890_000_000_001), None]);
    let seen = TimestampMicrosecondArray::from(vec![1, 2]).with_timezone("UTC");
    let columns: [(&str, ArrayRef); 4] = [
        ("owner \"x\"", Arc::new(StringArray::from(vec!["ann", ""]))),
        ("id", Arc::new(Int64Array::from(vec![9_007_199_254_740_993, 1]))),
        ("total", Arc::new(totals.with_precision_and_scale(38, 9).unwrap())),
        ("seen", Arc::new(seen)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// A part that notes the columns that it is asked for.
fn part(asked: &Arc<Mutex<Vec<Vec<usize>>>>) -> StatePart {
    let asked = asked.clone();
    StatePart {
        view: Some("v".into()),
        operator: "aggregate".into(),
        table: "v_aggregate".into(),
        columns: rows().schema(),
        key: vec![0],
        distribution: vec![0],
        read: Arc::new(move |columns: &[usize]| {
            asked.lock().push(columns.to_vec());
            Ok(Box::new(std::iter::once(Ok(rows().project(columns)?))))
        }),
    }
}

fn read(wanted: &[Column]) -> (Vec<Vec<usize>>, Vec<RecordBatch>) {
    let asked = Arc::default();
    let places: Vec<usize> = wanted.iter().map(|column| *column as usize).collect();
    let schema = Arc::new(columns().project(&places).unwrap());
    let batches = part(&asked).rows(wanted.to_vec(), schema);
    let batches = batches.collect::<cenote_statestore::Result<Vec<_>>>().unwrap();
    let asked = asked.lock().clone();
    (asked, batches)
}

#[test]
fn key_and_value_are_json_with_every_digit() {
    let (asked, batches) = read(&[Column::Key, Column::Value]);
    assert_eq!(asked, [[0, 1, 2, 3]]);
    let text = |column: usize, row: usize| texts_of(batches[0].column(column)).value(row).to_string();
    assert_eq!(text(0, 0), r#"{"owner \"x\"":"ann"}"#);
    let value =
        r#"{"id":"9007199254740993","total":"12345678901234567890.000000001","seen":"1970-01-01T00:00:00.000001Z"}"#;
    assert_eq!(text(1, 0), value);
    assert_eq!(text(0, 1), r#"{"owner \"x\"":""}"#);
    assert_eq!(
        text(1, 1),
        r#"{"id":1,"total":null,"seen":"1970-01-01T00:00:00.000002Z"}"#
    );
}

#[test]
fn only_columns_that_an_answer_needs_are_read() {
    let (asked, batches) = read(&[Column::Table, Column::KeyGroup]);
    assert_eq!(asked, [[0]]);
    let groups = batches[0].column(1).as_primitive::<Int32Type>().values().to_vec();
    let wanted = hash_rows(&[rows().column(0).clone()], 2).into_iter().map(key_group);
    assert_eq!(groups, wanted.map(i32::from).collect::<Vec<_>>());
    let (asked, batches) = read(&[]);
    assert_eq!((asked, batches[0].num_rows()), (vec![Vec::new()], 2));
}

#[test]
fn conditions_on_names_decide_which_tables_are_read() {
    let named = |table: &str, view: Option<&str>| StatePart {
        table: table.into(),
        view: view.map(str::to_string),
        ..part(&Arc::default())
    };
    let parts = [named("a", Some("v")), named("b", None), named("c", Some("w"))];
    let picks = |filter: Expr| picked(&parts, &[filter], &ExecutionProps::new()).unwrap();
    assert_eq!(picks(col("table").eq(lit("b"))), [false, true, false]);
    assert_eq!(picks(col("view").eq(lit("v"))), [true, false, false]);
    assert_eq!(picks(col("view").is_null()), [false, true, false]);
    assert_eq!(
        picks(col("view").eq(lit("v")).or(col("table").eq(lit("b")))),
        [true, true, false]
    );
    // What is not the same for all rows of a table is not decided here.
    assert_eq!(picks(col("key_group").eq(lit(5))), [true; 3]);
    assert_eq!(
        picks(col("table").eq(lit("b")).and(col("key_group").eq(lit(5)))),
        [true; 3]
    );
}

#[test]
fn rows_are_as_large_as_their_values() {
    // 4 and the text; 8; 16; 8.
    assert_eq!(row_bytes(&rows()), [4 + 3 + 8 + 16 + 8, 4 + 8 + 16 + 8]);
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
    let batch = RecordBatch::try_from_iter([("l", Arc::new(lists) as ArrayRef)]).unwrap();
    assert_eq!(row_bytes(&batch.slice(0, 3)), [4 + 8, 4, 4]);
    assert_eq!(row_bytes(&batch.slice(1, 2)), [4, 4]);
}

#[test]
fn pieces_are_bounded_in_rows_and_in_bytes() {
    assert_eq!(part::pieces(&[1; 20_000]), [0..8192, 8192..16_384, 16_384..20_000]);
    assert_eq!(part::pieces(&[9 << 20, 1, 5 << 20, 5 << 20]), [0..1, 1..3, 3..4]);
    assert!(part::pieces(&[]).is_empty());
}
