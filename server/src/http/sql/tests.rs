//! Shape and bounds of results.

use super::*;
use arrow::array::{ArrayRef, Decimal128Array, Int64Array};
use axum::http::HeaderValue;
use cenote_statestore::Result;
use futures::stream;
use std::sync::Arc;

fn rows(batches: Vec<Result<RecordBatch>>) -> Rows {
    let schema = batch(&[]).schema();
    Rows {
        schema,
        batches: stream::iter(batches).boxed(),
        epoch: Some(Epoch(7)),
        verb: "SELECT",
    }
}

fn batch(values: &[(i64, i128)]) -> RecordBatch {
    let total = Decimal128Array::from_iter_values(values.iter().map(|value| value.1));
    let count = Int64Array::from_iter_values(values.iter().map(|value| value.0));
    let total = total.with_precision_and_scale(18, 2).unwrap();
    RecordBatch::try_from_iter([
        ("n", Arc::new(count) as ArrayRef),
        ("total", Arc::new(total) as ArrayRef),
    ])
    .unwrap()
}

#[tokio::test]
async fn result_has_columns_rows_tag_and_epoch() {
    let rows = rows(vec![Ok(batch(&[(1, 7000)])), Ok(batch(&[(2, -5)]))]);
    let json = collect(rows, Epoch(7), Numbers::Exact, 10_000).await.ok().unwrap();
    let expected = r#"{"columns":[{"name":"n","type":"bigint"},{"name":"total","type":"numeric(18,2)"}],"rows":[[1,"70.00"],[2,"-0.05"]],"tag":"SELECT 2","epoch":7}"#;
    assert_eq!(String::from_utf8(json).unwrap(), expected);
}

#[tokio::test]
async fn result_beyond_the_limit_is_refused() {
    let many = rows(vec![Ok(batch(&[(1, 1); 1000]))]);
    let error = collect(many, Epoch(7), Numbers::Exact, 500).await.err().unwrap();
    assert_eq!(error.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(error.error().code(), "HTTP-0014");
}

#[tokio::test]
async fn failure_in_the_middle_is_an_error_and_not_half_a_result() {
    let broken = Error::new(
        ErrorKind::Invalid,
        "EVAL-0002",
        "cannot evaluate expression: division by zero",
    );
    let error = collect(
        rows(vec![Ok(batch(&[(1, 1)])), Err(broken)]),
        Epoch(7),
        Numbers::Exact,
        10_000,
    )
    .await
    .err()
    .unwrap();
    assert_eq!(error.status(), StatusCode::BAD_REQUEST);
}

#[test]
fn statement_without_rows_answers_its_tag() {
    let done = command("INSERT 0 2", &["a \"note\"".to_owned()], Epoch(9));
    let expected = r#"{"columns":[],"rows":[],"tag":"INSERT 0 2","notices":["a \"note\""],"epoch":9}"#;
    assert_eq!(String::from_utf8(done.json).unwrap(), expected);
}

#[test]
fn arrow_is_answered_when_it_is_accepted() {
    let mut headers = HeaderMap::new();
    assert!(!accepts_arrow(&headers));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static("application/json, application/vnd.apache.arrow.stream;q=0.9"),
    );
    assert!(accepts_arrow(&headers));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    assert!(!accepts_arrow(&headers));
}
