//! Pace, cuts and ends of streamed bodies.

use super::*;
use crate::encode::{Format, Numbers};
use arrow::array::{ArrayRef, StringArray};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const LONG: Duration = Duration::from_secs(60);

fn batch(rows: usize) -> RecordBatch {
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|_| "x".repeat(100))));
    RecordBatch::try_from_iter([("v", values)]).unwrap()
}

fn body(source: BatchStream, write_timeout: Duration) -> Body {
    let encoder = Format::Ndjson.encoder(&batch(0).schema(), Numbers::Raw).unwrap();
    rows_body(encoder, source, write_timeout, ())
}

/// A source without end that counts what was taken from it and tells when it is dropped.
fn endless(taken: Arc<AtomicUsize>, dropped: tokio::sync::oneshot::Sender<()>) -> BatchStream {
    let state = (taken, dropped);
    stream::unfold(state, |state| async {
        state.0.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        Some((Ok(batch(2_000)), state))
    })
    .boxed()
}

#[tokio::test]
async fn whole_result_arrives() {
    let source = stream::iter([Ok(batch(3)), Ok(batch(20_000))]).boxed();
    let bytes = axum::body::to_bytes(body(source, LONG), usize::MAX).await.unwrap();
    assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 20_003);
}

#[tokio::test]
async fn failure_cuts_the_transfer() {
    let source = stream::iter([Ok(batch(3)), Err(Error::bug("broken"))]).boxed();
    let mut stream = body(source, LONG).into_data_stream();
    assert!(stream.next().await.unwrap().is_ok());
    assert!(stream.next().await.unwrap().is_err());
}

#[tokio::test]
async fn slow_reader_bounds_what_is_read_ahead() {
    let (taken, (sender, _dropped)) = (Arc::new(AtomicUsize::new(0)), tokio::sync::oneshot::channel());
    let mut stream = body(endless(taken.clone(), sender), LONG).into_data_stream();
    stream.next().await.unwrap().unwrap();
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    assert!(
        taken.load(Ordering::SeqCst) < 10,
        "{} batches were read ahead",
        taken.load(Ordering::SeqCst)
    );
}

#[tokio::test]
async fn query_ends_when_the_client_goes() {
    let (sender, dropped) = tokio::sync::oneshot::channel::<()>();
    let mut stream = body(endless(Arc::default(), sender), LONG).into_data_stream();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    assert!(dropped.await.is_err(), "the source is dropped without a word");
}

#[tokio::test]
async fn query_that_waits_ends_when_the_client_goes() {
    let (sender, dropped) = tokio::sync::oneshot::channel::<()>();
    let source = stream::once(async move {
        let _sender = sender;
        future::pending::<Result<RecordBatch>>().await
    });
    drop(body(source.boxed(), LONG));
    assert!(dropped.await.is_err());
}

#[tokio::test]
async fn query_is_dropped_when_the_client_stops_reading() {
    let (sender, dropped) = tokio::sync::oneshot::channel::<()>();
    let mut stream = body(endless(Arc::default(), sender), Duration::from_millis(20)).into_data_stream();
    assert!(dropped.await.is_err());
    let mut last = stream.next().await;
    while let Some(Ok(_)) = last {
        last = stream.next().await;
    }
    let error = last.expect("the cut is told").unwrap_err();
    assert!(error.to_string().contains("stopped reading"), "{error}");
}

#[tokio::test]
async fn first_failure_is_known_before_the_answer_starts() {
    assert!(
        started(stream::iter([Err(Error::bug("broken"))]).boxed())
            .await
            .is_err()
    );
    let rest = started(stream::iter([Ok(batch(1)), Ok(batch(2))]).boxed())
        .await
        .unwrap();
    let rows: Vec<usize> = rest.map(|batch| batch.unwrap().num_rows()).collect().await;
    assert_eq!(rows, [1, 2]);
}

#[tokio::test]
async fn limit_cuts_inside_a_batch() {
    let source = stream::iter([Ok(batch(3)), Ok(batch(3)), Ok(batch(3))]).boxed();
    let rows: Vec<usize> = limited(source, 4)
        .map(|batch| batch.unwrap().num_rows())
        .collect()
        .await;
    assert_eq!(rows, [3, 1]);
}

#[test]
fn a_client_that_stopped_reading_is_told_its_patience() {
    let expected = "error[HTTP-0016]: cannot send more rows: the client stopped reading\n  \
                    limit: 2s, set by --write-timeout\n    \
                    try: read without a pause, or raise --write-timeout";
    assert_eq!(stopped_reading(Duration::from_secs(2)).render(), expected);
}
