//! Reading of keys and shape of answers.

use super::*;
use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use axum::response::IntoResponse;
use cenote_query::ReadableKind;
use cenote_statestore::Epoch;
use std::sync::Arc;

/// A collection `(usr TEXT, id BIGINT, n BIGINT)` with key `(usr, id)` and these rows.
pub fn found(rows: &[(&str, i64, i64)], key_of_row: Vec<usize>) -> LookupRows {
    let columns = Arc::new(Schema::new(vec![
        Field::new("usr", DataType::Utf8, false),
        Field::new("id", DataType::Int64, false),
        Field::new("n", DataType::Int64, true),
    ]));
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2))),
    ];
    let readable = Readable {
        schema_name: "public".into(),
        name: "t".into(),
        kind: ReadableKind::Table,
        columns: columns.clone(),
        key: vec![0, 1],
        key_unique: true,
        rows: 10,
        bytes: 0,
        epoch: Epoch(7),
    };
    LookupRows {
        readable,
        epoch: Epoch(7),
        rows: RecordBatch::try_new(columns, arrays).unwrap(),
        key_of_row,
    }
}

fn texts(values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|value| Some((*value).to_owned())).collect()
}

#[test]
fn key_and_columns_are_read_from_the_query() {
    let wanted = Wanted::parse(Some("key=ann&key=1&numbers=raw")).ok().unwrap();
    assert_eq!(
        wanted,
        Wanted {
            columns: vec![],
            key: texts(&["ann", "1"]),
            numbers: Numbers::Raw
        }
    );
    let wanted = Wanted::parse(Some("usr=a%26b&id=1")).ok().unwrap();
    assert_eq!(wanted.columns, ["usr", "id"]);
    assert_eq!(wanted.key, texts(&["a&b", "1"]));
}

#[test]
fn quoted_name_is_a_column_even_if_it_is_a_parameter() {
    let wanted = Wanted::parse(Some("%22key%22=1&%22numbers%22=2")).ok().unwrap();
    assert_eq!(wanted.columns, ["key", "numbers"]);
    assert_eq!(wanted.numbers, Numbers::Exact);
}

#[test]
fn key_and_columns_together_are_refused() {
    assert!(Wanted::parse(Some("key=1&usr=ann")).is_err());
    assert!(Wanted::parse(Some("key=1&numbers=many")).is_err());
}

fn body(wanted: &Wanted, found: &LookupRows) -> String {
    String::from_utf8(write_answer(found, wanted).ok().expect("an answer")).unwrap()
}

#[test]
fn unique_key_answers_one_value() {
    let wanted = Wanted::parse(Some("key=ann&key=1")).ok().unwrap();
    let expected = r#"{"name":"t","epoch":7,"key":{"usr":"ann","id":1},"value":{"usr":"ann","id":1,"n":5}}"#;
    assert_eq!(body(&wanted, &found(&[("ann", 1, 5)], vec![0])), expected);
}

#[test]
fn part_of_a_key_answers_values() {
    let wanted = Wanted::parse(Some("usr=ann")).ok().unwrap();
    let expected = r#"{"name":"t","epoch":7,"key":{"usr":"ann"},"values":[{"usr":"ann","id":1,"n":5},{"usr":"ann","id":2,"n":6}]}"#;
    assert_eq!(
        body(&wanted, &found(&[("ann", 1, 5), ("ann", 2, 6)], vec![0, 0])),
        expected
    );
}

#[tokio::test]
async fn missing_key_is_404_with_epoch_and_typed_key() {
    let wanted = Wanted::parse(Some("key=zoe&key=007")).ok().unwrap();
    let error = write_answer(&found(&[], vec![]), &wanted).err().unwrap();
    assert_eq!(error.status(), StatusCode::NOT_FOUND);
    let response = error.into_response();
    assert_eq!(response.headers()["cenote-epoch"], "7");
    let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["epoch"], 7);
    assert_eq!(body["key"], serde_json::json!({"usr": "zoe", "id": 7}));
    assert_eq!(body["error"]["sqlstate"], "02000");
}
