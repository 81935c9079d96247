//! The text of events.

use super::*;
use crate::encode::Numbers;
use arrow::array::{ArrayRef, Int64Array, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use axum::http::HeaderValue;
use futures::{StreamExt, stream};
use std::sync::Arc;
use std::time::Duration;

fn batch(changes: &[(u64, i64, &str)]) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("epoch", DataType::UInt64, false),
        Field::new("weight", DataType::Int64, false),
        Field::new("usr", DataType::Utf8, false),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(changes.iter().map(|change| change.0))),
        Arc::new(Int64Array::from_iter_values(changes.iter().map(|change| change.1))),
        Arc::new(StringArray::from_iter_values(changes.iter().map(|change| change.2))),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn change_stream(batches: Vec<Result<RecordBatch>>) -> ChangeStream {
    ChangeStream {
        schema: batch(&[]).schema(),
        batches: stream::iter(batches).boxed(),
    }
}

async fn text_of(stream: ChangeStream, complete: Option<Epoch>, stopping: watch::Receiver<bool>) -> String {
    let events = Events {
        lines: ChangeLines::new(&stream.schema, Numbers::Exact),
        complete,
    };
    let (target, body) = channel(Duration::from_secs(60));
    tokio::spawn(send(events, stream, target, stopping));
    String::from_utf8(axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap()
}

fn running() -> (watch::Sender<bool>, watch::Receiver<bool>) {
    watch::channel(false)
}

#[tokio::test]
async fn only_the_last_event_of_an_epoch_carries_its_id() {
    let (_sender, stopping) = running();
    let stream = change_stream(vec![Ok(batch(&[(5, 1, "ann"), (5, 1, "bob"), (6, -1, "ann")]))]);
    let expected = "id: 4\n\n\
        data: {\"epoch\":5,\"weight\":1,\"row\":{\"usr\":\"ann\"}}\n\n\
        id: 5\ndata: {\"epoch\":5,\"weight\":1,\"row\":{\"usr\":\"bob\"}}\n\n\
        id: 6\ndata: {\"epoch\":6,\"weight\":-1,\"row\":{\"usr\":\"ann\"}}\n\n";
    assert_eq!(text_of(stream, Some(Epoch(4)), stopping).await, expected);
}

#[tokio::test]
async fn cut_reader_is_told_where_to_resume() {
    let (_sender, stopping) = running();
    let cut = Error::new(
        ErrorKind::Expired,
        "STATE-0104",
        "cannot send changes: the reader is too slow",
    );
    let stream = change_stream(vec![Ok(batch(&[(5, 1, "ann")])), Err(cut)]);
    let text = text_of(stream, Some(Epoch(4)), stopping).await;
    let (_, data) = text.split_once("event: error\ndata: ").expect("an error event");
    let data: serde_json::Value = serde_json::from_str(data.trim()).unwrap();
    assert_eq!(data["error"]["code"], "STATE-0104");
    assert_eq!(data["resume_from_epoch"], 5);
}

#[tokio::test]
async fn readers_are_told_of_a_shutdown() {
    let (sender, stopping) = running();
    let endless = ChangeStream {
        schema: batch(&[]).schema(),
        batches: stream::pending().boxed(),
    };
    let text = tokio::spawn(text_of(endless, Some(Epoch(9)), stopping));
    tokio::task::yield_now().await;
    sender.send(true).unwrap();
    let text = text.await.unwrap();
    assert!(
        text.contains("57P01") && text.contains("\"resume_from_epoch\":9"),
        "{text}"
    );
}

#[test]
fn last_event_id_must_be_an_epoch() {
    let mut headers = HeaderMap::new();
    assert_eq!(last_event(&headers).ok(), Some(None));
    headers.insert("last-event-id", HeaderValue::from_static("17"));
    assert_eq!(last_event(&headers).ok(), Some(Some(Epoch(17))));
    headers.insert("last-event-id", HeaderValue::from_static("x"));
    assert!(last_event(&headers).is_err());
}
